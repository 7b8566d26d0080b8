"""On-demand capacity reservations of the local cloud: their states, who runs in them, and what EC2 refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.resources import SUBNET_B, ResourceCloud, eventually

KIND, ZONE = "r6i.large", "us-east-1a"


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def request(aws: ResourceCloud, **changes: Any) -> dict[str, Any]:
    ends = aws.cloud.clock.now() + timedelta(hours=6)
    return {
        "InstanceType": KIND,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONE,
        "InstanceCount": 1,
        "EndDateType": "limited",
        "EndDate": ends,
        "InstanceMatchCriteria": "targeted",
        **changes,
    }


def reserve(aws: ResourceCloud, **changes: Any) -> str:
    """One that is active."""
    made = aws.ec2.create_capacity_reservation(**request(aws, **changes))["CapacityReservation"]
    reservation_id = str(made["CapacityReservationId"])
    eventually(lambda: described(aws, reservation_id).get("State") == "active")
    return reservation_id


def described(aws: ResourceCloud, reservation_id: str) -> dict[str, Any]:
    found = aws.ec2.describe_capacity_reservations()["CapacityReservations"]
    return next((dict(one) for one in found if one["CapacityReservationId"] == reservation_id), {})


def into(reservation_id: str) -> dict[str, Any]:
    target = {"CapacityReservationId": reservation_id}
    return {"CapacityReservationSpecification": {"CapacityReservationTarget": target}}


def available(aws: ResourceCloud, reservation_id: str) -> int:
    return int(described(aws, reservation_id)["AvailableInstanceCount"])


def test_it_is_pending_and_then_active_with_all_that_was_asked_for(slow_aws: ResourceCloud) -> None:
    tags = [{"Key": "peaker:owner", "Value": "local"}]
    with slow_aws.stopped_clock():
        made = slow_aws.ec2.create_capacity_reservation(
            **request(slow_aws, TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}])
        )["CapacityReservation"]
    assert (made["State"], made["TotalInstanceCount"], made["AvailableInstanceCount"]) == ("pending", 1, 1)
    found = eventually(lambda: described(slow_aws, made["CapacityReservationId"]))
    assert (found["InstanceMatchCriteria"], found["EndDateType"], found["Tags"]) == (
        "targeted",
        "limited",
        tags,
    )
    eventually(lambda: described(slow_aws, made["CapacityReservationId"])["State"] == "active")


def test_only_a_launch_that_names_it_runs_in_a_targeted_one(aws: ResourceCloud) -> None:
    room = reserve(aws)
    aws.launched()
    assert available(aws, room) == 1
    instance_id = aws.launched(**into(room))
    assert available(aws, room) == 0
    shown = aws.instance(instance_id)
    assert shown["CapacityReservationId"] == room
    assert shown["CapacityReservationSpecification"] == into(room)["CapacityReservationSpecification"]


def test_whatever_matches_runs_in_an_open_one(aws: ResourceCloud) -> None:
    """Also what ran before: it keeps no room for anything new."""
    aws.launched()
    room = reserve(aws, InstanceMatchCriteria="open")
    assert available(aws, room) == 0


def test_a_full_one_takes_no_second_launch(aws: ResourceCloud) -> None:
    room = reserve(aws)
    aws.launched(**into(room))
    with pytest.raises(ClientError) as error:
        aws.launch(**into(room))
    assert code_of(error) == "ReservationCapacityExceeded"


def test_a_launch_that_does_not_match_is_refused(aws: ResourceCloud) -> None:
    room = reserve(aws)
    for other in ({"SubnetId": SUBNET_B}, {"InstanceType": "r6i.xlarge"}):
        with pytest.raises(ClientError) as error:
            aws.launch(**into(room), **other)
        assert code_of(error) == "InvalidParameterCombination"


@pytest.mark.parametrize("gone", ["cancelled", "expired"])
def test_one_that_has_ended_takes_no_launch_and_ends_no_instance(aws: ResourceCloud, gone: str) -> None:
    room = reserve(aws)
    running = aws.launched(**into(room))
    if gone == "cancelled":
        aws.ec2.cancel_capacity_reservation(CapacityReservationId=room)
    else:
        aws.cloud.clock.set(now=aws.cloud.clock.now() + timedelta(hours=7))
    assert described(aws, room)["State"] == gone
    assert aws.instance_state(running) == "running"
    assert "CapacityReservationId" not in aws.instance(running)
    with pytest.raises(ClientError) as error:
        aws.launch(**into(room))
    assert code_of(error) == "InvalidCapacityReservationId.NotFound"
    with pytest.raises(ClientError):
        aws.ec2.cancel_capacity_reservation(CapacityReservationId=room)


def stopped(aws: ResourceCloud, instance_id: str) -> None:
    aws.ec2.stop_instances(InstanceIds=[instance_id])
    eventually(lambda: aws.instance_state(instance_id) == "stopped")


def test_a_stopped_instance_leaves_and_starts_only_where_it_was_told_to(aws: ResourceCloud) -> None:
    room = reserve(aws)
    instance_id = aws.launched(**into(room))
    stopped(aws, instance_id)
    assert available(aws, room) == 1
    aws.ec2.cancel_capacity_reservation(CapacityReservationId=room)
    with pytest.raises(ClientError) as error:
        aws.ec2.start_instances(InstanceIds=[instance_id])
    assert code_of(error) == "InvalidCapacityReservationId.NotFound"
    aws.ec2.modify_instance_capacity_reservation_attributes(
        InstanceId=instance_id, CapacityReservationSpecification={"CapacityReservationPreference": "open"}
    )
    aws.ec2.start_instances(InstanceIds=[instance_id])
    eventually(lambda: aws.instance_state(instance_id) == "running")


def test_only_a_stopped_instance_is_told_where_to_start(aws: ResourceCloud) -> None:
    room, instance_id = reserve(aws), aws.launched()
    with pytest.raises(ClientError) as error:
        aws.ec2.modify_instance_capacity_reservation_attributes(InstanceId=instance_id, **into(room))
    assert code_of(error) == "IncorrectInstanceState"
    stopped(aws, instance_id)
    aws.ec2.modify_instance_capacity_reservation_attributes(InstanceId=instance_id, **into(room))
    aws.ec2.start_instances(InstanceIds=[instance_id])
    assert available(aws, room) == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"EndDateType": "unlimited"}, "InvalidParameterCombination"),
        ({"EndDate": "2020-01-01T00:00:00Z"}, "InvalidParameterValue"),
        ({"InstanceType": "r6i.none"}, "InvalidParameterValue"),
        ({"InstancePlatform": "VMS"}, "InvalidParameterValue"),
        ({"AvailabilityZone": "eu-west-9z"}, "InvalidZone.NotFound"),
        ({"InstanceCount": 1001}, "InvalidParameterValue"),
        ({"StartDate": "2030-01-01T00:00:00Z"}, "UnsupportedOperation"),
    ],
)
def test_what_cannot_be_reserved_is_refused(aws: ResourceCloud, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as error:
        aws.ec2.create_capacity_reservation(**request(aws, **changes))
    assert code_of(error) == code


GROUP = "arn:aws:resource-groups:us-east-1:000000000000:group/orders-peak"


def into_group(**more: str) -> dict[str, Any]:
    target = {"CapacityReservationResourceGroupArn": GROUP}
    return {"CapacityReservationSpecification": {"CapacityReservationTarget": target, **more}}


def test_a_launch_that_names_a_group_runs_in_it_while_it_has_room_and_on_demand_after(
    aws: ResourceCloud,
) -> None:
    room = reserve(aws)
    aws.cloud.reservation_groups[GROUP] = [room]
    first, second = aws.launched(**into_group()), aws.launched(**into_group())
    assert aws.instance(first)["CapacityReservationId"] == room
    assert "CapacityReservationId" not in aws.instance(second)
    with pytest.raises(ClientError) as error:
        aws.launch(**into_group(CapacityReservationPreference="capacity-reservations-only"))
    assert code_of(error) == "ReservationCapacityExceeded"
    stopped(aws, first)
    stopped(aws, second)
    aws.ec2.start_instances(InstanceIds=[second])
    assert aws.instance(second)["CapacityReservationId"] == room


def test_a_group_with_another_preference_or_that_is_not_there_is_refused(aws: ResourceCloud) -> None:
    aws.cloud.reservation_groups.pop(GROUP, None)
    with pytest.raises(ClientError) as error:
        aws.launch(**into_group())
    assert code_of(error) == "InvalidParameterValue"
    aws.cloud.reservation_groups[GROUP] = []
    with pytest.raises(ClientError) as error:
        aws.launch(**into_group(CapacityReservationPreference="open"))
    assert code_of(error) == "InvalidParameterCombination"
