"""Arithmetic of byte ranges and of the 512 KiB blocks that they lie on. Pure.

512 KiB is the block of the EBS direct APIs (ListSnapshotBlocks). That touching a part of a block brings the
whole block is not known, so whole blocks are read.
"""

from __future__ import annotations

from typing import Iterable, Iterator, List, Tuple

BLOCK_BYTES = 512 * 1024

Range = Tuple[int, int]
"""(start, length), in bytes or in blocks as the name of the variable says."""


def merged(ranges: Iterable[Range]) -> List[Range]:
    """The same set as ascending ranges that neither overlap nor touch. Empty ranges vanish."""
    result: List[Range] = []
    for start, length in sorted(ranges):
        if length <= 0:
            continue
        if result and start <= result[-1][0] + result[-1][1]:
            last_start, last_length = result[-1]
            result[-1] = (last_start, max(last_length, start + length - last_start))
        else:
            result.append((start, length))
    return result


def complement(ranges: Iterable[Range], size: int) -> List[Range]:
    """Returns the parts of [0, size) outside the ranges."""
    result: List[Range] = []
    position = 0
    for start, length in merged(ranges):
        if start >= size:
            break
        if start > position:
            result.append((position, start - position))
        position = max(position, start + length)
    if position < size:
        result.append((position, size - position))
    return result


def intersection(left: Iterable[Range], right: Iterable[Range]) -> List[Range]:
    first, second = merged(left), merged(right)
    result: List[Range] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start = max(first[i][0], second[j][0])
        first_end, second_end = sum(first[i]), sum(second[j])
        end = min(first_end, second_end)
        if start < end:
            result.append((start, end - start))
        if first_end <= second_end:
            i += 1
        else:
            j += 1
    return result


def difference(left: Iterable[Range], right: Iterable[Range]) -> List[Range]:
    first = merged(left)
    if not first:
        return []
    return intersection(first, complement(right, sum(first[-1])))


def total(ranges: Iterable[Range]) -> int:
    """Sum of the lengths of ranges that do not overlap."""
    return sum(length for _, length in ranges)


def blocks_of_bytes(byte_ranges: Iterable[Range], block_bytes: int = BLOCK_BYTES) -> List[Range]:
    """The block ranges on which the byte ranges lie, each block once."""
    touched = []
    for start, length in byte_ranges:
        if length > 0:
            first = start // block_bytes
            touched.append((first, (start + length - 1) // block_bytes - first + 1))
    return merged(touched)


def each_block(block_ranges: Iterable[Range]) -> Iterator[int]:
    """Every block index, in the order of the ranges."""
    for start, count in block_ranges:
        yield from range(start, start + count)


def nth_blocks(block_ranges: List[Range], positions: Iterable[int]) -> List[int]:
    """The block indices at the given ascending positions of the concatenated ranges."""
    result: List[int] = []
    index, passed = 0, 0
    for position in positions:
        while position >= passed + block_ranges[index][1]:
            passed += block_ranges[index][1]
            index += 1
        result.append(block_ranges[index][0] + position - passed)
    return result


def coalesced(blocks: Iterable[int]) -> List[Range]:
    """Neighbours that follow each other become one range; the order stays."""
    result: List[Range] = []
    for block in blocks:
        if result and block == result[-1][0] + result[-1][1]:
            result[-1] = (result[-1][0], result[-1][1] + 1)
        else:
            result.append((block, 1))
    return result


def ordered_intersection(ranges: List[Range], allowed: List[Range]) -> List[Range]:
    """Returns the allowed parts of `ranges`, in the order of `ranges`, each block once."""
    if ranges == merged(ranges):
        return intersection(ranges, allowed)
    permitted = set(each_block(intersection(merged(ranges), allowed)))
    kept = []
    for block in each_block(ranges):
        if block in permitted:
            permitted.discard(block)
            kept.append(block)
    return coalesced(kept)
