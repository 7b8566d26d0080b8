"""One volume while it is filled: as many blocks under way at once as the rate of the direct APIs rewards."""

from __future__ import annotations

from typing import Any, Dict, Optional

from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.fill.filled_volume import FilledVolume
from peaker_host.fill.plan import PlannedFill
from peaker_host.machine.errors import HostError, Interrupted
from peaker_host.warm.reader_pool import PoolProgress, RateLimiter, ReaderPool, Request
from peaker_host.warm.volume_work import VolumeWork


class FillingPool(ReaderPool):
    """Each reader brings blocks of the snapshot instead of reading the device's."""

    filled: FilledVolume

    def _read(self, view: memoryview, request: Request) -> None:
        tier, first, count = request
        for block in range(first, first + count):
            if self._stop.is_set():
                return
            try:
                self.filled.bring(block, view[:BLOCK_BYTES])
            except Interrupted:
                return
            except HostError as error:
                # Its frames would hold the reader's buffer for as long as the error is kept.
                error.__cause__ = error.__context__ = None
                raise error.with_traceback(None) from None
            self._finish(tier, block, 1, BLOCK_BYTES)

    def _finish(self, tier: int, first: int, count: int, length: int) -> None:
        """The journal knows already: `bring` has told it."""
        with self._lock:
            self.progress.bytes_read += length
            self.progress.blocks_read += count
            self.progress.tier_blocks[tier] += count


class VolumeFill(VolumeWork):
    """All tiers are of the same urgency to the run: nothing is mounted before the last one is there."""

    planned: PlannedFill
    is_finished = False

    def left(self, urgent_only: bool) -> int:
        """One at least until all was flushed and compared: no database may start on a volume that is not whole."""
        left = super().left(urgent_only)
        return left if self.is_finished else max(1, left)

    @property
    def filled(self) -> FilledVolume:
        """The way of a block onto the volume."""
        assert self.planned.filled is not None
        return self.planned.filled

    def progress(self) -> Dict[str, Any]:
        """As of a volume that is warmed, and what was asked of the direct APIs."""
        source = self.filled.source
        return {
            **super().progress(),
            "snapshot_id": source.snapshot_id,
            "requests": source.requests,
            "requests_again": source.again,
        }

    def _pool(
        self, limiter: RateLimiter, depth: Optional[int], progress: Optional[PoolProgress] = None
    ) -> ReaderPool:
        pool = FillingPool(
            self.planned.device.path,
            self.planned.device.size_bytes,
            len(self.planned.tiers),
            limiter,
            self.planned.journal.append,
            self._stop,
            depth,
            progress,
        )
        pool.filled = self.filled
        return pool
