"""The set manifest: what the donor's filesystems stand on, kept with the snapshots of their volumes. Pure.

The host package reads it from the donor's devices (`peaker_host/machine/stacks.py` has the form) and judges a restored
set by it; here it is compared with the plan before any snapshot, and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from peaker.domain.decoding import Frozen, misfits
from peaker.domain.replicas.data_volumes import DataVolume
from peaker.domain.runs.ledger import RunPart
from peaker_contract.errors import HostCommandFailed

SINGLE = "single"
GIB = 1024**3


class StackVolume(Frozen):
    """A volume of a filesystem, by the donor's id."""

    model_config = ConfigDict(extra="allow")

    volume_id: str
    size_bytes: int


class Stack(Frozen):
    """A filesystem of the donor; what else the host said of it (arrays, logical volume) is kept as it is."""

    model_config = ConfigDict(extra="allow")

    mount_point: str
    filesystem: str
    kind: str
    volumes: list[StackVolume]


class SetManifest(RunPart):
    """A set manifest describes the run's snapshots: members, order, level, chunk, uuids and sizes, the
    donor's position, and the snapshot of each volume by name, once they are made.
    """

    ledger_name = "set_manifest"

    stacks: list[Stack]
    gtid_set: str
    volumes: dict[str, str]
    snapshots: dict[str, str] = Field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def stacks_document(self) -> list[dict[str, Any]]:
        """Returns the stacks as the host takes them."""
        return [stack.model_dump(mode="json") for stack in self.stacks]


def stacks_of(layout: Sequence[Mapping[str, Any]]) -> list[Stack]:
    """Reads prepare_donor's layout of the donor's filesystems. Raises HostCommandFailed that names what does
    not fit.
    """
    try:
        return [Stack.model_validate(one) for one in layout]
    except ValidationError as error:
        raise HostCommandFailed(f"prepare_donor: layout does not fit: {misfits(error)}") from error


def sets_of(volumes: Sequence[DataVolume]) -> dict[str, list[DataVolume]]:
    found: dict[str, list[DataVolume]] = {}
    for volume in volumes:
        found.setdefault(volume.mount_point, []).append(volume)
    return found


def unequal_members(volumes: Sequence[DataVolume], gib: Mapping[str, int]) -> list[str]:
    """Reasons against md arrays whose volumes are not equally large, the odd ones named; `gib` by name.

    md uses as much of each member as the smallest has. A member that was made larger than its snapshot has no
    superblock where an older array's is sought, and the rest of it is paid for and never used.
    """
    reasons = []
    for mount_point, members in sets_of(volumes).items():
        sizes = {one.name: gib[one.name] for one in members if one.name in gib}
        if not members[0].layout.startswith("raid") or len(set(sizes.values())) < 2:
            continue
        counts = list(sizes.values())
        usual = max(sorted(set(counts)), key=counts.count)
        odd = ", ".join(f"{name} has {size} GiB" for name, size in sizes.items() if size != usual)
        reasons.append(
            f"{odd}, the other members of {members[0].layout} at {mount_point} have {usual}: make all equally large"
        )
    return reasons


def why_not_as_planned(
    stacks: Sequence[Stack], planned: Sequence[DataVolume], ids: Mapping[str, str]
) -> list[str]:
    """Lists the differences between the donor's filesystems and the plan; `ids` are the donor's volumes by
    name.

    A host may say nothing of a filesystem on one volume: an instance of Xen cannot tell which volume a disk is.
    """
    names = {volume_id: name for name, volume_id in ids.items()}
    found = {stack.mount_point: stack for stack in stacks}
    reasons: list[str] = []
    for mount_point, members in sets_of(planned).items():
        stack = found.get(mount_point)
        if stack is not None:
            reasons += _differences(stack, members, names)
        elif members[0].layout != SINGLE:
            reasons.append(f"{mount_point}: the host said nothing of what it stands on")
    return reasons


def _differences(stack: Stack, members: Sequence[DataVolume], names: Mapping[str, str]) -> Iterator[str]:
    layout, filesystem = members[0].layout, members[0].filesystem
    if stack.kind != layout:
        yield f"{stack.mount_point} is {stack.kind} on the donor, {layout} in the settings"
    if stack.filesystem != filesystem:
        yield f"{stack.mount_point} is {stack.filesystem} on the donor, {filesystem} in the settings"
    there = {one.volume_id for one in stack.volumes}
    unnamed = sorted(there - set(names))
    if unnamed:
        yield (
            f"{stack.mount_point} also lies on {', '.join(unnamed)}, which the settings do not name: add each to the "
            "cluster's volumes (it may have been added to let the filesystem grow)"
        )
    named = {names[volume_id] for volume_id in there & set(names)}
    absent = [one.name for one in members if one.name not in named]
    if absent:
        yield f"{stack.mount_point} does not lie on {', '.join(absent)}, which the settings give it"
