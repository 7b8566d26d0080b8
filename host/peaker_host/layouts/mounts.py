"""The filesystems of a manifest, each with its device: a volume itself, or the top of a set, which is brought up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Optional

from peaker_host.layouts.bring_up import StackDevices
from peaker_host.machine.devices import BlockDevice, describe_device, read_superblock, refuse_if_used
from peaker_host.machine.errors import WrongDevice
from peaker_host.machine.manifest import Manifest, Member, open_member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.machine.stacks import Stack


@dataclass(frozen=True)
class Mount:
    """One filesystem: `top` describes it as if it lay on one volume. `stack` is None where it does."""

    top: Member
    device: BlockDevice
    members: List[Member]
    stack: Optional[Stack]


def open_mounts(settings: Settings, processes: Processes, manifest: Manifest) -> List[Mount]:
    """All filesystems, in the manifest's order, every device checked again; sets are up when this returns.

    A host that was stopped comes back with its sets down, and with other device names.
    """
    return [_open(settings, processes, manifest, point) for point in manifest.mount_points]


def take_down(settings: Settings, processes: Processes, manifest: Manifest) -> None:
    """Sets are stopped cleanly; their filesystems are unmounted by now."""
    for stack in manifest.stacks:
        StackDevices(settings, processes, stack).take_down()


def let_resync(settings: Settings, processes: Processes, manifest: Manifest) -> None:
    """Allows the resynchronisation that the snapshot's instant left over: the filesystems are in use."""
    for stack in manifest.stacks:
        StackDevices(settings, processes, stack).let_resync()


def _open(settings: Settings, processes: Processes, manifest: Manifest, point: str) -> Mount:
    members, stack = manifest.members_at(point), manifest.stack_at(point)
    if stack is None:
        device = open_member(settings, members[0])
        return Mount(members[0], device, members, None)
    for member in members:
        open_member(settings, member, in_set=True)
    path = StackDevices(settings, processes, stack).bring_up()
    device = describe_device(path)
    refuse_if_used(device, point)
    superblock = read_superblock(path)
    if superblock.uuid != stack.uuid:
        raise WrongDevice(f"{path} carries the filesystem {superblock.uuid}; {stack.uuid} was assembled")
    top = replace(members[0], path=path, size_bytes=device.size_bytes, uuid=stack.uuid)
    return Mount(top, device, members, stack)
