"""The verdict: on simulated latencies of known coldness, and on a real cold volume."""

from __future__ import annotations

import math
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cold_store import SIZE_BYTES, SNAPSHOT, SOURCE, filling, restored
from host_bench import MIB, Host
from peaker_host.blocks import timed_reads
from peaker_host.prove.storage_proof import (
    COLD_SHARE_LIMIT,
    Warmth,
    quantile,
    share_lower,
    share_upper,
    slow_limit_ms,
    trimmed_mean,
)
from simulated_volumes import MACHINES, SimulatedVolume, judge, prove_simulated

from localcloud.blockstore import ColdBlockStore
from localcloud.dataplane import VolumeLimits


def prove(
    monkeypatch: pytest.MonkeyPatch, blocks: int, cold_share: float, machine: str, seed: int, **volume: Any
) -> Warmth:
    """The proof on a volume whose latencies are made up; cold reads wait a lognormal fetch of 30 ms median."""
    generator = random.Random(seed)
    cold = set(generator.sample(range(blocks), round(blocks * cold_share)))
    made = SimulatedVolume(blocks, cold, MACHINES[machine](), generator, **volume)
    return prove_simulated(monkeypatch, made)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("blocks", [150, 1810, 20_000])
@pytest.mark.parametrize("cold_share", [0.02, 0.1])
def test_a_volume_with_two_percent_cold_or_more_is_never_called_warm(
    monkeypatch: pytest.MonkeyPatch, machine: str, blocks: int, cold_share: float
) -> None:
    for seed in range(3):
        proof = prove(monkeypatch, blocks, cold_share, machine, seed)
        assert proof.verdict != "warm", proof


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("blocks", [150, 1810, 20_000])
def test_a_warm_volume_is_called_warm(monkeypatch: pytest.MonkeyPatch, machine: str, blocks: int) -> None:
    verdicts = [prove(monkeypatch, blocks, 0.0, machine, seed).verdict for seed in range(6)]
    assert "not_warm" not in verdicts
    if blocks >= 1810:  # fewer are read in full where noise hides them
        assert verdicts.count("warm") >= (4 if machine == "starved" else 5), verdicts


@pytest.mark.parametrize("machine", ["quiet", "spiky"])
@pytest.mark.parametrize("cold_share", [0.1, 1.0])
def test_a_cold_volume_is_called_not_warm_with_bounds_around_the_truth(
    monkeypatch: pytest.MonkeyPatch, machine: str, cold_share: float
) -> None:
    for seed in range(3):
        proof = prove(monkeypatch, 50_000, cold_share, machine, seed)
        assert proof.verdict == "not_warm"
        assert proof.cold_share_lower is not None
        assert proof.cold_share_upper is not None
        assert proof.cold_share_lower <= cold_share <= proof.cold_share_upper + 0.005


def test_one_slow_first_read_does_not_condemn_a_volume() -> None:
    verdict = judge([0.8] * 410 + [40.0], [0.8] * 411, 1_000_000, 1.5)
    assert verdict.verdict == "unknown"


def test_the_first_sample_is_large_enough_for_a_certain_warm() -> None:
    assert judge([0.8] * 446, [0.8] * 446, 1_000_000, 1.5).verdict == "warm"
    assert judge([0.8] * 380, [0.8] * 380, 1_000_000, 1.5).verdict == "unknown"


def test_when_every_block_was_read_the_share_is_counted() -> None:
    at_limit = judge([0.8] * 98 + [30.0] * 2, [0.8] * 100, 100, 1.5)
    below = judge([0.8] * 99 + [30.0], [0.8] * 100, 100, 1.5)
    assert (at_limit.cold_share_upper, at_limit.verdict == "warm") == (COLD_SHARE_LIMIT, False)
    assert (below.cold_share_upper, below.verdict) == (0.01, "warm")


def test_slower_first_reads_without_slow_ones_are_not_called_warm() -> None:
    assert judge([1.5] * 411, [0.8] * 411, 1_000_000, 1.5).verdict == "unknown"


def test_nothing_sampled_is_unknown() -> None:
    assert judge([], [], 0, 1.5).verdict == "unknown"


@pytest.mark.parametrize("machine", ["quiet", "stalling"])
@pytest.mark.parametrize("cold_share", [0.02, 0.05])
@pytest.mark.parametrize("reads", [{"slow_reads": 2}, {"slow_reads": 3, "lingers": 4}, {"fetch_ms": 20.0}])
def test_cold_blocks_whose_second_read_is_slow_too_are_still_seen(
    monkeypatch: pytest.MonkeyPatch, machine: str, cold_share: float, reads: dict[str, Any]
) -> None:
    for seed in range(3):
        proof = prove(monkeypatch, 1810, cold_share, machine, seed, **reads)
        assert proof.verdict != "warm", proof


def test_a_slow_second_read_excuses_no_slow_first_read() -> None:
    slow = [0.8] * 19 + [30.0]
    assert judge(slow * 60, slow * 60, 50_000, 1.5).verdict != "warm"


