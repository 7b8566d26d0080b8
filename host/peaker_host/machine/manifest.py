"""The volumes of one run on this host, as assemble_storage found them (storage.json)."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List

from peaker_host.machine.devices import (
    BlockDevice,
    by_id_path,
    describe_device,
    read_superblock,
    refuse_if_not_volume,
    refuse_if_used,
)
from peaker_host.machine.errors import (
    DeviceNotFound,
    FilesystemTruncated,
    InvalidArgument,
    NoFilesystem,
    StorageNotAssembled,
    WrongDevice,
)
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import parsed_json, understood

FILESYSTEMS = ("xfs", "ext4")
_VOLUME_ID = re.compile(r"vol-[0-9a-f]{8,40}")
_FIELDS = ("name", "volume_id", "device", "mount_point", "filesystem")


@dataclass(frozen=True)
class Member:
    """One volume: how it was asked for, and the node and size that were found."""

    name: str
    volume_id: str
    device: str
    mount_point: str
    filesystem: str
    path: str = ""
    size_bytes: int = 0
    uuid: str = ""


@dataclass(frozen=True)
class Manifest:
    """All volumes of one run."""

    run_id: str
    members: List[Member]


def parse_volumes(text: str) -> List[Member]:
    """The Volumes parameter: [{name, volume_id, device, mount_point, filesystem}]. Names the wrong field."""
    try:
        content = parsed_json(text)
    except ValueError as error:
        raise InvalidArgument(f"volumes: not JSON: {error}") from error
    if not isinstance(content, list) or not content:
        raise InvalidArgument("volumes: must be a list of at least one volume")
    members = [_member(entry, f"volumes[{index}]") for index, entry in enumerate(content)]
    for field in ("name", "volume_id", "mount_point"):
        if len({getattr(member, field) for member in members}) != len(members):
            raise InvalidArgument(f"volumes: two volumes have the same {field}")
    return members


def assemble(
    settings: Settings,
    run_id: str,
    members: List[Member],
    wait_seconds: float,
    progress: Callable[[str], None],
) -> Manifest:
    """Wait for every volume, check that it is the right one, free and formatted, and write the manifest."""
    deadline = time.monotonic() + wait_seconds
    found = []
    for member in members:
        path = _await_link(settings, member, deadline, progress)
        found.append(_checked(settings, member, path))
        progress(f"{member.name}: {member.volume_id} is {os.path.realpath(path)}")
    manifest = Manifest(run_id, found)
    write_json(settings.manifest_path, asdict(manifest))
    return manifest


def load_manifest(settings: Settings, run_id: str) -> Manifest:
    """The manifest of this run. Raises StorageNotAssembled when there is none or it is another run's."""
    manifest = present_manifest(settings)
    if manifest.run_id != run_id:
        raise StorageNotAssembled(f"{settings.manifest_path} belongs to run {manifest.run_id}, not {run_id}")
    return manifest


def present_manifest(settings: Settings) -> Manifest:
    """The manifest that is on this host, whichever run assembled it. Raises StorageNotAssembled."""
    content = read_json(settings.manifest_path)
    if content is None:
        raise StorageNotAssembled(f"{settings.manifest_path} does not exist: run assemble_storage first")
    with understood(StorageNotAssembled, settings.manifest_path, "run assemble_storage again"):
        return Manifest(str(content.get("run_id")), [_stored(member) for member in content["members"]])


def open_member(settings: Settings, member: Member) -> BlockDevice:
    """The member's device, checked again: the volume asked for, not used elsewhere, with its filesystem."""
    device = describe_device(by_id_path(settings.by_id_dir, member.volume_id))
    refuse_if_not_volume(device, member.volume_id, settings.by_id_dir)
    refuse_if_used(device, member.mount_point)
    uuid = _refuse_other_filesystem(device, member)
    if uuid != member.uuid:
        raise WrongDevice(f"{device.path} carries the filesystem {uuid}; {member.uuid} was assembled")
    return device


def _stored(entry: Dict[str, Any]) -> Member:
    """A member as `assemble` wrote it. Raises what a misfit raises."""
    member = Member(**entry)
    for name, value in asdict(member).items():
        if type(value) is not (int if name == "size_bytes" else str):
            raise TypeError(f"{name} of a volume is {value!r}")
    return member


def _member(entry: Any, place: str) -> Member:
    if not isinstance(entry, dict):
        raise InvalidArgument(f"{place}: must be an object")
    for field in _FIELDS:
        if not isinstance(entry.get(field), str) or not entry[field]:
            raise InvalidArgument(f"{place}.{field}: must be a text that is not empty")
    unknown = set(entry) - set(_FIELDS)
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
    return Member(**{field: entry[field] for field in _FIELDS})


def _await_link(settings: Settings, member: Member, deadline: float, progress: Callable[[str], None]) -> str:
    link = by_id_path(settings.by_id_dir, member.volume_id)
    said = False
    while not os.path.exists(link):
        if time.monotonic() >= deadline:
            raise DeviceNotFound(f"{member.name}: {link} did not appear; is {member.volume_id} attached?")
        if not said:
            progress(f"{member.name}: waiting for {link}")
            said = True
        time.sleep(0.2)
    return link


def _checked(settings: Settings, member: Member, path: str) -> Member:
    device = describe_device(path)
    refuse_if_not_volume(device, member.volume_id, settings.by_id_dir)
    refuse_if_used(device, member.mount_point)
    uuid = _refuse_other_filesystem(device, member)
    facts: Dict[str, Any] = asdict(member)
    facts.update(path=path, size_bytes=device.size_bytes, uuid=uuid)
    return Member(**facts)


def _refuse_other_filesystem(device: BlockDevice, member: Member) -> str:
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
