"""This module chooses the blocks that the storage proof may warm again before it looks once more.

cold: the neighbourhoods of the blocks that were slow at the last look. all: every block that must be warm; when that
was done to the end, all of them are warm, however noisy the machine.
"""

from __future__ import annotations

import threading
from typing import Dict, List

from peaker_host.blocks.ranges import Range, intersection, merged
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import UnreadableFile
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import understood, whole
from peaker_host.warm.reader_pool import RateLimiter, ReaderPool, requests_of

# 64 MiB on each side: what one lost stretch of a prewarm's requests may cover.
NEIGHBOURHOOD_BLOCKS = 128
_READ_SECONDS = 1500.0
_FILE = "slow_blocks.json"


def keep_slow_blocks(settings: Settings, run_id: str, slow: Dict[str, List[int]]) -> None:
    """Note which blocks were slow at a look, by volume id."""
    write_json(settings.run_path(run_id, _FILE), slow)


def blocks_to_read(
    settings: Settings, run_id: str, volume_id: str, remedy: str, live: List[Range]
) -> List[Range]:
    """Returns the live blocks that are read again."""
    if remedy == "all":
        return live
    if remedy == "none":
        return []
    path = settings.run_path(run_id, _FILE)
    with understood(UnreadableFile, path, "run verify_storage with remedy all"):
        slow = [whole(block, "a block") for block in (read_json(path) or {}).get(volume_id, [])]
    around = [
        (max(0, block - NEIGHBOURHOOD_BLOCKS), min(block, NEIGHBOURHOOD_BLOCKS) + NEIGHBOURHOOD_BLOCKS + 1)
        for block in slow
    ]
    return intersection(merged(around), live)


def read_again(device: BlockDevice, blocks: List[Range], seconds: float = _READ_SECONDS) -> bool:
    """Read the blocks whole. False when the time did not do or some could not be read."""
    if not blocks:
        return True
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.daemon = True
    timer.start()
    try:
        pool = ReaderPool(device.path, device.size_bytes, 1, RateLimiter(0), lambda *_: None, stop)
        pool.run(requests_of([blocks], lambda _: False, pool.blocks_per_read))
        return not stop.is_set() and not pool.progress.failed
    finally:
        timer.cancel()
