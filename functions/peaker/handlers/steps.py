"""Lambda functions of the workflows' steps: `peaker.handlers.steps.<use case>`, one per row of the catalogue."""

from __future__ import annotations

from peaker.runtime.entry_points import entry_point

# Lambda asks the module for the function's name; nothing but that use case is imported.
__getattr__ = entry_point
