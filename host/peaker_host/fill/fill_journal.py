"""Which blocks of a volume have been written, durably: a bit is set only after the device was flushed.

A prewarm's journal may be ahead of nothing: what was read stays read. What was written and not flushed may be lost with
the power, so that blocks wait in memory until `sync` has flushed the device, every few seconds. A kill repeats
those; writing a block again changes nothing.
"""

from __future__ import annotations

import os
import time
from typing import List

from peaker_host.blocks.ranges import Range
from peaker_host.warm.journal import BlockSet, Journal

_FLUSH_SECONDS = 5.0


class FillJournal(Journal):
    """`done` holds all that was written, flushed or not. The snapshot's id stands where a prewarm's filesystem does:
    a journal of another snapshot is not believed."""

    def __init__(self, path: str, volume_id: str, snapshot_id: str, blocks: int, descriptor: int) -> None:
        super().__init__(path, volume_id, snapshot_id, blocks)
        self._descriptor = descriptor
        self._flushed, self.done = self.done, BlockSet(blocks)
        self._waiting: List[Range] = []
        self._synced = time.monotonic()
        for first, count in self._flushed.ranges():
            self.done.add(first, count)

    def append(self, first: int, count: int) -> None:
        """Note that a range has been written."""
        with self._lock:
            self.done.add(first, count)
            self._waiting.append((first, count))

    def sync(self) -> None:
        """Flush the device and note what was written before, at most every few seconds."""
        if time.monotonic() - self._synced >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Flush the device and note all that was written before. Raises OSError when the device did not take it."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        os.fsync(self._descriptor)
        for first, count in waiting:
            self._flushed.add(first, count)
        self._synced = time.monotonic()
        super().sync()

    def close(self) -> None:
        """Unmap; what was not flushed counts as not written."""
        super().close()
        os.close(self._descriptor)