def test_first_reads_right_after_a_slow_read_of_another_block_are_left_out() -> None:
    second = [0.8] * 50 + [40.0] + [0.8] * 949
    near = judge([0.8] * 51 + [40.0] * 2 + [0.8] * 947, second, 1_000_000, 1.5)
    far = judge([0.8] * 20 + [40.0] * 2 + [0.8] * 978, second, 1_000_000, 1.5)
    assert (near.blocks_calm, near.slow_first) == (996, 2)
    assert near.cold_share_upper is not None
    assert far.cold_share_upper is not None
    assert near.cold_share_upper < far.cold_share_upper


def test_the_margin_follows_the_noise_of_the_second_reads_alone() -> None:
    assert slow_limit_ms([1.0] * 400) == 3.0
    assert slow_limit_ms([1.0] * 380 + [4.0] * 20) == 5.0
    assert slow_limit_ms([1.0] * 300 + [20.0] * 100) == 9.0
    assert slow_limit_ms([10.0] * 400) == 15.0


@pytest.mark.real
def test_a_restored_volume_is_not_warm_until_prewarmed_and_warm_after(
    host: Host, store: ColdBlockStore, tmp_path: Path
) -> None:
    with filling(store, tmp_path / "m") as point:
        (point / "t.ibd").write_bytes(bytes(240 * MIB))
        (point / "gone.ibd").write_bytes(bytes(120 * MIB))
        subprocess.run(["sync", "-f", str(point)], check=True)
        (point / "gone.ibd").unlink()
    store.create_snapshots({SOURCE: SNAPSHOT})
    volume_id, untouched = "vol-0000000000000c02d", "vol-0000000000000c03d"
    limits = VolumeLimits(fetch_latency_ms=12.0)
    store.create_volume(untouched, SIZE_BYTES, limits, SNAPSHOT)
    try:
        restored(host, store, volume_id, limits=limits)
        cold = host.prove("--load-seconds", "0", "--sample-blocks", "60")
        assert cold["verdict"] == "not_warm", cold
        assert cold["ratio"] > 5
        stat = store.stat(volume_id)
        listed = [(block, 1) for block in store.snapshot_blocks(SNAPSHOT)]
        fresh = timed_reads.probe(store.attach(untouched).path, SIZE_BYTES, listed, random.Random(1))
        assert fresh is not None
        assert fresh.await_ms > 8
        assert set(fresh.blocks) <= {block for block, _ in listed}
        warmed = host.call("prewarm")
        assert 0 < warmed["rate_mib_per_s"] <= 1.05 * 125
        before = store.stat(volume_id).blocks_cold
        warm = host.prove("--load-seconds", "1", "--knee-seconds", "2")
        assert warm["verdict"] == "warm", warm
        check_load(warm)
        after = store.stat(volume_id)
        assert after.blocks_cold == before, "load and knee stay within what was proven"
        assert warm["await_cold_ms"] == warmed["volumes"][0]["await_cold_ms"] > 0
        knee = warm["volumes"][0]["knee"]
        assert knee["steps"][0][0] == 1
        assert [one["await_limit_ms"] for one in knee["crossings"]] == [20.0, 50.0]
        assert 0 < after.blocks_cold < stat.blocks_cold, "what was deleted stays cold"
    finally:
        store.detach(volume_id)
        store.detach(untouched)


def check_load(proof: dict[str, Any]) -> None:
    """iostat and fio are witnesses of one load; each begins and ends its look at another moment."""
    load = proof["volumes"][0]["load"]
    assert proof["iostat"]["r_await"] > 0
    assert load["fio"]["iops"] > 0
    assert proof["iostat"]["rareq-sz"] == pytest.approx(16, rel=0.05)
    assert load["nvme"] is None


@pytest.mark.parametrize(("successes", "drawn", "population"), [(0, 300, 383), (2, 50, 200), (5, 411, 5000)])
def test_the_bound_of_a_finite_population_is_the_last_share_that_is_not_ruled_out(
    successes: int, drawn: int, population: int
) -> None:
    def so_few(marked: int) -> float:
        ways = sum(
            math.comb(marked, k) * math.comb(population - marked, drawn - k) for k in range(successes + 1)
        )
        return ways / math.comb(population, drawn)

    marked = round(share_upper(successes, drawn, population, 1e-3) * population)
    assert so_few(marked) > 1e-3 >= so_few(marked + 1)


def test_when_all_is_drawn_the_share_is_known() -> None:
    assert share_upper(7, 100, 100, 1e-3) == 0.07
    assert share_upper(0, 0, 100, 1e-3) == 1.0


def test_the_lower_bound_is_the_upper_one_of_what_was_not_seen() -> None:
    assert share_lower(0, 300, 10**6, 1e-3) == 0.0
    assert share_lower(5, 5, 5, 1e-3) == 1.0
    lower = share_lower(7, 411, 10**6, 0.005)
    six_or_fewer = sum(math.comb(411, k) * lower**k * (1 - lower) ** (411 - k) for k in range(7))
    assert 1 - six_or_fewer == pytest.approx(0.005, rel=0.02), "as of an unlimited population"


def test_quantiles_and_trimmed_means() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([7.0], 0.99) == 7.0
    assert trimmed_mean([1.0] * 19 + [1000.0], 0.05) == 1.0
    assert trimmed_mean([2.0], 0.4) == 2.0
