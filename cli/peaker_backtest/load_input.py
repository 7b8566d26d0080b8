"""A past load from a file or from a metric's points. Each refusal names the place, the value and the remedy."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from peaker.domain.decoding import misfits
from peaker.domain.forecasting import LoadSeries, UnusableSeries, series_from_points
from peaker.domain.forecasting.series import step_for_period
from pydantic import BaseModel, ValidationError

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.points import Load, Point, Row, checked_points, is_time, iso, load_value, read_times
from peaker_contract.load_settings import why_no_load, why_no_load_unit

_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_STATISTICS = ("Average", "Sum", "Maximum", "Minimum", "SampleCount")
_LOAD_NAMES = {"value", "load"}


@dataclass(frozen=True)
class Rows:
    """The points as they were written; the names of time and load, and the load's unit where it is said."""

    time_name: str
    load_name: str
    rows: list[Row]
    unit: str = ""


def table_rows(source: str, text: str, time_column: str | None, load_column: str | None) -> Rows:
    """Returns the two columns of a table with a header. Raises BadInput with the line."""
    lines = [
        (number, line)
        for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1)
        if line.strip()
    ]
    if not lines:
        raise BadInput(
            f"{source}: the file is empty; write a header such as `timestamp,value` and a line per point"
        )
    head, header = lines[0]
    separator = max(_SEPARATORS, key=header.count)
    names = _cells(source, head, header, separator)
    if len(names) < 2 or any(is_time(name) for name in names):
        raise BadInput(
            f"{source}, line {head}: {shown(header)!r} is no header; write one such as `timestamp,value`, its columns "
            "separated by comma, semicolon, tab or pipe"
        )
    load_at = _load_column(source, head, names, time_column, load_column)
    time_at = _named(source, names, time_column, "--time-column") if time_column else int(load_at == 0)
    if time_at == load_at:
        raise BadInput(
            f"{source}: time and load are one column; {_listed(names)}; pass --time-column, --load-column"
        )
    rows = []
    for number, line in lines[1:]:
        cells = _cells(source, number, line, separator)
        if not any(cells):
            continue
        if len(cells) != len(names) and (len(cells) != len(names) + 1 or cells[-1]):
            raise BadInput(
                f"{source}, line {number}: {len(cells)} columns where the header has {len(names)}, separated by "
                f"{_SEPARATORS[separator]}; write time and load on every line, decimals with a point"
            )
        rows.append(Row(f"line {number}", cells[time_at], cells[load_at]))
    return Rows(names[time_at], names[load_at], rows)


def _cells(source: str, number: int, line: str, separator: str) -> list[str]:
    try:
        # Line by line: a quote that is never closed must not swallow the lines after it.
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True))]
    except csv.Error as error:
        raise BadInput(
            f"{source}, line {number}: cannot be split into columns ({error}); correct it"
        ) from None


def _load_column(
    source: str, head: int, names: Sequence[str], time_column: str | None, load_column: str | None
) -> int:
    if load_column:
        return _named(source, names, load_column, "--load-column")
    time_at = _named(source, names, time_column, "--time-column") if time_column else 0
    others = [index for index in range(len(names)) if index != time_at]
    if len(others) > 1:
        others = [index for index in others if names[index].lower() in _LOAD_NAMES]
    if len(others) != 1:
        raise BadInput(
            f"{source}, line {head}: several columns may be the load; {_listed(names)}; pass --load-column"
        )
    return others[0]


def _named(source: str, names: Sequence[str], wanted: str, option: str) -> int:
    """Returns the place of the column of this name, or of this number from 1."""
    found = [index for index, name in enumerate(names) if name.lower() == wanted.strip().lower()]
    found = found or [index for index in range(len(names)) if str(index + 1) == wanted.strip()]
    if len(found) != 1:
        raise BadInput(f"{source}: {option} is {shown(wanted)}, which is no column once; {_listed(names)}")
    return found[0]


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(f"{number} `{shown(name)}`" for number, name in enumerate(names[:12], start=1))
    return f"the columns are {listed}" + (" and more" if len(names) > 12 else "")


class _Result(BaseModel):
    Id: str = ""
    Label: str = ""
    Timestamps: list[str | float]
    Values: list[float | None]
    StatusCode: str = "Complete"


class _MetricData(BaseModel):
    """What `get-metric-data` prints."""

    MetricDataResults: list[_Result]
    NextToken: str | None = None


