"""Stack places map a filesystem's bytes to the volumes below it, through LVM and md. Pure.

Snapshots are of volumes, so what is cold is a block of a volume: the reading order of a filesystem becomes one order
per volume, and all volumes are read side by side. Mirrors are all read: the kernel reads from any of them.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List

from peaker_host.blocks import member_layout
from peaker_host.blocks.member_layout import Layout, MemberArea
from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, merged
from peaker_host.machine.errors import LayoutUnsupported
from peaker_host.machine.stacks import Array, LogicalVolume, Segment, Stack

# What md and LVM keep at the head of a member, before its data: superblock, bitmap, bad blocks, metadata.
_HEAD_BYTES_AT_MOST = 1024 * 1024

ByVolume = Dict[str, List[Range]]
_Mapping = Callable[[Layout, Iterable[Range]], ByVolume]


def array_layout(array: Array) -> Layout:
    """The arithmetic of an md array. Raises LayoutUnsupported for one that has none here."""
    areas = tuple(
        MemberArea(slot.volume_id, slot.data_offset_bytes, array.member_bytes)
        for slot in sorted(array.slots, key=lambda one: one.slot)
    )
    try:
        if array.level == "raid0":
            return Layout(member_layout.STRIPED, areas, array.chunk_bytes)
        if array.level == "raid1":
            return Layout(member_layout.MIRRORED, areas)
        if array.level == "raid5":
            return Layout(member_layout.PARITY, areas, array.chunk_bytes, algorithm=array.algorithm)
        kind, _, copies = array.algorithm.partition("=")
        if array.level == "raid10" and kind == "near":
            return Layout(member_layout.NEAR, areas, array.chunk_bytes, copies=int(copies))
    except ValueError as error:
        raise LayoutUnsupported(f"array {array.uuid}: {error}") from error
    raise LayoutUnsupported(
        f"array {array.uuid} is {array.level} {array.algorithm}: of raid10 only near copies, of the others raid0, "
        "raid1 and raid5 are known"
    )


def on_volumes(stack: Stack, byte_ranges: Iterable[Range]) -> ByVolume:
    """Maps ranges of the filesystem's device to ranges by volume id, in their order."""
    return _mapped(stack, byte_ranges, member_layout.member_ranges)


def parity_on_volumes(stack: Stack, byte_ranges: Iterable[Range]) -> ByVolume:
    """Maps the parity of these ranges to ranges by volume id; nothing without RAID 5."""
    if all(array.level != "raid5" for array in stack.arrays):
        return {volume_id: [] for volume_id in stack.volume_ids}
    return _mapped(stack, byte_ranges, member_layout.parity_ranges)


def block_orders(stack: Stack, array_blocks: Iterable[Range]) -> ByVolume:
    """A reading order over blocks of the filesystem's device as one over the blocks of each volume."""
    wanted = [(first * BLOCK_BYTES, count * BLOCK_BYTES) for first, count in array_blocks]
    within = [(start, min(length, stack.size_bytes - start)) for start, length in wanted]
    found = on_volumes(stack, [one for one in within if one[1] > 0])
    return {volume_id: member_layout.ordered_blocks(ranges) for volume_id, ranges in found.items()}


def parity_blocks(stack: Stack, array_blocks: Iterable[Range]) -> ByVolume:
    """The blocks with the parity of blocks of the filesystem's device."""
    ranges = [(first * BLOCK_BYTES, count * BLOCK_BYTES) for first, count in array_blocks]
    within = [(start, min(length, stack.size_bytes - start)) for start, length in ranges]
    return {key: blocks_of_bytes(found) for key, found in parity_on_volumes(stack, within).items()}


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


def _mapped(stack: Stack, byte_ranges: Iterable[Range], of_array: _Mapping) -> ByVolume:
    wanted: Dict[str, List[Range]] = {}
    if stack.logical_volume is None:
        wanted[stack.arrays[0].uuid if stack.arrays else stack.volumes[0].volume_id] = list(byte_ranges)
    else:
        wanted = _on_physical_volumes(stack.logical_volume, byte_ranges)
    found: ByVolume = {one.volume_id: [] for one in stack.volumes}
    arrays = {array.uuid: array for array in stack.arrays}
    parity_only = of_array is member_layout.parity_ranges
    for place, ranges in wanted.items():
        if place in arrays:
            for volume_id, mapped in of_array(array_layout(arrays[place]), ranges).items():
                found[volume_id] += mapped
        elif not parity_only:
            found[place] += ranges
    return {volume_id: merged(ranges) if parity_only else ranges for volume_id, ranges in found.items()}


def _on_physical_volumes(logical: LogicalVolume, byte_ranges: Iterable[Range]) -> Dict[str, List[Range]]:
    """Groups the ranges by the device below each physical volume."""
    places = {one.uuid: one.on for one in logical.physical_volumes}
    found: Dict[str, List[Range]] = {one.on: [] for one in logical.physical_volumes}
    segments = [(one, _segment_layout(one, places)) for one in logical.segments]
    for start, length in byte_ranges:
        for segment, layout in segments:
            first = max(start, segment.start_bytes)
            end = min(start + length, segment.start_bytes + segment.length_bytes)
            if first < end:
                mapped = member_layout.member_ranges(layout, [(first - segment.start_bytes, end - first)])
                for place, ranges in mapped.items():
                    found[place] += ranges
    return found


def _segment_layout(segment: Segment, places: Dict[str, str]) -> Layout:
    each = segment.length_bytes // len(segment.stripes)
    areas = tuple(MemberArea(places[one.physical_volume], one.start_bytes, each) for one in segment.stripes)
    if len(areas) == 1:
        return Layout(member_layout.LINEAR, areas)
    return Layout(member_layout.STRIPED, areas, segment.stripe_bytes)
