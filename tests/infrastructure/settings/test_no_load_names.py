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
NO_LOADS = {
    "a utilisation": "CPUUtilization cpuutilizationavg percentused HitRate BusyShare Busy% BufferCacheHitRatio",
    "a lag": "ReplicaLag AuroraReplicaLagMaximum SecondsBehindMaster",
    "a time": "ReadLatency QueryTimeUs ReadTimeAvg SelectTimeP99 time_per_request iowait AwaitMs OldestTransactionAge",
    "a queue": "DiskQueueDepth",
    "it says what a host": "FreeableMemory BurstBalance CreditBalance",
    "it counts what goes wrong": "SlowQueries ReadErrors",
    "it counts replicas": "HealthyHostCount",
}


@pytest.mark.parametrize("name", LOADS)
def test_a_name_that_counts_reads_is_taken(name: str) -> None:
    assert why_no_load(name) is None


@pytest.mark.parametrize(("why", "name"), [(why, name) for why in NO_LOADS for name in NO_LOADS[why].split()])
def test_a_name_that_counts_something_else_is_refused(why: str, name: str) -> None:
    assert str(why_no_load(name)).startswith(why)
