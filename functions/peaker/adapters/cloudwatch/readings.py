"""The load and Peaker's own metrics from CloudWatch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from peaker.adapters.cloudwatch.metric_data import metric_query, read_points, whole_until_seconds
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
        """A period that still runs or fills has its Sum and its SampleCount to a part only: it counts where it is
        higher already than the newest whole one, which is a load that has grown meanwhile.
        """
        metric = settings.load_metric
        oldest = timedelta(seconds=metric.period_seconds) * STALE_AFTER_PERIODS
        whole_until = datetime.fromtimestamp(whole_until_seconds(metric, now, metric.period_seconds), UTC)
        points = self.load_points(settings, whole_until - oldest, now)
        whole = _newest([one for one in points if one[0] < whole_until], metric.name, oldest, whole_until)
        later = [one for one in points if one[0] >= whole_until]
        at, value = max(later, key=lambda one: one[1], default=(whole_until, 0.0))
        return Known(value, at) if isinstance(whole, Known) and value > whole.value else whole

    def load_points(
        self, settings: ClusterSettings, start: datetime, end: datetime
    ) -> list[tuple[datetime, float]]:
        metric = settings.load_metric
        query = metric_query(
            metric.namespace, metric.name, metric.dimensions, metric.statistic, metric.period_seconds
        )
        return read_points(self._cloudwatch, query, start, end)

    def published(self, settings: ClusterSettings, metric: Metric, now: datetime) -> Reading:
        oldest = timedelta(minutes=settings.forecast.schedule_minutes * STALE_AFTER_PERIODS)
        return self._own(settings, metric, {CLUSTER_DIMENSION: settings.name}, oldest, now)

    def published_points(
        self, settings: ClusterSettings, metric: Metric, start: datetime, end: datetime, period_seconds: int
    ) -> list[tuple[datetime, float]]:
        """Returns what the checks published in that time, the highest of each period."""
        space, dimensions = namespace(settings.environment), {CLUSTER_DIMENSION: settings.name}
        query = metric_query(space, metric.value, dimensions, "Maximum", period_seconds)
        return read_points(self._cloudwatch, query, start, end)

    def lag_seconds(self, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
        oldest = timedelta(minutes=settings.health.check_minutes * STALE_AFTER_PERIODS)
        dimensions = _of_replica(settings, instance_id)
        return self._own(settings, Metric.REPLICA_LAG_SECONDS, dimensions, oldest, now)

    def reads_per_second(
        self, settings: ClusterSettings, instance_id: str, start: datetime, end: datetime
    ) -> list[float]:
        query = metric_query(
            namespace(settings.environment),
            Metric.READ_QUERIES_PER_SECOND.value,
            _of_replica(settings, instance_id),
            "Average",
            PUBLISHED_PERIOD_SECONDS,
        )
        return [value for _, value in read_points(self._cloudwatch, query, start, end)]

    def _own(
        self,
        settings: ClusterSettings,
        metric: Metric,
        dimensions: dict[str, str],
        oldest: timedelta,
        now: datetime,
    ) -> Reading:
        """The newest value of a metric that Peaker publishes."""
        query = metric_query(
            namespace(settings.environment), metric.value, dimensions, "Maximum", PUBLISHED_PERIOD_SECONDS
        )
        return _newest(read_points(self._cloudwatch, query, now - oldest, now), metric, oldest, now)


def _of_replica(settings: ClusterSettings, instance_id: str) -> dict[str, str]:
    return {
        CLUSTER_DIMENSION: settings.name,
        INSTANCE_DIMENSION: instance_id,
        SERVICE_DIMENSION: SERVICE,
    }


def _newest(points: list[tuple[datetime, float]], name: str, oldest: timedelta, now: datetime) -> Reading:
    if not points:
        return Unknown(f"{name} has no point in the last {oldest.total_seconds() / 60:.0f} min")
    at, value = points[-1]
    return Known(value, at)
