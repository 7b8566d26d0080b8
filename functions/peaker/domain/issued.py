"""Load points, issued forecasts and the check state, without numpy: functions that only pass them on start faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LoadPoints:
    """A metric's points in order: start of each period in epoch seconds, value, and the period in seconds."""

    times_seconds: Sequence[float]
    values: Sequence[float]
    period_seconds: float


@dataclass(frozen=True)
class IssuedForecast:
    """A forecast that was issued at `issued_at_seconds` of the load at `target_seconds` (the end of a step)."""

    issued_at_seconds: float
    target_seconds: float
    p50: float
    p95: float
    required: int


@dataclass(frozen=True)
class CheckState:
    """The state that a check keeps for the next one.

    Low checks in a row; when the last level shift was seen; when the cluster was first checked; which instance
    was the source, and when another one took its place. In how many looks in a row each replica took few reads, of
    those that did in the last one. When the last check was that counts in these rows. Times in seconds since the epoch.
    """

    low_checks: int = 0
    shift_seen_seconds: float | None = None
    first_check_seconds: float | None = None
    source_id: str | None = None
    failover_seconds: float | None = None
    few_reads: Mapping[str, int] = field(default_factory=dict)
    checked_seconds: float | None = None

    def counted_already(self, now_seconds: float, period_seconds: float) -> bool:
        """Whether the last check was less than half a period ago: a check that is called twice counts once."""
        return (
            self.checked_seconds is not None and abs(now_seconds - self.checked_seconds) < period_seconds / 2
        )
