"""Names and units of Peaker's metrics, in a namespace for each environment.

All have the dimension Cluster. Those that go through Powertools have the dimension service too, and those of a single
replica the dimension Instance.
"""

from __future__ import annotations

from enum import StrEnum

from peaker_contract.names import FAMILY

CLUSTER_DIMENSION = "Cluster"
INSTANCE_DIMENSION = "Instance"
SERVICE_DIMENSION = "service"
SERVICE = "peaker"


def namespace(environment: str) -> str:
    """`Peaker/prod`: two environments of an account may have a cluster of the same name."""
    return f"{FAMILY}/{environment}"


def events_namespace(environment: str) -> str:
    """`Peaker/prod/Events`: of the markers that a person or a pipeline writes, with the dimension Cluster."""
    return f"{namespace(environment)}/Events"


class EventMetric(StrEnum):
    """Markers in the environment's events_namespace: a point above 0 says that it happened."""

    DEPLOY = "Deploy"
    FAILOVER = "Failover"


class Metric(StrEnum):
    """A metric; `unit` is CloudWatch's word for its unit (cloudwatch:StandardUnit)."""

    unit: str

    def __new__(cls, name: str, unit: str) -> Metric:
        """Name and unit."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.unit = unit
        return made

    # forecast_load publishes them.
    REQUIRED_REPLICAS = "RequiredReplicas", "Count"
    SERVING_REPLICAS = "ServingReplicas", "Count"
    REPLICA_SHORTAGE = "ReplicaShortage", "Count"
    REPLICA_SURPLUS = "ReplicaSurplus", "Count"
    SCALING_DECISION = "ScalingDecision", "None"
    CAPACITY_PER_REPLICA = "CapacityPerReplica", "None"
    DECISION_ALARM = "DecisionAlarm", "None"
    OBSERVING = "Observing", "None"
    FORECAST_LOAD = "ForecastLoad", "None"
    FORECAST_LOAD_P50 = "ForecastLoadP50", "None"
    FORECAST_LOAD_P95 = "ForecastLoadP95", "None"
    FORECAST_COVERAGE = "ForecastCoverage", "None"
    FORECAST_DEGRADED = "ForecastDegraded", "None"
    LEAD_TIME_SECONDS = "LeadTimeSeconds", "Seconds"
    # sweep_orphans emits them at each look.
    LEFTOVERS = "Leftovers", "Count"
    LEFTOVER_SECONDS = "LeftoverSeconds", "Seconds"
    # check_replicas emits them: the first of the cluster and of each replica, the last two of each replica.
    READ_QUERIES_PER_SECOND = "ReadQueriesPerSecond", "Count/Second"
    REPLICA_LAG_SECONDS_MAX = "ReplicaLagSecondsMax", "Seconds"
    REPLICAS_SERVING = "ReplicasServing", "Count"
    REPLICAS_HELD_BY_FLOOR = "ReplicasHeldByFloor", "Count"
    REPLICAS_UNREPORTED = "ReplicasUnreported", "Count"
    REPLICA_SERVES = "ReplicaServes", "Count"
    REPLICA_LAG_SECONDS = "ReplicaLagSeconds", "Seconds"
