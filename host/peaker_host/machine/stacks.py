"""A stack is the layers below a filesystem: volumes, md arrays, a logical volume. Data, and its JSON.

A stack is the set manifest of one filesystem. It is read from the donor's devices before the snapshot, is kept with
the snapshot set, and is what a restored set must be again. Volumes are named by their EBS ids: the donor's in the
manifest of a snapshot set, the replica's own on the replica.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Tuple

from peaker_host.machine.understanding import decoded

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
        """Returns the ids of all volumes below the filesystem."""
        return [one.volume_id for one in self.volumes]

    def array_of(self, volume_id: str) -> Optional[Tuple[Array, ArraySlot]]:
        """The array that the volume belongs to, and its place there."""
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
    """Returns the stack as JSON."""
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
    """Refuses names of volumes, arrays or physical volumes that are not in this stack."""
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
