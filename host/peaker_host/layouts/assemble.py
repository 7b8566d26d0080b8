"""assemble_storage: every volume is there and the right one; sets are judged against what was snapshotted."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from peaker_host.layouts.lvm_reports import MdMember, parse_examine
from peaker_host.layouts.mounts import StackDevices
from peaker_host.machine.devices import (
    BlockDevice,
    by_id_path,
    describe_device,
    label_of,
    read_superblock,
    refuse_if_not_volume,
    refuse_if_used,
)
from peaker_host.machine.errors import (
    CommandFailed,
    DeviceNotFound,
    InvalidArgument,
    LayoutUnsupported,
    SetRefused,
    WrongDevice,
)
from peaker_host.machine.manifest import (
    Manifest,
    Member,
    Stack,
    StackVolume,
    refuse_if_used_outside_set,
    refuse_other_filesystem,
    write_manifest,
)
from peaker_host.machine.settings import Machine, Processes, Settings

# The kernel takes a member that missed one update of the superblock (md.c, super_1_validate): the snapshots' instant
# may lie between the writes of the members.
_EVENTS_APART_AT_MOST = 1


@dataclass(frozen=True)
class SeenVolume:
    """A volume's present superblocks: `label` is the uuid of its own, `array` a member's, None where there is none."""

    size_bytes: int
    label: str = ""
    array: Optional[MdMember] = None


def why_not_the_set(stack: Stack, seen: Mapping[str, SeenVolume], names: Mapping[str, str]) -> List[str]:
    """Reasons, one for each volume that is wrong; none where the set is whole. `names` are those of the settings."""
    reasons = []
    newest = max((one.array.events for one in seen.values() if one.array is not None), default=0)
    for volume in stack.volumes:
        found = seen[volume.volume_id]
        why = _why_not_size(volume, found) or _why_not_member(stack, volume, found, newest)
        if why:
            reasons.append(f"{names[volume.volume_id]} ({volume.volume_id}) {why}")
    return reasons


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


def assemble(
    machine: Machine,
    run_id: str,
    members: List[Member],
    stacks: Sequence[Stack],
    wait_seconds: float,
    say: Callable[[str], None],
) -> Manifest:
    """Wait for every volume, refuse what is not the donor's set by the member's name, bring sets up, keep the manifest.

    `stacks` name the donor's volumes. Raises DeviceNotFound, WrongDevice, DeviceInUse, NoFilesystem,
    FilesystemTruncated, SetRefused, AssemblyFailed.
    """
    own = [_on_own_volumes(stack, members) for stack in stacks]
    deadline = time.monotonic() + wait_seconds
    paths = {member.volume_id: _await_link(machine, member, deadline, say) for member in members}
    sets = [stack for stack in own if not stack.is_single]
    found: Dict[str, Member] = {}
    for stack in sets:
        found.update(_checked_set(machine, stack, members, paths))
    for member in members:
        if member.volume_id not in found:
            found[member.volume_id] = _checked(machine, member, paths[member.volume_id], own)
        say(f"{member.name}: {member.volume_id} is {os.path.realpath(paths[member.volume_id])}")
    for stack in sets:
        path = StackDevices(machine, stack).bring_up()
        _refuse_other_filesystem_on(stack, path)
        say(f"{stack.mount_point}: {stack.kind} of {len(stack.volumes)} volumes is {path}")
    manifest = Manifest(run_id, [found[member.volume_id] for member in members], sets)
    write_manifest(machine, manifest)
    return manifest


def _on_own_volumes(stack: Stack, members: Sequence[Member]) -> Stack:
    """The donor's stack on this host's volumes. Raises SetRefused for what was not given, by the donor's id."""
    given = {member.source or member.volume_id: member for member in members}
    absent = [volume_id for volume_id in stack.volume_ids if volume_id not in given]
    if absent:
        raise SetRefused(
            f"{stack.kind} of {stack.mount_point} needs {len(stack.volumes)} volumes; of {', '.join(absent)} of the "
            "donor no copy was given: the set is incomplete"
        )
    extra = [
        member.name
        for member in members
        if member.mount_point == stack.mount_point
        and (member.source or member.volume_id) not in stack.volume_ids
    ]
    if extra:
        raise SetRefused(
            f"{', '.join(extra)} are no members of {stack.kind} of {stack.mount_point}: the set is mixed"
        )
    for volume_id in stack.volume_ids:
        member = given[volume_id]
        if (member.mount_point, member.filesystem) != (stack.mount_point, stack.filesystem):
            raise InvalidArgument(
                f"volumes: {member.name} is of {stack.filesystem} at {stack.mount_point} by the layout, of "
                f"{member.filesystem} at {member.mount_point} by the volumes"
            )
    return stack.with_volumes({old: given[old].volume_id for old in stack.volume_ids})


