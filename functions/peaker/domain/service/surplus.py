"""Surplus counts the replicas that may leave service now, and chooses those that go together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from peaker.domain.reading import Known, Reading, Unknown, describe
from peaker.domain.replicas.donor import Verdict
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.service.retirement import LoadEvidence, RetirementChoice, choose_idle_replica
from peaker_contract.cluster import ClusterSettings

# Each that begins to leave is written with a look at the rows of the others, in one transaction of DynamoDB, which
# holds 100 actions (API reference, TransactWriteItems); three of them are the lease, the member's token and its row.
MOST_AT_ONCE = 97


@dataclass(frozen=True)
class RemovableReplicas:
    """The number of replicas in service that may go now, the bound that sets it, and the figures of all bounds."""

    count: int
    reason: str
    numbers: Mapping[str, Any]


@dataclass(frozen=True)
class RemovalRequest:
    """A start's request: a count, by hand; or all that may go, with the `surplus` that the forecast shows.

    An alarm saw a surplus moments ago, so that an unknown one is a surplus of one; a schedule saw nothing (I4).
    """

    count: int | None = None
    surplus: Reading | None = None
    saw_surplus: bool = False


def removable_replicas(
    fleet: FleetState, settings: ClusterSettings, load: LoadEvidence, request: RemovalRequest
) -> RemovableReplicas:
    """The least of: what is asked for, and what serves above the floor (I3), the forecast's need and the load's (I8).

    What is unknown spares none (I4). Counted is who serves and is not on its way out already.
    """
    staying = len(fleet.staying)
    bounds = {
        "above_floor": (staying - settings.min_replicas, f"min_replicas is {settings.min_replicas} (I3)"),
        "above_forecast": _above_forecast(staying, load.required_replicas),
        "above_load": _above_load(staying, load.measured, settings.capacity_per_replica),
        "asked_for": _asked_for(request),
        "at_once": (MOST_AT_ONCE, f"{MOST_AT_ONCE} go at once at most"),
    }
    bound, why = min(bounds.values(), key=lambda one: one[0])
    count = max(0, bound)
    numbers = {name: number for name, (number, _) in bounds.items()}
    return RemovableReplicas(
        count,
        f"{count} of {staying} in service may go: {why}",
        {"serving": staying, "to_spare": count, **numbers},
    )


def _above_forecast(staying: int, required: Reading) -> tuple[int, str]:
    if isinstance(required, Unknown):
        return 0, f"the forecast's need is {describe(required)}; what is unknown is held (I4)"
    return staying - ceil(required.value), f"the forecast needs {required.value:g} (I8)"


def _above_load(staying: int, measured: Reading, capacity: float) -> tuple[int, str]:
    if isinstance(measured, Unknown):
        return 0, f"the measured load is {describe(measured)}; what is unknown is held (I4)"
    needed = next((count for count in range(staying) if measured.value <= count * capacity), staying)
    return staying - needed, f"the measured load {measured.value:g} takes {needed} of {capacity:g} each (I8)"


def _asked_for(request: RemovalRequest) -> tuple[int, str]:
    if request.count is not None:
        return request.count, f"{request.count} asked for"
    if isinstance(request.surplus, Known):
        return int(request.surplus.value), f"the forecast has {request.surplus.value:g} to spare"
    unknown = "not published" if request.surplus is None else describe(request.surplus)
    if request.saw_surplus:
        return 1, f"the surplus is {unknown}; an alarm saw one"
    return 0, f"the surplus is {unknown}; what is unknown is held (I4)"


def choose_idle_replicas(
    fleet: FleetState,
    to_spare: int,
    wanted: str | None = None,
    hourly_usd: Mapping[str, float | None] | None = None,
    load: Reading | None = None,
    too_young: Mapping[str, str] | None = None,
) -> RetirementChoice:
    """All expired parked ones and, beside them, `to_spare` of those in service;
    with `wanted`, that one or none.

    One after the other by the order of choose_idle_replica, so that the zones stay as even as one by one. `too_young`
    are those that an automatic start leaves alone, by instance id, each with the reason.
    """
    young = {} if too_young is None else too_young
    old_enough = replace(fleet, replicas=tuple(one for one in fleet.replicas if one.instance_id not in young))
    first = choose_idle_replica(old_enough, wanted, hourly_usd, load)
    chosen: list[Replica] = []
    left, found = old_enough, first.replica
    while found is not None and (found.is_parked or wanted is not None or _serving(chosen) < to_spare):
        chosen.append(found)
        if len(chosen) == MOST_AT_ONCE or wanted is not None:
            break
        left = replace(left, replicas=tuple(one for one in left.replicas if one is not found))
        found = choose_idle_replica(left, None, hourly_usd, load).replica
    verdicts = (*first.verdicts, *(Verdict(one, False, why) for one, why in young.items()))
    return RetirementChoice(tuple(chosen), verdicts)


def _serving(chosen: list[Replica]) -> int:
    return sum(not one.is_parked for one in chosen)
