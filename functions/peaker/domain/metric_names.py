"""Names of the metrics in namespace Peaker that one function publishes and another one reads."""

from __future__ import annotations

NAMESPACE = "Peaker"
REQUIRED_REPLICAS = "RequiredReplicas"
