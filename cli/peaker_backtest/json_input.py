"""A load as JSON: what `aws cloudwatch get-metric-data` and `get-metric-statistics` print, and Prometheus' range query.

GetMetricData and GetMetricStatistics: the CloudWatch API reference; the first prints each page's part of a series as a
result of its own, with the same Id. query_range: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.points import LOAD, Column, RawPoints

_STATISTICS = ("Average", "Sum", "Maximum", "Minimum", "SampleCount")
_READ = "read is what `aws cloudwatch get-metric-data`, `get-metric-statistics` and Prometheus' query_range answer"
_MOST_POINTS = 2_000_000
Cell = str | float | None


@dataclass
class _Series:
    """One series: its name, and its points with their places in the document."""

    name: str
    times: list[Cell] = field(default_factory=list)
    loads: list[Cell] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    status: str = ""

    def add(self, source: str, place: str, at: Any, load: Any) -> None:
        """Take one point. Raises BadInput for a value that is neither text nor number."""
        self.times.append(_cell(source, place, at))
        self.loads.append(None if load is None else _cell(source, place, load))
        self.places.append(place)
        if len(self.places) > _MOST_POINTS:
            raise BadInput(
                f"{source}, {place}: over {_MOST_POINTS:,} points; export one a minute or fewer", field=place
            )


def read_json(
    source: str, text: str, series: str | None, load_column: str | None, column: Column = LOAD
) -> RawPoints:
    """The points of the one series, or of the one that is asked for. Raises BadInput with the place."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{source}, line {error.lineno}: no JSON ({error.msg}, column {error.colno}); the file may be cut off",
            line=error.lineno,
        ) from None
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{source}: no JSON that can be read ({shown(str(error))})") from None
    if isinstance(document, dict) and "MetricDataResults" in document:
        return _raw(
            source, _chosen(source, _metric_data(source, document), series, column), "Timestamps", "Values"
        )
    if isinstance(document, dict) and "Datapoints" in document:
        return _statistics(source, document, load_column, column)
    if isinstance(document, dict) and ("data" in document or document.get("status") == "error"):
        return _raw(source, _chosen(source, _query_range(source, document), series, column), "time", "value")
    if (
        isinstance(document, list)
        and document
        and all(isinstance(one, dict) and "values" in one for one in document)
    ):
        return _raw(source, _chosen(source, _matrix(source, document, ""), series, column), "time", "value")
    raise BadInput(f"{source}: JSON of no kind that is known; {_READ}")


def _raw(source: str, one: _Series, time_name: str, load_name: str, unit: str = "") -> RawPoints:
    if not one.times:
        raise BadInput(
            f"{source}, {load_name}: series `{shown(one.name)}` has no points; check name, dimensions and times of the "
            "export",
            field=load_name,
        )
    return RawPoints(
        source, one.times, one.loads, time_name, load_name, places=one.places, unit=unit,
        notes=(f"series `{shown(one.name)}`",) if one.name else (),
    )  # fmt: skip


def _cell(source: str, place: str, value: Any) -> Cell:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(
            f"{source}, {place}: {shown(json.dumps(value))} is neither a time nor a number", field=place
        )
    try:
        return float(value)
    except OverflowError:
        raise BadInput(
            f"{source}, {place}: a number of {len(str(value)):,} digits is beyond reason", field=place
        ) from None


