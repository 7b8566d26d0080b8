"""Where the bytes of an array or a logical volume lie on its members. Pure.

Striped: md RAID 0 of equal members and LVM striped volumes put chunk after chunk on the members in turn.
Linear: LVM linear volumes and md linear fill one member after the other. Offsets of the data on each member
(md superblock, LVM physical extents) are part of the layout. The kernel of the local cloud has neither md nor
device mapper, so that this arithmetic is verified against its definition only, not against a running array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, List, Set, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, merged


@dataclass(frozen=True)
class MemberArea:
    """The part of a member's device that holds data of the array: first byte and length."""

    member: str
    start: int
    length: int


@dataclass(frozen=True)
class Layout:
    """How an array spreads its bytes. `chunk_bytes` 0 means linear."""

    areas: Tuple[MemberArea, ...]
    chunk_bytes: int = 0

    def __post_init__(self) -> None:
        if not self.areas:
            raise ValueError("an array needs at least one member")
        if self.chunk_bytes < 0 or any(area.start < 0 or area.length <= 0 for area in self.areas):
            raise ValueError("chunk and areas must be positive")

    @property
    def size_bytes(self) -> int:
        """Bytes that the array offers. A striped one uses whole chunks of its smallest member on all of them."""
        if self.chunk_bytes == 0:
            return sum(area.length for area in self.areas)
        rows = min(area.length for area in self.areas) // self.chunk_bytes
        return rows * self.chunk_bytes * len(self.areas)

    def locate(self, offset: int) -> Tuple[str, int, int]:
        """(member, byte on its device, bytes that follow there without a break) of one byte of the array."""
        if not 0 <= offset < self.size_bytes:
            raise ValueError(f"byte {offset} is outside the array of {self.size_bytes} bytes")
        if self.chunk_bytes == 0:
            return self._locate_linear(offset)
        row, within_row = divmod(offset, self.chunk_bytes * len(self.areas))
        column, within_chunk = divmod(within_row, self.chunk_bytes)
        area = self.areas[column]
        return (
            area.member,
            area.start + row * self.chunk_bytes + within_chunk,
            self.chunk_bytes - within_chunk,
        )

    def _locate_linear(self, offset: int) -> Tuple[str, int, int]:
        for area in self.areas:
            if offset < area.length:
                return area.member, area.start + offset, area.length - offset
            offset -= area.length
        raise AssertionError("offset was checked")


def member_ranges(layout: Layout, array_ranges: Iterable[Range]) -> Dict[str, List[Range]]:
    """Byte ranges of the array as merged byte ranges of each member's device."""
    found: Dict[str, List[Range]] = {area.member: [] for area in layout.areas}
    for start, length in array_ranges:
        while length > 0:
            member, position, available = layout.locate(start)
            taken = min(length, available)
            found[member].append((position, taken))
            start, length = start + taken, length - taken
    return {member: merged(ranges) for member, ranges in found.items()}


def member_block_orders(
    layout: Layout, array_blocks: Iterable[Range], block_bytes: int = BLOCK_BYTES
) -> Dict[str, List[Range]]:
    """A reading order over the array's blocks as one order per member, each member's block once, first wins.

    The snapshot block lies on the member, not on the array: a member's block is read as a whole at the place in
    the order where the first of its bytes is wanted.
    """
    orders: Dict[str, List[Range]] = {area.member: [] for area in layout.areas}
    seen: Dict[str, Set[int]] = {area.member: set() for area in layout.areas}
    for first, count in array_blocks:
        start = first * block_bytes
        length = min((first + count) * block_bytes, layout.size_bytes) - start
        for member, ranges in member_ranges(layout, [(start, length)]).items():
            for position, size in ranges:
                for block in range(position // block_bytes, (position + size - 1) // block_bytes + 1):
                    if block not in seen[member]:
                        seen[member].add(block)
                        _extend(orders[member], block)
    return orders


def _extend(order: List[Range], block: int) -> None:
    if order and order[-1][0] + order[-1][1] == block:
        order[-1] = (order[-1][0], order[-1][1] + 1)
    else:
        order.append((block, 1))
