"""Names of the metrics in namespace Peaker that one function publishes and another one reads."""

from __future__ import annotations

NAMESPACE = "Peaker"
REQUIRED_REPLICAS = "RequiredReplicas"
REPLICA_SURPLUS = "ReplicaSurplus"
OBSERVING = "Observing"
# 1 or 0, and the lag, per replica: with the dimensions Cluster and Instance, and the service that Powertools adds.
REPLICA_SERVES = "ReplicaServes"
REPLICA_LAG_SECONDS = "ReplicaLagSeconds"
SERVICE = "peaker"
# Markers that a person or a pipeline writes: metrics Deploy and Failover with the dimension Cluster.
EVENTS_NAMESPACE = "Peaker/Events"
