"""The filesystems of a manifest, each with its device: a volume itself, or the top of a set, which is brought up."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import List, Optional

from peaker_host.layouts.bring_up import StackDevices
from peaker_host.machine.devices import (
    BlockDevice,
    describe_device,
    mount_points,
    read_superblock,
    refuse_if_used,
)
from peaker_host.machine.errors import CommandFailed, DeviceInUse, WrongDevice
from peaker_host.machine.manifest import Manifest, Member, open_member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.machine.stacks import Stack

# What umount(8) says for EBUSY of umount(2), which any path that is being looked up below the place is enough for: a
# monitoring agent that measures all filesystems, a process that is just ending, a mount namespace that is just made.
_BUSY = "target is busy"
_BUSY_SECONDS = 60.0
_AGAIN_SECONDS = 0.1
_MOUNT_SECONDS = 900.0
_MOUNT_OPTIONS = {"xfs": "nouuid,noatime", "ext4": "noatime"}


@dataclass(frozen=True)
class OpenFilesystem:
    """One filesystem: `top` describes it as if it lay on one volume. `stack` is None where it does."""

    top: Member
    device: BlockDevice
    members: List[Member]
    stack: Optional[Stack]


def open_mounts(settings: Settings, processes: Processes, manifest: Manifest) -> List[OpenFilesystem]:
    """All filesystems, in the manifest's order, every device checked again; sets are up when this returns.

    A host that was stopped comes back with its sets down, and with other device names.
    """
    return [_open(settings, processes, manifest, point) for point in manifest.mount_points]


def mount_at_place(processes: Processes, mount: OpenFilesystem) -> str:
    """Mount a filesystem unless it is there already. Refuses a place that holds something else."""
    member, device = mount.top, mount.device
    if member.mount_point in mount_points(device):
        return f"{member.name}: already mounted at {member.mount_point}"
    os.makedirs(member.mount_point, exist_ok=True)
    if os.path.ismount(member.mount_point):
        raise DeviceInUse(f"{member.mount_point} already carries another filesystem")
    refuse_if_used(device, member.mount_point)
    options = _MOUNT_OPTIONS[member.filesystem]
    argv = ["mount", "-t", member.filesystem, "-o", options, device.path, member.mount_point]
    processes.run(argv, timeout_seconds=_MOUNT_SECONDS)
    return f"{member.name}: mounted at {member.mount_point}"


def take_down(settings: Settings, processes: Processes, manifest: Manifest) -> None:
    """Sets are stopped cleanly; their filesystems are unmounted by now."""
    for stack in manifest.stacks:
        StackDevices(settings, processes, stack).take_down()


def let_resync(settings: Settings, processes: Processes, manifest: Manifest) -> None:
    """Allows the resynchronisation that the snapshot's instant left over: the filesystems are in use."""
    for stack in manifest.stacks:
        StackDevices(settings, processes, stack).let_resync()


def unmount(processes: Processes, point: str, busy_seconds: float = _BUSY_SECONDS) -> None:
    """Unmounts a filesystem, again and again for `busy_seconds` while it is busy. Raises CommandFailed."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            processes.run(["umount", point], timeout_seconds=_MOUNT_SECONDS)
            return
        except CommandFailed as error:
            if _BUSY not in str(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_AGAIN_SECONDS)


def _open(settings: Settings, processes: Processes, manifest: Manifest, point: str) -> OpenFilesystem:
    members, stack = manifest.members_at(point), manifest.stack_at(point)
    if stack is None:
        device = open_member(settings, members[0])
        return OpenFilesystem(members[0], device, members, None)
    for member in members:
        open_member(settings, member, in_set=True)
    path = StackDevices(settings, processes, stack).bring_up()
    device = describe_device(path)
    refuse_if_used(device, point)
    superblock = read_superblock(path)
    if superblock.uuid != stack.uuid:
        raise WrongDevice(f"{path} carries the filesystem {superblock.uuid}; {stack.uuid} was assembled")
    top = replace(members[0], path=path, size_bytes=device.size_bytes, uuid=stack.uuid)
    return OpenFilesystem(top, device, members, stack)
