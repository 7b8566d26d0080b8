"""The volumes of one run on this host, as assemble_storage found them (storage.json)."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Collection, List, Optional

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
)
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.stacks import Stack, stack_document, stack_of
from peaker_host.machine.understanding import decoded, parsed_json, understood

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
        """Each once, in the order of the volumes."""
        return list(dict.fromkeys(member.mount_point for member in self.members))

    def members_at(self, mount_point: str) -> List[Member]:
        """The volumes of the filesystem there."""
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
    """Writes the manifest for the commands that follow."""
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
