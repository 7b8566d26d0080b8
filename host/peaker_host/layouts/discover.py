"""Discovery reads the layers below the donor's filesystems from /sys, mdadm and LVM: the set manifest of
each.

Refuses, before anything is snapshotted, what could not be put together again from snapshots, and says why.
"""

from __future__ import annotations

import glob
import os
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from peaker_host.blocks.stack_places import array_layout
from peaker_host.layouts.lvm_reports import Lvm, MdMember, PvRow, logical_volume, parse_examine
from peaker_host.machine.devices import (
    BlockDevice,
    Mount,
    describe_device,
    first_line,
    label_of,
    listed,
    read_mounts,
    read_superblock,
)
from peaker_host.machine.errors import LayoutUnsupported
from peaker_host.machine.manifest import Array, ArraySlot, LogicalVolume, Stack, StackVolume, layout_kind
from peaker_host.machine.settings import Machine

_LINKS = "nvme-Amazon_Elastic_Block_Store_vol"
UNSUPPORTED_FILESYSTEMS = {
    "jfs": "nothing says which of its blocks are in use, and current kernels of Amazon Linux and RHEL are without it",
    "reiserfs": "Linux 6.13 removed it, and nothing says which of its blocks are in use",
    "btrfs": "its devices are its own affair and not md's or LVM's",
    "zfs": "its devices are its own affair and not md's or LVM's",
    "ext3": "it knows no extents, by which its files are found; copy it to ext4",
}


def discover(
    machine: Machine,
    mount_points: Sequence[str],
    sys_root: str = "/sys",
    mountinfo: str = "/proc/self/mountinfo",
) -> List[Stack]:
    """One stack for each mount point on a filesystem of its own. Raises LayoutUnsupported.

    Nothing is said of a filesystem on one whole disk of a Xen instance: nothing there tells which volume a disk is.
    """
    return Discovery(machine, sys_root, mountinfo).stacks(mount_points)


