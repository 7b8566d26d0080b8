"""Settings of a cluster whose load an application writes: tests and the fault campaign give its history themselves.

The local environment has the demonstration's: there Peaker measures the load, in step with a fast clock.
"""

from __future__ import annotations

from typing import Any

from peaker_contract.metrics import Metric, namespace

APPLICATION_LOAD: dict[str, Any] = {
    "load_metric": {
        "namespace": namespace("Demand"),
        "name": Metric.READ_QUERIES_PER_SECOND.value,
        "statistic": "Average",
        "period_seconds": 1800,
        "dimensions": {"Cluster": "orders"},
    },
    "forecast": {"quantile": 0.95, "schedule_minutes": 15},
    "health": {"check_minutes": 120},
}
