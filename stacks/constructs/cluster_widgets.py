"""Cluster widgets are one cluster's part of a dashboard, and the metrics of its graphs and alarms."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from environments.schema import Cluster
from peaker_contract.cluster import measured_load
from peaker_contract.metrics import CLUSTER_DIMENSION, SERVICE, SERVICE_DIMENSION, Metric
from stacks.naming import Names

WIDGET_WIDTH = 12
# How often sweep_orphans looks at a cluster.
SWEEP_EVERY = Duration.minutes(3)


def cluster_widgets(names: Names, cluster: Cluster) -> list[cloudwatch.IWidget]:
    """The graphs of one cluster's dashboard."""
    period = Duration.minutes(cluster.forecast.schedule_minutes)
    load = cluster.load_metric or measured_load(cluster, names.environment.environment)
    measured = cloudwatch.Metric(
        namespace=load.namespace,
        metric_name=load.name,
        dimensions_map=dict(load.dimensions),
        statistic=load.statistic,
        period=Duration.seconds(load.period_seconds),
        label="measured",
    )
    return [
        cloudwatch.GraphWidget(
            title=f"{cluster.name}: load, measured and forecast within the lead time",
            left=[measured, forecast_metric(names, cluster, Metric.FORECAST_LOAD, "Maximum", period)],
            width=WIDGET_WIDTH,
        ),
        cloudwatch.GraphWidget(
            title=f"{cluster.name}: replicas short (scale_out) and surplus (scale_in)",
            left=[
                forecast_metric(names, cluster, Metric.REPLICA_SHORTAGE, "Maximum", period),
                forecast_metric(names, cluster, Metric.REPLICA_SURPLUS, "Maximum", period),
            ],
            width=WIDGET_WIDTH,
        ),
        cloudwatch.GraphWidget(
            title=f"{cluster.name}: replicas required and serving",
            left=[
                forecast_metric(names, cluster, Metric.REQUIRED_REPLICAS, "Maximum", period),
                forecast_metric(names, cluster, Metric.SERVING_REPLICAS, "Minimum", period),
            ],
            width=WIDGET_WIDTH,
        ),
        cloudwatch.GraphWidget(
            title=f"{cluster.name}: lead time, and how often the forecast covered the load",
            left=[forecast_metric(names, cluster, Metric.LEAD_TIME_SECONDS, "Maximum", period)],
            right=[forecast_metric(names, cluster, Metric.FORECAST_COVERAGE, "Minimum", period)],
            width=WIDGET_WIDTH,
        ),
        cloudwatch.GraphWidget(
            title=f"{cluster.name}: replicas that serve, are held by the floor, or do not report; greatest lag",
            left=[
                replica_metric(names, cluster, Metric.REPLICAS_SERVING, "Minimum"),
                replica_metric(names, cluster, Metric.REPLICAS_HELD_BY_FLOOR, "Maximum"),
                replica_metric(names, cluster, Metric.REPLICAS_UNREPORTED, "Maximum"),
            ],
            right=[replica_metric(names, cluster, Metric.REPLICA_LAG_SECONDS_MAX, "Maximum")],
            width=WIDGET_WIDTH,
        ),
    ]


def replica_metric(names: Names, cluster: Cluster, metric: Metric, statistic: str) -> cloudwatch.Metric:
    """A metric of check_replicas."""
    every = Duration.minutes(cluster.health.check_minutes)
    return _powertools_metric(names, cluster, metric, statistic, every)


def sweep_metric(names: Names, cluster: Cluster, metric: Metric, statistic: str) -> cloudwatch.Metric:
    """A metric of sweep_orphans."""
    return _powertools_metric(names, cluster, metric, statistic, SWEEP_EVERY)


def forecast_metric(
    names: Names, cluster: Cluster, metric: Metric, statistic: str, period: Duration
) -> cloudwatch.Metric:
    """A metric that every forecast, or a proposal of settings, puts itself."""
    return _metric(names, metric, {CLUSTER_DIMENSION: cluster.name}, statistic, period)


def _powertools_metric(
    names: Names, cluster: Cluster, metric: Metric, statistic: str, period: Duration
) -> cloudwatch.Metric:
    """Powertools adds the service to the dimensions."""
    dimensions = {CLUSTER_DIMENSION: cluster.name, SERVICE_DIMENSION: SERVICE}
    return _metric(names, metric, dimensions, statistic, period)


def _metric(
    names: Names, metric: Metric, dimensions: dict[str, str], statistic: str, period: Duration
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=names.metric_namespace,
        metric_name=metric.value,
        dimensions_map=dimensions,
        statistic=statistic,
        period=period,
    )
