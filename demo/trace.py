"""A real load trace as demand on the cluster: read, checked, scaled and moved to the cloud's calendar."""

from __future__ import annotations

import csv
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path


class TraceError(Exception):
    """The trace file cannot be used; the message names the file, the line, the column and the remedy."""


@dataclass(frozen=True)
class Trace:
    """Demand over time: `times[i]` (aware UTC, ascending) and `queries_per_s[i]`, constant until the next."""

    times: tuple[datetime, ...]
    queries_per_s: tuple[float, ...]

    def at(self, moment: datetime) -> float:
        """Demand at a moment inside the trace, in queries per second."""
        index = bisect_right(self.times, moment) - 1
        if index < 0:
            raise TraceError(f"the trace begins at {self.times[0].isoformat()}, after {moment.isoformat()}")
        return self.queries_per_s[index]

    def before(self, moment: datetime, days: int) -> list[tuple[datetime, float]]:
        """The points of the `days` days before a moment: the history a running system would have."""
        first = moment - timedelta(days=days)
        return [(t, v) for t, v in zip(self.times, self.queries_per_s, strict=True) if first <= t < moment]

    def raised(self, start: datetime, until: datetime, factor: float) -> Trace:
        """The same with `factor` times the demand from `start` on and before `until`: an event of its own."""
        raised = [
            v * factor if start <= t < until else v
            for t, v in zip(self.times, self.queries_per_s, strict=True)
        ]
        return Trace(self.times, tuple(raised))

    def moved(self, by: timedelta) -> Trace:
        """The same demand at another date. Whole weeks keep the days of the week."""
        return Trace(tuple(t + by for t in self.times), self.queries_per_s)


def read_trace(path: Path, queries_per_s_per_unit: float) -> Trace:
    """Read a CSV of `timestamp,value` (UTC, ascending, values >= 0). Raises TraceError with line and column."""
    if not path.is_file():
        raise TraceError(f"{path}: no such trace file; give a CSV with the columns timestamp,value")
    times: list[datetime] = []
    values: list[float] = []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.DictReader(file)
        if not {"timestamp", "value"} <= set(reader.fieldnames or ()):
            raise TraceError(
                f"{path}: line 1: the columns timestamp,value are needed, found {reader.fieldnames}"
            )
        for row in reader:
            times.append(_timestamp(path, reader.line_num, row["timestamp"], times[-1] if times else None))
            values.append(_value(path, reader.line_num, row["value"]) * queries_per_s_per_unit)
    if len(times) < 2:
        raise TraceError(f"{path}: {len(times)} points; a trace needs at least two")
    return Trace(tuple(times), tuple(values))


def _timestamp(path: Path, line: int, text: str | None, previous: datetime | None) -> datetime:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        raise TraceError(
            f"{path}: line {line}, column timestamp: {text!r} is no ISO time such as 2014-10-21 18:30:00"
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if previous is not None and moment <= previous:
        raise TraceError(
            f"{path}: line {line}, column timestamp: {text} is not after the line before; sort the file by time"
        )
    return moment


def _value(path: Path, line: int, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        raise TraceError(f"{path}: line {line}, column value: {text!r} is not a number") from None
    if not 0 <= value < float("inf"):
        raise TraceError(f"{path}: line {line}, column value: {text} must be a finite number >= 0")
    return value


def weeks_until(trace_day: datetime, today: datetime) -> timedelta:
    """Whole weeks from the trace's day to the first such weekday after today: a cloud's clock never goes back."""
    return timedelta(weeks=(today - trace_day).days // 7 + 1)
