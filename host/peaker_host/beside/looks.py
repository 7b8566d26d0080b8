"""Looks measure a database's latency on a volume that is being read: single reads of warm pages, and foreign I/O."""

from __future__ import annotations

import random
import statistics
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence

from peaker_host.beside.room import WINDOW_SECONDS, Look
from peaker_host.blocks.ranges import BLOCK_BYTES, Range, nth_blocks, total
from peaker_host.blocks.timed_reads import PAGE_BYTES, read_latencies_ms
from peaker_host.machine.devices import BlockDevice, disk_counters
from peaker_host.machine.errors import WrongDevice

_BLOCKS = 64
_ALONE_READS = 16
_PAUSE_SECONDS = 0.05


class VolumeLooks:
    """Looks at one volume. `delivered`: bytes that the engine has got from it, to the read."""

    def __init__(
        self,
        device: BlockDevice,
        is_at_work: Callable[[], bool],
        delivered: Callable[[], int],
        dice: random.Random,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._is_at_work = is_at_work
        self._delivered = delivered
        self._dice = dice
        self._now = now
        self._warm_blocks: List[int] = []

    def alone_ms(self, warm: Sequence[Range]) -> Optional[float]:
        """Measures a warm page's read time without the engine; None where no block is warm yet, or none can
        be read.

        The lower quartile: a busy host makes reads longer, never shorter. Later looks read pages of the same blocks,
        some of `warm`. Call it while the engine reads nothing.
        """
        positions = self._dice.sample(range(total(warm)), min(_BLOCKS, total(warm)))
        last = self._device.size_bytes // BLOCK_BYTES
        self._warm_blocks = [block for block in nth_blocks(list(warm), sorted(positions)) if block < last]
        found = [one for one in (self._page_ms() for _ in range(_ALONE_READS)) if one is not None]
        return sorted(found)[len(found) // 4] if found else None

    def look(self, stop: threading.Event) -> Look:
        """The next window, or what of it passed until `stop`."""
        began, before, own = self._now(), self._counters(), self._delivered()
        at_work, latencies = self._is_at_work(), []
        while self._now() - began < WINDOW_SECONDS and not stop.wait(_PAUSE_SECONDS):
            if at_work:
                latencies.append(self._page_ms())
        after, got = self._counters(), self._delivered() - own
        seconds = max(self._now() - began, _PAUSE_SECONDS)
        others: Optional[float] = None
        writes: Optional[float] = None
        if before is not None and after is not None:
            read = after["read_bytes"] - before["read_bytes"] - got - PAGE_BYTES * len(latencies)
            others, writes = read / seconds, (after["writes"] - before["writes"]) / seconds
        return Look(at_work, got / seconds, _median(latencies), others, writes)

    def _page_ms(self) -> Optional[float]:
        if not self._warm_blocks:
            return None
        block = self._dice.choice(self._warm_blocks)
        page = self._dice.randrange(BLOCK_BYTES // PAGE_BYTES)
        try:
            return read_latencies_ms(self._device.path, [block * BLOCK_BYTES + page * PAGE_BYTES])[0]
        except OSError:
            return None

    def _counters(self) -> Optional[Dict[str, int]]:
        try:
            return disk_counters(self._device.kernel_name)
        except (OSError, WrongDevice):
            return None


def _median(latencies: Sequence[Optional[float]]) -> Optional[float]:
    known = [one for one in latencies if one is not None]
    return statistics.median(known) if known else None
