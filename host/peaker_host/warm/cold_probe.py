"""How slow the volume is before anything warms it: a few random blocks, read once by 16 KiB each.

They are noted, so that the storage proof leaves them out of its sample: a block that was measured cold is
warm by that alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, merged, nth_blocks, total
from peaker_host.blocks.timed_reads import PAGE_BYTES, read_latencies_ms
from peaker_host.machine.errors import UnreadableFile
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import understood, whole

BLOCKS = 5
_FILE = "cold_probe.json"


@dataclass(frozen=True)
class ColdProbe:
    """Blocks that were read, and the mean time of a read in ms."""

    blocks: List[int]
    await_ms: float


def probe(
    path: str, size_bytes: int, blocks: Sequence[Range], generator: random.Random
) -> Optional[ColdProbe]:
    """Read a page of each of a few random blocks, one after the other; None where there are no blocks."""
    ranges = merged(blocks)
    count = total(ranges)
    if count == 0:
        return None
    positions = generator.sample(range(count), min(BLOCKS, count))
    chosen = nth_blocks(ranges, sorted(positions))
    offsets = [min(block * BLOCK_BYTES, size_bytes - PAGE_BYTES) for block in chosen]
    latencies = read_latencies_ms(path, offsets)
    return ColdProbe(chosen, round(sum(latencies) / len(latencies), 3))


def keep(settings: Settings, run_id: str, probes: Dict[str, ColdProbe]) -> None:
    """Store what was measured, by volume id."""
    content = {name: {"blocks": one.blocks, "await_ms": one.await_ms} for name, one in probes.items()}
    write_json(settings.run_path(run_id, _FILE), content)


def kept(settings: Settings, run_id: str) -> Dict[str, ColdProbe]:
    """What this run measured; empty where it never did."""
    path = settings.run_path(run_id, _FILE)
    with understood(UnreadableFile, path, "delete it: what was measured is then unknown"):
        content = read_json(path) or {}
        return {
            name: ColdProbe([whole(block, "a block") for block in one["blocks"]], float(one["await_ms"]))
            for name, one in content.items()
        }
