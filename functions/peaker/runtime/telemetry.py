"""Logs and metrics: one logger, and the catalogue of the metrics that steps emit."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()
metrics = Metrics()


class Metric(StrEnum):
    """Metrics in namespace Peaker with the dimension Cluster (and service, which Powertools adds)."""

    STEP_SECONDS = "StepSeconds"
    STEP_FAILED = "StepFailed"
    RUN_SUCCEEDED = "RunSucceeded"
    RUN_FAILED = "RunFailed"
    UNDO_INCOMPLETE = "UndoIncomplete"
    PREWARM_MIB_PER_S = "PrewarmMibPerS"


UNITS: Mapping[Metric, MetricUnit] = {
    Metric.STEP_SECONDS: MetricUnit.Seconds,
    Metric.STEP_FAILED: MetricUnit.Count,
    Metric.RUN_SUCCEEDED: MetricUnit.Count,
    Metric.RUN_FAILED: MetricUnit.Count,
    Metric.UNDO_INCOMPLETE: MetricUnit.Count,
    Metric.PREWARM_MIB_PER_S: MetricUnit.MegabytesPerSecond,
}


def emit(cluster: str, values: Mapping[Metric, float]) -> None:
    """Write one EMF line with the cluster as its dimension."""
    metrics.add_dimension("Cluster", cluster)
    for metric, value in values.items():
        metrics.add_metric(metric.value, UNITS[metric], value)
    metrics.flush_metrics()
