"""Stack places map a filesystem's bytes to the volumes below it, through LVM and md. Pure.

Snapshots are of volumes, so what is cold is a block of a volume: the reading order of a filesystem becomes one order
per volume, and all volumes are read side by side. Mirrors are all read: the kernel reads from any of them.

Linear: LVM's linear segments; one member after the other. Striped: md RAID 0 of equal members and LVM's striped
segments; chunk after chunk on the members in turn. Mirrored: md RAID 1. RAID 10: near copies, chunk after chunk, each
as often as there are copies. RAID 5: each row of chunks has its parity on another member (drivers/md/raid5.c,
raid5_compute_sector; drivers/md/raid10.c, raid10_find_phys).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, coalesced, merged
from peaker_host.machine.errors import LayoutUnsupported
from peaker_host.machine.manifest import Array, LogicalVolume, Segment, Stack

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


# What md and LVM keep at the head of a member, before its data: superblock, bitmap, bad blocks, metadata.
_HEAD_BYTES_AT_MOST = 1024 * 1024

ByVolume = Dict[str, List[Range]]


def array_layout(array: Array) -> Layout:
    """The arithmetic of an md array. Raises LayoutUnsupported for one that has none here."""
    areas = tuple(
        MemberArea(slot.volume_id, slot.data_offset_bytes, array.member_bytes)
        for slot in sorted(array.slots, key=lambda one: one.slot)
    )
    try:
        if array.level == "raid0":
            return Layout(STRIPED, areas, array.chunk_bytes)
        if array.level == "raid1":
            return Layout(MIRRORED, areas)
        if array.level == "raid5":
            return Layout(PARITY, areas, array.chunk_bytes, algorithm=array.algorithm)
        kind, _, copies = array.algorithm.partition("=")
        if array.level == "raid10" and kind == "near":
            return Layout(NEAR, areas, array.chunk_bytes, copies=int(copies))
    except ValueError as error:
        raise LayoutUnsupported(f"array {array.uuid}: {error}") from error
    raise LayoutUnsupported(
        f"array {array.uuid} is {array.level} {array.algorithm}: of raid10 only near copies, of the others raid0, "
        "raid1 and raid5 are known"
    )


def on_volumes(stack: Stack, byte_ranges: Iterable[Range]) -> ByVolume:
    """Maps ranges of the filesystem's device to ranges by volume id, in their order."""
    found: ByVolume = {one.volume_id: [] for one in stack.volumes}
    arrays = {array.uuid: array for array in stack.arrays}
    for base, ranges in _on_bases(stack, byte_ranges).items():
        mapped = member_ranges(array_layout(arrays[base]), ranges) if base in arrays else {base: ranges}
        for volume_id, own in mapped.items():
            found[volume_id] += own
    return found


def block_orders(stack: Stack, array_blocks: Iterable[Range]) -> ByVolume:
    """A reading order over blocks of the filesystem's device as one over the blocks of each volume."""
    found = on_volumes(stack, _bytes_of(stack, array_blocks))
    return {volume_id: ordered_blocks(ranges) for volume_id, ranges in found.items()}


def parity_blocks(stack: Stack, array_blocks: Iterable[Range]) -> ByVolume:
    """The blocks with the parity of blocks of the filesystem's device, by volume id; nothing without RAID 5."""
    found: ByVolume = {one.volume_id: [] for one in stack.volumes}
    bases = _on_bases(stack, _bytes_of(stack, array_blocks))
    for array in stack.arrays:
        if array.level == "raid5":
            for volume_id, ranges in parity_ranges(array_layout(array), bases.get(array.uuid, [])).items():
                found[volume_id] = blocks_of_bytes(ranges)
    return found


def head_blocks(stack: Stack) -> ByVolume:
    """Returns the blocks of each volume that assembling reads and writes: superblocks and metadata, at both ends."""
    return {
        one.volume_id: blocks_of_bytes(
            [
                (0, min(_HEAD_BYTES_AT_MOST, one.size_bytes)),
                (max(0, one.size_bytes - BLOCK_BYTES), min(BLOCK_BYTES, one.size_bytes)),
            ]
        )
        for one in stack.volumes
    }


def _bytes_of(stack: Stack, array_blocks: Iterable[Range]) -> List[Range]:
    """The bytes of blocks, as far as the filesystem's device reaches."""
    wanted = [(first * BLOCK_BYTES, count * BLOCK_BYTES) for first, count in array_blocks]
    return [(start, min(n, stack.size_bytes - start)) for start, n in wanted if start < stack.size_bytes]


def _on_bases(stack: Stack, byte_ranges: Iterable[Range]) -> Dict[str, List[Range]]:
    """Groups the ranges by what the filesystem, or its physical volumes, lie on: an array's uuid or a volume id."""
    if stack.logical_volume is not None:
        return _on_physical_volumes(stack.logical_volume, byte_ranges)
    base = stack.arrays[0].uuid if stack.arrays else stack.volumes[0].volume_id
    return {base: list(byte_ranges)}


def _on_physical_volumes(logical: LogicalVolume, byte_ranges: Iterable[Range]) -> Dict[str, List[Range]]:
    places = {one.uuid: one.on for one in logical.physical_volumes}
    found: Dict[str, List[Range]] = {one.on: [] for one in logical.physical_volumes}
    segments = [(one, _segment_layout(one, places)) for one in logical.segments]
    for start, length in byte_ranges:
        for segment, layout in segments:
            first = max(start, segment.start_bytes)
            end = min(start + length, segment.start_bytes + segment.length_bytes)
            if first < end:
                mapped = member_ranges(layout, [(first - segment.start_bytes, end - first)])
                for place, ranges in mapped.items():
                    found[place] += ranges
    return found


def _segment_layout(segment: Segment, places: Dict[str, str]) -> Layout:
    each = segment.length_bytes // len(segment.stripes)
    areas = tuple(MemberArea(places[one.physical_volume], one.start_bytes, each) for one in segment.stripes)
    if len(areas) == 1:
        return Layout(LINEAR, areas)
    return Layout(STRIPED, areas, segment.stripe_bytes)
