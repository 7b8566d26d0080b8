"""A recorded load as demand on the cluster: the demonstration's day, and the history before it."""

from __future__ import annotations

import csv
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path


class TraceError(Exception):
    """The trace says nothing of a moment."""


@dataclass(frozen=True)
class Trace:
    """Demand over time: `queries_per_s[i]` at `times[i]` (aware UTC, ascending), in a straight line to the next."""

    times: tuple[datetime, ...]
    queries_per_s: tuple[float, ...]

    def at(self, moment: datetime) -> float:
        """Demand at a moment inside the trace. Raises TraceError outside of it."""
        after = bisect_right(self.times, moment)
        if not 0 < after < len(self.times):
            raise TraceError(f"the trace is of {self.times[0]} to {self.times[-1]}, not of {moment}")
        start, low, high = self.times[after - 1], self.queries_per_s[after - 1], self.queries_per_s[after]
        return low + (high - low) * ((moment - start) / (self.times[after] - start))

    def before(self, moment: datetime, days: int, every: timedelta) -> list[tuple[datetime, float]]:
        """The history that a running system would have: the mean of each period of so many days, by its start."""
        first = moment - timedelta(days=days)
        starts = [first + every * number for number in range(timedelta(days=days) // every)]
        return [(start, self.at(start + every / 2)) for start in starts]

    def passes(self, limit: float, start: datetime, until: datetime) -> list[datetime]:
        """When the demand passes a limit, upwards or downwards, to the minute."""
        minutes = [
            start + timedelta(minutes=number) for number in range(int((until - start).total_seconds() // 60))
        ]
        above = [self.at(moment) > limit for moment in minutes]
        return [
            moment for moment, was, now in zip(minutes[1:], above, above[1:], strict=False) if was is not now
        ]

    def moved(self, by: timedelta) -> Trace:
        """The same demand at another date. Whole weeks keep the days of the week."""
        return Trace(tuple(t + by for t in self.times), self.queries_per_s)


def read_trace(path: Path, queries_per_s_per_unit: float) -> Trace:
    """Read a CSV of `timestamp,value`: what was counted in the hour from the timestamp on, as its middle's demand."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    half_an_hour = timedelta(minutes=30)
    return Trace(
        tuple(datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC) + half_an_hour for row in rows),
        tuple(float(row["value"]) * queries_per_s_per_unit for row in rows),
    )


def weeks_until(trace_day: datetime, today: datetime) -> timedelta:
    """Whole weeks from the trace's day to the first such weekday after today: a cloud's clock never goes back."""
    return timedelta(weeks=(today - trace_day).days // 7 + 1)
