"""CloudWatch: the load's history (GetMetricData, paged) and the forecast's figures (PutMetricData).

Retention, from botocore's GetMetricData: points of under 60 s are kept for 3 hours, of 1 minute for 15 days, of 5
minutes for 63 days, of 1 hour for 455 days. So the history is read in periods of 5 minutes or more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.domain.decoding import understood
from peaker.domain.issued import LoadPoints
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected
from peaker_contract.load_settings import LoadMetricSettings
from peaker_contract.metrics import CLUSTER_DIMENSION, Metric, namespace

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef, MetricDatumTypeDef

_SHORTEST_PERIOD_SECONDS = 300


class CloudWatchLoadHistory:
    """The load metric of a cluster, read only."""

    def __init__(self, client: CloudWatchClient) -> None:
        self._client = client

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points of the periods that ended by `end`, in order of time. Raises Throttled, AwsUnavailable."""
        return self.metric_points(settings.load_metric, start, end)

    def metric_points(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        """The same for a metric that belongs to no cluster yet (backtest)."""
        period = query_period_seconds(metric.period_seconds)
        last = math.floor(end.timestamp() / period) * period
        found = self._read(metric, period, start, datetime.fromtimestamp(last, UTC))
        # A Sum over a longer period than the settings' is brought back to the settings' period.
        scale = metric.period_seconds / period if metric.statistic in {"Sum", "SampleCount"} else 1.0
        return LoadPoints([at for at, _ in found], [value * scale for _, value in found], float(period))

    def events(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points in the metric's own period, the one that still runs included. Raises Throttled, AwsUnavailable."""
        found = self._read(metric, metric.period_seconds, start, end)
        return LoadPoints(
            [at for at, _ in found], [value for _, value in found], float(metric.period_seconds)
        )

    def _read(
        self, metric: LoadMetricSettings, period: int, start: datetime, end: datetime
    ) -> list[tuple[float, float]]:
        first = math.floor(start.timestamp() / period) * period
        found: list[tuple[float, float]] = []
        pages = self._client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=[_query(metric, period)],
            StartTime=datetime.fromtimestamp(first, UTC),
            EndTime=end,
            ScanBy="TimestampAscending",
        )
        with translated("cloudwatch:GetMetricData"):
            for page in pages:
                for result in page["MetricDataResults"]:
                    points = measured_points(result["Timestamps"], result["Values"])
                    found += [(instant.timestamp(), value) for instant, value in points]
        return sorted(found)


def measured_points(instants: Sequence[datetime], values: Sequence[float]) -> list[tuple[datetime, float]]:
    """Each value at its instant. One that is no number (an expression's NaN) is a missing point (I4)."""
    with understood(AwsCallRejected, "cloudwatch:GetMetricData: a result"):
        pairs = zip(instants, values, strict=True)
        return [(instant, value) for instant, value in pairs if math.isfinite(value)]


def query_period_seconds(metric_period_seconds: int) -> int:
    """The period to ask for: the metric's own, but 5 minutes at least and a multiple of them (retention)."""
    periods = math.ceil(max(metric_period_seconds, _SHORTEST_PERIOD_SECONDS) / _SHORTEST_PERIOD_SECONDS)
    return periods * _SHORTEST_PERIOD_SECONDS


def _query(metric: LoadMetricSettings, period: int) -> MetricDataQueryTypeDef:
    return {
        "Id": "load",
        "MetricStat": {
            "Metric": {
                "Namespace": metric.namespace,
                "MetricName": metric.name,
                "Dimensions": [{"Name": name, "Value": value} for name, value in metric.dimensions.items()],
            },
            "Period": period,
            "Stat": metric.statistic,
        },
        "ReturnData": True,
    }


class CloudWatchMetricPublisher:
    """The figures of the forecast as metrics of the environment's namespace, dimension Cluster."""

    def __init__(self, client: CloudWatchClient, environment: str) -> None:
        self._client = client
        self._namespace = namespace(environment)

    def publish(self, cluster: str, at: datetime, values: Mapping[Metric, float]) -> None:
        """One PutMetricData call. Raises Throttled, AwsUnavailable."""
        data: list[MetricDatumTypeDef] = [
            {
                "MetricName": name.value,
                "Dimensions": [{"Name": CLUSTER_DIMENSION, "Value": cluster}],
                "Timestamp": at,
                "Value": float(value),
                "Unit": name.unit,  # type: ignore[typeddict-item]
            }
            for name, value in values.items()
            if math.isfinite(value)
        ]
        with translated("cloudwatch:PutMetricData"):
            self._client.put_metric_data(Namespace=self._namespace, MetricData=data)
