"""How many bytes a past snapshot set copied, and in what time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CopiedBytes:
    """What one past set copied: bytes, in how many seconds, and how long after the snapshots it was incremental to.

    `since_seconds` is None for a full copy.
    """

    seconds: float
    copied_bytes: float
    since_seconds: float | None = None
