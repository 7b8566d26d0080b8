"""Rows of a past load, a time and a load each: of CSV with a header, or of the JSON of CloudWatch.

`aws cloudwatch get-metric-data` prints each page's part of a series as a result of its own, with the same Id.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from peaker.domain.decoding import misfits
from pydantic import BaseModel, ValidationError

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.points import Load, Row
from peaker_backtest.times import is_time

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
    found = Rows("Timestamp", wanted[0] if wanted else "", rows)
    return replace(found, unit=points[0].Unit) if points and points[0].Unit != "None" else found


def _plain(value: Any) -> Load:
    """Returns a load as a cell has it: text is refused later, with its place."""
    return value if value is None or isinstance(value, str | float) else str(value)
