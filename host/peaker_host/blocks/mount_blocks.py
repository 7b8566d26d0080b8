"""The blocks that mounting a filesystem reads one after the other: its log, and the head of each group.

Read beforehand, and many at once, they cost a cold volume's replay what its throughput allows instead of a fetch
each. Offsets are those of xfs_dsb (xfs_format.h) and ext4_super_block (ext4.h). Nothing depends on the answer being
complete: what is missing is read by the mount itself.
"""

from __future__ import annotations

import os
import struct
from typing import List

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, intersection

_HEAD_BYTES = 4096
_EXTENT_MAGIC = 0xF30A
_GROUPS_AT_MOST = 65536
# 64 KiB (EXT4_MAX_BLOCK_LOG_SIZE); s_log_groups_per_flex is below 32.
_BLOCK_BITS_AT_MOST = 6
_FLEX_BITS_AT_MOST = 31
# Of a larger log a mount reads a small part; the hot blocks should not wait for the rest.
_LOG_BYTES_AT_MOST = 16 * 1024 * 1024


def mount_blocks(kind: str, path: str, size_bytes: int) -> List[Range]:
    """Block ranges of an XFS or ext4 volume; empty for another kind."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(descriptor, _HEAD_BYTES, 0).ljust(_HEAD_BYTES, b"\0")
    finally:
        os.close(descriptor)
    found: List[Range] = []
    if kind == "xfs" and head[:4] == b"XFSB":
        found = _of_xfs(head)
    elif kind == "ext4" and head[1024 + 56 : 1024 + 58] == b"\x53\xef":
        found = _of_ext4(head[1024:])
    return intersection(blocks_of_bytes(found), blocks_of_bytes([(0, size_bytes)]))


def _of_xfs(head: bytes) -> List[Range]:
    block_bytes = struct.unpack_from(">I", head, 4)[0]
    log_start = struct.unpack_from(">Q", head, 48)[0]
    group_blocks, groups = struct.unpack_from(">II", head, 84)
    log_blocks = struct.unpack_from(">I", head, 96)[0]
    group_bits = head[124]
    found = [
        (group * group_blocks * block_bytes, BLOCK_BYTES) for group in range(min(groups, _GROUPS_AT_MOST))
    ]
    if log_start and log_blocks * block_bytes <= _LOG_BYTES_AT_MOST:
        group, within = log_start >> group_bits, log_start & ((1 << group_bits) - 1)
        found.append(((group * group_blocks + within) * block_bytes, log_blocks * block_bytes))
    return found


def _of_ext4(head: bytes) -> List[Range]:
    block_bits = struct.unpack_from("<I", head, 24)[0]
    if block_bits > _BLOCK_BITS_AT_MOST or head[0x174] > _FLEX_BITS_AT_MOST:
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
