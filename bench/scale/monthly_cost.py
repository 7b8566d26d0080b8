"""What the control plane costs for one of 10,000 clusters in a month, by AWS's list prices in us-east-1. Arithmetic.

Sources: the price pages of Lambda (arm64), CloudWatch, DynamoDB (on demand), EventBridge and Step Functions. How often
what is called: the schedules of environments/prod.yaml. Replicas, their volumes and snapshots are not in it; nor is the
read endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

MINUTES_A_MONTH = 30 * 24 * 60
GB_SECOND, REQUEST = 0.0000133334, 0.20 / 1e6
METRIC, ALARM, METRIC_READ = 0.30, 0.10, 0.01 / 1_000
WRITE_UNIT, READ_UNIT = 0.625 / 1e6, 0.125 / 1e6
SCHEDULED_EVENT = 1.00 / 1e6
TRANSITION = 0.025 / 1_000
EXPRESS_REQUEST, EXPRESS_GB_SECOND = 1.00 / 1e6, 0.00001667


@dataclass(frozen=True)
class Schedule:
    """A function that a schedule calls: how often, for how long, with how much memory; its units of DynamoDB a call."""

    every_minutes: float
    seconds: float
    memory_gb: float
    writes: float
    reads: float
    metrics_read: float

    @property
    def calls(self) -> float:
        """In a month."""
        return MINUTES_A_MONTH / self.every_minutes

    @property
    def usd(self) -> float:
        """In a month, without what starts it."""
        each = REQUEST + self.seconds * self.memory_gb * GB_SECOND
        each += self.writes * WRITE_UNIT + self.reads * READ_UNIT + self.metrics_read * METRIC_READ
        return self.calls * each


# One second at 1 GB (docs/operating.md); it keeps its state, the issued forecast and the report, of some 8 KB together.
FORECAST = Schedule(5, 1.0, 1.0, writes=10, reads=40, metrics_read=8)
# Some seconds, in which it waits for the hosts' answers.
REPLICA_CHECK = Schedule(1, 3.0, 0.25, writes=0, reads=2, metrics_read=0)
METRICS, METRICS_OF_A_REPLICA, REPLICAS, ALARMS = 35, 2, 2, 13


def parts() -> dict[str, float]:
    """USD a month of one cluster, by what it is paid for."""
    return {
        "custom metrics": METRIC * (METRICS + METRICS_OF_A_REPLICA * REPLICAS),
        "alarms": ALARM * ALARMS,
        "forecasts": FORECAST.usd,
        "looks at the replicas": REPLICA_CHECK.usd,
        "schedules": schedule_each(),
    }


def schedule_each() -> float:
    """A schedule for each function and cluster."""
    return SCHEDULED_EVENT * (FORECAST.calls + REPLICA_CHECK.calls)


def distributed_map() -> float:
    """One schedule for all, whose Distributed Map starts an Express child of 64 MB for each cluster instead.

    A child takes as long as its function; its start is a transition of the parent.
    """
    found = 0.0
    for one in (FORECAST, REPLICA_CHECK):
        found += one.calls * (TRANSITION + EXPRESS_REQUEST + one.seconds * 0.0625 * EXPRESS_GB_SECOND)
    return found
