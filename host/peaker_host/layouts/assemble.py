"""assemble_storage: every volume is there and the right one; sets are judged, then brought up by uuid."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from peaker_host.layouts.bring_up import StackDevices
from peaker_host.layouts.md_examine import MdMember, parse_examine
from peaker_host.layouts.set_judgement import SeenVolume, why_not_the_set
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
    refuse_if_used_outside_set,
    refuse_other_filesystem,
    write_manifest,
)
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.machine.stacks import Stack


def assemble(
    settings: Settings,
    processes: Processes,
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
    paths = {member.volume_id: _await_link(settings, member, deadline, say) for member in members}
    sets = [stack for stack in own if not stack.is_single]
    found: Dict[str, Member] = {}
    for stack in sets:
        found.update(_checked_set(settings, processes, stack, members, paths))
    for member in members:
        if member.volume_id not in found:
            found[member.volume_id] = _checked(settings, member, paths[member.volume_id], own)
        say(f"{member.name}: {member.volume_id} is {os.path.realpath(paths[member.volume_id])}")
    for stack in sets:
        path = StackDevices(settings, processes, stack).bring_up()
        _refuse_other_filesystem_on(stack, path)
        say(f"{stack.mount_point}: {stack.kind} of {len(stack.volumes)} volumes is {path}")
    manifest = Manifest(run_id, [found[member.volume_id] for member in members], sets)
    write_manifest(settings, manifest)
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
    settings: Settings,
    processes: Processes,
    stack: Stack,
    members: Sequence[Member],
    paths: Dict[str, str],
) -> Dict[str, Member]:
    devices: Dict[str, BlockDevice] = {}
    for volume_id in stack.volume_ids:
        device = describe_device(paths[volume_id])
        refuse_if_not_volume(device, volume_id, settings.by_id_dir)
        refuse_if_used_outside_set(device)
        devices[volume_id] = device
    seen = _look_at(processes, stack, devices)
    reasons = why_not_the_set(stack, seen, {member.volume_id: member.name for member in members})
    if reasons:
        raise SetRefused("; ".join(reasons))
    return {
        member.volume_id: replace(
            member,
            path=paths[member.volume_id],
            size_bytes=devices[member.volume_id].size_bytes,
            uuid=seen[member.volume_id].label,
        )
        for member in members
        if member.volume_id in devices
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


def _look_at(processes: Processes, stack: Stack, devices: Mapping[str, BlockDevice]) -> Dict[str, SeenVolume]:
    """Reads the superblocks on each volume, by id. A device that is not there is left out."""
    seen = {}
    for volume in stack.volumes:
        device = devices.get(volume.volume_id)
        if device is None:
            continue
        member = _array_member(processes, device) if stack.array_of(volume.volume_id) else None
        label = member.device_uuid if member else label_of(device.path)
        seen[volume.volume_id] = SeenVolume(device.size_bytes, label, member)
    return seen


def _array_member(processes: Processes, device: BlockDevice) -> Optional[MdMember]:
    """Reads a member's superblock; None where mdadm finds none that it can read."""
    try:
        said = processes.run(["mdadm", "--examine", f"/dev/{device.kernel_name}"])
        return parse_examine(device.path, said.stdout)
    except (CommandFailed, LayoutUnsupported):
        return None
