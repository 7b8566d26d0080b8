"""What a run asks of a direct fill, checked field by field."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, List, Tuple

from peaker_host.aws.direct_api import snapshot_id
from peaker_host.fill.changed_volume import Pair
from peaker_host.fill.request_pace import REQUESTS_PER_SECOND
from peaker_host.machine.errors import InvalidArgument
from peaker_host.machine.manifest import Member, parse_volumes
from peaker_host.machine.understanding import parsed_json, understood
from peaker_host.warm.reading_orders import READING_ORDERS
from peaker_host.warm.request import PrewarmRequest

# What a snapshot holds of no file comes last, which only a filesystem's map tells apart.
ORDERS = tuple(name for name, order in READING_ORDERS.items() if order.needs_map)

MOST_PAIRS = 4


@dataclass(frozen=True)
class FillRequest(PrewarmRequest):
    """`members` are the empty volumes, `snapshots` the snapshot of each by its name. `method` names the reading order
    whose tiers come first; everything else that the snapshot holds follows.

    `changed`, where there are any, makes older copies of the volumes: pairs of snapshots by the volume's name, of which
    each pair is of one volume. Only blocks that differ between the two of a pair are brought then, as they lie.
    """

    members: List[Member] = field(default_factory=list)
    snapshots: Dict[str, str] = field(default_factory=dict)
    requests_per_second: float = REQUESTS_PER_SECOND
    changed: Dict[str, Tuple[Pair, ...]] = field(default_factory=dict)

    @property
    def set_mount_points(self) -> FrozenSet[str]:
        """Where a filesystem is to stand on several of the volumes (md, LVM)."""
        counted = Counter(member.mount_point for member in self.members)
        return frozenset(point for point, count in counted.items() if count > 1)


def parse_fill(
    run_id: str, method: str, volumes: str, snapshots: str, requests_per_second: float, changed: str = ""
) -> FillRequest:
    """From the command's texts. Raises InvalidArgument with the field named."""
    members = parse_volumes(volumes, _mount_points(volumes))
    with understood(InvalidArgument, "snapshots"):
        content = parsed_json(snapshots)
        found = {str(name): snapshot_id(str(one)) for name, one in content.items()}
    for name in sorted({member.name for member in members} ^ set(found)):
        raise InvalidArgument(f"snapshots: {name[:60]} is in one of volumes and snapshots alone")
    if method not in ORDERS:
        raise InvalidArgument(f"method: must be one of {', '.join(ORDERS)}, not {method!r}")
    if requests_per_second <= 0:
        raise InvalidArgument("requests-per-second: must be above 0")
    request = FillRequest(
        run_id,
        method,
        members=members,
        snapshots=found,
        requests_per_second=requests_per_second,
        changed=_pairs(changed) if changed else {},
    )
    if changed:
        _check_pairs(request)
    return request


def _pairs(changed: str) -> Dict[str, Tuple[Pair, ...]]:
    with understood(InvalidArgument, "changed"):
        content = parsed_json(changed)
        return {
            str(name): tuple((snapshot_id(str(first)), snapshot_id(str(second))) for first, second in pairs)
            for name, pairs in content.items()
        }


def _check_pairs(request: FillRequest) -> None:
    for name in sorted(set(request.snapshots) ^ set(request.changed)):
        raise InvalidArgument(f"changed: {name[:60]} is in one of snapshots and changed alone")
    for name, pairs in request.changed.items():
        if not 1 <= len(pairs) <= MOST_PAIRS:
            raise InvalidArgument(f"changed: {name[:60]} has {len(pairs)} pairs, not 1 to {MOST_PAIRS}")
        if request.snapshots[name] not in [second for _, second in pairs]:
            raise InvalidArgument(
                f"changed: no pair of {name[:60]} ends with {request.snapshots[name]}, which it is to become"
            )
    if request.set_mount_points:
        # Its superblocks are there already: what an engine that was killed left would be assembled, and written to.
        raise InvalidArgument("changed: a set (md, LVM) is not brought up to date by changed blocks")


def _mount_points(volumes: str) -> List[str]:
    with understood(InvalidArgument, "volumes"):
        return [str(one["mount_point"]) for one in parsed_json(volumes)]
