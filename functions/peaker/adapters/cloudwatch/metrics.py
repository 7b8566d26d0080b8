"""CloudWatch: the load's history (GetMetricData, paged) and the forecast's figures (PutMetricData).

A request that begins too long ago for its period has no points at all, and no error (botocore, `MetricStat.Period`):
3 hours for periods under 60 s, 15 days for those of a minute, 63 for those of five minutes, 455 for those of an hour.
So the history is read in periods of five minutes, and an older one in periods of an hour. A day's margin is for the
time that the call travels and for clocks that differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.adapters.cloudwatch.metric_data import ADDED_UP, metric_query, read_points, whole_until_seconds
from peaker.domain.issued import LoadPoints
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import LoadMetricSettings
from peaker_contract.metrics import CLUSTER_DIMENSION, Metric, namespace

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDatumTypeDef

SHORTEST_PERIOD_SECONDS = 300
# The least period, of which another one is a multiple, by the age of the start, a day's margin included.
_LEAST_PERIODS = ((timedelta(days=14), 60), (timedelta(days=62), 300))
_OLDEST_LEAST_PERIOD = 3600


class CloudWatchLoadHistory:
    """The load metric of a cluster, read only."""

    def __init__(self, client: CloudWatchClient) -> None:
        self._client = client

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points of the periods that ended by `end`, in order of time. Raises Throttled, AwsUnavailable."""
        return self.metric_points(settings.load_metric, start, end)

    def metric_points(
        self,
        metric: LoadMetricSettings,
        start: datetime,
        end: datetime,
        least_period_seconds: int = SHORTEST_PERIOD_SECONDS,
        page_read: Callable[[int], None] = lambda _: None,
    ) -> LoadPoints:
        """The same for a metric that belongs to no cluster yet (backtest), or in longer periods than five minutes.

        `page_read` is told after each page how many points there are.
        """
        period = query_period_seconds(metric.period_seconds, least_period_seconds)
        last = datetime.fromtimestamp(whole_until_seconds(metric, end, period), UTC)
        found = self._read(metric, period, start, last, page_read)
        # A Sum over a longer period than the settings' is brought back to the settings' period.
        scale = metric.period_seconds / period if metric.statistic in ADDED_UP else 1.0
        return LoadPoints([at for at, _ in found], [value * scale for _, value in found], float(period))

    def events(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points in the metric's own period, the one that still runs included. Raises Throttled, AwsUnavailable."""
        found = self._read(metric, metric.period_seconds, start, end)
        return LoadPoints(
            [at for at, _ in found], [value for _, value in found], float(metric.period_seconds)
        )

    def _read(
        self,
        metric: LoadMetricSettings,
        period: int,
        start: datetime,
        end: datetime,
        page_read: Callable[[int], None] = lambda _: None,
    ) -> list[tuple[float, float]]:
        first = datetime.fromtimestamp(math.floor(start.timestamp() / period) * period, UTC)
        query = metric_query(metric.namespace, metric.name, metric.dimensions, metric.statistic, period)
        found = read_points(self._client, query, first, end, page_read)
        return [(instant.timestamp(), value) for instant, value in found]


def query_period_seconds(metric_period_seconds: int, least_seconds: int = SHORTEST_PERIOD_SECONDS) -> int:
    """The period to ask for: the metric's own, but `least_seconds` at least and a multiple of them (retention)."""
    return math.ceil(max(metric_period_seconds, least_seconds) / least_seconds) * least_seconds


def least_period_seconds(start: datetime, now: datetime) -> int:
    """The shortest period in which CloudWatch still has all points since `start`: 60, 300 or 3600."""
    age = now - start
    return next((seconds for kept, seconds in _LEAST_PERIODS if age <= kept), _OLDEST_LEAST_PERIOD)


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
