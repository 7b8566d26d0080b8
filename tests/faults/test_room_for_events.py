"""Room for an event in the hostile cloud: reserved once, used, given back, whatever becomes of the looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from peaker.domain.reserved_capacity.places import ReservationSpec

from bench.faults.audit import Bounds, Finding, audit
from bench.faults.workflows.interferences import AtCall, DiesAfter, DiesBefore, LandsLate, LosesAnswer, Raises
from bench.faults.world.account import state_at
from bench.faults.world.world import World, settings
from peaker_contract.errors import AwsUnavailable, Throttled
from peaker_contract.metrics import Metric
from peaker_contract.tags import OWNER_TAG, RESERVATION_TAG

TENDS = "tend_capacity_reservations"
# Noon is the world's first second: room is kept from one o'clock on.
SALE = {
    "from": "2026-11-22T14:00:00Z",
    "until": "2026-11-22T16:00:00Z",
    "reason": "sale",
    "min_replicas": 3,
}
AT_WORK, OVER = 5400.0, 4 * 3600.0 + 1800.0


@contextmanager
def a_world(seed: int = 1) -> Iterator[World]:
    rules = settings(calendar=[SALE], capacity_reservations={"for_events": True, "minutes_before": 30})
    world = World(seed, rules)
    world.load(measured=250, required=3)
    world.readings.metrics["orders", Metric.OBSERVING] = 0.0
    world.readings.metrics["orders", Metric.LEAD_TIME_SECONDS] = 1800.0
    try:
        yield world
    finally:
        world.close()


def rooms(world: World) -> list[dict[str, Any]]:
    """Those that are reserved now."""
    there = world.account.reservations.values()
    return [one for one in there if state_at(one, world.time.seconds) in ("pending", "active")]


def findings(world: World) -> list[Finding]:
    rules = world.clusters.settings("orders")
    bounds = Bounds("orders", rules.min_replicas, rules.max_replicas)
    return [one for one in audit(world.account, world.time.seconds, bounds, []) if one.kind == "room"]


def test_room_is_there_before_the_event_a_batch_launches_into_it_and_it_is_gone_after_it() -> None:
    with a_world() as world:
        world.run_for(3000)
        assert rooms(world) == []
        world.run_for(AT_WORK - 3000)
        assert {one["zone"] for one in rooms(world)} == {"us-east-1a", "us-east-1b"}
        world.account.full_types.add("r6i.large")
        assert world.run("scale_out", count=2).status == "SUCCEEDED"
        made = [one for one in world.account.instances.values() if OWNER_TAG in one["tags"]]
        assert {one["reservation"] for one in made} == {one["id"] for one in rooms(world)}
        world.run_for(OVER - world.time.seconds)
        assert rooms(world) == []
        assert findings(world) == []
        assert {state_at(one, world.time.seconds) for one in made} == {"running"}


FAULTS: dict[str, Any] = {
    "throttled": lambda call, _: Raises(at=call, error=Throttled("on purpose")),
    "answer lost": lambda call, _: LosesAnswer(at=call, error=AwsUnavailable("on purpose")),
    "crash before": lambda call, _: DiesBefore(at=call),
    "crash after": lambda call, _: DiesAfter(at=call),
    "time is up after": lambda call, _: DiesAfter(at=call, error="Sandbox.Timedout"),
    "stands still": lambda call, world: LandsLate(at=call, functions=world.functions, seconds=50),
}
CALLS = ("place_records.keep_places", "capacity_reservations.reserve", "capacity_reservations.cancel")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_each_place_is_reserved_once_and_given_back_whatever_becomes_of_a_call(call: str, fault: str) -> None:
    with a_world() as world:
        strikes: AtCall = FAULTS[fault](call, world)
        world.functions.interfere = lambda one: strikes if one.function == TENDS else None
        world.run_for(2 * 3600.0)
        assert len(rooms(world)) == 2
        world.run_for(OVER + 900.0 - world.time.seconds)
        assert strikes.done
        assert rooms(world) == []
        assert findings(world) == []


def test_two_looks_at_the_same_time_reserve_each_place_once() -> None:
    with a_world() as world:
        world.run_for(3000)
        late = LandsLate(
            at="capacity_reservations.reserve", functions=world.functions, seconds=50, hit=lambda: look(world)
        )
        world.functions.interfere = lambda one: late if one.function == TENDS else None
        world.run_for(3600)
        assert late.done
        assert len(rooms(world)) == 2
        assert findings(world) == []


def look(world: World) -> None:
    world.time.after(5.0, lambda: world.functions.invoke(None, "", TENDS, {}))


def test_the_audit_finds_room_that_outlives_its_event() -> None:
    with a_world() as world:
        ends_at = world.time.datetime_of(600)
        tags = {OWNER_TAG: "local", RESERVATION_TAG: "orders-place-1"}
        spec = ReservationSpec("us-east-1a", "r6i.large", "Linux/UNIX", ends_at, tags)
        made = world.reservations.reserve(spec, "a token")
        record = world.account.reservations[made]
        record["history"] = [(0.0, "active")]
        world.time.seconds = 600.0
        assert findings(world) == []
        world.time.seconds = 600.0 + 1021.0
        assert findings(world) == [Finding("room", f"{made} is active, its event ended at 600 s")]


def test_the_audit_finds_a_place_that_was_reserved_twice() -> None:
    with a_world() as world:
        tags = {OWNER_TAG: "local", RESERVATION_TAG: "orders-place-1"}
        ends_at = world.time.datetime_of(600)
        spec = ReservationSpec("us-east-1a", "r6i.large", "Linux/UNIX", ends_at, tags)
        first, second = (world.reservations.reserve(spec, token) for token in ("one", "another"))
        assert findings(world) == [Finding("room", f"orders-place-1 was reserved as {first}, {second}")]
