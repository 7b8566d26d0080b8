"""What past direct fills, or past clones, say: how long they took, and whether the newest one failed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from peaker.domain.planning.learning.reading import PastReading

# A role that lacks a right is given it by a person; what the direct APIs refuse for a time is over by then.
TRIED_AGAIN_AFTER = timedelta(days=1)


@dataclass(frozen=True)
class FillFailed:
    """When the run began of which a fill failed, and what it said."""

    at: datetime
    why: str


@dataclass(frozen=True)
class PastFills:
    """Bytes and seconds of each fill that ended, the newest last. `failed` is None where the newest one did not."""

    readings: tuple[PastReading, ...] = ()
    failed: FillFailed | None = None

    def filled(self, reading: PastReading) -> PastFills:
        """One more, which ended."""
        return PastFills((*self.readings, reading))

    def not_filled(self, failed: FillFailed) -> PastFills:
        """One more, which failed."""
        return PastFills(self.readings, failed)

    def why_not_again(self, now: datetime) -> str | None:
        """Why none is tried now; None where one may be."""
        if self.failed is None or now - self.failed.at >= TRIED_AGAIN_AFTER:
            return None
        return f"the run of {self.failed.at:%Y-%m-%d %H:%M} could not: {self.failed.why}; it is tried again a day after"
