"""What the host's load test says about each volume, held against the cluster's settings."""

from __future__ import annotations

from typing import Any

import pytest
from peaker.domain.storage.storage_judgement import judge_loads, knee_share

from tests.support.builders import planned_volume

PLANNED = [planned_volume("data")]


def volume(rate: float, queue: float, wait: float, nvme: dict[str, int] | None = None) -> dict[str, Any]:
    seen = {
        "device": "nvme1n1",
        "r/s": rate,
        "w/s": 0.0,
        "rkB/s": rate * 16,
        "r_await": wait,
        "rareq-sz": 16.0,
    }
    seen.update({"aqu-sz": queue, "util": 99.0, "intervals": 5})
    return {
        "name": "data",
        "verdict": "warm",
        "load": {"seconds": 5, "depth": 8, "iostat": seen, "nvme": nvme},
    }


@pytest.mark.parametrize(
    ("rate", "queue", "wait", "verdict", "plan"),
    [
        (2990, 8, 2.7, "IOPS-limited", "delivered"),
        (1000, 0.9, 0.9, "application-limited", "not asked for"),
        (1700, 50, 29, "queueing", "below"),
        (300, 8, 27, "shared-storage contention", "below"),
    ],
)
def test_a_volume_under_load(rate: float, queue: float, wait: float, verdict: str, plan: str) -> None:
    (judged,) = judge_loads([volume(rate, queue, wait)], PLANNED)
    assert (judged["verdict"], judged["against_plan"]) == (verdict, plan)
    assert (judged["iops_delivered"], judged["iops_promised"]) == (rate, 3000)


def test_nvme_statistics_tell_the_instance_s_limit() -> None:
    exceeded = {"ec2_instance_ebs_performance_exceeded_tp": 2_500_000, "total_read_ops": 9}
    (judged,) = judge_loads([volume(1200, 8, 6.7, exceeded)], PLANNED)
    assert judged["verdict"] == "instance-limited"


@pytest.mark.parametrize(
    "broken", [{"name": "data", "load": None}, {"name": "data", "load": {"seconds": 5}}, "data"]
)
def test_without_a_usable_load_test_the_limit_is_unknown(broken: object) -> None:
    (judged,) = judge_loads([broken], PLANNED)
    assert judged["verdict"] == "unknown"


def test_a_volume_that_delivered_nothing_has_no_share_and_a_replica_no_capacity_of_zero() -> None:
    """No load can be divided by such a capacity: each check would end there until the proof is forgotten."""
    stalled = {"verdict": "shared-storage contention", "iops_delivered": 0.0, "iops_promised": 3000.0}
    assert knee_share([stalled]) is None
    assert knee_share([stalled, {**stalled, "iops_delivered": 1500.0}]) == 0.5
