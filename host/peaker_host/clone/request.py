"""What a run asks of a clone, checked field by field."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List

from peaker_host.machine.errors import InvalidArgument
from peaker_host.machine.manifest import Member, parse_stacks, parse_volumes

METHOD = "clone"


@dataclass(frozen=True)
class Donor:
    """Where the donor's server listens."""

    host: str
    port: int


@dataclass(frozen=True)
class CloneRequest:
    """`members` are empty volumes, one for each filesystem; `uuid` of each is what its filesystem is to be known by,
    empty where any will do. No more than `rate_mib_per_s` is asked of the donor."""

    run_id: str
    members: List[Member]
    donor: Donor
    rate_mib_per_s: int


def parse_clone(
    run_id: str, volumes: str, layout: str, donor_host: str, donor_port: int, rate_mib_per_s: int
) -> CloneRequest:
    """From the command's texts. The new filesystems have the donor's uuids, by which assemble_storage knows them.

    Raises InvalidArgument with the field named; a set (md, LVM) is not made anew.
    """
    members = parse_volumes(volumes)
    uuids = {}
    for stack in parse_stacks(layout):
        if not stack.is_single:
            raise InvalidArgument(f"layout: {stack.mount_point} is a {stack.kind}: a clone makes no sets")
        uuids[stack.mount_point] = stack.uuid
    known = [replace(member, uuid=uuids.get(member.mount_point, "")) for member in members]
    return CloneRequest(run_id, known, Donor(donor_host, donor_port), rate_mib_per_s)
