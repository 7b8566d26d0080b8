"""Filesystems on volumes that were made empty, for the time in which they are written."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Callable, List

from peaker_host.layouts.mounts import Mount
from peaker_host.layouts.unmount import unmount
from peaker_host.machine.devices import (
    BlockDevice,
    by_id_path,
    describe_device,
    mount_points,
    refuse_if_not_volume,
    refuse_if_used,
)
from peaker_host.machine.errors import DeviceNotEmpty
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.manifest import Member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.replicate.launch import mount_at_its_place

_MADE = "clone.json"
# XFS, ext4, md and LVM write what they are known by within the first 64 KiB.
_HEAD_BYTES = 64 * 1024
_MKFS_SECONDS = 900.0


class NewFilesystems:
    """Made, mounted at their places, unmounted again. What an engine that was killed has left is made anew."""

    def __init__(
        self,
        settings: Settings,
        processes: Processes,
        run_id: str,
        members: List[Member],
        say: Callable[[str], None],
    ) -> None:
        self._processes = processes
        self._members = members
        self._say = say
        self._settings = settings
        self._path = settings.run_path(run_id, _MADE)

    def refuse_unless_empty(self) -> None:
        """Nothing is touched by this. Raises WrongDevice, DeviceInUse, and DeviceNotEmpty for a volume that holds what
        no engine of this run has begun."""
        for member in self._members:
            if member.volume_id in self._begun():
                continue
            device = self._device(member)
            refuse_if_used(device, "")
            if not _is_empty(device.path):
                raise DeviceNotEmpty(f"{member.name}: {device.path} holds something; it is not written to")

    def make(self) -> None:
        """Raises as `refuse_unless_empty`, and CommandFailed."""
        self.refuse_unless_empty()
        self.unmount()
        write_json(self._path, {"volumes": sorted(member.volume_id for member in self._members)})
        for member in self.as_found():
            device = describe_device(member.path)
            refuse_if_used(device, "")
            self._processes.run(_mkfs(member, device), timeout_seconds=_MKFS_SECONDS)
            self._say(mount_at_its_place(self._processes, Mount(member, device, [member], None)))

    def unmount(self) -> None:
        """What is mounted of those that were begun; a filesystem that lies in another one first."""
        begun = [member for member in self._members if member.volume_id in self._begun()]
        for member in sorted(begun, key=lambda one: one.mount_point, reverse=True):
            if member.mount_point in mount_points(self._device(member)):
                unmount(self._processes, member.mount_point)

    def finish(self) -> None:
        """They are whole: from now on no engine makes them anew."""
        os.unlink(self._path)

    def as_found(self) -> List[Member]:
        """The volumes with their devices and sizes."""
        found = []
        for member in self._members:
            device = self._device(member)
            found.append(replace(member, path=device.path, size_bytes=device.size_bytes))
        return found

    def _device(self, member: Member) -> BlockDevice:
        device = describe_device(by_id_path(self._settings.by_id_dir, member.volume_id))
        refuse_if_not_volume(device, member.volume_id, self._settings.by_id_dir)
        return device

    def _begun(self) -> List[str]:
        """Ids of the volumes that an engine of this run has begun and not finished."""
        found: List[str] = (read_json(self._path) or {}).get("volumes", [])
        return found


def _is_empty(path: str) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not os.pread(descriptor, _HEAD_BYTES, 0).strip(b"\0")
    finally:
        os.close(descriptor)


def _mkfs(member: Member, device: BlockDevice) -> List[str]:
    """Without discarding: the volume is empty."""
    if member.filesystem == "xfs":
        known_by = ["-m", f"uuid={member.uuid}"] if member.uuid else []
        return ["mkfs.xfs", "-q", "-f", "-K", *known_by, device.path]
    known_by = ["-U", member.uuid] if member.uuid else []
    return ["mkfs.ext4", "-q", "-F", "-E", "nodiscard", *known_by, device.path]
