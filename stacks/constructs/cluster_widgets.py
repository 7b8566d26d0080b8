"""Cluster widgets are one cluster's part of a dashboard, and the metrics of its graphs and alarms."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from environments.schema import Cluster
from peaker_contract.cluster import measured_load
from peaker_contract.metrics import CLUSTER_DIMENSION, SERVICE, SERVICE_DIMENSION, Metric
from stacks.naming import Names

WIDGET_WIDTH = 12
# How often sweep_orphans looks at a cluster.
SWEEP_EVERY = Duration.minutes(3)


class ClusterMetrics:
    """The metrics of one cluster, each in the period of what writes it."""

    def __init__(self, names: Names, cluster: Cluster) -> None:
        self._names, self._cluster = names, cluster

    def forecast(self, metric: Metric, statistic: str = "Maximum") -> cloudwatch.Metric:
        """A metric that every forecast puts itself."""
        return self._metric(metric, statistic, Duration.minutes(self._cluster.forecast.schedule_minutes))

    def check(self, metric: Metric, statistic: str = "Maximum") -> cloudwatch.Metric:
        """A metric of check_replicas. Powertools adds the service to the dimensions."""
        every = Duration.minutes(self._cluster.health.check_minutes)
        return self._metric(metric, statistic, every, {SERVICE_DIMENSION: SERVICE})

    def sweep(self, metric: Metric, statistic: str = "Maximum") -> cloudwatch.Metric:
        """A metric of sweep_orphans, which Powertools writes too."""
        return self._metric(metric, statistic, SWEEP_EVERY, {SERVICE_DIMENSION: SERVICE})

    def _metric(
        self, metric: Metric, statistic: str, period: Duration, more: Mapping[str, str] | None = None
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=self._names.metric_namespace,
            metric_name=metric.value,
            dimensions_map={CLUSTER_DIMENSION: self._cluster.name, **(more or {})},
            statistic=statistic,
            period=period,
        )


def cluster_widgets(names: Names, cluster: Cluster) -> list[cloudwatch.IWidget]:
    """The graphs of one cluster's dashboard."""
    load = cluster.load_metric or measured_load(cluster, names.environment.environment)
    measured = cloudwatch.Metric(
        namespace=load.namespace,
        metric_name=load.name,
        dimensions_map=dict(load.dimensions),
        statistic=load.statistic,
        period=Duration.seconds(load.period_seconds),
        label="measured",
    )
    of = ClusterMetrics(names, cluster)
    graphs: tuple[tuple[str, list[cloudwatch.IMetric], list[cloudwatch.IMetric] | None], ...] = (
        (
            "load, measured and forecast within the lead time",
            [measured, of.forecast(Metric.FORECAST_LOAD)],
            None,
        ),
        (
            "replicas short (scale_out) and surplus (scale_in)",
            [of.forecast(Metric.REPLICA_SHORTAGE), of.forecast(Metric.REPLICA_SURPLUS)],
            None,
        ),
        (
            "replicas required and serving",
            [of.forecast(Metric.REQUIRED_REPLICAS), of.forecast(Metric.SERVING_REPLICAS, "Minimum")],
            None,
        ),
        (
            "lead time, and how often the forecast covered the load",
            [of.forecast(Metric.LEAD_TIME_SECONDS)],
            [of.forecast(Metric.FORECAST_COVERAGE, "Minimum")],
        ),
        (
            "replicas that serve, are held by the floor, or do not report; greatest lag",
            [
                of.check(Metric.REPLICAS_SERVING, "Minimum"),
                of.check(Metric.REPLICAS_HELD_BY_FLOOR),
                of.check(Metric.REPLICAS_UNREPORTED),
            ],
            [of.check(Metric.REPLICA_LAG_SECONDS_MAX)],
        ),
    )
    return [
        cloudwatch.GraphWidget(title=f"{cluster.name}: {title}", left=left, right=right, width=WIDGET_WIDTH)
        for title, left, right in graphs
    ]
