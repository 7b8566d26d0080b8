"""What CloudWatch answers of points that are missing, late, old or ahead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from peaker_cli.rehearse.resources import METRIC_NAMESPACE, Resources, answer_of

# Period in seconds, days for which CloudWatch keeps its points.
_KEPT = ((60, 15), (300, 63), (3600, 455))
# Minutes before now, values and how often each.
_LATE = ((12, (5.0,), (1.0,)), (10, (7.0,), (1.0,)), (7, (1.0, 1000.0), (98.0, 2.0)))

METRICS: Mapping[str, str] = {
    "a point that came late": "in its own period",
    "a period without points": "left out",
    "GetMetricData's order": "newest first",
    "p90 of 98 ones and 2 thousands": "1",
    **{f"{period} s periods, start {days - 1} days ago": "points" for period, days in _KEPT},
    **{f"{period} s periods, start {days + 1} days ago": "none" for period, days in _KEPT},
    "a point of 3 hours ahead": "InvalidParameterValue",
    "a point of 15 days ago": "InvalidParameterValue",
}


def ask_cloudwatch(resources: Resources) -> dict[str, str]:
    """Puts three late points of a metric of its own, and asks for them."""
    minute = resources.now().replace(second=0, microsecond=0)
    name = f"Late{minute:%H%M}"
    for before, values, counts in _LATE:
        _put(resources, name, minute - timedelta(minutes=before), Values=list(values), Counts=list(counts))
    young = minute - timedelta(minutes=30)
    resources.seconds_until(
        "the late points", lambda: len(_points(resources, name, young)) == len(_LATE), at_most=1800
    )
    points = _points(resources, name, young)
    wanted = [minute - timedelta(minutes=before) for before, _, _ in reversed(_LATE)]
    moments = [moment for moment, _ in points]
    percentile = dict(_points(resources, name, young, stat="p90"))
    found = {
        "a point that came late": "in its own period" if sorted(moments) == sorted(wanted) else "elsewhere",
        "a period without points": "left out" if len(points) == len(_LATE) else f"{len(points)} points",
        "GetMetricData's order": "newest first" if moments == wanted else "otherwise",
        "p90 of 98 ones and 2 thousands": f"{percentile[wanted[0]]:g}" if wanted[0] in percentile else "none",
        "a point of 3 hours ahead": answer_of(
            lambda: _put(resources, name, minute + timedelta(hours=3), Value=1.0)
        ),
        "a point of 15 days ago": answer_of(
            lambda: _put(resources, name, minute - timedelta(days=15), Value=1.0)
        ),
    }
    for period, kept in _KEPT:
        for days in (kept - 1, kept + 1):
            shown = _points(resources, name, minute - timedelta(days=days), period)
            found[f"{period} s periods, start {days} days ago"] = "points" if shown else "none"
    return found


def _metric(resources: Resources, name: str) -> dict[str, Any]:
    return {"MetricName": name, "Dimensions": [{"Name": "Rehearsal", "Value": resources.rehearsal}]}


def _put(resources: Resources, name: str, at: datetime, **values: Any) -> None:
    data = [{**_metric(resources, name), "Timestamp": at, **values}]
    resources.client("cloudwatch").put_metric_data(Namespace=METRIC_NAMESPACE, MetricData=data)


def _points(
    resources: Resources, name: str, start: datetime, period: int = 60, stat: str = "Sum"
) -> list[tuple[datetime, float]]:
    metric = {"Namespace": METRIC_NAMESPACE, **_metric(resources, name)}
    query = {"Id": "probe", "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}}
    answer = resources.client("cloudwatch").get_metric_data(
        MetricDataQueries=[query], StartTime=start, EndTime=resources.now() + timedelta(minutes=1)
    )["MetricDataResults"][0]
    return list(zip(answer["Timestamps"], answer["Values"], strict=True))
