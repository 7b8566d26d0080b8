"""The blocks that mounting a filesystem reads one after the other: its log, and the head of each group.

Read beforehand, and many at once, they cost a cold volume's replay what its throughput allows instead of a fetch
each. A larger log of XFS is searched for its end here and there, and written to at its own place: of that a page of
each block is read, so that what the volume fetches for it is there. Offsets are those of xfs_dsb (xfs_format.h) and
ext4_super_block (ext4.h). Nothing depends on the answer being complete: what is missing is read by the mount itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import List, Sequence, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, intersection
from peaker_host.machine.devices import EXT_BLOCK_BITS_AT_MOST, head_of

_EXTENT_MAGIC = 0xF30A
_GROUPS_AT_MOST = 65536
# s_log_groups_per_flex is below 32.
_FLEX_BITS_AT_MOST = 31
# Of a larger log a mount reads a small part; the hot blocks should not wait for the rest.
_LOG_BYTES_AT_MOST = 16 * 1024 * 1024
# 256 fetches, a quarter of a second where 32 of 30 ms are under way: the search of a larger one takes no longer.
_TOUCHED_LOG_BYTES_AT_MOST = 128 * 1024 * 1024

_ByteRange = Tuple[int, int]


@dataclass(frozen=True)
class MountBlocks:
    """Block ranges: `whole` are read, of each block of `touched` a page."""

    whole: Sequence[Range] = ()
    touched: Sequence[Range] = ()


def mount_blocks(kind: str, path: str, size_bytes: int) -> MountBlocks:
    """Returns the blocks that a mount of an XFS or ext4 volume reads; nothing for another kind."""
    head = head_of(path)
    whole: List[_ByteRange] = []
    touched: List[_ByteRange] = []
    if kind == "xfs" and head[:4] == b"XFSB":
        whole, touched = _of_xfs(head)
    elif kind == "ext4" and head[1024 + 56 : 1024 + 58] == b"\x53\xef":
        whole = _of_ext4(head[1024:])
    device = blocks_of_bytes([(0, size_bytes)])
    return MountBlocks(
        intersection(blocks_of_bytes(whole), device), intersection(blocks_of_bytes(touched), device)
    )


def _of_xfs(head: bytes) -> Tuple[List[_ByteRange], List[_ByteRange]]:
    block_bytes = struct.unpack_from(">I", head, 4)[0]
    log_start = struct.unpack_from(">Q", head, 48)[0]
    group_blocks, groups = struct.unpack_from(">II", head, 84)
    log_blocks = struct.unpack_from(">I", head, 96)[0]
    group_bits = head[124]
    found = [
        (group * group_blocks * block_bytes, BLOCK_BYTES) for group in range(min(groups, _GROUPS_AT_MOST))
    ]
    log_bytes = log_blocks * block_bytes
    if not log_start or log_bytes > _TOUCHED_LOG_BYTES_AT_MOST:
        return found, []
    group, within = log_start >> group_bits, log_start & ((1 << group_bits) - 1)
    log = ((group * group_blocks + within) * block_bytes, log_bytes)
    return ([*found, log], []) if log_bytes <= _LOG_BYTES_AT_MOST else (found, [log])


def _of_ext4(head: bytes) -> List[_ByteRange]:
    block_bits = struct.unpack_from("<I", head, 24)[0]
    if block_bits > EXT_BLOCK_BITS_AT_MOST or head[0x174] > _FLEX_BITS_AT_MOST:
        return []
    block_bytes = 1024 << block_bits
    groups_bytes = struct.unpack_from("<I", head, 32)[0] * block_bytes << head[0x174]
    blocks = struct.unpack_from("<I", head, 4)[0]
    groups = min(blocks * block_bytes // max(groups_bytes, 1) + 1, _GROUPS_AT_MOST)
    # Descriptors lie at the start, bitmaps at the start of each flexible group.
    found = [(group * groups_bytes, BLOCK_BYTES) for group in range(groups)]
    # The superblock keeps a copy of the journal inode's i_block.
    magic, entries, _, depth = struct.unpack_from("<HHHH", head, 0x10C)
    if magic == _EXTENT_MAGIC and depth == 0:
        for number in range(min(entries, 4)):
            length, high, low = struct.unpack_from("<HHI", head, 0x10C + 12 + number * 12 + 4)
            if length * block_bytes <= _LOG_BYTES_AT_MOST:
                found.append((((high << 32) | low) * block_bytes, length * block_bytes))
    return found
