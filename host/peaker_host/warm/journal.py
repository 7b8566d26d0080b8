"""The journal records the blocks of one volume that were read: a bitmap in a file that is mapped into memory.

Setting a bit costs no system call and survives SIGKILL, because the page cache holds it; `sync` bounds what a
power loss costs. A bit is set only after its block was read, so that any mixture of old and new pages after a
power loss still tells the truth. The first page names the volume: another volume's file is replaced (atomic
rename), never believed. Hydration is a fact of the volume, so the journal outlives the run.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import threading
from typing import List, Tuple

from peaker_host.blocks.ranges import Range, total
from peaker_host.machine.errors import StateDirectoryFull

_HEADER_BYTES = 4096
_VERSION = 2


class BlockSet:
    """A set of block numbers below a fixed limit, one bit each, in a mapped file."""

    def __init__(self, blocks: int, bits: mmap.mmap, offset: int) -> None:
        self._bits, self._offset, self._blocks = bits, offset, blocks
        self.count = total(self.ranges())

    def add(self, first: int, count: int) -> None:
        """Put a range in; numbers already in or beyond the limit change nothing."""
        bits = self._bits
        for block in range(first, min(first + count, self._blocks)):
            index, mask = self._offset + (block >> 3), 1 << (block & 7)
            if not bits[index] & mask:
                bits[index] |= mask
                self.count += 1

    def __contains__(self, block: int) -> bool:
        return bool(self._bits[self._offset + (block >> 3)] & (1 << (block & 7)))

    def ranges(self) -> List[Range]:
        """Ascending ranges of what is in."""
        result: List[Range] = []
        for index in range((self._blocks + 7) // 8):
            byte = self._bits[self._offset + index]
            if byte == 0:
                continue
            for bit in range(8):
                block = index * 8 + bit
                if not byte & (1 << bit) or block >= self._blocks:
                    continue
                if result and sum(result[-1]) == block:
                    result[-1] = (result[-1][0], result[-1][1] + 1)
                else:
                    result.append((block, 1))
        return result


class Journal:
    """The file of one volume. `done` holds what earlier runs read."""

    def __init__(self, path: str, volume_id: str, uuid: str, blocks: int) -> None:
        self._header, self._size = _form(volume_id, uuid, blocks)
        if not is_journal_of(path, volume_id, uuid, blocks):
            self._create(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _reserve(descriptor, path, self._size)
            self._map = mmap.mmap(descriptor, self._size)
        finally:
            os.close(descriptor)
        self._lock = threading.Lock()
        self.done = BlockSet(blocks, self._map, _HEADER_BYTES)

    def append(self, first: int, count: int) -> None:
        """Note that a range has been read. Safe from several threads."""
        with self._lock:
            self.done.add(first, count)

    def sync(self) -> None:
        self._map.flush()

    def close(self) -> None:
        """Sync and unmap. `done` must not be used afterwards."""
        self._map.flush()
        self._map.close()

    def _create(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = path + ".new"
        with open(temporary, "wb") as file:
            file.write(self._header)
            file.flush()
            _reserve(file.fileno(), temporary, self._size)
            os.fsync(file.fileno())
        os.replace(temporary, path)


def is_journal_of(path: str, volume_id: str, uuid: str, blocks: int) -> bool:
    header, size = _form(volume_id, uuid, blocks)
    try:
        with open(path, "rb") as file:
            return file.read(_HEADER_BYTES) == header and os.fstat(file.fileno()).st_size == size
    except FileNotFoundError:
        return False


def _form(volume_id: str, uuid: str, blocks: int) -> Tuple[bytes, int]:
    """(header, size of the file in bytes)"""
    header = {"journal": _VERSION, "volume_id": volume_id, "uuid": uuid, "blocks": blocks}
    text = json.dumps(header).encode("ascii").ljust(_HEADER_BYTES - 1) + b"\n"
    return text, _HEADER_BYTES + (blocks + 7) // 8


def _reserve(descriptor: int, path: str, size: int) -> None:
    """Give the file all its space now: a mapped page that finds the disk full later would kill the engine."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StateDirectoryFull(
            f"{os.path.dirname(path)} has no {size} bytes left for the journal; free some space on its disk"
        ) from error
