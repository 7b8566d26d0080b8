"""The load and Peaker's own metrics from CloudWatch."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from peaker.adapters.aws_errors import translated
from peaker.adapters.cloudwatch.metrics import measured_points
from peaker.domain.instants import to_iso
from peaker.domain.reading import Known, Reading, Unknown
from peaker_contract.cluster import ClusterSettings
from peaker_contract.metrics import (
    CLUSTER_DIMENSION,
    INSTANCE_DIMENSION,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
    namespace,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

PUBLISHED_PERIOD_SECONDS = 60
STALE_AFTER_PERIODS = 3


class CloudWatchReadings:
    """Port LoadReadings."""

    def __init__(self, cloudwatch: CloudWatchClient) -> None:
        self._cloudwatch = cloudwatch

    def load(self, settings: ClusterSettings, now: datetime) -> Reading:
        metric = settings.load_metric
        oldest = timedelta(seconds=metric.period_seconds * STALE_AFTER_PERIODS)
        return _newest(self.load_points(settings, now - oldest, now), metric.name, oldest, now)

    def load_points(
        self, settings: ClusterSettings, start: datetime, end: datetime
    ) -> list[tuple[datetime, float]]:
        metric = settings.load_metric
        dimensions = [{"Name": name, "Value": value} for name, value in sorted(metric.dimensions.items())]
        return self._points(
            metric.namespace, metric.name, dimensions, metric.statistic, metric.period_seconds, start, end
        )

    def published(self, settings: ClusterSettings, metric: Metric, now: datetime) -> Reading:
        oldest = timedelta(minutes=settings.forecast.schedule_minutes * STALE_AFTER_PERIODS)
        dimensions = [{"Name": CLUSTER_DIMENSION, "Value": settings.name}]
        points = self._points(
            namespace(settings.environment),
            metric.value,
            dimensions,
            "Maximum",
            PUBLISHED_PERIOD_SECONDS,
            now - oldest,
            now,
        )
        return _newest(points, metric, oldest, now)

    def lag_seconds(self, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
        oldest = timedelta(minutes=settings.health.check_minutes * STALE_AFTER_PERIODS)
        dimensions = [
            {"Name": CLUSTER_DIMENSION, "Value": settings.name},
            {"Name": INSTANCE_DIMENSION, "Value": instance_id},
            {"Name": SERVICE_DIMENSION, "Value": SERVICE},
        ]
        points = self._points(
            namespace(settings.environment),
            Metric.REPLICA_LAG_SECONDS.value,
            dimensions,
            "Maximum",
            PUBLISHED_PERIOD_SECONDS,
            now - oldest,
            now,
        )
        return _newest(points, Metric.REPLICA_LAG_SECONDS, oldest, now)

    def _points(
        self,
        namespace: str,
        name: str,
        dimensions: list[dict[str, str]],
        statistic: str,
        period_seconds: int,
        start: datetime,
        end: datetime,
    ) -> list[tuple[datetime, float]]:
        query: Any = {
            "Id": "wanted",
            "MetricStat": {
                "Metric": {"Namespace": namespace, "MetricName": name, "Dimensions": dimensions},
                "Period": period_seconds,
                "Stat": statistic,
            },
        }
        pages = self._cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=[query], StartTime=start, EndTime=end, ScanBy="TimestampAscending"
        )
        with translated("cloudwatch:GetMetricData"):
            found = [
                point
                for page in pages
                for result in page["MetricDataResults"]
                for point in measured_points(result["Timestamps"], result["Values"])
            ]
        return sorted(found)


def _newest(points: list[tuple[datetime, float]], name: str, oldest: timedelta, now: datetime) -> Reading:
    if not points:
        return Unknown(
            f"{name} has no point in the {oldest.total_seconds() / 60:.0f} min before {to_iso(now)}"
        )
    at, value = points[-1]
    return Known(value, at)
