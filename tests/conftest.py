"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A case that is slow says how busy the machine is; speed is measured by the benches.
settings.register_profile("peaker", deadline=None)
settings.load_profile("peaker")
