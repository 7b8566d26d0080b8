"""Logs and metrics: one logger, and the catalogue of the metrics that steps emit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricResolution, MetricUnit

from peaker.domain import metric_names

logger = Logger()
metrics = Metrics()
# A writer of its own: a time once set stays with the writer.
_past = Metrics()


class Metric(StrEnum):
    """Metrics in the environment's namespace with the dimension Cluster (and service, which Powertools adds).

    Those of a single replica have the dimension Instance too.
    """

    STEP_SECONDS = "StepSeconds"
    STEP_FAILED = "StepFailed"
    RUN_SUCCEEDED = "RunSucceeded"
    RUN_FAILED = "RunFailed"
    RUN_REFUSED = "RunRefused"
    UNDO_INCOMPLETE = "UndoIncomplete"
    PREWARM_MIB_PER_S = "PrewarmMibPerS"
    PREWARM_BYTES_READ = "PrewarmBytesRead"
    PREWARM_REMAINING_SECONDS = "PrewarmRemainingSeconds"
    SERVED_QUANTILE = "ServedQuantile"
    CAPACITY_PER_REPLICA = "CapacityPerReplica"
    OBSERVATION_DAYS_LEFT = "ObservationDaysLeft"
    FORECAST_ERROR = "ForecastError"
    REPLICA_LAG_SECONDS_MAX = "ReplicaLagSecondsMax"
    REPLICAS_SERVING = "ReplicasServing"
    REPLICAS_HELD_BY_FLOOR = "ReplicasHeldByFloor"
    REPLICAS_UNREPORTED = "ReplicasUnreported"
    REPLICA_SERVES = metric_names.REPLICA_SERVES
    REPLICA_LAG_SECONDS = metric_names.REPLICA_LAG_SECONDS


UNITS: Mapping[Metric, MetricUnit] = {
    Metric.STEP_SECONDS: MetricUnit.Seconds,
    Metric.STEP_FAILED: MetricUnit.Count,
    Metric.RUN_SUCCEEDED: MetricUnit.Count,
    Metric.RUN_FAILED: MetricUnit.Count,
    Metric.RUN_REFUSED: MetricUnit.Count,
    Metric.UNDO_INCOMPLETE: MetricUnit.Count,
    Metric.PREWARM_MIB_PER_S: MetricUnit.MegabytesPerSecond,
    Metric.PREWARM_BYTES_READ: MetricUnit.Bytes,
    Metric.PREWARM_REMAINING_SECONDS: MetricUnit.Seconds,
    Metric.SERVED_QUANTILE: MetricUnit.NoUnit,
    Metric.CAPACITY_PER_REPLICA: MetricUnit.NoUnit,
    Metric.OBSERVATION_DAYS_LEFT: MetricUnit.Count,
    Metric.FORECAST_ERROR: MetricUnit.NoUnit,
    Metric.REPLICA_LAG_SECONDS_MAX: MetricUnit.Seconds,
    Metric.REPLICAS_SERVING: MetricUnit.Count,
    Metric.REPLICAS_HELD_BY_FLOOR: MetricUnit.Count,
    Metric.REPLICAS_UNREPORTED: MetricUnit.Count,
    Metric.REPLICA_SERVES: MetricUnit.Count,
    Metric.REPLICA_LAG_SECONDS: MetricUnit.Seconds,
}


def emit(cluster: str, values: Mapping[Metric, float]) -> None:
    """Write one EMF line with the cluster as its dimension."""
    metrics.add_dimension("Cluster", cluster)
    for metric, value in values.items():
        metrics.add_metric(metric.value, UNITS[metric], value)
    metrics.flush_metrics()


def emit_watch(
    cluster: str, totals: Mapping[str, float], replicas: Mapping[str, Mapping[str, float]]
) -> None:
    """Write the totals by metric name, and a line per replica with its id as the dimension Instance as well."""
    emit(cluster, {Metric(name): value for name, value in totals.items()})
    for instance_id, values in replicas.items():
        metrics.add_dimension("Instance", instance_id)
        emit(cluster, {Metric(name): value for name, value in values.items()})


def emit_past(cluster: str, values: Mapping[Metric, float], at: datetime) -> None:
    """The same for values of a moment that has passed, in high resolution (they may lie 10 s apart)."""
    _past.add_dimension("Cluster", cluster)
    _past.set_timestamp(at)
    for metric, value in values.items():
        _past.add_metric(metric.value, UNITS[metric], value, MetricResolution.High)
    _past.flush_metrics()
