"""The volumes of one run on this host, as assemble_storage found them (storage.json), and the stacks below filesystems.

A stack is the set manifest of one filesystem: volumes, md arrays, a logical volume. It is read from the donor's devices
before the snapshot, is kept with the snapshot set, and is what a restored set must be again. Volumes are named by their
EBS ids: the donor's in the manifest of a snapshot set, the replica's own on the replica.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Collection, Dict, List, Mapping, Optional, Tuple

from peaker_host.machine.devices import (
    BlockDevice,
    by_id_path,
    describe_device,
    holders,
    mount_points,
    read_superblock,
    refuse_if_not_volume,
    refuse_if_used,
)
from peaker_host.machine.errors import (
    DeviceInUse,
    FilesystemTruncated,
    InvalidArgument,
    NoFilesystem,
    StorageNotAssembled,
    WrongDevice,
    decoded,
    parsed_json,
    understood,
)
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings

# Ids, uuids, names of groups and volumes (lvm(8), "valid names"): no hyphen begins one, which would be an option.
_NAME = re.compile(r"[0-9A-Za-z_+.][0-9A-Za-z_+.:-]{0,127}")


@dataclass(frozen=True)
class StackVolume:
    """An EBS volume. `label` is the uuid that its own superblock gives: of the array's member, of LVM's physical
    volume, of the filesystem."""

    volume_id: str
    size_bytes: int
    label: str = ""


@dataclass(frozen=True)
class ArraySlot:
    """The place of a volume in its array, which its superblock names; the order of devices says nothing."""

    slot: int
    volume_id: str
    data_offset_bytes: int


@dataclass(frozen=True)
class Array:
    """An md array. `member_bytes` is what it uses of each member; `algorithm` is what mdadm calls the layout, such as
    left-symmetric or near=2; `chunk_bytes` is 0 for mirrors."""

    uuid: str
    level: str
    algorithm: str
    chunk_bytes: int
    member_bytes: int
    metadata: str
    slots: Tuple[ArraySlot, ...]


@dataclass(frozen=True)
class PhysicalVolume:
    """LVM's physical volume; `on` is a volume id or the uuid of an array."""

    uuid: str
    on: str


@dataclass(frozen=True)
class Stripe:
    """A stripe begins at this place of its physical volume."""

    physical_volume: str
    start_bytes: int


@dataclass(frozen=True)
class Segment:
    """A part of a logical volume. One stripe and `stripe_bytes` 0: linear."""

    start_bytes: int
    length_bytes: int
    stripe_bytes: int
    stripes: Tuple[Stripe, ...]


@dataclass(frozen=True)
class LogicalVolume:
    """A logical volume and all physical volumes of its group."""

    uuid: str
    name: str
    group_uuid: str
    group: str
    physical_volumes: Tuple[PhysicalVolume, ...]
    segments: Tuple[Segment, ...]


@dataclass(frozen=True)
class Stack:
    """One filesystem and everything below it. `kind` is the layout as the settings call it."""

    mount_point: str
    filesystem: str
    uuid: str
    size_bytes: int
    kind: str
    volumes: Tuple[StackVolume, ...]
    arrays: Tuple[Array, ...] = ()
    logical_volume: Optional[LogicalVolume] = None

    @property
    def is_single(self) -> bool:
        """The filesystem lies on its one volume itself."""
        return not self.arrays and self.logical_volume is None

    @property
    def volume_ids(self) -> List[str]:
        return [one.volume_id for one in self.volumes]

    def array_of(self, volume_id: str) -> Optional[Tuple[Array, ArraySlot]]:
        for array in self.arrays:
            for slot in array.slots:
                if slot.volume_id == volume_id:
                    return array, slot
        return None

    def with_volumes(self, new_ids: Mapping[str, str]) -> "Stack":
        """The same on other volumes: `new_ids` by the old ones. Raises KeyError with the id that it lacks."""
        logical = self.logical_volume
        if logical is not None:
            moved = tuple(replace(one, on=new_ids.get(one.on, one.on)) for one in logical.physical_volumes)
            logical = replace(logical, physical_volumes=moved)
        return replace(
            self,
            volumes=tuple(replace(one, volume_id=new_ids[one.volume_id]) for one in self.volumes),
            arrays=tuple(
                replace(
                    array,
                    slots=tuple(replace(slot, volume_id=new_ids[slot.volume_id]) for slot in array.slots),
                )
                for array in self.arrays
            ),
            logical_volume=logical,
        )


def layout_kind(levels: List[str], segments: Tuple[Segment, ...]) -> str:
    """The settings' name of a layout: `levels` are those of its arrays, `segments` those of its logical volume."""
    if not segments:
        return levels[0] if levels else "single"
    if levels:
        return f"{levels[0]}_lvm"
    return "lvm_striped" if segments[0].stripe_bytes else "lvm_linear"


