"""How often the proof is wrong: 100 volumes with 2 % or more of their live blocks cold; `make bench-aws` has others."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from simulated_volumes import MACHINES, SimulatedVolume, prove_simulated

KINDS = {
    "second reads fast": {},
    "second reads slow too": {"slow_reads": 2},
    "three reads slow, and what follows": {"slow_reads": 3, "lingers": 4},
    "fetches of 20 ms": {"fetch_ms": 20.0, "slow_reads": 2},
}
SIZES = (328, 1810, 3000, 6000)


def verdict(monkeypatch: pytest.MonkeyPatch, kind: str, seed: int, cold_share: float) -> str:
    generator = random.Random(seed)
    machine = sorted(MACHINES)[seed % len(MACHINES)]
    blocks = SIZES[seed % len(SIZES)]
    cold = set(generator.sample(range(blocks), math.ceil(blocks * cold_share)))
    volume = SimulatedVolume(blocks, cold, MACHINES[machine](), generator, **KINDS[kind])  # type: ignore[arg-type]
    return prove_simulated(monkeypatch, volume).verdict


@pytest.mark.parametrize("kind", KINDS)
def test_no_volume_with_two_percent_of_its_live_blocks_cold_is_called_warm(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for seed in range(20):
        share = (0.02, 0.03, 0.05, 0.2)[seed // 5]
        assert verdict(monkeypatch, kind, seed, share) != "warm", (seed, share)


def test_truly_warm_volumes_are_called_warm_on_noisy_machines_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first look already; what is left is looked at again, or read in full where it is small."""
    seen = Counter(verdict(monkeypatch, "second reads fast", seed, 0.0) for seed in range(20))
    assert seen["not_warm"] == 0
    assert seen["warm"] >= 17, seen