class Discovery:
    def __init__(self, machine: Machine, sys_root: str, mountinfo: str) -> None:
        self._machine = machine
        self._mountinfo = mountinfo
        self._sys = sys_root
        self._links = ebs_links(machine.by_id_dir)
        self._examined: Dict[str, MdMember] = {}

    def stacks(self, mount_points: Sequence[str]) -> List[Stack]:
        """Returns the stacks by mount point. Raises LayoutUnsupported also where two filesystems share a volume."""
        mounts = {one.point: one for one in read_mounts(self._mountinfo)}
        found = []
        for point in mount_points:
            mount = mounts.get(os.path.normpath(point))
            if mount is None:
                raise LayoutUnsupported(f"{point} is no mount point on this host")
            if mount.kind not in ("xfs", "ext4"):
                why = UNSUPPORTED_FILESYSTEMS.get(mount.kind, "it is not known here")
                raise LayoutUnsupported(f"{mount.point} is {mount.kind}: {why}. Take xfs or ext4")
            if not self._is_nameless_disk(mount):
                found.append(self._stack(mount))
        _refuse_shared(found)
        return found

    def _is_nameless_disk(self, mount: Mount) -> bool:
        """A disk of Xen has no link of udev's with the volume's id."""
        name = self._kernel_name(mount.device)
        whole = not os.path.exists(f"{self._sys}/class/block/{name}/partition")
        return whole and name.startswith("xvd")

    def _stack(self, mount: Mount) -> Stack:
        name = self._kernel_name(mount.device)
        top = self._device(name)
        logical, bases = self._logical_volume(name, mount.point)
        arrays = [self._array(base, mount.point) for base in bases if self._is_array(base)]
        leaves = self._leaves(bases, mount.point)
        self._refuse_nested(arrays, mount.point)
        superblock = read_superblock(top.path)
        levels = [array.level for array in arrays]
        if len(set(levels)) > 1:
            raise LayoutUnsupported(
                f"{mount.point}: arrays of levels {', '.join(levels)} in one volume group"
            )
        return Stack(
            mount_point=mount.point,
            filesystem=mount.kind,
            uuid=superblock.uuid,
            size_bytes=top.size_bytes,
            kind=layout_kind(levels, logical.segments if logical else ()),
            volumes=tuple(sorted(leaves, key=lambda one: one.volume_id)),
            arrays=tuple(arrays),
            logical_volume=logical,
        )

    def _logical_volume(self, name: str, point: str) -> Tuple[Optional[LogicalVolume], List[str]]:
        """The logical volume that the device is, and the devices that it or the filesystem lies on."""
        uuid = first_line(f"{self._sys}/block/{name}/dm/uuid")
        if not uuid:
            return None, [name]
        if not uuid.startswith("LVM-"):
            kind = uuid.partition("-")[0]
            raise LayoutUnsupported(f"{point} lies on a device mapper's device of type {kind}, not on LVM")
        under = self._slaves(name)
        if any(first_line(f"{self._sys}/block/{one}/dm/uuid") for one in under):
            raise LayoutUnsupported(
                f"{point}: its logical volume is one of several parts (snapshot, thin, cached)"
            )
        return self._of_group(name, point)

    def _of_group(self, name: str, point: str) -> Tuple[LogicalVolume, List[str]]:
        everything = Lvm(self._machine.processes, ["/dev/.*"])
        group, _, volume = _split_mapped(first_line(f"{self._sys}/block/{name}/dm/name"))
        rows = [row for row in everything.physical_volumes() if row.group == group]
        if any(row.missing_in_group for row in rows):
            raise LayoutUnsupported(f"{point}: the volume group {group} lacks a physical volume")
        places: Dict[str, PvRow] = {}
        bases = []
        for row in rows:
            base = self._kernel_name(_number_of(row.path))
            bases.append(base)
            places[self._place(base, point)] = row
        return logical_volume(volume, everything.segments(group), places), bases

    def _place(self, base: str, point: str) -> str:
        """Returns the device below a physical volume: the uuid of an array, or a volume id."""
        return self._array(base, point).uuid if self._is_array(base) else self._leaf(base, point).volume_id

    def _array(self, name: str, point: str) -> Array:
        path = f"{self._sys}/block/{name}"
        members = {one: self._examine(one) for one in self._slaves(name)}
        if not members:
            raise LayoutUnsupported(f"{point}: array {name} has no members")
        first = next(iter(members.values()))
        degraded = first_line(f"{path}/md/degraded") or "0"
        absent = [str(index) for index, letter in enumerate(first.state) if letter != "A"]
        if absent or degraded != "0" or len(members) != first.devices:
            raise LayoutUnsupported(
                f"{point}: array {name} is degraded (place {', '.join(absent) or 'unknown'} of {first.devices}): "
                "repair it first"
            )
        if first.reshaping or (first_line(f"{path}/md/sync_action") or "idle") in ("reshape", "recover"):
            raise LayoutUnsupported(f"{point}: array {name} is growing or recovering: wait for its end")
        slots = tuple(
            sorted(
                (self._slot(one, member, point) for one, member in members.items()), key=lambda one: one.slot
            )
        )
        made = Array(
            uuid=first.array_uuid,
            level=first.level,
            algorithm=first.algorithm,
            chunk_bytes=0 if first.level == "raid1" else first.chunk_bytes,
            member_bytes=min(member.member_bytes for member in members.values()),
            metadata=first.metadata,
            slots=slots,
        )
        array_layout(made)
        self._refuse_unequal(made, members, point)
        return made

    def _refuse_unequal(self, array: Array, members: Dict[str, MdMember], point: str) -> None:
        """A raid0 of unequal members has a second zone at its end, for which there is no arithmetic here."""
        larger = [
            self._leaf(name, point).volume_id
            for name, member in members.items()
            if member.member_bytes != array.member_bytes
        ]
        if array.level == "raid0" and larger:
            raise LayoutUnsupported(
                f"{point}: of its raid0 {', '.join(sorted(larger))} is larger than the others: make them equal"
            )

    def _slot(self, name: str, member: MdMember, point: str) -> ArraySlot:
        if member.slot is None:
            raise LayoutUnsupported(f"{point}: {name} is a spare or a journal of its array: remove it")
        return ArraySlot(member.slot, self._leaf(name, point).volume_id, member.data_offset_bytes)

    def _examine(self, name: str) -> MdMember:
        if name not in self._examined:
            path = self._device(name).path
            said = self._machine.processes.run(["mdadm", "--examine", path])
            self._examined[name] = parse_examine(path, said.stdout)
        return self._examined[name]

    def _leaves(self, bases: Iterable[str], point: str) -> List[StackVolume]:
        found = []
        for base in bases:
            members = self._slaves(base) if self._is_array(base) else [base]
            for one in members:
                label = (
                    self._examine(one).device_uuid
                    if self._is_array(base)
                    else label_of(self._device(one).path)
                )
                leaf = self._leaf(one, point)
                found.append(StackVolume(leaf.volume_id, leaf.size_bytes, label))
        return found

    def _leaf(self, name: str, point: str) -> StackVolume:
        """The EBS volume that a device is. A partition, or anything that is built of others, is refused."""
        if os.path.exists(f"{self._sys}/class/block/{name}/partition"):
            raise LayoutUnsupported(f"{point} lies on the partition {name}: only whole volumes are known")
        if self._slaves(name):
            raise LayoutUnsupported(f"{point}: {name} is built of other devices where a volume was expected")
        device = self._device(name)
        link = self._links.get(device.number)
        if link is None:
            raise LayoutUnsupported(
                f"{point} lies on {name}, which is no EBS volume ({self._machine.by_id_dir} has no link to it)"
            )
        return StackVolume(f"vol-{os.path.basename(link)[len(_LINKS) :]}", device.size_bytes)

    def _refuse_nested(self, arrays: Sequence[Array], point: str) -> None:
        taken = [slot.volume_id for array in arrays for slot in array.slots]
        if len(set(taken)) != len(taken):
            raise LayoutUnsupported(f"{point}: a volume is a member of two arrays")

    def _is_array(self, name: str) -> bool:
        return os.path.exists(f"{self._sys}/block/{name}/md")

    def _slaves(self, name: str) -> List[str]:
        return listed(f"{self._sys}/block/{name}/slaves")

    def _kernel_name(self, number: str) -> str:
        link = f"{self._sys}/dev/block/{number}"
        if not os.path.exists(link):
            raise LayoutUnsupported(f"{link} does not exist: the filesystem lies on no block device")
        return os.path.basename(os.path.realpath(link))

    def _device(self, name: str) -> BlockDevice:
        """Finds a device by the volume's own link where it has one: a host may show no other node of it."""
        link = self._links.get(first_line(f"{self._sys}/class/block/{name}/dev"))
        return describe_device(f"/dev/{name}" if link is None else link)


def ebs_links(by_id_dir: str) -> Dict[str, str]:
    """udev's links of whole EBS volumes, by device number as the kernel writes it."""
    found: Dict[str, str] = {}
    for link in glob.glob(os.path.join(by_id_dir, f"{_LINKS}*")):
        if os.path.basename(link)[len(_LINKS) :].isalnum() and os.path.exists(link):
            found[_number_of(link)] = link
    return found


def _number_of(path: str) -> str:
    number = os.stat(path).st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def _split_mapped(name: str) -> Tuple[str, str, str]:
    """Group and volume from the device mapper's name, in which hyphens of either are doubled."""
    group, hyphen, volume = name.replace("--", "\0").partition("-")
    return group.replace("\0", "-"), hyphen, volume.replace("\0", "-")


def _refuse_shared(stacks: Sequence[Stack]) -> None:
    owner: Dict[str, str] = {}
    for stack in stacks:
        for volume_id in stack.volume_ids:
            other = owner.setdefault(volume_id, stack.mount_point)
            if other != stack.mount_point:
                raise LayoutUnsupported(
                    f"{other} and {stack.mount_point} share {volume_id}: give each filesystem volumes of its own"
                )
