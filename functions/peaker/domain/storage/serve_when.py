"""What must be warm before a replica goes on: all that is used, or the hot set."""

from __future__ import annotations

from typing import Literal

ServeWhen = Literal["all", "hot"]