def stack_document(stack: Stack) -> Dict[str, Any]:
    return asdict(stack)


def stack_of(entry: Any) -> Stack:
    """Reads a stack that `stack_document` wrote. Raises ValueError, TypeError or KeyError where it does not fit."""
    stack: Stack = decoded(Stack, entry)
    _refuse_names(stack)
    _refuse_loose_ends(stack)
    return stack


def _refuse_names(stack: Stack) -> None:
    """Refuses ids and names that would be something else on a command line."""
    names = [stack.uuid, *stack.volume_ids, *(array.uuid for array in stack.arrays)]
    if stack.logical_volume is not None:
        logical = stack.logical_volume
        names += [logical.uuid, logical.name, logical.group_uuid, logical.group]
        names += [one.uuid for one in logical.physical_volumes]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:60]!r} is not a name or an id")


def _refuse_loose_ends(stack: Stack) -> None:
    volumes = set(stack.volume_ids)
    arrays = {array.uuid for array in stack.arrays}
    named = [(slot.volume_id, volumes) for array in stack.arrays for slot in array.slots]
    if stack.logical_volume is not None:
        logical = stack.logical_volume
        physical = {one.uuid for one in logical.physical_volumes}
        named += [(one.on, volumes | arrays) for one in logical.physical_volumes]
        named += [(one.physical_volume, physical) for each in logical.segments for one in each.stripes]
        if not all(each.stripes for each in logical.segments):
            raise ValueError("a segment lies nowhere")
    unknown = sorted(name for name, known in named if name not in known)
    if unknown or not volumes:
        raise ValueError(
            f"{', '.join(unknown) or 'no volume'} is not among the volumes of {stack.mount_point}"
        )


FILESYSTEMS = ("xfs", "ext4")
_VOLUME_ID = re.compile(r"vol-[0-9a-f]{8,40}")
_FIELDS = ("name", "volume_id", "device", "mount_point", "filesystem")
_OPTIONAL = ("source",)
_FILE, _PROVEN = "storage.json", "proven.json"


@dataclass(frozen=True)
class Member:
    """One volume: how it was asked for, and the node and size that were found. `source` is the donor's volume.

    `uuid` is that of the superblock on the volume itself: its filesystem's, or in a set its place's.
    """

    name: str
    volume_id: str
    device: str
    mount_point: str
    filesystem: str
    path: str = ""
    size_bytes: int = 0
    uuid: str = ""
    source: str = ""


@dataclass(frozen=True)
class Manifest:
    """All volumes of one run, and what the filesystems that need several of them stand on (`stacks`)."""

    run_id: str
    members: List[Member]
    stacks: List[Stack] = field(default_factory=list)

    def stack_at(self, mount_point: str) -> Optional[Stack]:
        """Returns the stack below the filesystem there; None for one that lies on its volume itself."""
        return next((one for one in self.stacks if one.mount_point == mount_point), None)

    @property
    def mount_points(self) -> List[str]:
        return list(dict.fromkeys(member.mount_point for member in self.members))

    def members_at(self, mount_point: str) -> List[Member]:
        return [member for member in self.members if member.mount_point == mount_point]


def parse_volumes(text: str, set_mount_points: Collection[str] = ()) -> List[Member]:
    """The Volumes parameter: [{name, volume_id, device, mount_point, filesystem}], and `source` where it is of a set.
    Names the wrong field. Several volumes may be of one of `set_mount_points`."""
    try:
        content = parsed_json(text)
    except ValueError as error:
        raise InvalidArgument(f"volumes: not JSON: {error}") from error
    if not isinstance(content, list) or not content:
        raise InvalidArgument("volumes: must be a list of at least one volume")
    members = [_member(entry, f"volumes[{index}]") for index, entry in enumerate(content)]
    alone = [member for member in members if member.mount_point not in set_mount_points]
    for name, those in (("name", members), ("volume_id", members), ("mount_point", alone)):
        if len({getattr(member, name) for member in those}) != len(those):
            raise InvalidArgument(f"volumes: two volumes have the same {name}")
    return members


def parse_stacks(text: str) -> List[Stack]:
    """The Layout parameter: the set manifest, a list of stacks; empty text for none. Raises InvalidArgument."""
    if not text:
        return []
    with understood(InvalidArgument, "layout"):
        return [stack_of(entry) for entry in parsed_json(text)]


def write_manifest(settings: Settings, manifest: Manifest) -> None:
    write_json(
        settings.state_path(_FILE),
        {
            "run_id": manifest.run_id,
            "members": [asdict(member) for member in manifest.members],
            "stacks": [stack_document(stack) for stack in manifest.stacks],
        },
    )


