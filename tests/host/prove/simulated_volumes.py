"""Volumes whose latencies are made up: what is cold is known, how coldness and noise show is chosen."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.prove import storage_proof
from peaker_host.prove.storage_proof import Sample, Warmth, judge_sample, sample_warmth

Noise = Callable[[random.Random], float]


def quiet(generator: random.Random) -> float:
    return generator.gauss(0.83, 0.03)


def busy(generator: random.Random) -> float:
    """A machine that is short of processors: 15 % of the reads wait 2 to 8 ms for one."""
    return quiet(generator) + (generator.uniform(0, 8) if generator.random() < 0.15 else 0.0)


def spiky(generator: random.Random) -> float:
    return quiet(generator) + (generator.uniform(20, 200) if generator.random() < 0.003 else 0.0)


class Starved:
    """Bursts in which half of the reads wait up to 40 ms, a fifth of the time."""

    def __init__(self) -> None:
        self.in_burst = False

    def __call__(self, generator: random.Random) -> float:
        if generator.random() < (1 / 40 if self.in_burst else 1 / 160):
            self.in_burst = not self.in_burst
        wait = generator.uniform(0, 40) if self.in_burst and generator.random() < 0.5 else 0.0
        return quiet(generator) + wait


class Stalling:
    """Stalls of several reads in a row, so that a block's first and second read are hit alike."""

    def __init__(self) -> None:
        self.left = 0

    def __call__(self, generator: random.Random) -> float:
        if self.left == 0 and generator.random() < 1 / 400:
            self.left = generator.randrange(2, 8)
        self.left = max(0, self.left - 1)
        return quiet(generator) + (generator.uniform(10, 120) if self.left else 0.0)


MACHINES: dict[str, Callable[[], Noise]] = {
    "quiet": lambda: quiet,
    "busy": lambda: busy,
    "spiky": lambda: spiky,
    "starved": Starved,
    "stalling": Stalling,
}


@dataclass
class SimulatedVolume:
    """A volume of `blocks` blocks.

    A cold block's first read waits `fetch_ms` (median). `slow_reads` says how many reads of its pages wait, `lingers`
    how many reads of any block after it.
    """

    blocks: int
    cold: set[int]
    noise: Noise
    generator: random.Random
    fetch_ms: float = 30.0
    slow_reads: int = 1
    lingers: int = 0
    _left: dict[int, int] = field(default_factory=dict)
    _lingering: int = 0

    def read_latencies_ms(self, _path: str, offsets: Sequence[int]) -> list[float]:
        """In place of storage_proof.read_latencies_ms."""
        return [self._read(offset // BLOCK_BYTES) for offset in offsets]

    def _read(self, block: int) -> float:
        latency = self.noise(self.generator)
        left = self._left.setdefault(block, self.slow_reads if block in self.cold else 0)
        if left:
            self._left[block] -= 1
            self._lingering = self.lingers
            return latency + self.generator.lognormvariate(0, 0.35) * self.fetch_ms
        if self._lingering:
            self._lingering -= 1
            return latency + self.generator.uniform(0.3, 1) * self.fetch_ms
        return latency


def prove_simulated(monkeypatch: pytest.MonkeyPatch, volume: SimulatedVolume) -> Warmth:
    """The proof over the whole of a simulated volume."""
    monkeypatch.setattr(storage_proof, "read_latencies_ms", volume.read_latencies_ms)
    used = [(0, volume.blocks)]
    size = volume.blocks * BLOCK_BYTES
    return sample_warmth("", size, used, 256, 1.5, volume.generator, lambda _: None)


def judge(first: Sequence[float], second: Sequence[float], blocks_used: int, ratio_limit: float) -> Warmth:
    """The verdict from paired latencies (ms) of a sample of `blocks_used` blocks, without controls."""
    return judge_sample(
        Sample(list(first), list(second), [None] * len(first), list(range(len(first)))),
        blocks_used,
        ratio_limit,
    )