class _Datapoint(BaseModel, extra="allow"):
    Timestamp: str | float
    Unit: str = "None"


class _Statistics(BaseModel):
    """What `get-metric-statistics` prints."""

    Label: str = ""
    Datapoints: list[_Datapoint]


def json_rows(source: str, text: str, load_column: str | None) -> Rows:
    """Returns the points of the one series of a CloudWatch export. Raises BadInput with the place."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{source}: no JSON ({shown(str(error))}); the file may be cut off: export again"
        ) from None
    keys = document.keys() if isinstance(document, dict) else set()
    try:
        if "MetricDataResults" in keys:
            found = _metric_data(source, _MetricData.model_validate(document))
        elif "Datapoints" in keys:
            found = _statistics(source, _Statistics.model_validate(document), load_column)
        else:
            raise BadInput(
                f"{source}: JSON of no kind that is read; give what `aws cloudwatch get-metric-data` or "
                "`get-metric-statistics` prints"
            )
    except ValidationError as error:
        raise BadInput(f"{source}: {shown(misfits(error))}; export again") from None
    if not found.rows:
        raise BadInput(f"{source}: no points in it; check name, dimensions and times of the export")
    return found


def _metric_data(source: str, document: _MetricData) -> Rows:
    results = document.MetricDataResults
    series = sorted({f"{one.Id} {one.Label}".strip() for one in results})
    if len(series) > 1:
        raise BadInput(
            f"{source}: {len(series)} series ({shown(', '.join(series))}); export one, or add them up in the query"
        )
    if document.NextToken or (results and results[-1].StatusCode != "Complete"):
        raise BadInput(
            f"{source}: the export is not complete (NextToken or StatusCode); run it again without --max-items"
        )
    rows = []
    for number, one in enumerate(results):
        refuse_no_load(source, one.Label)
        if len(one.Timestamps) != len(one.Values):
            raise BadInput(
                f"{source}, MetricDataResults[{number}]: {len(one.Timestamps)} Timestamps but {len(one.Values)} "
                "Values; export again"
            )
        for index, (at, load) in enumerate(zip(one.Timestamps, one.Values, strict=True)):
            rows.append(Row(f"MetricDataResults[{number}].Values[{index}]", str(at), load))
    return Rows("Timestamps", "Values", rows)


def _statistics(source: str, document: _Statistics, load_column: str | None) -> Rows:
    points = document.Datapoints
    present = sorted({name for point in points for name in point.model_extra or {}})
    known = [name for name in present if name in _STATISTICS]
    wanted = [name for name in present if name.lower() == load_column.lower()] if load_column else known
    if points and len(wanted) != 1:
        raise BadInput(
            f"{source}: each point has {shown(', '.join(present)) or 'no statistic'}; pass --load-column with one of "
            "them, or export one statistic"
        )
    rows = [
        Row(
            f"Datapoints[{number}].{wanted[0]}",
            str(point.Timestamp),
            _plain((point.model_extra or {}).get(wanted[0])),
        )
        for number, point in enumerate(points)
    ]
    refuse_no_load(source, document.Label)
    found = Rows("Timestamp", wanted[0] if wanted else "", rows)
    return replace(found, unit=points[0].Unit) if points and points[0].Unit != "None" else found


def _plain(value: Any) -> Load:
    """Returns a load as a cell has it: text is refused later, with its place."""
    return value if value is None or isinstance(value, str | float) else str(value)


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
    refuse_no_load(source, found.load_name, found.unit)
    columns = f"column `{shown(found.time_name)}` as time ({how}), column `{shown(found.load_name)}` as load"
    doubled = "two series in one file: keep one"
    if choices.time_zone is None and "without a zone" in how:
        doubled += "; or a clock change: pass --time-zone"
    written = [(at, row.load, row.place) for at, row in zip(times, found.rows, strict=True) if at is not None]
    return _past_load(source, written, shown(found.unit) or "load units", columns, (), doubled)


def refuse_no_load(source: str, *names: str) -> None:
    """Raises BadInput where one of the names or units is of no load."""
    for name in names:
        if why := why_no_load_unit(name) or why_no_load(name):
            raise BadInput(
                f"{source}: `{shown(name)}` is no load: {why}; give a load that grows with the readers, such as "
                "queries a second over all replicas"
            )


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