def _list(source: str, place: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput(
            f"{source}, {place}: a list is expected, found {shown(json.dumps(value))}", field=place
        )
    return value


def _object(source: str, place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(
            f"{source}, {place}: an object is expected, found {shown(json.dumps(value))}", field=place
        )
    return value


def _chosen(source: str, found: Sequence[_Series], wanted: str | None, column: Column) -> _Series:
    names = ", ".join(f"{number} `{shown(one.name)}`" for number, one in enumerate(found[:12], start=1))
    if wanted is not None:
        picked = [one for one in found if one.name == wanted]
        if (
            not picked
            and wanted.isascii()
            and wanted.isdigit()
            and len(wanted) < 6
            and 1 <= int(wanted) <= len(found)
        ):
            picked = [found[int(wanted) - 1]]
        if len(picked) != 1:
            raise BadInput(
                f"{source}: {column.series_option} is {shown(wanted)}: not found once; the series are {names}",
                field=column.series_option,
            )
        return picked[0]
    if not found:
        raise BadInput(
            f"{source}: no series in it; check the query, the name and the dimensions of the export"
        )
    if len(found) > 1:
        raise BadInput(
            f"{source}: {len(found)} series; pass {column.series_option} with a name or a number, or add them up in "
            f"the query: "
            f"{names}",
            field=column.series_option,
        )
    return found[0]


def _metric_data(source: str, document: dict[str, Any]) -> list[_Series]:
    if document.get("NextToken"):
        raise BadInput(
            f"{source}, NextToken: the export is cut off; leave out --max-items and --no-paginate", field="NextToken"
        )  # fmt: skip
    found: dict[tuple[str, str], _Series] = {}
    for number, each in enumerate(_list(source, "MetricDataResults", document["MetricDataResults"])):
        place = f"MetricDataResults[{number}]"
        result = _object(source, place, each)
        key = (str(result.get("Id", "")), str(result.get("Label", "")))
        one = found.setdefault(key, _Series(key[0] or key[1]))
        times = _list(source, f"{place}.Timestamps", result.get("Timestamps"))
        loads = _list(source, f"{place}.Values", result.get("Values"))
        if len(times) != len(loads):
            raise BadInput(
                f"{source}, {place}: {len(times)} Timestamps but {len(loads)} Values; export again", field=place
            )  # fmt: skip
        one.status = str(result.get("StatusCode", "Complete"))
        for index, (at, load) in enumerate(zip(times, loads, strict=True)):
            one.add(source, f"{place}[{index}]", at, load)
    for one in found.values():
        if one.status != "Complete":
            raise BadInput(
                f"{source}, StatusCode of `{shown(one.name)}`: {shown(one.status)}; the export is not complete: "
                "run it again",
                field="StatusCode",
            )
    return list(found.values())


def _statistics(source: str, document: dict[str, Any], load_column: str | None, column: Column) -> RawPoints:
    points = _list(source, "Datapoints", document["Datapoints"])
    rows = [_object(source, f"Datapoints[{number}]", each) for number, each in enumerate(points)]
    present = sorted({name for row in rows for name in row} - {"Timestamp", "Unit", "ExtendedStatistics"})
    if load_column is not None:
        statistic = next((name for name in present if name.lower() == load_column.lower()), "")
        if not statistic:
            raise BadInput(
                f"{source}: {column.option} is {shown(load_column)}; the statistics are {shown(', '.join(present))}",
                field=column.option,
            )
    else:
        known = [name for name in present if name in _STATISTICS]
        if len(known) > 1:
            raise BadInput(
                f"{source}: {' and '.join(known)} in each point; pass {column.option} with one of them",
                field=column.option,
            )  # fmt: skip
        statistic = known[0] if known else "Average"
    one = _Series(str(document.get("Label") or ""))
    units = {str(row["Unit"]) for row in rows if row.get("Unit") not in (None, "None")}
    if len(units) > 1:
        raise BadInput(f"{source}, Datapoints: the units {shown(', '.join(sorted(units)))}; pass --unit to the export",
                       field="Unit")  # fmt: skip
    for number, row in enumerate(rows):
        place = f"Datapoints[{number}]"
        if "Timestamp" not in row or statistic not in row:
            missing = "Timestamp" if "Timestamp" not in row else statistic
            raise BadInput(f"{source}, {place}: no {shown(missing)}; export again", field=place)
        one.add(source, place, row["Timestamp"], row[statistic])
    return _raw(source, one, "Timestamp", statistic, next(iter(units), ""))


def _query_range(source: str, document: dict[str, Any]) -> list[_Series]:
    if document.get("status") == "error":
        raise BadInput(
            f"{source}, status: Prometheus refused the query: {shown(str(document.get('error', '')))}", field="status"
        )  # fmt: skip
    data = _object(source, "data", document["data"])
    if data.get("resultType") != "matrix":
        raise BadInput(
            f"{source}, data.resultType: {shown(str(data.get('resultType')))} where a matrix is needed; ask "
            "/api/v1/query_range with start, end and step",
            field="data.resultType",
        )
    return _matrix(source, _list(source, "data.result", data.get("result")), "data.result")


def _matrix(source: str, results: list[Any], path: str) -> list[_Series]:
    found = []
    for number, each in enumerate(results):
        place = f"{path}[{number}]"
        result = _object(source, place, each)
        labels = _object(source, f"{place}.metric", result.get("metric", {}))
        one = _Series(",".join(f"{name}={value}" for name, value in sorted(labels.items())))
        for index, pair in enumerate(_list(source, f"{place}.values", result.get("values"))):
            where = f"{place}.values[{index}]"
            if not isinstance(pair, list) or len(pair) != 2:
                raise BadInput(f"{source}, {where}: a pair of time and value is expected", field=where)
            one.add(source, where, pair[0], pair[1])
        found.append(one)
    return found
