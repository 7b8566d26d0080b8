"""This check compares the mounts of the database's places with the proven volumes, right now and writable."""

from __future__ import annotations

import os
from typing import Any, Dict, FrozenSet, Optional

from peaker_host.machine.devices import (
    Mount,
    by_id_path,
    describe_device,
    first_line,
    kernel_name,
    listed,
    read_mounts,
    refuse_if_not_volume,
)
from peaker_host.machine.errors import HostError
from peaker_host.machine.manifest import Member, load_manifest
from peaker_host.machine.settings import Settings


def check_mounts(settings: Settings, run_id: str) -> Dict[str, Any]:
    """One entry per volume of the run's manifest; `problem` is empty where all is as it was proven."""
    mounts = {mount.point: mount for mount in read_mounts()}
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
    if device.number not in under:
        return f"{member.mount_point} is on {', '.join(map(_name, sorted(under)))}, not on {member.volume_id}"
    return None


def _lowest(device: str) -> FrozenSet[str]:
    """The devices that this one stands on in the end; itself where it is no array and no logical volume."""
    below = f"/sys/dev/block/{device}/slaves"
    numbers = [first_line(os.path.join(below, name, "dev")) for name in listed(below)]
    return frozenset().union(*map(_lowest, numbers)) if numbers else frozenset({device})


def _name(device: str) -> str:
    try:
        major, minor = device.split(":")
        return kernel_name(int(major), int(minor))
    except (HostError, ValueError):
        return device
