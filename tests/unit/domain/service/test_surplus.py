"""How many replicas may go at once, and which: every bound by breaking it, and what holds of every fleet."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.fleet import FleetState, Replica, ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.service.retirement import LoadEvidence, guard_load, guard_removal
from peaker.domain.service.surplus import (
    RemovableReplicas,
    RemovalRequest,
    choose_idle_replicas,
    removable_replicas,
)

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import fleet_with, orders, parked, replica

BASE = replica("i-00000000000000b01")
LOW = LoadEvidence(Known(50.0), Known(1.0))
ALL = RemovalRequest(surplus=Known(9.0))


def peaks(count: int, **more: object) -> list[Replica]:
    return [
        replica(f"i-{number:017x}", peak_of=f"scale-out-{number}", **more) for number in range(1, count + 1)
    ]  # type: ignore[arg-type]


def spared(
    fleet: FleetState, load: LoadEvidence = LOW, asked: RemovalRequest = ALL, **changes: object
) -> RemovableReplicas:
    return removable_replicas(fleet, orders(**changes), load, asked)


@pytest.mark.parametrize(
    ("load", "asked", "count", "reason"),
    [
        (LoadEvidence(Known(50.0), Known(3.0)), ALL, 1, "the forecast needs 3 (I8)"),
        (LoadEvidence(Known(201.0), Known(1.0)), ALL, 1, "the measured load 201 takes 3 of 100 each (I8)"),
        (LOW, RemovalRequest(surplus=Known(2.0)), 2, "the forecast has 2 to spare"),
        (LOW, RemovalRequest(count=2), 2, "2 asked for"),
        (LOW, RemovalRequest(surplus=Unknown("stale"), saw_surplus=True), 1, "an alarm saw one"),
        (LOW, RemovalRequest(surplus=Unknown("stale")), 0, "unknown (stale); what is unknown is held (I4)"),
        (LoadEvidence(Unknown("no points"), Known(1.0)), ALL, 0, "what is unknown is held (I4)"),
        (LoadEvidence(Known(50.0), Unknown("no check")), ALL, 0, "what is unknown is held (I4)"),
        (LoadEvidence(Known(900.0), Known(1.0)), ALL, 0, "takes 4 of 100 each"),
    ],
)
def test_each_bound_holds_as_many_as_it_needs(
    load: LoadEvidence, asked: RemovalRequest, count: int, reason: str
) -> None:
    spare = spared(fleet_with(BASE, *peaks(3)), load, asked)
    assert spare.count == count
    assert reason in spare.reason


@given(st.randoms(use_true_random=False))
def test_any_fleet_keeps_what_floor_forecast_and_load_need_whoever_has_gone_before(
    chance: random.Random,
) -> None:
    """One after the other passes the guard, on the fleet without those that have begun to leave."""
    fleet = fleet_with(BASE, *_any_peaks(chance))
    settings = orders(min_replicas=chance.randint(1, 3), max_replicas=20)
    load = LoadEvidence(Known(chance.uniform(0, 900)), Known(float(chance.randint(0, 6))))
    spare = removable_replicas(fleet, settings, load, ALL)
    chosen = choose_idle_replicas(fleet, spare.count).replicas
    ours = [one for one in fleet.staying if not one.is_base]
    assert sum(not one.is_parked for one in chosen) == min(spare.count, len(ours))
    assert len({one.instance_id for one in chosen}) == len(chosen)
    left = fleet
    for one in chosen:
        assert not one.is_base
        if not one.is_parked:
            assert guard_removal(one, left, settings, "local") == []
            assert guard_load(load, left, settings, one.instance_id) == []
        left = _without(left, one)


def _any_peaks(chance: random.Random) -> list[Replica]:
    found = []
    for number in range(1, chance.randint(1, 8)):
        instance_id, serves = f"i-{number:017x}", TargetHealth(TargetState.HEALTHY)
        state = chance.choice([ReplicaState.IN_SERVICE] * 4 + [ReplicaState.PARKED, ReplicaState.DRAINING])
        one = replica(
            instance_id,
            peak_of=f"scale-out-{number}",
            row_state=state,
            health=serves if state is ReplicaState.IN_SERVICE else TargetHealth(TargetState.ABSENT),
            zone=chance.choice(["us-east-1a", "us-east-1b"]),
            launched_at=NOON - timedelta(hours=chance.randint(1, 90)),
        )
        found.append(_expired(instance_id) if state is ReplicaState.PARKED else one)
    return found


def _expired(instance_id: str) -> Replica:
    return parked(instance_id, 9, NOON - timedelta(hours=1))


def _without(fleet: FleetState, gone: Replica) -> FleetState:
    return replace(fleet, replicas=tuple(one for one in fleet.replicas if one is not gone))


def test_who_is_too_young_stays_and_another_one_goes() -> None:
    young, old = peaks(2)
    idle = choose_idle_replicas(
        fleet_with(BASE, young, old), 1, too_young={young.instance_id: "it is 5 min old"}
    )
    assert idle.replicas == (old,)
    assert "it is 5 min old" in idle.text


def test_the_one_that_is_asked_for_by_name_goes_alone() -> None:
    _, second, _ = peaks(3)
    assert choose_idle_replicas(fleet_with(BASE, *peaks(3)), 3, second.instance_id).replicas == (second,)
    assert choose_idle_replicas(fleet_with(BASE), 3, BASE.instance_id).replicas == ()
