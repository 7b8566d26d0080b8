"""EC2 instances of the local cloud, used through boto3, on a simulated data plane."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.resources import IMAGE, ResourceCloud, eventually
from localcloud.extensions.ec2.state import ec2_state


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def describe_by_id(aws: ResourceCloud, instance_id: str) -> dict[str, Any]:
    answer = aws.ec2.describe_instances(InstanceIds=[instance_id])
    return dict(answer["Reservations"][0]["Instances"][0])


def test_describe_does_not_find_an_instance_just_after_the_call(slow_aws: ResourceCloud) -> None:
    with slow_aws.stopped_clock():
        instance_id = slow_aws.launch()
        assert slow_aws.instance(instance_id) == {}
        with pytest.raises(ClientError) as error:
            describe_by_id(slow_aws, instance_id)
    assert code_of(error) == "InvalidInstanceID.NotFound"
    eventually(lambda: slow_aws.instance(instance_id))
    assert describe_by_id(slow_aws, instance_id)["InstanceId"] == instance_id


def test_terminate_deletes_the_root_volume_and_detaches_the_others(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    [root] = [m["Ebs"]["VolumeId"] for m in describe_by_id(aws, instance_id)["BlockDeviceMappings"]]
    later = aws.attached_volume(instance_id, "/dev/sdh")
    with aws.held("terminate"):
        answer = aws.ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"][0]
    assert answer["CurrentState"]["Name"] == "shutting-down"
    eventually(lambda: aws.instance_state(instance_id) == "terminated")
    assert aws.volume(root) == {}
    assert aws.volume(later)["State"] == "available"
    assert instance_id not in aws.plane.hosts.hosts


def test_a_client_token_of_a_terminated_instance_is_refused(aws: ResourceCloud) -> None:
    instance_id = aws.launch(ClientToken="run-1-launch")
    aws.ec2.terminate_instances(InstanceIds=[instance_id])
    eventually(lambda: aws.instance_state(instance_id) == "terminated")
    with pytest.raises(ClientError) as error:
        aws.launch(ClientToken="run-1-launch")
    assert code_of(error) == "IdempotentInstanceTerminated"


def test_a_wanted_address_is_given_and_not_given_twice(aws: ResourceCloud) -> None:
    wanted = {"PrivateIpAddress": "10.77.1.200", "ClientToken": "run-1-launch"}
    first = aws.launch(**wanted)
    eventually(lambda: aws.instance(first))
    assert aws.instance(first)["PrivateIpAddress"] == "10.77.1.200"
    assert aws.launch(**wanted) == first
    with pytest.raises(ClientError) as error:
        aws.launch(PrivateIpAddress="10.77.1.200")
    assert code_of(error) == "InvalidIPAddress.InUse"
    with pytest.raises(ClientError) as error:
        aws.launch(PrivateIpAddress="10.77.2.200")
    assert code_of(error) == "InvalidParameterValue"


def test_dry_run_launches_nothing(aws: ResourceCloud) -> None:
    with pytest.raises(ClientError) as error:
        aws.launch(DryRun=True)
    assert code_of(error) == "DryRunOperation"
    assert not aws.plane.hosts.hosts
    assert aws.ec2.describe_volumes()["Volumes"] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"InstanceType": "r6i.enormous"}, "InvalidParameterValue"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sdf"}]}, "UnsupportedOperation"),
    ],
)
def test_a_launch_with_a_wrong_parameter_leaves_nothing(
    aws: ResourceCloud, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ClientError) as error:
        aws.launch(**changes)
    assert code_of(error) == expected
    assert not aws.plane.hosts.hosts
    assert not aws.plane.volumes.volumes


def test_a_host_that_does_not_start_ends_terminated_with_the_reason(aws: ResourceCloud) -> None:
    aws.plane.hosts.unbootable_images.add(IMAGE)
    instance_id = aws.launch()
    eventually(lambda: aws.instance_state(instance_id) == "terminated")
    assert aws.instance(instance_id)["StateReason"]["Code"] == "Server.InternalError"


def test_describe_shows_a_stop_and_a_start_a_moment_late(slow_aws: ResourceCloud) -> None:
    aws = slow_aws
    instance_id = aws.launched()
    with aws.stopped_clock():
        answer = aws.ec2.stop_instances(InstanceIds=[instance_id])["StoppingInstances"][0]
        assert (answer["PreviousState"]["Name"], answer["CurrentState"]["Name"]) == ("running", "stopping")
        assert aws.instance_state(instance_id) == "running"
    eventually(lambda: aws.instance_state(instance_id) == "stopped")
    with aws.stopped_clock():
        answer = aws.ec2.start_instances(InstanceIds=[instance_id])["StartingInstances"][0]
        assert (answer["PreviousState"]["Name"], answer["CurrentState"]["Name"]) == ("stopped", "pending")
        assert aws.instance_state(instance_id) == "stopped"
    eventually(lambda: aws.instance_state(instance_id) == "running")


def test_stopping_and_starting_twice_change_nothing_and_tell_the_state(aws: ResourceCloud) -> None:
    instance_id = aws.launched()

    def states(answer: dict[str, Any]) -> tuple[str, str]:
        return answer["PreviousState"]["Name"], answer["CurrentState"]["Name"]

    again = aws.ec2.start_instances(InstanceIds=[instance_id])["StartingInstances"][0]
    assert states(again) == ("running", "running")
    aws.ec2.stop_instances(InstanceIds=[instance_id])
    again = aws.ec2.stop_instances(InstanceIds=[instance_id])["StoppingInstances"][0]
    assert states(again) in {("stopping", "stopping"), ("stopped", "stopped")}
    eventually(lambda: aws.instance_state(instance_id) == "stopped")
    again = aws.ec2.stop_instances(InstanceIds=[instance_id])["StoppingInstances"][0]
    assert states(again) == ("stopped", "stopped")
    assert aws.instance(instance_id)["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert aws.plane.hosts.hosts[instance_id].stops == ["in order"]


def test_a_stop_by_force_kills(aws: ResourceCloud) -> None:
    forced, ordinary = aws.launched(), aws.launched()
    aws.ec2.stop_instances(InstanceIds=[forced], Force=True)
    aws.ec2.stop_instances(InstanceIds=[ordinary])
    for instance_id in (forced, ordinary):
        eventually(lambda instance_id=instance_id: aws.instance_state(instance_id) == "stopped")
    hosts = aws.plane.hosts.hosts
    assert (hosts[forced].stops, hosts[ordinary].stops) == (["killed"], ["in order"])


def test_an_instance_in_the_wrong_state_is_refused_and_no_other_is_touched(aws: ResourceCloud) -> None:
    running, gone = aws.launched(), aws.launched()
    aws.ec2.terminate_instances(InstanceIds=[gone])
    fresh = aws.launch()
    eventually(lambda: aws.instance(fresh))
    for call, ids in (
        (aws.ec2.stop_instances, [running, gone]),
        (aws.ec2.start_instances, [gone]),
    ):
        with pytest.raises(ClientError) as error:
            call(InstanceIds=ids)
        assert code_of(error) == "IncorrectInstanceState"
    assert aws.instance_state(running) == "running"
    with ec2_state(aws.cloud).machine_lock(running):  # holds up the stop
        aws.ec2.stop_instances(InstanceIds=[running])
        with pytest.raises(ClientError) as error:
            aws.ec2.start_instances(InstanceIds=[running])
    assert code_of(error) == "IncorrectInstanceState"
    with pytest.raises(ClientError) as error:
        aws.ec2.stop_instances(InstanceIds=["i-0123456789abcdef0"])
    assert code_of(error) == "InvalidInstanceID.NotFound"


def test_a_terminated_instance_is_forgotten_after_an_hour_of_cloud_time(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    aws.ec2.terminate_instances(InstanceIds=[instance_id])
    eventually(lambda: aws.instance_state(instance_id) == "terminated")
    aws.cloud.clock.set(scale=50_000)
    eventually(lambda: aws.instance(instance_id) == {})
