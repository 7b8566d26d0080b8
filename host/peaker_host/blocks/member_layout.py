"""A member layout maps the bytes of an array or logical volume to its members. Pure.

Linear: LVM's linear segments; one member after the other. Striped: md RAID 0 of equal members and LVM's striped
segments; chunk after chunk on the members in turn. Mirrored: md RAID 1. RAID 10: near copies, chunk after chunk, each
as often as there are copies. RAID 5: each row of chunks has its parity on another member (drivers/md/raid5.c,
raid5_compute_sector; drivers/md/raid10.c, raid10_find_phys). Offsets of the data on each member (md superblock, LVM
physical extents) are part of the layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, coalesced, merged

LINEAR, STRIPED, MIRRORED, NEAR, PARITY = "linear", "striped", "mirrored", "near", "parity"
PARITY_ALGORITHMS = ("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric")


@dataclass(frozen=True)
class MemberArea:
    """The part of a member's device that holds data of the array: first byte and length."""

    member: str
    start: int
    length: int


@dataclass(frozen=True)
class Layout:
    """A layout spreads an array's bytes. `copies` are those of `near`, `algorithm` is that of `parity`."""

    kind: str
    areas: Tuple[MemberArea, ...]
    chunk_bytes: int = 0
    copies: int = 1
    algorithm: str = PARITY_ALGORITHMS[0]

    def __post_init__(self) -> None:
        if not self.areas:
            raise ValueError("an array needs at least one member")
        if any(area.start < 0 or area.length <= 0 for area in self.areas):
            raise ValueError("areas must be positive")
        if self.kind not in (LINEAR, STRIPED, MIRRORED, NEAR, PARITY):
            raise ValueError(f"no arithmetic for {self.kind}")
        if self.in_chunks and self.chunk_bytes <= 0:
            raise ValueError("the chunk must be positive")
        if not 1 <= self.copies <= len(self.areas) or (self.kind == PARITY and len(self.areas) < 3):
            raise ValueError(f"{self.kind} with {self.copies} copies on {len(self.areas)} members cannot be")
        if self.algorithm not in PARITY_ALGORITHMS:
            raise ValueError(f"no arithmetic for {self.algorithm}")

    @property
    def in_chunks(self) -> bool:
        """Tells whether the array goes round its members chunk by chunk."""
        return self.kind in (STRIPED, NEAR, PARITY)

    @property
    def size_bytes(self) -> int:
        """Bytes that the array offers. One in chunks uses whole chunks of its smallest member on all of them."""
        lengths = [area.length for area in self.areas]
        if self.kind == LINEAR:
            return sum(lengths)
        if self.kind == MIRRORED:
            return min(lengths)
        chunks = min(lengths) // self.chunk_bytes
        if self.kind == PARITY:
            return chunks * (len(lengths) - 1) * self.chunk_bytes
        return chunks * len(lengths) // self.copies * self.chunk_bytes

    @property
    def _turn(self) -> Tuple[int, int]:
        """Returns the bytes of the array, and of each member, after which it begins at the first member again."""
        members = len(self.areas)
        if self.kind == PARITY:
            return (members - 1) * self.chunk_bytes, self.chunk_bytes
        rows = math.lcm(members, self.copies) // members
        return rows * members // self.copies * self.chunk_bytes, rows * self.chunk_bytes

    def places(self, start: int, length: int) -> Iterator[Tuple[str, int, int]]:
        """(member, first byte on its device, length) of every part of a range of the array, all copies included.

        Whole turns around the members come as one range per member; with parity, the parity is among them.
        """
        end = min(start + length, self.size_bytes)
        if not 0 <= start <= self.size_bytes:
            raise ValueError(f"byte {start} is outside the array of {self.size_bytes} bytes")
        while start < end:
            taken, found = self._next(start, end - start)
            yield from found
            start += taken

    def _next(self, start: int, length: int) -> Tuple[int, List[Tuple[str, int, int]]]:
        if self.kind == LINEAR:
            return self._next_linear(start, length)
        if self.kind == MIRRORED:
            return length, [(area.member, area.start + start, length) for area in self.areas]
        of_array, of_member = self._turn
        turn, within = divmod(start, of_array)
        if within == 0 and length >= of_array:
            turns = length // of_array
            position, size = turn * of_member, turns * of_member
            return turns * of_array, [(area.member, area.start + position, size) for area in self.areas]
        chunk, skipped = divmod(start, self.chunk_bytes)
        taken = min(length, self.chunk_bytes - skipped)
        found = []
        for column, row in self._chunk_places(chunk):
            area = self.areas[column]
            found.append((area.member, area.start + row * self.chunk_bytes + skipped, taken))
        return taken, found

    def _next_linear(self, start: int, length: int) -> Tuple[int, List[Tuple[str, int, int]]]:
        for area in self.areas:
            if start < area.length:
                taken = min(length, area.length - start)
                return taken, [(area.member, area.start + start, taken)]
            start -= area.length
        raise AssertionError("the range was checked")

    def _chunk_places(self, chunk: int) -> List[Tuple[int, int]]:
        """(column, row) of each copy of a chunk."""
        members = len(self.areas)
        if self.kind != PARITY:
            numbers = range(chunk * self.copies, (chunk + 1) * self.copies)
            return [(number % members, number // members) for number in numbers]
        row, data = divmod(chunk, members - 1)
        column = self._data_column(row, data)
        return [(column, row)]

    def _parity_column(self, row: int) -> int:
        members = len(self.areas)
        return members - 1 - row % members if self.algorithm.startswith("left") else row % members

    def _data_column(self, row: int, data: int) -> int:
        parity = self._parity_column(row)
        if self.algorithm.endswith("-symmetric"):
            return (parity + 1 + data) % len(self.areas)
        return data if data < parity else data + 1

    def parity_places(self, start: int, length: int) -> Iterator[Tuple[str, int, int]]:
        """Yields the places of a range's parity: the first write into a stripe reads it."""
        end = min(start + length, self.size_bytes)
        if self.kind != PARITY or start >= end:
            return
        of_array = self._turn[0]
        for row in range(start // of_array, (end - 1) // of_array + 1):
            area = self.areas[self._parity_column(row)]
            yield area.member, area.start + row * self.chunk_bytes, self.chunk_bytes


def member_ranges(layout: Layout, array_ranges: Iterable[Range]) -> Dict[str, List[Range]]:
    """Byte ranges of the array as byte ranges of each member's device, in the order of the array's."""
    found: Dict[str, List[Range]] = {area.member: [] for area in layout.areas}
    for start, length in array_ranges:
        for member, position, size in layout.places(start, length):
            _append(found[member], position, size)
    return found


def parity_ranges(layout: Layout, array_ranges: Iterable[Range]) -> Dict[str, List[Range]]:
    """Returns the parity of byte ranges, by member."""
    found: Dict[str, List[Range]] = {area.member: [] for area in layout.areas}
    for start, length in array_ranges:
        for member, position, size in layout.parity_places(start, length):
            _append(found[member], position, size)
    return {member: merged(ranges) for member, ranges in found.items()}


def ordered_blocks(byte_ranges: Iterable[Range], block_bytes: int = BLOCK_BYTES) -> List[Range]:
    """The blocks on which byte ranges lie, in their order, each block once: where the first of its bytes is wanted."""
    ranges = list(byte_ranges)
    touched = [
        (start // block_bytes, (start + length - 1) // block_bytes - start // block_bytes + 1)
        for start, length in ranges
        if length > 0
    ]
    if touched == sorted(touched):
        return merged(touched)
    seen = set()
    order = []
    for first, count in touched:
        for block in range(first, first + count):
            if block not in seen:
                seen.add(block)
                order.append(block)
    return coalesced(order)


def _append(ranges: List[Range], start: int, length: int) -> None:
    if ranges and ranges[-1][0] + ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], ranges[-1][1] + length)
    else:
        ranges.append((start, length))
