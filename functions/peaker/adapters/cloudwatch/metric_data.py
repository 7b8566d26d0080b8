"""One metric's points by GetMetricData: all pages of them, or an error; never a part that looks like the whole.

An answer says how complete it is (botocore, MetricDataResult.StatusCode). `PartialData` and `InternalError` come with
a token for the rest, which is asked for like any other page; without one the rest is not to be had this time. A part
would read as a load that has gone, and so as one that is low.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.domain.decoding import understood
from peaker_contract.errors import AwsCallRejected, AwsUnavailable
from peaker_contract.load_settings import LoadMetricSettings

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import (
        DimensionTypeDef,
        MetricDataQueryTypeDef,
        MetricDataResultTypeDef,
    )

_CALL = "cloudwatch:GetMetricData"
_COMPLETE, _FORBIDDEN = "Complete", "Forbidden"

Points = list[tuple[datetime, float]]

# A publisher gives the figures of a minute when it is over, and CloudWatch takes a while to show them.
_FILLS_FOR_SECONDS = 120
ADDED_UP = frozenset({"Sum", "SampleCount"})


def whole_until_seconds(metric: LoadMetricSettings, now: datetime, period_seconds: int) -> int:
    """Returns the end, in epoch seconds, of the newest period that has all its figures."""
    filling = _FILLS_FOR_SECONDS if metric.statistic in ADDED_UP else 0
    return math.floor((now.timestamp() - filling) / period_seconds) * period_seconds


def metric_query(
    namespace: str, name: str, dimensions: Mapping[str, str], statistic: str, period_seconds: int
) -> MetricDataQueryTypeDef:
    """Returns a query for one metric's points, one for each period."""
    pairs: list[DimensionTypeDef] = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    return {
        "Id": "wanted",
        "MetricStat": {
            "Metric": {"Namespace": namespace, "MetricName": name, "Dimensions": pairs},
            "Period": period_seconds,
            "Stat": statistic,
        },
        "ReturnData": True,
    }


def read_points(
    client: CloudWatchClient,
    query: MetricDataQueryTypeDef,
    start: datetime,
    end: datetime,
    page_read: Callable[[int], None] = lambda _: None,
) -> Points:
    """Every point from `start` to `end`, in order of time; `page_read` is told after each page how many there are.

    Raises Throttled, AwsUnavailable (also when the answer ends before the points do) and AwsCallRejected.
    """
    pages = client.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[query], StartTime=start, EndTime=end, ScanBy="TimestampAscending"
    )
    # By their instants: a page that is asked for again may repeat some.
    found: dict[datetime, float] = {}
    status, messages = _COMPLETE, ""
    with translated(_CALL):
        for page in pages:
            status, messages = _said_by(page["MetricDataResults"])
            for result in page["MetricDataResults"]:
                found |= measured_points(result["Timestamps"], result["Values"])
            page_read(len(found))
    if status == _FORBIDDEN:
        raise AwsCallRejected(f"{_CALL}: {status}{messages}")
    if status != _COMPLETE:
        raise AwsUnavailable(f"{_CALL}: the answer ends with {status} after {len(found):,} points{messages}")
    return sorted(found.items())


def measured_points(instants: Sequence[datetime], values: Sequence[float]) -> Points:
    """Each value at its instant. One that is no number (an expression's NaN) is a missing point (I4)."""
    with understood(AwsCallRejected, f"{_CALL}: a result"):
        pairs = zip(instants, values, strict=True)
        return [(instant, value) for instant, value in pairs if math.isfinite(value)]


def _said_by(results: Iterable[MetricDataResultTypeDef]) -> tuple[str, str]:
    """(status of a page, AWS's words on it); a page without the metric is a complete answer: it has no points."""
    for result in results:
        status = result.get("StatusCode", _COMPLETE)
        if status != _COMPLETE:
            texts = [one.get("Value", "") for one in result.get("Messages", [])]
            return status, "".join(f"; {text}" for text in texts if text)
    return _COMPLETE, ""
