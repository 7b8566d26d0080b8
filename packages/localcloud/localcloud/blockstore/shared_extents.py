"""Which blocks of two clones of one file differ: those whose bytes lie at other places of the pool (FIEMAP).

XFS clones share extents until one side is written to. What was written to is at another place, also where the same
bytes were written again: as EBS copies it.
"""

from __future__ import annotations

import array
import fcntl
import struct
from collections.abc import Iterator
from pathlib import Path

_FS_IOC_FIEMAP = 0xC020660B
_HEADER = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQQQLLLL")
_EXTENTS_AT_ONCE = 512
_LAST = 0x1
_SYNC = 0x1
_WHOLE = 0xFFFF_FFFF_FFFF_FFFF


def changed_blocks(before: Path, after: Path, block_bytes: int) -> set[int]:
    """Indices of the blocks of `after` that do not lie where those of `before` do."""
    old, new = _places(before, block_bytes), _places(after, block_bytes)
    return {index for index in old.keys() | new.keys() if old.get(index) != new.get(index)}


def _places(path: Path, block_bytes: int) -> dict[int, list[tuple[int, int, int]]]:
    """By block: its pieces as (offset in the file, place in the pool, length), neighbours in one."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for logical, physical, length in _extents(path):
        at = logical
        while at < logical + length:
            end = min(logical + length, (at // block_bytes + 1) * block_bytes)
            pieces = found.setdefault(at // block_bytes, [])
            place = physical + at - logical
            if pieces and (pieces[-1][0] + pieces[-1][2], pieces[-1][1] + pieces[-1][2]) == (at, place):
                pieces[-1] = (pieces[-1][0], pieces[-1][1], pieces[-1][2] + end - at)
            else:
                pieces.append((at, place, end - at))
            at = end
    return found


def _extents(path: Path) -> Iterator[tuple[int, int, int]]:
    start, last = 0, False
    with path.open("rb") as file:
        while not last:
            header = _HEADER.pack(start, _WHOLE - start, _SYNC, 0, _EXTENTS_AT_ONCE, 0)
            buffer = array.array("B", header + bytes(_EXTENT.size * _EXTENTS_AT_ONCE))
            fcntl.ioctl(file, _FS_IOC_FIEMAP, buffer)
            mapped = _HEADER.unpack_from(buffer)[3]
            if mapped == 0:
                return
            for number in range(mapped):
                extent = _EXTENT.unpack_from(buffer, _HEADER.size + number * _EXTENT.size)
                logical, physical, length, flags = extent[0], extent[1], extent[2], extent[5]
                yield logical, physical, length
                start, last = logical + length, bool(flags & _LAST)
