"""What EC2 says of reserved room and of an image's bill, and launches that name a group: through the adapter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker.domain.replicas.inventory import CapacityReservation, Instance

from peaker_contract.errors import AwsCallRejected
from tests.contract.conftest import Adapters
from tests.contract.stages import AwsStage, spec_of, state_of

ZONE, KIND = "us-east-1a", "r6i.large"
GROUP = "arn:aws:resource-groups:us-east-1:000000000000:group/orders-peak"


@pytest.fixture
def stage(aws: Adapters) -> AwsStage:
    return AwsStage(aws)


def reserved(stage: AwsStage, criteria: str = "targeted") -> str:
    """Room for one instance, active."""
    ec2 = stage.aws.cloud.client("ec2")
    made = ec2.create_capacity_reservation(
        InstanceType=KIND, InstancePlatform="Linux/UNIX", AvailabilityZone=ZONE, InstanceCount=1,
        InstanceMatchCriteria=criteria,
    )["CapacityReservation"]["CapacityReservationId"]  # fmt: skip

    def state() -> str:
        """EC2 lists a new one late."""
        found = ec2.describe_capacity_reservations()["CapacityReservations"]
        return next((one["State"] for one in found if one["CapacityReservationId"] == made), "")

    stage.eventually(lambda: state() == "active")
    return str(made)


def launched(stage: AwsStage, run: str, group: str | None) -> Instance:
    spec = replace(spec_of(stage, run), capacity_reservation_group_arn=group)
    made = stage.compute.launch(spec, f"token-{run}")
    stage.eventually(lambda: state_of(stage, made.instance_id) == "running")
    return made


def empty(stage: AwsStage) -> int:
    return sum(one.available for one in stage.compute.capacity_reservations() if one.is_targeted)


def test_open_reservations_are_listed_with_their_room(stage: AwsStage) -> None:
    made = reserved(stage)
    assert CapacityReservation(KIND, 1, True) in stage.compute.capacity_reservations()
    before = empty(stage)
    stage.aws.cloud.client("ec2").cancel_capacity_reservation(CapacityReservationId=made)
    assert empty(stage) == before - 1


def test_a_launch_that_names_a_group_takes_its_room_and_goes_on_without(stage: AwsStage) -> None:
    stage.aws.cloud.reservation_groups[GROUP] = [reserved(stage)]
    before = empty(stage)
    launched(stage, "group-1", GROUP)
    assert empty(stage) == before - 1
    launched(stage, "group-2", GROUP)
    assert empty(stage) == before - 1


def test_a_group_that_is_not_there_refuses_the_launch(stage: AwsStage) -> None:
    with pytest.raises(AwsCallRejected):
        launched(stage, "group-3", GROUP.replace("peak", "gone"))


def test_what_is_stopped_starts_in_the_group_that_is_named_then(stage: AwsStage) -> None:
    """Parked before the event: it was launched without a group. And it starts without it when the event is over."""
    host = launched(stage, "group-4", None).instance_id
    stage.aws.cloud.reservation_groups[GROUP] = [reserved(stage)]
    before = empty(stage)
    for group, left in ((GROUP, before - 1), (None, before)):
        stage.compute.stop(host)
        stage.eventually(lambda: state_of(stage, host) == "stopped")
        stage.compute.start(host, group)
        stage.eventually(lambda: state_of(stage, host) == "running")
        assert empty(stage) == left


def test_an_images_platform_is_what_ec2_bills(stage: AwsStage) -> None:
    assert stage.compute.platform(stage.spec.image_id) == "Linux/UNIX"
