"""Timed reads measure single reads around every cache. The cold probe measures a few random blocks that way before
anything warms them: their latency, and how much one read warms.

Of each a page of 16 KiB is read, then three others of the same block. The blocks are noted, so that the storage proof
leaves them out of its sample: a block that was measured cold is warm by that alone.
"""

from __future__ import annotations

import math
import mmap
import os
import random
import time
from dataclasses import asdict, dataclass
from typing import Dict, List, Optional, Sequence

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, merged, nth_blocks, total
from peaker_host.machine.errors import UnreadableFile, decoded, understood
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings

PAGE_BYTES = 16384
"""A page of InnoDB, by default."""


def read_latencies_ms(path: str, offsets: Sequence[int]) -> List[float]:
    """Time of one direct read of 16 KiB at each offset, one after the other."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    buffer = mmap.mmap(-1, PAGE_BYTES)
    view = memoryview(buffer)
    latencies = []
    try:
        for offset in offsets:
            started = time.perf_counter_ns()
            os.preadv(descriptor, [view], offset)
            latencies.append((time.perf_counter_ns() - started) / 1e6)
    finally:
        view.release()
        buffer.close()
        os.close(descriptor)
    return latencies


BLOCKS = 5
# The first page and three others, a quarter of the block apart.
_PAGES = 4
# EBS promises nothing of what else a read of a cold block fetches, so that it is measured on each volume: other pages
# come at least this many times as fast as the first, and a fetch takes so much longer than a warm read, as the proof
# assumes. Of either kind the machine's own noise may hit one in five.
_TIMES_FASTER = 4.0
_FETCH_MS = 2.0
_SHARE_HELD_UP = 0.2
_FILE = "cold_probe.json"


@dataclass(frozen=True)
class ColdProbe:
    """Blocks that were read, the mean time of the first read of each in ms, and that of others of the same block.

    `first_ms`: four of five of the first reads took at least so long; `within_ms`: four of five of the others took no
    longer. None where nobody measured it.
    """

    blocks: List[int]
    await_ms: float
    first_ms: Optional[float] = None
    within_ms: Optional[float] = None

    @property
    def brings_blocks(self) -> bool:
        """Tells whether one page's read has warmed its whole block on this volume. False where nothing is cold."""
        if self.first_ms is None or self.within_ms is None:
            return False
        return self.first_ms >= max(self.within_ms * _TIMES_FASTER, self.within_ms + _FETCH_MS)


def probe(
    path: str, size_bytes: int, blocks: Sequence[Range], generator: random.Random
) -> Optional[ColdProbe]:
    """Probes pages of a few random blocks, one after the other; None where there are no blocks."""
    ranges = merged(blocks)
    count = total(ranges)
    if count == 0:
        return None
    positions = generator.sample(range(count), min(BLOCKS, count))
    chosen = nth_blocks(ranges, sorted(positions))
    offsets = [
        min(block * BLOCK_BYTES + page * (BLOCK_BYTES // _PAGES), size_bytes - PAGE_BYTES)
        for block in chosen
        for page in range(_PAGES)
    ]
    latencies = read_latencies_ms(path, offsets)
    first = sorted(latencies[::_PAGES])
    others = sorted(taken for number, taken in enumerate(latencies) if number % _PAGES)
    fast, slow = math.floor(_SHARE_HELD_UP * len(first)), math.floor(_SHARE_HELD_UP * len(others))
    mean = sum(first) / len(first)
    return ColdProbe(chosen, round(mean, 3), round(first[fast], 3), round(others[-1 - slow], 3))


def keep(settings: Settings, run_id: str, probes: Dict[str, ColdProbe]) -> None:
    write_json(settings.run_path(run_id, _FILE), {name: asdict(one) for name, one in probes.items()})


def kept(settings: Settings, run_id: str) -> Dict[str, ColdProbe]:
    """Returns the probes that this run has kept; empty where it never measured."""
    path = settings.run_path(run_id, _FILE)
    with understood(UnreadableFile, path, "delete it: what was measured is then unknown"):
        return {name: decoded(ColdProbe, one) for name, one in (read_json(path) or {}).items()}
