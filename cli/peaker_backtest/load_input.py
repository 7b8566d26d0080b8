"""A past load from a file or from a metric's points. Each refusal names the place, the value and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peaker.domain.forecasting import LoadSeries, UnusableSeries, series_from_points
from peaker.domain.forecasting.series import step_for_period

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.points import Point, checked_points, iso, load_value
from peaker_backtest.rows import json_rows, table_rows
from peaker_backtest.times import read_times

_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Choices:
    """The options that say how a file is read."""

    time_column: str | None = None
    load_column: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True)
class PastLoad:
    """A past load: epoch seconds, loads, the usual distance of points in seconds, and how it was read, in words."""

    times_seconds: list[float]
    values: list[float]
    period_seconds: float
    unit: str = "load units"
    read: tuple[str, ...] = ()

    def series(self) -> LoadSeries:
        """Returns all of it on the grid of its period, gaps as NaN. Raises BadInput."""
        end = self.times_seconds[-1] + self.period_seconds
        days = (end - self.times_seconds[0]) / 86_400 + 1
        try:
            return series_from_points(
                self.times_seconds,
                self.values,
                now_seconds=end,
                period_seconds=self.period_seconds,
                keep_days=days,
            )
        except UnusableSeries as error:
            raise BadInput(str(error)) from error


def read_load(path: Path, choices: Choices | None = None) -> PastLoad:
    """Returns the load of the file, or of standard input for `-`. Raises BadInput."""
    return parse_load(shown(str(path)), _file_bytes(path), choices or Choices())


def parse_load(source: str, content: bytes, choices: Choices) -> PastLoad:
    """Returns the load in `content`; `source` is its name in messages. Raises BadInput and nothing else."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput(f"{source}, line {line}: no UTF-8 text; export the metric as CSV in UTF-8") from None
    if text.lstrip()[:1] in {"{", "["}:
        found = json_rows(source, text, choices.load_column)
    else:
        found = table_rows(source, text, choices.time_column, choices.load_column)
    times, how = read_times(source, found.rows, choices.time_zone)
    columns = f"column `{shown(found.time_name)}` as time ({how}), column `{shown(found.load_name)}` as load"
    doubled = "two series in one file: keep one"
    if choices.time_zone is None and "without a zone" in how:
        doubled += "; or a clock change: pass --time-zone"
    written = [(at, row.load, row.place) for at, row in zip(times, found.rows, strict=True) if at is not None]
    return _past_load(source, written, shown(found.unit) or "load units", columns, (), doubled)


def metric_load(
    source: str,
    name: str,
    times_seconds: Sequence[float],
    values: Sequence[float],
    notes: tuple[str, ...] = (),
) -> PastLoad:
    """Returns the load of a metric `name` that was read from `source`, checked as a file's is. Raises BadInput."""
    points = [(at, load, f"the point of {iso(at)}") for at, load in zip(times_seconds, values, strict=True)]
    return _past_load(source, points, shown(name), f"{source} as load", notes, "read it again")


def _past_load(
    source: str,
    written: Sequence[tuple[float, str | float | None, str]],
    unit: str,
    columns: str,
    notes: tuple[str, ...],
    doubled: str,
) -> PastLoad:
    loads = [(at, load_value(source, place, load), place) for at, load, place in written]
    points = [Point(at, load, place) for at, load, place in loads if load is not None]
    ordered, period, mended = checked_points(source, points, doubled)
    missing = len(loads) - len(points)
    said = [*notes, *([f"{missing:,} without a load: missing, not 0"] if missing else []), *mended]
    step = step_for_period(period)
    every = f"every {period / 60:g} min" if period >= 60 else f"every {period:g} s"
    averaged = "" if period >= step else f", averaged over steps of {step / 60:g} min"
    span = f"from {iso(ordered[0].at)} to {iso(ordered[-1].at)} UTC"
    return PastLoad(
        times_seconds=[point.at for point in ordered],
        values=[point.load for point in ordered],
        period_seconds=period,
        unit=unit,
        read=(
            f"read {len(ordered):,} points, {every}{averaged}, {span}, {columns}",
            *(["; ".join(said)] if said else []),
        ),
    )


def _file_bytes(path: Path) -> bytes:
    name = shown(str(path))
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(f"{name}: cannot be read ({shown(why)}); give a CSV or JSON export") from None
    if len(content) > _MOST_BYTES:
        raise BadInput(
            f"{name}: over {_MOST_BYTES // 1024**2} MiB; export one point a minute or fewer, of one series"
        )
    return content
