"""This module parses the reports of LVM and of `mdadm --examine`; `Lvm` runs LVM, restricted to given devices."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from peaker_host.machine.errors import LayoutUnsupported, understood
from peaker_host.machine.manifest import LogicalVolume, PhysicalVolume, Segment, Stripe
from peaker_host.machine.settings import Processes

# A volume that was grown has a segment for each time; beyond so many the manifest does not fit a command's output.
SEGMENTS_AT_MOST = 16
_PV_FIELDS = "pv_name,pv_uuid,vg_name,vg_uuid,pe_start,vg_extent_size,vg_missing_pv_count"
_LV_FIELDS = "lv_name,lv_uuid,vg_name,vg_uuid,segtype,seg_start,seg_size,stripe_size,seg_pe_ranges"
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class PvRow:
    """A physical volume: its device, its group and where its extents begin."""

    path: str
    uuid: str
    group: str
    group_uuid: str
    first_extent_bytes: int
    extent_bytes: int
    missing_in_group: int


class Lvm:
    """LVM's commands, which see only the given devices: another copy of the group elsewhere does not confuse them."""

    def __init__(self, processes: Processes, paths: Sequence[str]) -> None:
        accepted = ", ".join(f'"a|^{path}$|"' for path in paths)
        self._processes = processes
        self._config = f'devices {{ use_devicesfile=0 global_filter=[ {accepted}, "r|.*|" ] }}'

    def run(self, *argv: str) -> str:
        return self._processes.run(
            [argv[0], "--config", self._config, *argv[1:]], timeout_seconds=_TIMEOUT_SECONDS
        ).stdout

    def physical_volumes(self) -> List[PvRow]:
        return parse_pvs(self._report("pvs", _PV_FIELDS))

    def segments(self, group: str) -> List[Dict[str, Any]]:
        return rows_of(self._report("lvs", _LV_FIELDS, "--segments", group), "seg")

    def _report(self, command: str, fields: str, *more: str) -> str:
        return self.run(command, "--reportformat", "json", "--units", "b", "--nosuffix", "-o", fields, *more)


def rows_of(text: str, kind: str) -> List[Dict[str, Any]]:
    """The rows of a report of LVM, which calls them `pv`, `lv` or `seg`. Raises LayoutUnsupported where it is none."""
    with understood(LayoutUnsupported, f"LVM's report of {kind}s"):
        return [dict(row) for report in json.loads(text)["report"] for row in report[kind]]


def parse_pvs(text: str) -> List[PvRow]:
    with understood(LayoutUnsupported, "LVM's report of physical volumes"):
        return [
            PvRow(
                str(row["pv_name"]),
                str(row["pv_uuid"]),
                str(row["vg_name"]),
                str(row["vg_uuid"]),
                int(row["pe_start"]),
                int(row["vg_extent_size"] or 0),
                int(row["vg_missing_pv_count"] or 0),
            )
            for row in rows_of(text, "pv")
        ]


def logical_volume(name: str, rows: Sequence[Dict[str, Any]], places: Dict[str, PvRow]) -> LogicalVolume:
    """The logical volume `name` from the rows of `lvs --segments`; `places` are the group's rows by what they lie on.

    Raises LayoutUnsupported for anything but linear and striped segments, naming what it is.
    """
    with understood(LayoutUnsupported, f"LVM's report of {name}"):
        mine = [row for row in rows if row["lv_name"] == name]
        other = sorted({str(row["segtype"]) for row in mine} - {"linear", "striped"})
        if other:
            raise LayoutUnsupported(
                f"the logical volume {name} is of type {', '.join(other)}: only linear and striped ones are known"
            )
        if len(mine) > SEGMENTS_AT_MOST:
            raise LayoutUnsupported(
                f"the logical volume {name} has {len(mine)} segments, known are {SEGMENTS_AT_MOST}"
            )
        by_path = {row.path: row for row in places.values()}
        return LogicalVolume(
            uuid=str(mine[0]["lv_uuid"]),
            name=name,
            group_uuid=str(mine[0]["vg_uuid"]),
            group=str(mine[0]["vg_name"]),
            physical_volumes=tuple(PhysicalVolume(row.uuid, place) for place, row in sorted(places.items())),
            segments=tuple(sorted((_segment(row, by_path) for row in mine), key=lambda one: one.start_bytes)),
        )


def _segment(row: Dict[str, Any], by_path: Dict[str, PvRow]) -> Segment:
    stripes = [_stripe(text, by_path) for text in str(row["seg_pe_ranges"]).split()]
    return Segment(
        start_bytes=int(row["seg_start"]),
        length_bytes=int(row["seg_size"]),
        stripe_bytes=int(row["stripe_size"]) if len(stripes) > 1 else 0,
        stripes=tuple(stripes),
    )


def _stripe(text: str, by_path: Dict[str, PvRow]) -> Stripe:
    """Such as /dev/md0:0-99."""
    path, _, extents = text.rpartition(":")
    place = by_path[path]
    first = int(extents.partition("-")[0])
    return Stripe(place.uuid, place.first_extent_bytes + first * place.extent_bytes)


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