def load_manifest(settings: Settings, run_id: str) -> Manifest:
    """The manifest of this run. Raises StorageNotAssembled when there is none or it is another run's."""
    manifest = present_manifest(settings)
    if manifest.run_id != run_id:
        raise StorageNotAssembled(
            f"{settings.state_path(_FILE)} belongs to run {manifest.run_id}, not {run_id}"
        )
    return manifest


def present_manifest(settings: Settings) -> Manifest:
    """The manifest that is on this host, whichever run assembled it. Raises StorageNotAssembled."""
    content = read_json(settings.state_path(_FILE))
    if content is None:
        raise StorageNotAssembled(f"{settings.state_path(_FILE)} does not exist: run assemble_storage first")
    with understood(StorageNotAssembled, settings.state_path(_FILE), "run assemble_storage again"):
        members = [decoded(Member, member) for member in content["members"]]
        stacks = [stack_of(stack) for stack in content.get("stacks", [])]
        return Manifest(str(content.get("run_id")), members, stacks)


def open_member(settings: Settings, member: Member, in_set: bool = False) -> BlockDevice:
    """The member's device, checked again: the volume asked for, not used elsewhere, with its filesystem, or its place
    in a set."""
    device = describe_device(by_id_path(settings.by_id_dir, member.volume_id))
    refuse_if_not_volume(device, member.volume_id, settings.by_id_dir)
    if in_set:
        refuse_if_used_outside_set(device)
        return device
    refuse_if_used(device, member.mount_point)
    uuid = refuse_other_filesystem(device, member)
    if uuid != member.uuid:
        raise WrongDevice(f"{device.path} carries the filesystem {uuid}; {member.uuid} was assembled")
    return device


def _member(entry: Any, place: str) -> Member:
    if not isinstance(entry, dict):
        raise InvalidArgument(f"{place}: must be an object")
    for name in (*_FIELDS, *(one for one in _OPTIONAL if one in entry)):
        if not isinstance(entry.get(name), str) or not entry[name]:
            raise InvalidArgument(f"{place}.{name}: must be a text that is not empty")
    unknown = set(entry) - set(_FIELDS) - set(_OPTIONAL)
    if unknown:
        raise InvalidArgument(f"{place}: unknown field {sorted(unknown)[0]!r}")
    if not _VOLUME_ID.fullmatch(entry["volume_id"]):
        raise InvalidArgument(f"{place}.volume_id: {entry['volume_id']!r} is not a volume id")
    if entry["filesystem"] not in FILESYSTEMS:
        raise InvalidArgument(f"{place}.filesystem: must be one of {', '.join(FILESYSTEMS)}")
    mount_point = entry["mount_point"]
    if not mount_point.startswith("/") or os.path.normpath(mount_point) in ("/", "//"):
        raise InvalidArgument(f"{place}.mount_point: must be an absolute path other than /")
    if not mount_point.isprintable() or ".." in mount_point.split("/"):
        raise InvalidArgument(f"{place}.mount_point: {mount_point!r} has .. or a control character")
    return Member(**{name: entry[name] for name in (*_FIELDS, *_OPTIONAL) if name in entry})


def refuse_if_used_outside_set(device: BlockDevice) -> None:
    """Raise DeviceInUse for a member of a set that is mounted by itself."""
    points = mount_points(device)
    if points:
        raise DeviceInUse(f"{device.path} is mounted at {', '.join(points)}; it is a member of a set")
    foreign = [name for name in holders(device) if not name.startswith(("md", "dm-"))]
    if foreign:
        raise DeviceInUse(f"{device.path} is held by {', '.join(foreign)}, not by its set")


def refuse_other_filesystem(device: BlockDevice, member: Member) -> str:
    """The uuid of its filesystem. Raises NoFilesystem, FilesystemTruncated."""
    superblock = read_superblock(device.path)
    if superblock.kind != member.filesystem:
        raise NoFilesystem(
            f"{member.name}: {device.path} carries {superblock.kind}, expected {member.filesystem}"
        )
    if superblock.size_bytes > device.size_bytes:
        raise FilesystemTruncated(
            f"{member.name}: the filesystem takes {superblock.size_bytes} bytes, {device.path} has only "
            f"{device.size_bytes}: make the volume at least as large as its snapshot"
        )
    return superblock.uuid


def note_proven(settings: Settings, run_id: str) -> None:
    """Keeps that the storage proof of the run said warm; work that would disturb it waits for that."""
    write_json(settings.run_path(run_id, _PROVEN), {"verdict": "warm"})


def is_proven(settings: Settings, run_id: str) -> bool:
    """Tells whether the run's proof has ever said warm."""
    return os.path.exists(settings.run_path(run_id, _PROVEN))
