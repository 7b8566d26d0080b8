"""Names of the metrics that one function publishes and another one reads, in a namespace for each environment."""

from __future__ import annotations

REQUIRED_REPLICAS = "RequiredReplicas"
REPLICA_SURPLUS = "ReplicaSurplus"
OBSERVING = "Observing"
# 1 or 0, and the lag, per replica: with the dimensions Cluster and Instance, and the service that Powertools adds.
REPLICA_SERVES = "ReplicaServes"
REPLICA_LAG_SECONDS = "ReplicaLagSeconds"
SERVICE = "peaker"
# Markers that a person or a pipeline writes: metrics Deploy and Failover with the dimension Cluster.
EVENTS_NAMESPACE = "Peaker/Events"


def namespace(environment: str) -> str:
    """`Peaker/prod`: two environments of an account may have a cluster of the same name."""
    return f"Peaker/{environment}"
