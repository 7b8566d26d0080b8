"""Starts in turn: so many builds a second begin in an account and region, so that no bucket of EC2's calls runs empty.

Each run asks once and is told its second; nobody can be passed by. The generic cell rate algorithm (ITU-T I.371).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict

from peaker.domain.limits.account_limits import STARTS_AT_ONCE, STARTS_PER_SECOND

_INTERVAL = timedelta(seconds=1 / STARTS_PER_SECOND)
_BURST = _INTERVAL * (STARTS_AT_ONCE - 1)


class StartSlots(BaseModel):
    """`idle_at`: when all that were given out have passed, at the even rate. `version` grows with each write."""

    model_config = ConfigDict(frozen=True)

    version: int = 0
    idle_at: AwareDatetime | None = None


def next_slot(slots: StartSlots, now: datetime) -> tuple[datetime, StartSlots]:
    """When the run that asks now may begin, and the slots after it."""
    idle_at = now if slots.idle_at is None else max(now, slots.idle_at)
    return max(now, idle_at - _BURST), slots.model_copy(update={"idle_at": idle_at + _INTERVAL})
