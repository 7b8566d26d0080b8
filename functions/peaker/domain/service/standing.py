"""Standing decides whether a failed run's replica stays or is taken back: what serves stays (I3). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState

# A replica's life after its build: it has been in service.
_SERVED = frozenset({ReplicaState.IN_SERVICE, ReplicaState.DRAINING})


@dataclass(frozen=True)
class Standing:
    """A standing says whether the replica of a failed run stays, and why. `recorded`: its row in the ledger
    says so already.

    `admitted`: it had its full share before, so that nothing more has to let it in.
    """

    stays: bool
    reason: str
    recorded: bool = False
    admitted: bool = False


def standing_of(
    instance_id: str,
    row: ReplicaRow | None,
    *,
    run_id: str,
    promoted: bool,
    serving: Mapping[str, TargetHealth],
    warming: Mapping[str, TargetHealth],
    min_replicas: int,
) -> Standing:
    """Decides the standing from its row, its ramp, and the two groups of the read endpoint as they are now.

    The point of no return is the row `in_service`, which RampTraffic writes once the replica has its full share and
    the serving group calls it healthy. Two replicas stay although it was not written yet: one that has reached that
    point, and one that gets reads while too few others serve, since none may be taken from those (I3).

    One that is parked was in service after `run_id` had built it. A run that was to return it parks it again.
    """
    if row is not None and _has_served(row, run_id):
        return Standing(
            True, f"{instance_id} is {row.state.value} by the ledger", recorded=True, admitted=True
        )
    if promoted and _is_healthy(serving, instance_id):
        return Standing(True, f"{instance_id} has its full share of the reads and is healthy", admitted=True)
    others = sum(1 for one in serving if one != instance_id and _is_healthy(serving, one))
    gets_reads = _is_healthy(serving, instance_id) or _is_healthy(warming, instance_id)
    if gets_reads and others < min_replicas:
        return Standing(
            True,
            f"{instance_id} gets reads and {others} others serve, fewer than min_replicas {min_replicas} (I3)",
        )
    return Standing(False, f"{instance_id} was never in service, and {others} others serve")


def _has_served(row: ReplicaRow, run_id: str) -> bool:
    return row.state in _SERVED or (row.state is ReplicaState.PARKED and row.run_id == run_id)


def _is_healthy(group: Mapping[str, TargetHealth], instance_id: str) -> bool:
    found = group.get(instance_id)
    return found is not None and found.state is TargetState.HEALTHY
