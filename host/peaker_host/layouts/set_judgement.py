"""Judges whether volumes are the set that was snapshotted; names each that is not, and what it is instead. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional

from peaker_host.layouts.md_examine import MdMember
from peaker_host.machine.stacks import Stack, StackVolume

# The kernel takes a member that missed one update of the superblock (md.c, super_1_validate): the snapshots' instant
# may lie between the writes of the members.
_EVENTS_APART_AT_MOST = 1


@dataclass(frozen=True)
class SeenVolume:
    """A seen volume has its present superblocks. `label` is the uuid of its own, '' without one; `array` is a
    member's, None where mdadm finds none.
    """

    size_bytes: int
    label: str = ""
    array: Optional[MdMember] = None


def why_not_the_set(stack: Stack, seen: Mapping[str, SeenVolume], names: Mapping[str, str]) -> List[str]:
    """Reasons, one for each volume that is wrong; none where the set is whole. `names` are those of the settings, by
    id; `seen` lacks the volumes that are not there."""
    reasons = []
    newest = max((one.array.events for one in seen.values() if one.array is not None), default=0)
    for volume in stack.volumes:
        name = f"{names.get(volume.volume_id, volume.volume_id)} ({volume.volume_id})"
        found = seen.get(volume.volume_id)
        if found is None:
            reasons.append(
                f"{name} is missing: {stack.kind} of {stack.mount_point} needs all of its {_count(stack)}"
            )
            continue
        why = _why_not_size(volume, found) or _why_not_member(stack, volume, found, newest)
        if why:
            reasons.append(f"{name} {why}")
    return reasons


def _count(stack: Stack) -> str:
    return f"{len(stack.volumes)} volumes"


def _why_not_size(volume: StackVolume, found: SeenVolume) -> str:
    if found.size_bytes == volume.size_bytes:
        return ""
    return (
        f"has {found.size_bytes} bytes, its snapshot was of {volume.size_bytes}: a member of a set must be exactly as "
        "large, or its superblock is not where it belongs"
    )


def _why_not_member(stack: Stack, volume: StackVolume, found: SeenVolume, newest: int) -> str:
    place = stack.array_of(volume.volume_id)
    if place is None:
        return _why_not_label(volume, found)
    array, slot = place
    member = found.array
    if member is None:
        return f"carries no superblock of md; it was place {slot.slot} of array {array.uuid}"
    if member.array_uuid != array.uuid:
        return f"belongs to array {member.array_uuid}, not to {array.uuid}: it is of another set"
    if member.slot != slot.slot or member.device_uuid != volume.label:
        there = "a spare" if member.slot is None else f"place {member.slot}"
        return f"is {there} of the array, not place {slot.slot}: it is another volume's snapshot"
    differs = _differences(
        {
            "level": (member.level, array.level),
            "chunk": (0 if array.level == "raid1" else member.chunk_bytes, array.chunk_bytes),
            "layout": (member.algorithm, array.algorithm),
            "places": (member.devices, len(array.slots)),
            "data offset": (member.data_offset_bytes, slot.data_offset_bytes),
        }
    )
    if differs:
        return f"describes another array: {differs}"
    if newest - member.events > _EVENTS_APART_AT_MOST:
        return (
            f"has seen {member.events} events, another member {newest}: the snapshots are not of one instant, or a "
            "member had failed"
        )
    return ""


def _why_not_label(volume: StackVolume, found: SeenVolume) -> str:
    if found.label == volume.label:
        return ""
    if not found.label:
        return f"carries no superblock; it carried {volume.label}"
    return f"carries {found.label}, not {volume.label}: it is of another set"


def _differences(pairs: Dict[str, "tuple[object, object]"]) -> str:
    return ", ".join(
        f"{what} {is_now} instead of {was}" for what, (is_now, was) in pairs.items() if is_now != was
    )
