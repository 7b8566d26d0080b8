"""Names of the metrics in namespace Peaker that one function publishes and another one reads."""

from __future__ import annotations

NAMESPACE = "Peaker"
REQUIRED_REPLICAS = "RequiredReplicas"
OBSERVING = "Observing"
# Markers that a person or a pipeline writes: metrics Deploy and Failover with the dimension Cluster.
EVENTS_NAMESPACE = "Peaker/Events"
