"""Logs and metrics: one logger, and how steps emit the metrics of the contract."""

from __future__ import annotations

from collections.abc import Mapping

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from peaker_contract.metrics import CLUSTER_DIMENSION, INSTANCE_DIMENSION, Metric

logger = Logger()
metrics = Metrics()


def emit(cluster: str, values: Mapping[Metric, float]) -> None:
    """Write one EMF line with the cluster as its dimension."""
    metrics.add_dimension(CLUSTER_DIMENSION, cluster)
    for metric, value in values.items():
        metrics.add_metric(metric.value, MetricUnit(metric.unit), value)
    metrics.flush_metrics()


def emit_check(
    cluster: str, totals: Mapping[Metric, float], replicas: Mapping[str, Mapping[Metric, float]]
) -> None:
    """Write the totals by metric name, and a line per replica with its id as the dimension Instance as well."""
    emit(cluster, totals)
    for instance_id, values in replicas.items():
        metrics.add_dimension(INSTANCE_DIMENSION, instance_id)
        emit(cluster, values)