def _checked_set(
    machine: Machine, stack: Stack, members: Sequence[Member], paths: Dict[str, str]
) -> Dict[str, Member]:
    seen: Dict[str, SeenVolume] = {}
    for volume_id in stack.volume_ids:
        device = describe_device(paths[volume_id])
        refuse_if_not_volume(device, volume_id, machine.by_id_dir)
        refuse_if_used_outside_set(device)
        seen[volume_id] = _look_at(machine.processes, stack, device, volume_id)
    reasons = why_not_the_set(stack, seen, {member.volume_id: member.name for member in members})
    if reasons:
        raise SetRefused("; ".join(reasons))
    return {
        member.volume_id: replace(
            member,
            path=paths[member.volume_id],
            size_bytes=seen[member.volume_id].size_bytes,
            uuid=seen[member.volume_id].label,
        )
        for member in members
        if member.volume_id in seen
    }


def _checked(settings: Settings, member: Member, path: str, stacks: Sequence[Stack]) -> Member:
    device = describe_device(path)
    refuse_if_not_volume(device, member.volume_id, settings.by_id_dir)
    refuse_if_used(device, member.mount_point)
    uuid = refuse_other_filesystem(device, member)
    for stack in stacks:
        if member.volume_id in stack.volume_ids and stack.uuid != uuid:
            raise WrongDevice(
                f"{member.name}: {path} carries the filesystem {uuid}, the donor's was {stack.uuid}"
            )
    return replace(member, path=path, size_bytes=device.size_bytes, uuid=uuid)


def _refuse_other_filesystem_on(stack: Stack, path: str) -> None:
    superblock, device = read_superblock(path), describe_device(path)
    if (superblock.kind, superblock.uuid) != (stack.filesystem, stack.uuid):
        raise SetRefused(
            f"{stack.mount_point}: {path} carries {superblock.kind} {superblock.uuid}, the donor's was "
            f"{stack.filesystem} {stack.uuid}"
        )
    if device.size_bytes != stack.size_bytes:
        raise SetRefused(
            f"{stack.mount_point}: {path} has {device.size_bytes} bytes, the donor's had {stack.size_bytes}"
        )


def _await_link(settings: Settings, member: Member, deadline: float, say: Callable[[str], None]) -> str:
    link = by_id_path(settings.by_id_dir, member.volume_id)
    said = False
    while not os.path.exists(link):
        if time.monotonic() >= deadline:
            raise DeviceNotFound(f"{member.name}: {link} did not appear; is {member.volume_id} attached?")
        if not said:
            say(f"{member.name}: waiting for {link}")
            said = True
        time.sleep(0.2)
    return link


def _look_at(processes: Processes, stack: Stack, device: BlockDevice, volume_id: str) -> SeenVolume:
    member = _array_member(processes, device) if stack.array_of(volume_id) else None
    return SeenVolume(device.size_bytes, member.device_uuid if member else label_of(device.path), member)


def _array_member(processes: Processes, device: BlockDevice) -> Optional[MdMember]:
    """Reads a member's superblock; None where mdadm finds none that it can read."""
    try:
        said = processes.run(["mdadm", "--examine", f"/dev/{device.kernel_name}"])
        return parse_examine(device.path, said.stdout)
    except (CommandFailed, LayoutUnsupported):
        return None
