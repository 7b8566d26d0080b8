"""This module parses the output of `mdadm --examine`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Optional

from peaker_host.machine.errors import LayoutUnsupported
from peaker_host.machine.understanding import understood

_SECTOR_BYTES = 512
_LINE = re.compile(r"^\s*([A-Za-z][A-Za-z' -]*?) : (.*?)\s*$")
_ROLE = re.compile(r"Active device (\d+)")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class MdMember:
    """A member's superblock. `slot` is None for a spare or journal; `state` has a letter for each place of the array, A
    where it is active."""

    array_uuid: str
    device_uuid: str
    metadata: str
    level: str
    devices: int
    algorithm: str
    chunk_bytes: int
    data_offset_bytes: int
    member_bytes: int
    slot: Optional[int]
    events: int
    state: str
    reshaping: bool


def parse_examine(path: str, text: str) -> MdMember:
    """Raises LayoutUnsupported for metadata other than 1.x, or for what cannot be read."""
    fields: Dict[str, str] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            fields.setdefault(found.group(1), found.group(2))
    version = fields.get("Version", "unknown")
    if not version.startswith("1."):
        raise LayoutUnsupported(
            f"{path}: the array's superblock is of version {version}; only 1.0, 1.1 and 1.2 are known. Make the array "
            "anew with mdadm's default"
        )
    with understood(LayoutUnsupported, f"{path}: what mdadm --examine said"):
        return _member(fields)


def _member(fields: Dict[str, str]) -> MdMember:
    level = fields["Raid Level"]
    chunk = _size(fields.get("Chunk Size", "0"))
    available = int(fields["Avail Dev Size"].split()[0]) * _SECTOR_BYTES
    used = fields.get("Used Dev Size")
    member_bytes = int(used.split()[0]) * _SECTOR_BYTES if used and level != "raid0" else available
    if level != "raid1" and chunk:
        member_bytes -= member_bytes % chunk
    role = _ROLE.match(fields["Device Role"])
    return MdMember(
        array_uuid=fields["Array UUID"],
        device_uuid=fields["Device UUID"],
        metadata=fields["Version"],
        level=level,
        devices=int(fields["Raid Devices"]),
        algorithm=fields.get("Layout", "") if level in ("raid5", "raid10") else "",
        chunk_bytes=chunk,
        data_offset_bytes=int(fields["Data Offset"].split()[0]) * _SECTOR_BYTES,
        member_bytes=member_bytes,
        slot=None if role is None else int(role.group(1)),
        events=int(fields["Events"]),
        state=fields["Array State"].split()[0],
        reshaping="Reshape pos'n" in fields,
    )


def _size(text: str) -> int:
    number, unit = text.split()[0], ""
    if number[-1:] in _UNITS:
        number, unit = number[:-1], number[-1]
    return int(number) * _UNITS.get(unit, 1)
