"""A past load from a CSV file of `timestamp,value`. Every problem names the line, the column and the remedy."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from peaker.domain.forecasting import LoadSeries, UnusableSeries, series_from_points
from peaker.domain.forecasting.series import usual_period

_TIME = "timestamp"
_VALUE = "value"
# Above this, a number is epoch milliseconds: seconds reach it in the year 5138.
_MILLISECONDS_FROM = 1e11


class BadInput(Exception):
    """The file cannot be used; the message says where and what to do."""


@dataclass(frozen=True)
class PastLoad:
    """A past load: epoch seconds, values, and the usual distance between points in seconds."""

    times_seconds: list[float]
    values: list[float]
    period_seconds: float

    def series(self) -> LoadSeries:
        """All of it on the grid of its period, gaps as NaN."""
        end = max(self.times_seconds) + self.period_seconds
        step = self.period_seconds
        days = (end - min(self.times_seconds)) / 86_400 + 1
        try:
            return series_from_points(
                self.times_seconds, self.values, now_seconds=end, period_seconds=step, keep_days=days
            )
        except UnusableSeries as error:
            raise BadInput(str(error)) from error


def read_csv(path: Path) -> PastLoad:
    """Read the file. An empty value is a missing point. Raises BadInput."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BadInput(
            f"{path}: there is no such file; give the path of a CSV of `timestamp,value`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as UTF-8 text ({error}); export the metric as CSV") from None
    rows = list(csv.reader(text.splitlines()))
    if not rows:
        raise BadInput(
            f"{path}: the file is empty; it needs the header `timestamp,value` and one row per point"
        )
    time_at, value_at = _columns(path, rows[0])
    times, values = [], []
    for line, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) <= max(time_at, value_at):
            raise BadInput(
                f"{path}, line {line}: {len(row)} columns where {max(time_at, value_at) + 1} are needed; "
                "write timestamp and value on every line"
            )
        at = _time(path, line, row[time_at])
        value = _value(path, line, row[value_at])
        if value is not None:
            times.append(at)
            values.append(value)
    if len(times) < 2:
        raise BadInput(f"{path}: {len(times)} points; at least two weeks of points make a backtest")
    return PastLoad(times, values, usual_period(times))


def _columns(path: Path, header: list[str]) -> tuple[int, int]:
    names = [name.strip().lower() for name in header]
    missing = [name for name in (_TIME, _VALUE) if name not in names]
    if missing:
        found = ", ".join(name or "(empty)" for name in names[:6])
        raise BadInput(
            f"{path}, line 1: no column {' and no column '.join(missing)} (found: {found}); "
            "name the columns `timestamp,value`"
        )
    return names.index(_TIME), names.index(_VALUE)


def _time(path: Path, line: int, cell: str) -> float:
    text = cell.strip()
    where = f"{path}, line {line}, column {_TIME}"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number / 1000 if number >= _MILLISECONDS_FROM else number
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"{where}: {cell!r} is no time; write ISO 8601 (2026-11-21T01:40:00Z) or epoch seconds"
        ) from None
    # A time without a zone is taken as UTC, which is what CloudWatch exports.
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


def _value(path: Path, line: int, cell: str) -> float | None:
    text = cell.strip()
    where = f"{path}, line {line}, column {_VALUE}"
    if text == "" or text.lower() in {"nan", "null"}:
        return None
    try:
        number = float(text)
    except ValueError:
        raise BadInput(
            f"{where}: {cell!r} is no number; write a decimal with a point, or leave it empty for a missing one"
        ) from None
    if not math.isfinite(number) or number < 0:
        raise BadInput(f"{where}: a load cannot be {text}; write a number of 0 or more, or leave it empty")
    return number
