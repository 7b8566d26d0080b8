"""The filesystems of a manifest, each with its device: a volume itself, or the top of a set, which is brought up.

Arrays come up by mdadm, logical volumes by LVM, always by uuid: the order and the names of devices say nothing. What
udev has begun to assemble by itself is taken where it is whole, and stopped and begun anew where it is not. An array
that was written to at the snapshot's instant would be resynchronised at once, which reads all of its members beside the
prewarm: that waits until the filesystem is mounted at its place.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from dataclasses import dataclass, replace
from typing import Dict, List, Optional

from peaker_host.layouts.lvm_reports import Lvm
from peaker_host.machine.devices import (
    BlockDevice,
    by_id_path,
    describe_device,
    first_line,
    holders,
    mount_points,
    read_superblock,
    refuse_if_used,
)
from peaker_host.machine.errors import AssemblyFailed, CommandFailed, DeviceInUse, WrongDevice
from peaker_host.machine.manifest import Array, LogicalVolume, Manifest, Member, Stack, open_member
from peaker_host.machine.settings import Machine, Processes

_HIGHEST_MINOR = 127
_TIMEOUT_SECONDS = 120.0
_SETTLE_SECONDS = 10.0


class StackDevices:
    def __init__(self, machine: Machine, stack: Stack) -> None:
        self._machine = machine
        self._stack = stack

    def bring_up(self) -> str:
        """The path of the filesystem's device; what is up already stays. Raises AssemblyFailed, DeviceInUse."""
        stack = self._stack
        if stack.is_single:
            return by_id_path(self._machine.by_id_dir, stack.volumes[0].volume_id)
        arrays = {array.uuid: self._array_up(array) for array in stack.arrays}
        if stack.logical_volume is None:
            return arrays[stack.arrays[0].uuid]
        return self._volume_up(stack.logical_volume, arrays)

    def take_down(self) -> None:
        """Deactivate and stop what is up, the highest first. Raises AssemblyFailed."""
        stack = self._stack
        if stack.logical_volume is not None and self._mapped(stack.logical_volume) is not None:
            logical = stack.logical_volume
            paths = [self._base_path(one.on) for one in logical.physical_volumes]
            self._run_lvm(Lvm(self._machine.processes, paths), "vgchange", "-an", logical.group)
        for array in stack.arrays:
            for name in sorted(self._arrays_on(array)):
                self._stop(name)

    def let_resync(self) -> None:
        """Allows the resynchronisation that the snapshot's instant left over, once the database works."""
        for array in self._stack.arrays:
            for name in self._arrays_on(array):
                _write(f"/sys/block/{name}/md/sync_action", "idle")

    def _device(self, volume_id: str) -> BlockDevice:
        return describe_device(by_id_path(self._machine.by_id_dir, volume_id))

    def _arrays_on(self, array: Array) -> List[str]:
        found = {name for slot in array.slots for name in holders(self._device(slot.volume_id))}
        return [name for name in found if name.startswith("md")]

    def _array_up(self, array: Array) -> str:
        found = self._arrays_on(array)
        if len(found) == 1 and self._is_whole(found[0], array):
            self._hold_resync(found[0], array)
            return f"/dev/{found[0]}"
        for name in found:
            self._stop(name)
        path = f"/dev/md{self._free_minor()}"
        members = [self._device(slot.volume_id) for slot in array.slots]
        argv = ["mdadm", "--assemble", path, f"--uuid={array.uuid}", "--homehost=any"]
        argv += [f"/dev/{device.kernel_name}" for device in members]
        try:
            self._machine.processes.run(argv, timeout_seconds=_TIMEOUT_SECONDS)
        except CommandFailed as error:
            raise AssemblyFailed(f"{self._stack.mount_point}: array {array.uuid}: {error}") from error
        name = os.path.basename(path)
        if not self._is_whole(name, array):
            self._stop(name)
            raise AssemblyFailed(f"{self._stack.mount_point}: array {array.uuid} came up without a member")
        self._hold_resync(name, array)
        return path

    def _is_whole(self, name: str, array: Array) -> bool:
        """Active, and every member in its place."""
        folder = f"/sys/block/{name}/md"
        if first_line(f"{folder}/array_state") in ("", "inactive", "clear"):
            return False
        for slot in array.slots:
            kernel_name = self._device(slot.volume_id).kernel_name
            if first_line(f"{folder}/dev-{kernel_name}/slot") != str(slot.slot):
                return False
        return first_line(f"{folder}/degraded") in ("", "0")

    def _hold_resync(self, name: str, array: Array) -> None:
        if array.level != "raid0" and not mount_points(describe_device(f"/dev/{name}")):
            _write(f"/sys/block/{name}/md/sync_action", "frozen")

    def _stop(self, name: str) -> None:
        device = describe_device(f"/dev/{name}")
        points = mount_points(device)
        if points:
            raise DeviceInUse(f"/dev/{name} is mounted at {', '.join(points)} and is not the whole set")
        try:
            self._machine.processes.run(["mdadm", "--stop", f"/dev/{name}"], timeout_seconds=_TIMEOUT_SECONDS)
        except CommandFailed as error:
            raise AssemblyFailed(f"{self._stack.mount_point}: {error}") from error

    @staticmethod
    def _free_minor() -> int:
        taken = {os.path.basename(path) for path in glob.glob("/sys/block/md*")}
        return next(minor for minor in range(_HIGHEST_MINOR, 0, -1) if f"md{minor}" not in taken)

    def _base_path(self, on: str) -> str:
        """The device that a physical volume lies on, when its array is up."""
        for array in self._stack.arrays:
            if array.uuid == on:
                return f"/dev/{self._arrays_on(array)[0]}"
        return f"/dev/{self._device(on).kernel_name}"

    def _volume_up(self, logical: LogicalVolume, arrays: Dict[str, str]) -> str:
        paths = [arrays.get(one.on) or self._base_path(one.on) for one in logical.physical_volumes]
        lvm = Lvm(self._machine.processes, paths)
        found = {row.uuid: row for row in lvm.physical_volumes()}
        absent = [one for one in logical.physical_volumes if one.uuid not in found]
        if absent:
            raise AssemblyFailed(
                f"{self._stack.mount_point}: LVM sees no physical volume {absent[0].uuid} on {absent[0].on}"
            )
        groups = {row.group_uuid for row in found.values()}
        if groups != {logical.group_uuid}:
            raise AssemblyFailed(
                f"{self._stack.mount_point}: the volumes are of the groups {', '.join(sorted(groups))}, not of "
                f"{logical.group_uuid} alone"
            )
        group = next(iter(found.values())).group
        self._run_lvm(lvm, "lvchange", "-ay", "--activationmode", "complete", f"{group}/{logical.name}")
        return self._await_mapped(logical)

    def _run_lvm(self, lvm: Lvm, *argv: str) -> None:
        try:
            lvm.run(*argv)
        except CommandFailed as error:
            raise AssemblyFailed(f"{self._stack.mount_point}: {error}") from error

    def _await_mapped(self, logical: LogicalVolume) -> str:
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            found = self._mapped(logical)
            if found is not None and os.path.exists(found):
                return found
            if time.monotonic() >= deadline:
                raise AssemblyFailed(
                    f"{self._stack.mount_point}: {logical.name} is active, but has no device"
                )
            time.sleep(0.1)

    @staticmethod
    def _mapped(logical: LogicalVolume) -> Optional[str]:
        wanted = "LVM-" + (logical.group_uuid + logical.uuid).replace("-", "")
        for path in glob.glob("/sys/block/dm-*"):
            if first_line(f"{path}/dm/uuid") == wanted:
                return f"/dev/{os.path.basename(path)}"
        return None


