"""The checks of a plan, each by hand: what is wasted, what does not fit, what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker.domain.limits.account_limits import DEFAULT_REGION_RATE
from peaker.domain.planning.checks.bandwidth import (
    cheaper_equal,
    iops_per_gib,
    look_at_bandwidth,
)
from peaker.domain.planning.checks.headroom import (
    binary_logs,
    buffer_pool,
    initialization_rate,
    zones_in_order,
)
from peaker.domain.prices.price_table import US_EAST_1
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.data_volumes import PlannedVolume
from peaker.domain.replicas.inventory import InstancePromise

from tests.support.builders import planned_volume

# 1 Gbit/s in MiB/s; EC2 names no IOPS for the type of the article.
ONE_GBIT = InstancePromise(baseline_mib_per_s=119.21)
# r7g.large (EBS-optimized instance types): 630 Mbit/s and 3,600 IOPS always, 10,000 and 40,000 for half an hour.
R7G_LARGE = InstancePromise(3600, 75.1, 40_000, 1192.09)
GP3 = planned_volume("data", "gp3", 500, 16_000, 500)
FREE = planned_volume("log", "gp3", 100, 3_000, 125)


def verdicts(volumes: list[PlannedVolume], promise: InstancePromise | Unknown) -> dict[str, str]:
    return {one.name: one.verdict for one in look_at_bandwidth(volumes, "r7g.large", promise, US_EAST_1)}


@pytest.mark.parametrize(
    ("volume", "verdict"),
    [
        (planned_volume("data", "gp3", 1, 3_000, 125), "pass"),
        (planned_volume("data", "gp3", 32, 16_000, 125), "pass"),
        (planned_volume("data", "gp3", 31, 16_000, 125), "refuse"),
        (planned_volume("data", "io2", 10, 10_000, 2_560), "pass"),
        (planned_volume("data", "io2", 10, 10_001, 2_560), "refuse"),
    ],
)
def test_a_volume_with_more_iops_than_its_size_allows_is_refused(volume: PlannedVolume, verdict: str) -> None:
    """EBS: gp3 has 3,000 IOPS at any size and 500 for each GiB, io2 1,000 for each GiB."""
    assert iops_per_gib([volume]).verdict == verdict


def test_piops_above_a_gigabit_are_paid_for_and_not_delivered() -> None:
    """10,000 IOPS of 16 KiB are 156 MiB/s; a gigabit carries 119, which are 7,629 pages a second."""
    io2 = planned_volume("data", "io2", 200, 10_000, 2_560)
    iops, amount, wasted = look_at_bandwidth([io2], "m1.large", ONE_GBIT, US_EAST_1)
    assert (iops.verdict, amount.verdict, wasted.verdict) == ("warn", "warn", "warn")
    assert iops.numbers["baseline"] == 7629
    # 2,371 IOPS at 0.065 USD a month.
    assert wasted.numbers["wasted_usd_month"] == pytest.approx(154.12, abs=0.01)
    assert "data 7,629 IOPS" in wasted.remedy


def test_what_the_instance_carries_is_no_waste() -> None:
    assert verdicts([FREE], InstancePromise(20_000, 596.0)) == {
        "IOPS of the volumes": "pass",
        "MiB/s of the volumes": "pass",
    }


def test_what_is_included_in_the_price_is_no_waste_though_the_instance_carries_less() -> None:
    both = [planned_volume("data", size_gib=100), FREE]
    found = look_at_bandwidth(both, "r7g.large", R7G_LARGE, US_EAST_1)
    assert [one.verdict for one in found] == ["pass", "pass"]
    assert "in the volumes' price" in found[0].detail


def test_a_burst_is_said_apart_and_not_planned_with() -> None:
    """16,000 IOPS fit the maximum of 40,000, which lasts half an hour a day."""
    found = look_at_bandwidth([GP3], "r7g.large", R7G_LARGE, US_EAST_1)
    assert found[0].verdict == "warn"
    assert "3,600 always, 40,000 for half an hour a day" in found[0].detail
    # 12,400 IOPS at 0.005 and 375 MiB/s at 0.04.
    assert found[2].numbers["wasted_usd_month"] == pytest.approx(12_400 * 0.005 + 375 * 0.04, abs=0.01)


def test_bandwidth_weighting_is_named_where_the_type_has_it() -> None:
    weighted = replace(R7G_LARGE, baseline_iops=14_000, bandwidth_weightings=("default", "vpc-1", "ebs-1"))
    found = look_at_bandwidth([GP3], "r8g.large", weighted, US_EAST_1)
    assert "ebs-1 carries up to 17,500, which is enough" in found[0].remedy
    assert "ebs-1" not in look_at_bandwidth([GP3], "r7g.large", R7G_LARGE, US_EAST_1)[0].remedy


def test_what_shrinks_stays_a_volume_that_ebs_makes() -> None:
    two = [planned_volume("data", "gp3", 500, 12_000, 1000), planned_volume("log", "io2", 50, 5_000, 1280)]
    for iops in range(500, 20_000, 700):
        for amount in (50.0, 300.0, 900.0, 3000.0):
            for volume in cheaper_equal(two, {"IOPS": iops, "MiB/s": amount}):
                if volume.volume_type == "gp3":
                    assert volume.iops >= max(3_000, 4 * volume.throughput_mib_per_s)
                    assert volume.throughput_mib_per_s >= 125
                else:
                    assert volume.throughput_mib_per_s == min(4_000, int(volume.iops * 0.256))


def test_an_instance_that_nobody_knows_is_unknown() -> None:
    assert verdicts([GP3], Unknown("EC2 was not asked")) == {"bandwidth": "unknown"}
    assert set(verdicts([GP3], InstancePromise()).values()) == {"unknown"}


@pytest.mark.parametrize(
    ("kept", "verdict"),
    [(Known(7200), "pass"), (Known(4400), "warn"), (Known(3000), "refuse"), (Known(0), "pass"),
     (Unknown("?"), "unknown")],
)  # fmt: skip
def test_binary_logs_cover_the_whole_lead_time(kept: Known | Unknown, verdict: str) -> None:
    found = binary_logs(3600.0, kept)
    assert found.verdict == verdict
    if verdict == "refuse":
        assert "binlog_expire_logs_seconds of the source to 4501" in found.remedy


@pytest.mark.parametrize(("pool_gib", "verdict"), [(8, "pass"), (13.5, "warn"), (15.9, "refuse")])
def test_the_buffer_pool_fits_the_memory(pool_gib: float, verdict: str) -> None:
    assert buffer_pool(Known(pool_gib * 1024**3), Known(16 * 1024), "r7g.large").verdict == verdict


def test_what_is_not_known_of_the_memory_is_no_pass() -> None:
    assert buffer_pool(Unknown("no run yet"), Known(1), "r7g.large").verdict == "unknown"
    assert buffer_pool(Known(1), Unknown("EC2"), "r7g.large").verdict == "unknown"


def test_rates_above_the_quota_of_the_region_are_told_with_the_remedy() -> None:
    found = initialization_rate(5_100, DEFAULT_REGION_RATE, 300)
    assert (found.verdict, found.numbers["wanted_mib_per_s"]) == ("warn", 5_100)
    assert "are made at the default rate" in found.detail
    assert "L-A37D9CF3" in found.remedy


def test_one_zone_has_no_second_try() -> None:
    assert zones_in_order(["us-east-1a"], {}).verdict == "warn"
    found = zones_in_order(["us-east-1b", "us-east-1a"], {"us-east-1a": 2})
    assert (found.verdict, found.detail) == (
        "pass",
        "us-east-1b (replicas: 0), then us-east-1a (replicas: 2)",
    )
