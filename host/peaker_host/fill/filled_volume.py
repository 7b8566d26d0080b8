"""One volume that is being filled: its device, held exclusively, and a snapshot's content on the way to it."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import threading
from typing import List, Optional

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, difference, nth_blocks, total
from peaker_host.fill.fill_journal import FillJournal
from peaker_host.fill.snapshot_source import SnapshotSource
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import DeviceNotEmpty, FillDiffers, SnapshotTooLarge
from peaker_host.warm.journal import is_journal_of

_STRIPES = 64
_BLOCKS_LOOKED_AT = 64
_ENDS_BYTES = 1024 * 1024
_ZEROS = bytes(BLOCK_BYTES)


class FilledVolume:
    """Safe to use from several threads. What the snapshot does not hold is never written: it reads as zeros."""

    def __init__(
        self, device: BlockDevice, volume_id: str, source: SnapshotSource, journal_path: str
    ) -> None:
        """Raises SnapshotTooLarge, and DeviceNotEmpty for a volume that holds something else than this fill wrote."""
        self.device = device
        self.source = source
        if source.tokens.volume_bytes > device.size_bytes:
            raise SnapshotTooLarge(
                f"{source.snapshot_id} is of a volume of {source.tokens.volume_bytes} bytes, {volume_id} has "
                f"{device.size_bytes}"
            )
        blocks = -(-device.size_bytes // BLOCK_BYTES)
        # Exclusively: a device that somebody mounts meanwhile would be corrupted.
        self._descriptor = os.open(device.path, os.O_RDWR | os.O_DIRECT | os.O_EXCL | os.O_CLOEXEC)
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        try:
            # The journal is there before the first write: it says that the volume was looked at, also after a kill.
            if not is_journal_of(journal_path, volume_id, self.journal_name, blocks):
                self._refuse_other_content()
            self.journal = FillJournal(
                journal_path, volume_id, self.journal_name, blocks, os.dup(self._descriptor)
            )
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def journal_name(self) -> str:
        """What the journal is of: one of anything else is not believed."""
        return self.source.snapshot_id

    @property
    def brings(self) -> List[Range]:
        """The blocks that are brought."""
        return self.source.tokens.ranges()

    def bring(self, index: int, buffer: memoryview) -> None:
        """Put a block of the snapshot onto the volume, unless it is there; `buffer`, an aligned block, has its content
        then in any case. Raises what the source raises, and OSError of the device."""
        with self._stripes[index % _STRIPES]:
            if index in self.journal.done:
                self._read(index, buffer)
                return
            self.source.fetch(index, buffer)
            self._write(index, buffer)
            self.journal.append(index, 1)

    def content(self, index: int, buffer: memoryview) -> None:
        """As `bring`, also of blocks that the snapshot does not hold: zeros, of which nothing is written."""
        if self.source.tokens.token(index)[1] is None:
            buffer[:BLOCK_BYTES] = _ZEROS
        else:
            self.bring(index, buffer)

    def compare(self, samples: int, generator: random.Random) -> int:
        """Read random blocks back from the device, and hold them against the snapshot's, fetched again; and others
        against zeros. Returns how many were compared. Raises FillDiffers."""
        drawn_ones = self._drawn(samples, generator)
        differs = self._first_difference(drawn_ones)
        if differs is not None:
            raise FillDiffers(
                f"block {differs} of {self.device.path} is not that of {self.source.snapshot_id}"
            )
        return len(drawn_ones)

    def _drawn(self, samples: int, generator: random.Random) -> List[int]:
        """Which blocks are compared."""
        listed = self.source.tokens.ranges()
        return drawn(listed, samples, generator) + drawn(self._behind(listed), samples // 4, generator)

    def _behind(self, ranges: List[Range]) -> List[Range]:
        """All other blocks of the volume."""
        return difference(blocks_of_bytes([(0, self.device.size_bytes)]), ranges)

    def _first_difference(self, indices: List[int]) -> Optional[int]:
        """Of blocks of the device that are not the snapshot's (zeros where it has none), the first."""
        with _Block() as own, _Block() as wanted:
            for index in indices:
                self._read(index, own)
                self.source.fetch(index, wanted)
                length = self._length(index)
                if own[:length] != wanted[:length]:
                    return index
        return None

    def close(self) -> None:
        """Flush, so that as little as possible is repeated, and give the device free."""
        with contextlib.suppress(OSError):
            self.journal.flush()
        self.journal.close()
        os.close(self._descriptor)

    def _length(self, index: int) -> int:
        return min(BLOCK_BYTES, self.device.size_bytes - index * BLOCK_BYTES)

    def _write(self, index: int, buffer: memoryview) -> None:
        done, length = 0, self._length(index)
        while done < length:
            done += os.pwritev(self._descriptor, [buffer[done:length]], index * BLOCK_BYTES + done)

    def _read(self, index: int, buffer: memoryview) -> None:
        done, length = 0, self._length(index)
        while done < length:
            got = os.preadv(self._descriptor, [buffer[done:length]], index * BLOCK_BYTES + done)
            if got == 0:
                raise OSError(5, "the device ended before its size")
            done += got

    def _refuse_other_content(self) -> None:
        """Its ends, where filesystems, arrays and partition tables begin, and blocks at random."""
        everything = blocks_of_bytes([(0, self.device.size_bytes)])
        ends = _ENDS_BYTES // BLOCK_BYTES
        places = {
            *range(min(ends, total(everything))),
            *range(max(0, total(everything) - ends), total(everything)),
        }
        places |= set(drawn(everything, _BLOCKS_LOOKED_AT, random.SystemRandom()))
        with _Block() as buffer:
            for index in sorted(places):
                self._read(index, buffer)
                if buffer[: self._length(index)] != _ZEROS[: self._length(index)]:
                    raise DeviceNotEmpty(
                        f"{self.device.path} has data in block {index}: only empty volumes are filled"
                    )


def drawn(ranges: List[Range], count: int, generator: random.Random) -> List[int]:
    """Random blocks of the ranges, ascending, each once; all where there are not more."""
    size = total(ranges)
    return nth_blocks(ranges, sorted(generator.sample(range(size), min(count, size))))


class _Block:
    """A block's buffer, aligned for direct reads and writes."""

    def __init__(self) -> None:
        self._buffer: Optional[mmap.mmap] = None

    def __enter__(self) -> memoryview:
        self._buffer = mmap.mmap(-1, BLOCK_BYTES)
        self._view = memoryview(self._buffer)
        return self._view

    def __exit__(self, *_: object) -> None:
        self._view.release()
        if self._buffer is not None:
            self._buffer.close()