def _write(path: str, text: str) -> None:
    """A wish of the kernel: what it does not know (raid0 has no resync) is not needed."""
    with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
        file.write(text)


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


def open_mounts(machine: Machine, manifest: Manifest) -> List[OpenFilesystem]:
    """All filesystems, in the manifest's order, every device checked again; sets are up when this returns.

    A host that was stopped comes back with its sets down, and with other device names.
    """
    return [_open(machine, manifest, point) for point in manifest.mount_points]


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


def take_down(machine: Machine, manifest: Manifest) -> None:
    """Sets are stopped cleanly; their filesystems are unmounted by now."""
    for stack in manifest.stacks:
        StackDevices(machine, stack).take_down()


def let_resync(machine: Machine, manifest: Manifest) -> None:
    """Allows the resynchronisation that the snapshot's instant left over: the filesystems are in use."""
    for stack in manifest.stacks:
        StackDevices(machine, stack).let_resync()


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


def _open(machine: Machine, manifest: Manifest, point: str) -> OpenFilesystem:
    members, stack = manifest.members_at(point), manifest.stack_at(point)
    if stack is None:
        device = open_member(machine, members[0])
        return OpenFilesystem(members[0], device, members, None)
    for member in members:
        open_member(machine, member, in_set=True)
    path = StackDevices(machine, stack).bring_up()
    device = describe_device(path)
    refuse_if_used(device, point)
    superblock = read_superblock(path)
    if superblock.uuid != stack.uuid:
        raise WrongDevice(f"{path} carries the filesystem {superblock.uuid}; {stack.uuid} was assembled")
    top = replace(members[0], path=path, size_bytes=device.size_bytes, uuid=stack.uuid)
    return OpenFilesystem(top, device, members, stack)
