"""Which blocks of one volume have been read: an append-only file that survives SIGKILL and power loss.

The first line is JSON and names the volume; then records of 12 bytes (first block, count, check). A record is
appended when its read ends, so SIGKILL loses only reads that were under way; `sync` bounds what a power loss
costs. A torn or foreign tail is cut off when the file is opened. The file is rewritten (atomic rename) when it
has grown well beyond its content. Hydration is a fact of the volume, so the journal outlives the run.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from typing import List

from peaker_host.block_ranges import Range, merged

_RECORD = struct.Struct("<III")
_MAGIC = 0x9EA4E500
_REWRITE_RECORDS = 262_144


class BlockSet:
    """A set of block numbers below a fixed limit, one bit each."""

    def __init__(self, blocks: int) -> None:
        self._bits = bytearray((blocks + 7) // 8)
        self._blocks = blocks
        self.count = 0

    def add(self, first: int, count: int) -> None:
        """Put a range in; numbers already in or beyond the limit change nothing."""
        for block in range(first, min(first + count, self._blocks)):
            mask = 1 << (block & 7)
            if not self._bits[block >> 3] & mask:
                self._bits[block >> 3] |= mask
                self.count += 1

    def __contains__(self, block: int) -> bool:
        return bool(self._bits[block >> 3] & (1 << (block & 7)))

    def ranges(self) -> List[Range]:
        """Ascending ranges of what is in."""
        result: List[Range] = []
        start = -1
        for block in range(self._blocks + 1):
            inside = block < self._blocks and block in self
            if inside and start < 0:
                start = block
            elif not inside and start >= 0:
                result.append((start, block - start))
                start = -1
        return result


class Journal:
    """The file of one volume. `done` holds what earlier runs read."""

    def __init__(self, path: str, volume_id: str, uuid: str, blocks: int) -> None:
        self._path = path
        self._header = (
            json.dumps({"journal": 1, "volume_id": volume_id, "uuid": uuid, "blocks": blocks}) + "\n"
        ).encode("ascii")
        self.done = BlockSet(blocks)
        self._lock = threading.Lock()
        self._records = 0
        kept = self._load()
        self._rewrite(kept)

    def append(self, first: int, count: int) -> None:
        """Note that a range has been read. Safe from several threads."""
        record = _RECORD.pack(first, count, _check(first, count))
        with self._lock:
            os.write(self._descriptor, record)
            self.done.add(first, count)
            self._records += 1

    def sync(self) -> None:
        """Make everything appended so far durable; rewrite the file when it has grown long."""
        if self._records >= _REWRITE_RECORDS:
            with self._lock:
                os.close(self._descriptor)
                self._rewrite(self.done.ranges())
            return
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Sync and close."""
        os.fdatasync(self._descriptor)
        os.close(self._descriptor)

    def _load(self) -> List[Range]:
        try:
            with open(self._path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return []
        if not content.startswith(self._header):
            return []
        found: List[Range] = []
        body = content[len(self._header) :]
        for offset in range(0, len(body) - _RECORD.size + 1, _RECORD.size):
            first, count, check = _RECORD.unpack_from(body, offset)
            if check != _check(first, count):
                break
            found.append((first, count))
        ranges = merged(found)
        for first, count in ranges:
            self.done.add(first, count)
        return ranges

    def _rewrite(self, ranges: List[Range]) -> None:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        temporary = self._path + ".new"
        with open(temporary, "wb") as file:
            file.write(self._header)
            file.writelines(_RECORD.pack(first, count, _check(first, count)) for first, count in ranges)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._path)
        self._records = len(ranges)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


def _check(first: int, count: int) -> int:
    return (_MAGIC ^ (first * 2654435761) ^ (count * 40503)) & 0xFFFFFFFF
