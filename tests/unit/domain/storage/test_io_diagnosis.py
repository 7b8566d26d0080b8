"""Recorded outputs of iostat, each judged as those who recorded them did; and the rules at their borders."""

from __future__ import annotations

from dataclasses import replace

import pytest
from iostat_fixtures import FOLDER, diagnosed, report
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.storage.io_diagnosis import against_plan, diagnose
from peaker.domain.storage.io_findings import (
    ANY_DEVICE,
    CpuShares,
    DeviceLoad,
    ExceededTime,
    Finding,
    IostatReport,
    Limits,
    Verdict,
    VolumePromise,
)
from peaker.domain.storage.iostat_text import read_iostat

PIOPS_1000 = Limits({ANY_DEVICE: VolumePromise(iops=1000)})


def load(
    rate: float, queue: float, await_ms: float | None, kib: float = 16.0, device: str = "sdf"
) -> DeviceLoad:
    return DeviceLoad(device, rate, rate * kib, queue, await_ms, kib, reads_per_s=rate, writes_per_s=0.0)


def judged(*loads: DeviceLoad, limits: Limits | None = None, cpu: CpuShares | None = None) -> list[Finding]:
    """The first finding of the first device in each report."""
    reports = [IostatReport(number, (one,), cpu) for number, one in enumerate(loads, 1)]
    return [one.findings[0] for one in diagnose(reports, limits)[0].reports]


# --- recordings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threads", "rate", "wait"), [(10, 120.5, 87.47), (5, 127.5, 39.78)])
def test_a_standard_volume_is_out_of_iops_whoever_waits(threads: int, rate: float, wait: float) -> None:
    found = diagnosed(f"ebs-standard-{threads}-threads", "xvdm").reports[0]
    evidence = found.findings[0].evidence
    assert found.verdict is Verdict.IOPS_LIMITED
    assert (evidence["requests/s"], evidence["await ms"]) == (rate, wait)


def test_twice_the_threads_at_the_same_rate_is_said_to_be_the_limit() -> None:
    text = "".join((FOLDER / f"ebs-standard-{n}-threads.txt").read_text() for n in (5, 10))
    (found,) = diagnose(read_iostat(text).reports)
    assert (
        "no longer grows: 128/s with 5.1 outstanding, 120/s with 10.5" in found.reports[1].findings[0].reason
    )


def test_a_1000_iops_volume_with_one_thread_does_its_promise_and_nothing_waits() -> None:
    assert diagnosed("ebs-piops-1000-1-thread", "xvdk").headline is Verdict.APPLICATION_LIMITED
    found = diagnosed("ebs-piops-1000-1-thread", "xvdk", PIOPS_1000).reports[0]
    assert found.verdicts == {Verdict.IOPS_LIMITED}
    assert "108%" in found.findings[0].reason


def test_a_volume_with_small_reads_at_15_ms_is_at_its_edge() -> None:
    found = diagnosed("ebs-mixed-one-line", "sdg").reports[0]
    assert found.verdict is Verdict.IOPS_LIMITED
    assert "at its edge" in found.findings[0].reason
    assert diagnosed("ebs-mixed-one-line", "sda1").headline is Verdict.IDLE


def test_write_back_that_stalls_is_no_idleness() -> None:
    found = diagnosed("local-disk-all-tests-5s", "sda1")
    stalled = [one for one in found.reports if not one.load.requests_per_s and one.load.queue >= 1]
    assert len(stalled) == 7
    assert all(one.verdict is Verdict.SHARED_STORAGE_CONTENTION for one in stalled)
    assert "none completed" in stalled[0].findings[0].reason


def test_random_writes_of_64_threads_that_take_seconds_are_the_storage_s_doing() -> None:
    found = diagnosed("local-disk-all-tests-5s", "sda1")
    phase = next(one for one in found.phases if one.first_report == 117)
    assert (phase.last_report, phase.verdict) == (143, Verdict.SHARED_STORAGE_CONTENTION)
    assert phase.evidence["await ms, longest"] == 21505.82


def test_random_reads_of_64_threads_are_out_of_iops_with_a_queue() -> None:
    found = report(diagnosed("local-disk-all-tests-5s", "sda1"), 110)
    assert [finding.verdict for finding in found.findings] == [Verdict.IOPS_LIMITED, Verdict.QUEUEING]


def test_one_thread_that_reads_at_7_ms_is_limited_by_its_own_waiting() -> None:
    found = report(diagnosed("local-disk-all-tests-5s", "sda1"), 96)
    assert (found.verdict, found.load.util_percent) == (Verdict.APPLICATION_LIMITED, 99.52)
    assert "one request at a time" in found.findings[0].reason


