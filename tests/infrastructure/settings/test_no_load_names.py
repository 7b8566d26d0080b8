"""A metric is no load by what its name says that it counts, not by a word beside it."""

from __future__ import annotations

import pytest

from peaker_contract.load_settings import why_no_load

LOADS = [
    "Queries",
    "RequestCount",
    "ReadQueriesPerSecond",
    "reads/sec",
    "us_reads",
    "ReadsUS",
    "mysql-us-east-1-queries",
    "QueueReads",
    "storage_reads",
    "CreditCardReads",
    "MarketShareQueries",
    "WaitingRoomRequests",
    "reads_replica",
    "DatabaseConnections",
    "TimeSeriesReads",
    "reads_p95",
]
NO_LOADS = [
    "CPUUtilization",
    "cpuutilizationavg",
    "percentused",
    "HitRate",
    "BusyShare",
    "ReplicaLag",
    "AuroraReplicaLagMaximum",
    "SecondsBehindMaster",
    "ReadLatency",
    "QueryTimeUs",
    "ReadTimeAvg",
    "SelectTimeP99",
    "time_per_request",
    "iowait",
    "DiskQueueDepth",
    "FreeableMemory",
    "BurstBalance",
    "SlowQueries",
    "ReadErrors",
    "HealthyHostCount",
]


@pytest.mark.parametrize("name", LOADS)
def test_a_name_that_counts_reads_is_taken(name: str) -> None:
    assert why_no_load(name) is None


@pytest.mark.parametrize("name", NO_LOADS)
def test_a_name_that_counts_something_else_is_refused(name: str) -> None:
    assert why_no_load(name)
