"""This check compares the mounts of the database's places with the proven volumes, right now and writable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional

from peaker_host.machine.devices import by_id_path, describe_device, kernel_name, refuse_if_not_volume
from peaker_host.machine.errors import HostError
from peaker_host.machine.manifest import Member, load_manifest
from peaker_host.machine.settings import Settings


@dataclass(frozen=True)
class Mount:
    """A mount is a line of /proc/self/mountinfo: the device's number, and whether it takes writes."""

    device: str
    read_only: bool


def check_mounts(settings: Settings, run_id: str) -> Dict[str, Any]:
    """One entry per volume of the run's manifest; `problem` is empty where all is as it was proven."""
    mounts = read_mounts("/proc/self/mountinfo")
    return {
        "mounts": [
            {
                "name": member.name,
                "volume_id": member.volume_id,
                "mount_point": member.mount_point,
                "problem": _problem(settings, member, mounts.get(member.mount_point)) or "",
            }
            for member in load_manifest(settings, run_id).members
        ]
    }


def read_mounts(path: str) -> Dict[str, Mount]:
    """Reads the mounts by place. The last one at a place counts, because it covers the others (proc(5))."""
    found = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            columns, filesystem = before.split(), after.split()
            if len(columns) < 6 or len(filesystem) < 3:
                continue
            options = columns[5].split(",") + filesystem[2].split(",")
            found[columns[4].replace("\\040", " ")] = Mount(columns[2], "ro" in options)
    return found


def _problem(settings: Settings, member: Member, mount: Optional[Mount]) -> Optional[str]:
    if mount is None:
        return f"nothing is mounted at {member.mount_point}"
    if mount.read_only:
        return f"{member.mount_point} takes no writes"
    try:
        device = describe_device(by_id_path(settings.by_id_dir, member.volume_id))
        refuse_if_not_volume(device, member.volume_id, settings.by_id_dir)
        under = _lowest(mount.device)
        os.listdir(member.mount_point)
    except (HostError, OSError) as error:
        return str(error)
    if f"{device.major}:{device.minor}" not in under:
        return f"{member.mount_point} is on {', '.join(map(_name, sorted(under)))}, not on {member.volume_id}"
    return None


def _lowest(device: str) -> FrozenSet[str]:
    """The devices that this one stands on in the end; itself where it is no array and no logical volume."""
    below = f"/sys/dev/block/{device}/slaves"
    names: List[str] = sorted(os.listdir(below)) if os.path.isdir(below) else []
    if not names:
        return frozenset({device})
    found: FrozenSet[str] = frozenset()
    for name in names:
        with open(os.path.join(below, name, "dev"), encoding="ascii") as file:
            found |= _lowest(file.read().strip())
    return found


def _name(device: str) -> str:
    try:
        major, minor = device.split(":")
        return kernel_name(int(major), int(minor))
    except (HostError, ValueError):
        return device