# --- rules -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kib", "verdict"),
    [
        (16, Verdict.IOPS_LIMITED),
        (24.9, Verdict.IOPS_LIMITED),
        (42, Verdict.IOPS_LIMITED),
        (43, Verdict.BANDWIDTH_LIMITED),
        (128, Verdict.BANDWIDTH_LIMITED),
    ],
)
def test_what_a_saturated_volume_runs_out_of_follows_from_the_request_size(
    kib: float, verdict: Verdict
) -> None:
    assert judged(load(500, 12, 24, kib))[0].verdict is verdict


def test_half_the_promise_while_requests_wait_is_contention() -> None:
    limits = Limits({ANY_DEVICE: VolumePromise(iops=3000)})
    assert judged(load(1400, 40, 28), limits=limits)[0].verdict is Verdict.SHARED_STORAGE_CONTENTION
    assert judged(load(1600, 40, 25), limits=limits)[0].verdict is Verdict.QUEUEING


def test_service_above_100_ms_is_contention_where_the_input_has_it() -> None:
    slow = load(300, 35, 117)
    assert judged(slow)[0].verdict is Verdict.QUEUEING
    assert judged(replace(slow, svctm_ms=110.0))[0].verdict is Verdict.SHARED_STORAGE_CONTENTION
    assert "svctm ms" not in judged(slow)[0].evidence


def test_a_rate_that_swings_threefold_at_a_full_queue_is_contention() -> None:
    rates = (900, 250, 880, 260, 870)
    assert {one.verdict for one in judged(*(load(r, 40, 40_000 / r) for r in rates))} == {
        Verdict.SHARED_STORAGE_CONTENTION
    }
    steady = judged(*(load(r, 20, 20_000 / r) for r in (600, 500, 580, 450, 570)))
    assert Verdict.SHARED_STORAGE_CONTENTION not in {one.verdict for one in steady}


def test_the_instance_is_the_limit_when_its_volumes_together_reach_the_baseline() -> None:
    instance = InstancePromise(baseline_iops=6000, baseline_mib_per_s=600)
    limits = Limits({ANY_DEVICE: VolumePromise(iops=4000)}, instance)
    both = (load(3000, 60, 20, device="nvme1n1"), load(3000, 60, 20, device="nvme2n1"))
    found = diagnose([IostatReport(1, both)], limits)
    assert [one.headline for one in found] == [Verdict.INSTANCE_LIMITED] * 2
    assert found[0].reports[0].findings[0].evidence["instance_share"] == 1.0


def test_a_volume_at_its_own_limit_is_not_put_down_to_the_instance() -> None:
    limits = Limits({ANY_DEVICE: VolumePromise(iops=3000)}, InstancePromise(baseline_iops=3200))
    assert judged(load(3000, 60, 20), limits=limits)[0].verdict is Verdict.IOPS_LIMITED


def test_an_array_and_a_partition_are_not_counted_beside_their_devices() -> None:
    limits = Limits({}, InstancePromise(baseline_iops=6000))
    devices = tuple(load(2500, 10, 4, device=name) for name in ("nvme1n1", "nvme1n1p1", "md0", "dm-0"))
    assert diagnose([IostatReport(1, devices)], limits)[0].headline is Verdict.APPLICATION_LIMITED


@pytest.mark.parametrize(
    ("exceeded", "verdict"),
    [
        (ExceededTime(60, volume_iops=30), Verdict.IOPS_LIMITED),
        (ExceededTime(60, volume_throughput=30, volume_iops=5), Verdict.BANDWIDTH_LIMITED),
        (ExceededTime(60, instance_throughput=30), Verdict.INSTANCE_LIMITED),
        (ExceededTime(60, instance_iops=1), Verdict.QUEUEING),
    ],
)
def test_the_volume_s_own_statistics_tell_volume_from_instance(
    exceeded: ExceededTime, verdict: Verdict
) -> None:
    limits = Limits(exceeded={"sdf": exceeded})
    assert judged(load(3000, 75, 25), limits=limits)[0].verdict is verdict


def test_without_waiting_times_the_verdict_is_unknown_not_good() -> None:
    assert judged(load(500, 10, None))[0].verdict is Verdict.UNKNOWN


def test_delivered_against_the_lesser_of_volumes_and_instance() -> None:
    volumes = [VolumePromise(3000, 125)] * 2
    iops, amount = against_plan(
        5900, 130, volumes, InstancePromise(baseline_iops=12_000, baseline_mib_per_s=594)
    )
    assert (iops.promised, iops.promised_by, iops.verdict) == (6000, "volumes", "delivered")
    assert (amount.promised, amount.verdict) == (250, "below")


def test_more_than_the_instance_s_baseline_is_a_burst() -> None:
    iops, _ = against_plan(11_000, 0, [VolumePromise(16_000, 500)], InstancePromise(baseline_iops=6000))
    assert (iops.verdict, iops.promised_by) == ("burst", "instance baseline")


def test_without_a_promise_nothing_is_claimed() -> None:
    iops, amount = against_plan(100, 10, [VolumePromise(iops=None), VolumePromise(3000)], InstancePromise())
    assert (iops.verdict, iops.share, amount.verdict) == ("unknown", None, "unknown")
