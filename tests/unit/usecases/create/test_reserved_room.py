"""A run launches into the room that is reserved for its cluster, and goes on without it where it is lost (I10)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.reserved_capacity.places import ReservationSpec, ReservedPlace
from peaker.domain.runs.ledger import ResourceKind, of_kind
from peaker.domain.runs.run import Summary
from peaker.usecases.create.launch_replica import launch_replica

from peaker_contract.errors import AwsCallRejected, CapacityUnavailable, PeakerError, ResourceNotFound
from peaker_contract.tags import OWNER_TAG, RESERVATION_TAG
from tests.support.builders import RUN_ID, leased
from tests.support.fakes import NOON, FakePorts

ZONE_A, ZONE_B, KIND = "us-east-1a", "us-east-1b", "r6i.large"


def reserve(ports: FakePorts, zone: str, kind: str = KIND) -> str:
    """A place with its record, as a look at the cluster leaves it."""
    records = ports.place_records.places("orders")
    name, ends_at = f"orders-place-{records.asked + 1}", NOON + timedelta(hours=9)
    tags = {OWNER_TAG: "local", RESERVATION_TAG: name}
    reservation_id = ports.capacity_reservations.reserve(
        ReservationSpec(zone, kind, "Linux/UNIX", ends_at, tags), name
    )
    place = ReservedPlace(
        name=name, zone=zone, instance_type=kind, platform="Linux/UNIX", event="sale", asked_at=NOON,
        ends_at=ends_at, reservation_id=reservation_id,
    )  # fmt: skip
    assert ports.place_records.keep_places("orders", records.with_place(place))
    return reservation_id


def launched(ports: FakePorts) -> Summary:
    return launch_replica(ports, leased(ports, "LaunchReplica"))


def rows(ports: FakePorts) -> dict[str, str]:
    found = of_kind(ports.ledger.resources(RUN_ID), ResourceKind.INSTANCE)
    return {row.name: row.state.value for row in found}


def test_reserved_room_comes_before_the_zone_with_the_fewest_replicas(ports: FakePorts) -> None:
    room = reserve(ports, ZONE_B)
    numbers = launched(ports).numbers
    assert (numbers["zone"], numbers["reservation_id"]) == (ZONE_B, room)
    assert ports.capacity_reservations.made[room].available == 0
    assert rows(ports) == {f"replica/{ZONE_B}/{room}": "made"}


def test_of_reserved_rooms_the_plans_order_counts(ports: FakePorts) -> None:
    reserve(ports, ZONE_B)
    first = reserve(ports, ZONE_A)
    assert launched(ports).numbers["reservation_id"] == first


def test_room_for_a_type_that_the_plan_does_not_take_is_left_alone(ports: FakePorts) -> None:
    room = reserve(ports, ZONE_A, "r6i.xlarge")
    assert "reservation_id" not in launched(ports).numbers
    assert ports.capacity_reservations.made[room].available == 1


@pytest.mark.parametrize(
    "refusal",
    [
        CapacityUnavailable("ReservationCapacityExceeded"),
        ResourceNotFound("InvalidCapacityReservationId.NotFound"),
        AwsCallRejected("UnauthorizedOperation"),
    ],
    ids=["full", "given back", "not allowed"],
)
def test_room_that_is_lost_stops_no_launch(ports: FakePorts, refusal: PeakerError, monkeypatch: Any) -> None:
    room = reserve(ports, ZONE_B)

    def refuse(*_: str) -> None:
        raise refusal

    monkeypatch.setattr(ports.capacity_reservations, "enter", refuse)
    numbers = launched(ports).numbers
    assert (numbers["zone"], numbers.get("reservation_id")) == (ZONE_A, None)
    assert rows(ports) == {f"replica/{ZONE_B}/{room}": "undone", f"replica/{ZONE_A}": "made"}


def test_what_ec2_lists_as_full_is_not_asked(ports: FakePorts) -> None:
    ports.capacity_reservations.enter(reserve(ports, ZONE_B), "i-another")
    launched(ports)
    assert rows(ports) == {f"replica/{ZONE_A}": "made"}


def test_a_launch_into_reserved_room_whose_answer_was_lost_is_asked_again_and_launches_once(
    ports: FakePorts, monkeypatch: Any
) -> None:
    """By then the room shows as full: the replica that fills it is this one."""
    room = reserve(ports, ZONE_B)
    launch, shows = ports.compute.launch, ports.compute.instances_of_run

    def lose(*given: Any) -> None:
        launch(*given)
        raise TimeoutError("the function's time was over")

    monkeypatch.setattr(ports.compute, "launch", lose)
    monkeypatch.setattr(ports.compute, "instances_of_run", lambda _: [])
    with pytest.raises(TimeoutError):
        launched(ports)
    monkeypatch.setattr(ports.compute, "launch", launch)
    assert launched(ports).numbers["reservation_id"] == room
    assert len(shows(RUN_ID)) == 1


def test_a_cluster_that_reserved_nothing_asks_ec2_for_no_list(ports: FakePorts, monkeypatch: Any) -> None:
    monkeypatch.setattr(ports.capacity_reservations, "of_environment", lambda: pytest.fail("it was asked"))
    launched(ports)
