"""Looks at the volumes of a set before anything is assembled: sizes and superblocks, through mdadm and the device."""

from __future__ import annotations

from typing import Dict, Mapping, Optional

from peaker_host.layouts.md_examine import MdMember, parse_examine
from peaker_host.layouts.set_judgement import SeenVolume
from peaker_host.machine.devices import BlockDevice, read_superblock
from peaker_host.machine.errors import CommandFailed, LayoutUnsupported, NoFilesystem
from peaker_host.machine.processes import Processes
from peaker_host.machine.stacks import Stack


def look_at(processes: Processes, stack: Stack, devices: Mapping[str, BlockDevice]) -> Dict[str, SeenVolume]:
    """Reads the superblocks on each volume, by id. A device that is not there is left out."""
    seen = {}
    for volume in stack.volumes:
        device = devices.get(volume.volume_id)
        if device is None:
            continue
        member = _member(processes, device) if stack.array_of(volume.volume_id) else None
        label = member.device_uuid if member else _label(device)
        seen[volume.volume_id] = SeenVolume(device.size_bytes, label, member)
    return seen


def _label(device: BlockDevice) -> str:
    try:
        return read_superblock(device.path).uuid
    except NoFilesystem:
        return ""


def _member(processes: Processes, device: BlockDevice) -> Optional[MdMember]:
    """Reads a member's superblock; None where mdadm finds none that it can read."""
    try:
        said = processes.run(["mdadm", "--examine", f"/dev/{device.kernel_name}"])
        return parse_examine(device.path, said.stdout)
    except (CommandFailed, LayoutUnsupported):
        return None
