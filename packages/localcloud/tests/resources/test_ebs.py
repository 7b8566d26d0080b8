"""EBS of the local cloud, used through boto3, on a simulated data plane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.resources import SUBNET_B, ResourceCloud, eventually, open_cloud
from localcloud.dataplane import DataPlaneError
from localcloud.extensions.ec2.ebs import register_snapshot
from localcloud.extensions.ec2.state import ec2_state

BLOCK = 512 * 1024


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def tag(key: str, value: str) -> dict[str, str]:
    return {"Key": key, "Value": value}


# -- volumes -------------------------------------------------------------------------------------------------


def test_a_volume_is_creating_and_then_available(slow_aws: ResourceCloud) -> None:
    with slow_aws.stopped_clock():
        answer = slow_aws.ec2.create_volume(AvailabilityZone="us-east-1a", Size=4, VolumeType="gp3")
    assert answer["State"] == "creating"
    assert (answer["Iops"], answer["Throughput"]) == (3000, 125)
    eventually(lambda: slow_aws.volume(answer["VolumeId"]).get("State") == "available")
    assert slow_aws.plane.volumes.volumes[answer["VolumeId"]].size_bytes == 4 * 1024**3


def test_the_default_volume_type_is_gp2(aws: ResourceCloud) -> None:
    assert aws.ec2.create_volume(AvailabilityZone="us-east-1a", Size=4)["VolumeType"] == "gp2"


def test_describe_does_not_find_a_volume_just_after_the_call(slow_aws: ResourceCloud) -> None:
    with slow_aws.stopped_clock():
        volume_id = slow_aws.ec2.create_volume(AvailabilityZone="us-east-1a", Size=4)["VolumeId"]
        assert slow_aws.volume(volume_id) == {}
        with pytest.raises(ClientError) as error:
            slow_aws.ec2.describe_volumes(VolumeIds=[volume_id])
    assert code_of(error) == "InvalidVolume.NotFound"
    eventually(lambda: slow_aws.volume(volume_id))
    assert slow_aws.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]


def test_the_client_token_of_a_deleted_volume_is_refused(aws: ResourceCloud) -> None:
    volume_id = aws.available_volume(ClientToken="run-1-data")
    aws.ec2.delete_volume(VolumeId=volume_id)
    with pytest.raises(ClientError) as error:
        aws.available_volume(ClientToken="run-1-data")
    assert code_of(error) == "IdempotentParameterMismatch"


def test_dry_runs_change_nothing(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    volume_id = aws.attached_volume(instance_id)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_volume", {"AvailabilityZone": "us-east-1a", "Size": 4}),
        ("detach_volume", {"VolumeId": volume_id}),
        ("create_snapshot", {"VolumeId": volume_id}),
        (
            "create_snapshots",
            {"InstanceSpecification": {"InstanceId": instance_id, "ExcludeBootVolume": True}},
        ),
    ]
    for name, request in calls:
        with pytest.raises(ClientError) as error:
            getattr(aws.ec2, name)(**request, DryRun=True)
        assert code_of(error) == "DryRunOperation", name
    assert list(aws.plane.volumes.volumes) == [volume_id]
    assert not aws.plane.volumes.snapshots
    assert aws.attachment_state(volume_id) == "attached"


# -- attachments ---------------------------------------------------------------------------------------------


def test_attach_and_detach_pass_through_their_states(slow_aws: ResourceCloud) -> None:
    aws = slow_aws
    instance_id, volume_id = aws.launched(), aws.available_volume()
    with aws.stopped_clock():
        answer = aws.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
        assert answer["State"] == "attaching"
        assert aws.attachment_state(volume_id) == "attaching"
        assert aws.volume(volume_id)["State"] == "in-use"
    eventually(lambda: aws.attachment_state(volume_id) == "attached")
    assert aws.plane.hosts.hosts[instance_id].plugged == {volume_id: "/dev/sdf"}
    with aws.stopped_clock():
        assert aws.ec2.detach_volume(VolumeId=volume_id)["State"] == "detaching"
        assert aws.attachment_state(volume_id) == "detaching"
    assert aws.plane.hosts.hosts[instance_id].plugged == {}
    eventually(lambda: aws.volume(volume_id)["State"] == "available")


def test_attach_refusals(aws: ResourceCloud) -> None:
    instance_id, other_zone = aws.launched(), aws.launch(SubnetId=SUBNET_B)
    attached, volume_id = aws.attached_volume(instance_id), aws.available_volume()
    eventually(lambda: aws.instance_state(other_zone) == "running")
    terminated = aws.launched()
    aws.ec2.terminate_instances(InstanceIds=[terminated])
    eventually(lambda: aws.instance_state(terminated) == "terminated")
    cases = [
        ({"VolumeId": "vol-0123456789abcdef0"}, "InvalidVolume.NotFound"),
        ({"InstanceId": "i-0123456789abcdef0"}, "InvalidInstanceID.NotFound"),
        ({"InstanceId": terminated}, "InvalidInstanceID.NotFound"),
        ({"VolumeId": attached, "Device": "/dev/sdg"}, "VolumeInUse"),
        ({"InstanceId": other_zone}, "InvalidVolume.ZoneMismatch"),
        ({}, "InvalidParameterValue"),  # /dev/sdf is taken
        ({"Device": "data"}, "InvalidParameterValue"),
    ]
    for changes, expected in cases:
        request = {"VolumeId": volume_id, "InstanceId": instance_id, "Device": "/dev/sdf", **changes}
        with pytest.raises(ClientError) as error:
            aws.ec2.attach_volume(**request)
        assert code_of(error) == expected, changes
    assert aws.volume(volume_id)["State"] == "available"


def test_a_volume_that_is_creating_is_not_attached(slow_aws: ResourceCloud) -> None:
    instance_id = slow_aws.launched()
    with slow_aws.stopped_clock():
        volume_id = slow_aws.ec2.create_volume(AvailabilityZone="us-east-1a", Size=4)["VolumeId"]
        with pytest.raises(ClientError) as error:
            slow_aws.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
    assert code_of(error) == "IncorrectState"


def test_a_volume_is_not_attached_to_an_instance_that_shuts_down(aws: ResourceCloud) -> None:
    instance_id, volume_id = aws.launched(), aws.available_volume()
    with ec2_state(aws.cloud).machine_lock(instance_id):  # holds up the shutdown
        aws.ec2.terminate_instances(InstanceIds=[instance_id])
        with pytest.raises(ClientError) as error:
            aws.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
    assert code_of(error) == "IncorrectState"


def test_a_failed_attachment_leaves_the_volume_available(aws: ResourceCloud) -> None:
    instance_id, volume_id = aws.launched(), aws.available_volume()
    aws.plane.hosts.terminate(instance_id)  # behind EC2's back
    with pytest.raises(ClientError) as error:
        aws.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
    assert code_of(error) == "InternalError"
    assert aws.volume(volume_id)["State"] == "available"


def test_a_volume_that_the_host_holds_is_busy_and_can_be_detached_later(
    aws: ResourceCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume_id = aws.attached_volume(aws.launched())

    def held(_: str) -> None:
        raise DataPlaneError("the device is mounted")

    with monkeypatch.context() as patch:
        patch.setattr(aws.plane.volumes, "detach", held)
        assert aws.ec2.detach_volume(VolumeId=volume_id)["State"] == "busy"
        assert aws.attachment_state(volume_id) == "busy"
    aws.ec2.detach_volume(VolumeId=volume_id)
    eventually(lambda: aws.volume(volume_id)["State"] == "available")


def test_detach_refusals(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    volume_id, free = aws.attached_volume(instance_id), aws.available_volume()
    mappings = aws.instance(instance_id)["BlockDeviceMappings"]
    root = next(m["Ebs"]["VolumeId"] for m in mappings if m["DeviceName"] == "/dev/xvda")
    cases = [
        ({"VolumeId": free}, "IncorrectState"),
        ({"VolumeId": volume_id, "InstanceId": "i-0123456789abcdef0"}, "InvalidAttachment.NotFound"),
        ({"VolumeId": volume_id, "Device": "/dev/sdz"}, "InvalidAttachment.NotFound"),
        ({"VolumeId": root}, "OperationNotPermitted"),
    ]
    for request, expected in cases:
        with pytest.raises(ClientError) as error:
            aws.ec2.detach_volume(**request)
        assert code_of(error) == expected, request


# -- snapshots -----------------------------------------------------------------------------------------------


def test_a_snapshot_is_not_found_for_its_tags_just_after_the_call(slow_aws: ResourceCloud) -> None:
    volume_id = slow_aws.attached_volume(slow_aws.launched())
    name = [tag("peaker:volume", "data")]
    with slow_aws.stopped_clock():
        snapshot_id = slow_aws.ec2.create_snapshot(VolumeId=volume_id)["SnapshotId"]
        with pytest.raises(ClientError) as error:
            slow_aws.ec2.create_tags(Resources=[snapshot_id], Tags=name)
    assert code_of(error) == "InvalidSnapshot.NotFound"
    eventually(lambda: slow_aws.snapshot(snapshot_id))
    slow_aws.ec2.create_tags(Resources=[snapshot_id], Tags=name)
    assert slow_aws.snapshot(snapshot_id)["Tags"] == name


@pytest.fixture
def pending_aws(tmp_path: Path) -> Iterator[ResourceCloud]:
    """As `aws`, with snapshots that stay pending for as long as anybody looks."""
    with open_cloud(tmp_path, snapshot_seconds=3600) as opened:
        yield opened


def test_a_snapshot_is_pending_with_progress(pending_aws: ResourceCloud) -> None:
    volume_id = pending_aws.available_volume()
    snapshot_id = pending_aws.ec2.create_snapshot(VolumeId=volume_id)["SnapshotId"]
    seen = eventually(lambda: pending_aws.snapshot(snapshot_id))
    assert seen["State"] == "pending"
    assert 0 <= int(seen["Progress"].rstrip("%")) < 100


def test_the_first_snapshot_of_a_volume_copies_all_and_later_ones_what_was_written_since(
    tmp_path: Path,
) -> None:
    """200 MiB take 2,048 cloud seconds at 100 KiB/s; on this clock a third of a real one."""
    with open_cloud(tmp_path, snapshot_mib_per_s=100 / 1024) as aws:
        aws.cloud.clock.set(scale=6_000)
        volume_id = aws.available_volume()
        aws.plane.volumes.write(volume_id, dict.fromkeys(range(400), b"first"))
        first = aws.snapshot(aws.completed_snapshot(volume_id))
        assert (first["CompletionTime"] - first["StartTime"]).total_seconds() >= 2_048
        aws.plane.volumes.write(volume_id, {0: b"again"})
        assert _copy_seconds(aws, volume_id) == pytest.approx(5.12)
        made_from_it = aws.available_volume(SnapshotId=aws.completed_snapshot(volume_id))
        aws.plane.volumes.write(made_from_it, {1: b"other", 2: b"other"})
        assert _copy_seconds(aws, made_from_it) == pytest.approx(10.24)


def _copy_seconds(aws: ResourceCloud, volume_id: str) -> float:
    """What a snapshot of the volume takes to copy, in cloud seconds."""
    snapshot_id = aws.completed_snapshot(volume_id)
    return float(ec2_state(aws.cloud).backend.snapshots[snapshot_id]._copy_seconds)


def test_the_root_volume_is_not_a_data_volume_to_leave_out(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    aws.attached_volume(instance_id)
    mappings = aws.instance(instance_id)["BlockDeviceMappings"]
    root = next(m["Ebs"]["VolumeId"] for m in mappings if m["DeviceName"] == "/dev/xvda")
    specification = {"InstanceId": instance_id, "ExcludeBootVolume": True, "ExcludeDataVolumeIds": [root]}
    with pytest.raises(ClientError) as error:
        aws.ec2.create_snapshots(InstanceSpecification=specification)
    assert code_of(error) == "InvalidParameterValue"


def test_the_root_volume_is_not_snapshotted(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    aws.attached_volume(instance_id)
    with pytest.raises(ClientError) as error:
        aws.ec2.create_snapshots(InstanceSpecification={"InstanceId": instance_id})
    assert code_of(error) == "UnsupportedOperation"
    assert not aws.plane.volumes.snapshots


def test_a_sixth_pending_snapshot_of_a_volume_is_refused(pending_aws: ResourceCloud) -> None:
    volume_id = pending_aws.available_volume()
    for _ in range(5):
        pending_aws.ec2.create_snapshot(VolumeId=volume_id)
    with pytest.raises(ClientError) as error:
        pending_aws.ec2.create_snapshot(VolumeId=volume_id)
    assert code_of(error) == "ConcurrentSnapshotLimitExceeded"


def test_a_volume_is_not_made_from_a_pending_snapshot(pending_aws: ResourceCloud) -> None:
    snapshot_id = pending_aws.ec2.create_snapshot(VolumeId=pending_aws.available_volume())["SnapshotId"]
    eventually(lambda: pending_aws.snapshot(snapshot_id))
    with pytest.raises(ClientError) as error:
        pending_aws.ec2.create_volume(AvailabilityZone="us-east-1a", SnapshotId=snapshot_id)
    assert code_of(error) == "IncorrectState"


def test_deleting_a_snapshot_leaves_its_volumes_whole(aws: ResourceCloud) -> None:
    source = aws.available_volume()
    aws.plane.volumes.write(source, {2: b"rows"})
    snapshot_id = aws.completed_snapshot(source)
    copy = aws.available_volume(SnapshotId=snapshot_id)
    aws.ec2.delete_snapshot(SnapshotId=snapshot_id)
    assert aws.plane.volumes.read(copy, 2).startswith(b"rows")
    with pytest.raises(ClientError) as error:
        aws.ec2.delete_snapshot(SnapshotId=snapshot_id)
    assert code_of(error) == "InvalidSnapshot.NotFound"


def test_a_snapshot_of_the_data_plane_can_be_made_known(aws: ResourceCloud) -> None:
    source = aws.available_volume()
    aws.plane.volumes.write(source, {1: b"seed"})
    aws.plane.volumes.create_snapshots({source: "snap-0a77000000000seed"})
    register_snapshot(aws.cloud, "snap-0a77000000000seed", 4, "dataset", {"peaker:volume": "data"})
    described = aws.snapshot("snap-0a77000000000seed")
    assert (described["State"], described["FullSnapshotSizeInBytes"]) == ("completed", BLOCK)
    assert aws.plane.volumes.read(aws.available_volume(SnapshotId="snap-0a77000000000seed"), 1)[:4] == b"seed"
    with pytest.raises(DataPlaneError):
        register_snapshot(aws.cloud, "snap-0a77000000000none", 4)


# -- EBS direct APIs -----------------------------------------------------------------------------------------


def test_blocks_of_a_snapshot_are_listed_in_pages(aws: ResourceCloud) -> None:
    volume_id = aws.available_volume()
    indices = [index * 3 for index in range(250)]
    aws.plane.volumes.write(volume_id, {index: b"block %d" % index for index in indices})
    snapshot_id = aws.completed_snapshot(volume_id)
    listed: list[dict[str, Any]] = []
    request: dict[str, Any] = {"SnapshotId": snapshot_id, "MaxResults": 100}
    while True:
        page = aws.ebs.list_snapshot_blocks(**request)
        assert (page["BlockSize"], page["VolumeSize"]) == (BLOCK, 4)
        listed += page["Blocks"]
        if not page.get("NextToken"):
            break
        assert len(page["Blocks"]) == 100
        request["NextToken"] = page["NextToken"]
    assert [block["BlockIndex"] for block in listed] == indices


def test_block_api_refusals(slow_aws: ResourceCloud) -> None:
    aws = slow_aws
    with pytest.raises(ClientError) as error:
        aws.ebs.list_snapshot_blocks(SnapshotId="snap-0123456789abcdef0")
    assert code_of(error) == "ResourceNotFoundException"
    volume_id = aws.available_volume()
    aws.plane.volumes.write(volume_id, {1: b"a"})
    with aws.stopped_clock():
        snapshot_id = aws.ec2.create_snapshot(VolumeId=volume_id)["SnapshotId"]
        with pytest.raises(ClientError) as error:
            aws.ebs.list_snapshot_blocks(SnapshotId=snapshot_id)
    assert code_of(error) == "ValidationException"
