"""Reserved room: one suite for the fake, the hostile cloud in memory and the adapter."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.reserved_capacity.places import (
    CapacityReservation,
    ReservationSpec,
)

from peaker_contract.errors import CapacityUnavailable, ResourceNotFound
from peaker_contract.tags import OWNER_TAG
from tests.contract.stages import (
    AwsStage,
    FakeStage,
    HostileStage,
    Stage,
    running,
    spec_of,
    state_of,
    tags_of,
)

ZONE, KIND = "us-east-1a", "r6i.large"
UNKNOWN = "cr-0123456789abcdef0"


@pytest.fixture(params=["fake", "hostile", "aws"])
def stage(request: pytest.FixtureRequest) -> Stage:
    if request.param == "aws":
        return AwsStage(request.getfixturevalue("aws"))
    return FakeStage() if request.param == "fake" else HostileStage()


def reserved(stage: Stage, token: str, **tags: str) -> str:
    ends_at = stage.now().replace(microsecond=0) + timedelta(hours=300)
    spec = ReservationSpec(ZONE, KIND, "Linux/UNIX", ends_at, {**tags_of(token), **tags})
    made = stage.capacity_reservations.reserve(spec, token)
    assert stage.capacity_reservations.reserve(spec, token) == made
    if not tags:
        stage.eventually(lambda: listed(stage, made) is not None)
    return made


def listed(stage: Stage, reservation_id: str) -> CapacityReservation | None:
    found = stage.capacity_reservations.of_environment()
    return next((one for one in found if one.reservation_id == reservation_id), None)


def has_room(stage: Stage, reservation_id: str) -> bool:
    found = listed(stage, reservation_id)
    return found is not None and found.available == 1


def test_the_same_token_gives_the_same_reservation_and_it_is_listed_with_its_tags(stage: Stage) -> None:
    made = reserved(stage, "place-1")
    found = listed(stage, made)
    assert found is not None
    assert (found.zone, found.instance_type, found.total, found.available) == (ZONE, KIND, 1, 1)
    assert found.is_open
    assert found.tags == tags_of("place-1")


def test_another_environments_is_not_listed(stage: Stage) -> None:
    """It is one of the account's, whose quota it counts in."""
    theirs, ours = reserved(stage, "place-2", **{OWNER_TAG: "another"}), reserved(stage, "place-3")
    assert listed(stage, theirs) is None
    assert listed(stage, ours) is not None
    of_account = lambda: {one.reservation_id for one in stage.capacity_reservations.of_account()}  # noqa: E731
    stage.eventually(lambda: {theirs, ours} <= of_account())
    stage.capacity_reservations.cancel(ours)
    stage.eventually(lambda: ours not in of_account())


def test_a_launch_that_names_it_fills_it_and_a_second_one_is_refused(stage: Stage) -> None:
    made = reserved(stage, "place-4")
    host = running(stage, "token-r1", "run-without", None)
    assert has_room(stage, made)
    host = running(stage, "token-r2", "run-within", made)
    stage.eventually(lambda: not has_room(stage, made))
    with pytest.raises(CapacityUnavailable):
        stage.compute.launch(replace(spec_of(stage, "run-more"), reservation_id=made), "token-r3")
    # The same token gives the same instance, also where the room is full by now.
    again = stage.compute.launch(replace(spec_of(stage, "run-within"), reservation_id=made), "token-r2")
    assert again.instance_id == host.instance_id


def test_one_that_was_given_back_takes_no_launch_and_ends_no_instance(stage: Stage) -> None:
    made = reserved(stage, "place-5")
    host = running(stage, "token-r4", "run-goes-on", made)
    for _ in range(2):
        stage.capacity_reservations.cancel(made)
    stage.eventually(lambda: not (found := listed(stage, made)) or not found.is_open)
    assert state_of(stage, host.instance_id) == "running"
    with pytest.raises(ResourceNotFound):
        stage.compute.launch(replace(spec_of(stage, "run-late"), reservation_id=made), "token-r5")


def test_giving_back_what_nobody_knows_is_no_error(stage: Stage) -> None:
    stage.capacity_reservations.cancel(UNKNOWN)


def test_what_was_launched_into_room_that_is_gone_starts_again_without_it(stage: Stage) -> None:
    made = reserved(stage, "place-6")
    host = stopped(stage, running(stage, "token-r6", "run-parked", made).instance_id)
    stage.capacity_reservations.cancel(made)
    stage.compute.start(host)
    stage.eventually(lambda: state_of(stage, host) == "running")


def test_what_is_stopped_starts_in_the_room_that_is_named(stage: Stage) -> None:
    made = reserved(stage, "place-7")
    host = stopped(stage, running(stage, "token-r7", "run-returns", None).instance_id)
    for _ in range(2):
        stage.compute.start(host, made)
    stage.eventually(lambda: not has_room(stage, made))
    other = stopped(stage, running(stage, "token-r8", "run-other", None).instance_id)
    with pytest.raises(CapacityUnavailable):
        stage.compute.start(other, made)
    stage.compute.start(other)
    stage.eventually(lambda: state_of(stage, other) == "running")


def stopped(stage: Stage, host: str) -> str:
    stage.compute.stop(host)
    stage.eventually(lambda: state_of(stage, host) == "stopped")
    return host


def test_an_images_platform_is_what_ec2_bills(stage: Stage) -> None:
    assert stage.capacity_reservations.platform(stage.spec.image_id) == "Linux/UNIX"
