"""What the local cloud refuses above the account's quotas: vCPUs by families, storage and IOPS by volume types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.resources import ResourceCloud, eventually

STANDARD, X = ("ec2", "L-1216C47A"), ("ec2", "L-7295265B")
GP3, IO2_IOPS = ("ebs", "L-7A658B76"), ("ebs", "L-8D977E7E")
ZONE = "us-east-1a"


def refusal(call: Callable[..., Any], **request: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(**request)
    return str(error.value.response["Error"]["Code"])


def reserve(aws: ResourceCloud) -> str:
    made = aws.ec2.create_capacity_reservation(
        InstanceType="r6i.large", InstancePlatform="Linux/UNIX", AvailabilityZone=ZONE, InstanceCount=1,
        EndDateType="limited", EndDate=aws.cloud.clock.now() + timedelta(hours=6), InstanceMatchCriteria="targeted",
    )  # fmt: skip
    return str(made["CapacityReservation"]["CapacityReservationId"])


def into(reservation_id: str) -> dict[str, Any]:
    return {
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": reservation_id}
        }
    }


def test_the_launch_that_would_pass_the_quota_is_refused(aws: ResourceCloud) -> None:
    aws.cloud.quotas.give(*STANDARD, 4)
    aws.launch()
    aws.launch()
    assert refusal(aws.launch) == "VcpuLimitExceeded"


def test_one_that_stops_gives_its_vcpus_back_and_takes_them_again(aws: ResourceCloud) -> None:
    aws.cloud.quotas.give(*STANDARD, 2)
    first = aws.launched()
    aws.ec2.stop_instances(InstanceIds=[first])
    eventually(lambda: aws.instance_state(first) == "stopped")
    aws.launch()
    assert refusal(aws.ec2.start_instances, InstanceIds=[first]) == "VcpuLimitExceeded"


def test_families_of_another_quota_have_room_of_their_own(aws: ResourceCloud) -> None:
    aws.cloud.quotas.give(*STANDARD, 0)
    aws.cloud.quotas.give(*X, 4)
    assert refusal(aws.launch) == "VcpuLimitExceeded"
    assert aws.launch(InstanceType="x2gd.xlarge")


def test_reserved_room_counts_once_empty_or_not(aws: ResourceCloud) -> None:
    aws.cloud.quotas.give(*STANDARD, 2)
    room = reserve(aws)
    assert refusal(aws.launch) == "VcpuLimitExceeded"
    assert aws.launch(**into(room))
    with pytest.raises(ClientError, match="InstanceLimitExceeded"):
        reserve(aws)


def test_a_volume_above_the_storage_of_its_type_is_refused_and_others_are_not(aws: ResourceCloud) -> None:
    aws.cloud.quotas.give(*GP3, 2 / 1024)
    create = aws.ec2.create_volume
    create(AvailabilityZone=ZONE, Size=2, VolumeType="gp3")
    assert refusal(create, AvailabilityZone=ZONE, Size=1, VolumeType="gp3") == "VolumeLimitExceeded"
    assert create(AvailabilityZone=ZONE, Size=4, VolumeType="io2", Iops=100)


def test_io2_has_a_quota_of_iops(aws: ResourceCloud) -> None:
    aws.cloud.quotas.give(*IO2_IOPS, 150)
    create = aws.ec2.create_volume
    create(AvailabilityZone=ZONE, Size=4, VolumeType="io2", Iops=100)
    assert (
        refusal(create, AvailabilityZone=ZONE, Size=4, VolumeType="io2", Iops=100) == "MaxIOPSLimitExceeded"
    )
