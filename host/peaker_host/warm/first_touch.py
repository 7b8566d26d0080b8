"""A page of each urgent block, before the blocks are read whole.

Where the read of one page brings its whole block (timed_reads.py measures it on the volume), the blocks are warm as
soon as each was touched once: bound by how many fetches the volume has under way, not by its throughput, as reads of
the database itself would be. The whole reads follow and are what the journal notes.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Callable, List, Sequence

from peaker_host.blocks.ranges import BLOCK_BYTES, Range
from peaker_host.blocks.timed_reads import PAGE_BYTES
from peaker_host.warm.progress import MIB
from peaker_host.warm.reader_pool import PoolProgress, RateLimiter, ReaderPool, Request, requests_of

# As many readers as `fio` has in AWS's own command for initialising a volume.
READERS = 32


class FirstTouch:
    """A first touch reads a page of each block of one volume that is not `is_done`. Only `run` changes it."""

    def __init__(
        self,
        path: str,
        size_bytes: int,
        tiers: Sequence[Sequence[Range]],
        is_done: Callable[[int], bool],
        stop: threading.Event,
    ) -> None:
        self._requests = partial(requests_of, tiers, is_done, lambda: 1)
        self._count = sum(1 for _ in self._requests())
        self._failed: List[int] = []
        self._progress = PoolProgress(tier_blocks=[0] * len(tiers))
        self._pool = partial(_TouchPool, path, size_bytes, stop, self._progress, self._failed.append)
        self._began = time.monotonic()

    @property
    def touched(self) -> int:
        return self._progress.blocks_read

    @property
    def left(self) -> int:
        return self._count - self.touched

    @property
    def has_failed(self) -> bool:
        """Tells whether a page could not be read: the whole reads find out what is wrong with its block."""
        return bool(self._failed)

    def rate_mib_per_s(self, now: float) -> float:
        """Returns the touched bytes, as whole blocks, per second since the start."""
        return self.touched * BLOCK_BYTES / MIB / max(now - self._began, 0.001)

    def run(self) -> None:
        """Touch all of them, or return early when stopped. What cannot be read is left to the whole reads."""
        if self._count:
            self._pool().run(self._requests())


class _TouchPool(ReaderPool):
    def __init__(
        self,
        path: str,
        size_bytes: int,
        stop: threading.Event,
        progress: PoolProgress,
        failed: Callable[[int], None],
    ) -> None:
        tiers = len(progress.tier_blocks)
        super().__init__(path, size_bytes, tiers, RateLimiter(None), lambda *_: None, stop, READERS, progress)
        self._failed = failed

    def _read(self, view: memoryview, request: Request) -> None:
        tier, block, count = request
        offset = block * BLOCK_BYTES
        length = min(PAGE_BYTES, self._size - offset)
        try:
            self._read_fully(view, offset, length)
        except OSError:
            self._failed(block)
        else:
            self._finish(tier, block, count, length)
