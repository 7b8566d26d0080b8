"""What the AWS adapters promise, held against the local cloud; and how AWS's errors become the domain's."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker
from peaker.adapters.aws_errors import translated
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.adapters.ec2.snapshot_blocks import EbsSnapshotBlocks
from peaker.domain.reading import Known, Unknown
from peaker.domain.storage.block_list import BlockRuns

from peaker_contract import errors
from tests.contract.conftest import RUN_TAGS, Adapters, put_metric
from tests.support.builders import orders
from tests.support.workflow_cloud import WorkflowCloud


def test_an_instance_type_says_what_it_delivers_to_its_volumes(aws: Adapters) -> None:
    promise = aws.compute.ebs_promise("r6i.large")
    assert (promise.baseline_iops, promise.baseline_mib_per_s) == (3600, 77.49)
    assert (promise.maximum_iops, promise.maximum_mib_per_s) == (40_000, 1192.09)


def test_no_room_to_start_is_a_matter_of_capacity(aws: Adapters) -> None:
    host = aws.running("token-full").instance_id
    aws.compute.stop(host)
    WorkflowCloud.eventually(lambda: aws.compute.instance(host).state == "stopped")
    aws.cloud.faults.add("ec2:StartInstances", "InsufficientInstanceCapacity")
    with pytest.raises(errors.CapacityUnavailable):
        aws.compute.start(host)


def test_the_blocks_of_a_snapshot_are_listed_over_all_pages(aws: Adapters) -> None:
    host = aws.running("token-b").instance_id
    volume_id = aws.data_volume(host, "/dev/sdf")
    indices = [*range(150), 700, *range(900, 1000)]
    aws.volumes.write(volume_id, dict.fromkeys(indices, b"x"))
    snapshot_id = aws.snapshot(volume_id, host, "run-b")
    listed = EbsSnapshotBlocks(aws.cloud.client("ebs"), blocks_per_page=100)
    assert listed.held(snapshot_id, 3, 60.0) == BlockRuns(((0, 150), (700, 1), (900, 100)), 251)
    assert isinstance(listed.held(snapshot_id, 2, 60.0), Unknown)
    with pytest.raises(errors.ResourceNotFound):
        listed.held("snap-0123456789abcdef0", 3, 60.0)


def test_a_volumes_snapshots_are_listed_with_their_starts(aws: Adapters) -> None:
    host = aws.running("token-listed").instance_id
    volume_id = aws.data_volume(host, "/dev/sdf")
    first, second = (aws.snapshot(volume_id, host, f"run-c{number}") for number in (1, 2))
    found = {one.snapshot_id: one for one in aws.storage.snapshots_of_volumes([volume_id])}
    assert set(found) == {first, second}
    assert found[first].started_at is not None
    assert found[second].started_at is not None
    assert found[first].started_at < found[second].started_at
    assert aws.storage.snapshots_of_volumes([]) == []


def test_a_host_runs_the_newest_version_of_a_document_also_where_an_older_one_is_the_default(
    aws: Adapters,
) -> None:
    document(aws, "deployed_twice", "old")
    aws.cloud.client("ssm").update_document(
        Name="Peaker-local-deployed_twice", Content=shell("new"), DocumentVersion="$LATEST"
    )
    host = aws.running("token-latest").instance_id
    WorkflowCloud.eventually(lambda: aws.commands.agent(host).is_online)
    command_id = aws.commands.send("deployed_twice", host, {}, "run-1 Twice#1")
    sent = aws.cloud.client("ssm").list_commands(CommandId=command_id)["Commands"][0]
    assert sent["DocumentVersion"] == "2"


def test_snapshots_of_others_that_are_being_made_are_waited_for(aws: Adapters) -> None:
    host = aws.running("token-busy-volume").instance_id
    volume_id = aws.data_volume(host, "/dev/sdf")
    aws.cloud.faults.add("ec2:CreateSnapshots", "ConcurrentSnapshotLimitExceeded")
    with pytest.raises(errors.SnapshotsPending, match="ConcurrentSnapshotLimitExceeded"):
        aws.storage.create_snapshots(host, [volume_id], RUN_TAGS)


def test_a_volume_in_use_whose_holder_does_not_show_yet_is_looked_at_again(aws: Adapters) -> None:
    """An earlier call attached it, and DescribeVolumes lags: it names nobody."""
    host = aws.running("token-stale-holder").instance_id
    volume_id = aws.free_volume()
    aws.cloud.faults.add("ec2:AttachVolume", "VolumeInUse")
    aws.storage.attach(volume_id, host, "/dev/sdf")
    aws.cloud.faults.add("ec2:AttachVolume", "InvalidVolume.ZoneMismatch")
    with pytest.raises(errors.VolumeFailed, match="ZoneMismatch"):
        aws.storage.attach(volume_id, host, "/dev/sdf")


def shell(command: str) -> str:
    step = {"action": "aws:runShellScript", "name": "run", "inputs": {"runCommand": [command]}}
    return json.dumps({"schemaVersion": "2.2", "mainSteps": [step]})


def document(aws: Adapters, name: str, command: str) -> None:
    aws.cloud.client("ssm").create_document(
        Name=f"Peaker-local-{name}", Content=shell(command), DocumentType="Command", DocumentFormat="JSON"
    )


def test_a_lag_is_the_replica_s_own_and_unknown_where_no_check_heard_of_it(aws: Adapters) -> None:
    cloudwatch = aws.cloud.client("cloudwatch")
    readings, settings, now = CloudWatchReadings(cloudwatch), orders(), aws.cloud.clock.now()
    dimensions = {"Cluster": "orders", "Instance": "i-1", "service": "peaker"}
    at = now - timedelta(minutes=1)
    put_metric(cloudwatch, "Peaker/local", "ReplicaLagSeconds", dimensions, at, 3.5)
    lag = readings.lag_seconds(settings, "i-1", now)
    assert isinstance(lag, Known)
    assert lag.value == 3.5
    assert isinstance(readings.lag_seconds(settings, "i-2", now), Unknown)


def test_the_reads_of_a_replica_are_its_own_not_its_cluster_s(aws: Adapters) -> None:
    cloudwatch = aws.cloud.client("cloudwatch")
    readings, settings, now = CloudWatchReadings(cloudwatch), orders(), aws.cloud.clock.now()
    of_cluster = {"Cluster": "orders", "service": "peaker"}
    for dimensions, value, minutes in (
        (of_cluster, 900.0, 2),
        ({**of_cluster, "Instance": "i-1"}, 40.0, 3),
        ({**of_cluster, "Instance": "i-1"}, 25.0, 2),
        ({**of_cluster, "Instance": "i-1"}, 99.0, 40),
    ):
        at = now - timedelta(minutes=minutes)
        put_metric(cloudwatch, "Peaker/local", "ReadQueriesPerSecond", dimensions, at, value)
    since = now - timedelta(minutes=15)
    assert readings.reads_per_second(settings, "i-1", since, now) == [40.0, 25.0]
    assert readings.reads_per_second(settings, "i-2", since, now) == []


ERRORS = [
    ("RequestLimitExceeded", 503, errors.Throttled),
    ("PriorRequestNotComplete", 400, errors.Throttled),
    ("ThrottlingException", 400, errors.Throttled),
    # Of SNS and of its key, of Parameter Store, of the EBS direct APIs.
    ("Throttled", 429, errors.Throttled),
    ("KMSThrottling", 400, errors.Throttled),
    ("TooManyUpdates", 400, errors.Throttled),
    ("ConcurrentLimitExceededException", 400, errors.Throttled),
    ("InsufficientInstanceCapacity", 500, errors.CapacityUnavailable),
    ("VcpuLimitExceeded", 400, errors.CapacityUnavailable),
    ("InvalidVolume.NotFound", 400, errors.ResourceNotFound),
    ("TargetGroupNotFoundException", 400, errors.ResourceNotFound),
    ("InvocationDoesNotExist", 400, errors.ResourceNotFound),
    ("NoSuchHealthCheck", 404, errors.ResourceNotFound),
    ("Unsupported", 400, errors.CapacityUnavailable),
    ("InsufficientFreeAddressesInSubnet", 400, errors.CapacityUnavailable),
    ("InternalError", 400, errors.AwsUnavailable),
    ("SomethingElse", 502, errors.AwsUnavailable),
    ("UnauthorizedOperation", 403, errors.AwsCallRejected),
]


# What botocore sends again by itself is worth another try of ours. LimitExceededException is a full account, too.
ERRORS += [
    (code, 400, kind)
    for kind, codes in (
        (errors.Throttled, ThrottledRetryableChecker._THROTTLED_ERROR_CODES),
        (errors.AwsUnavailable, TransientRetryableChecker._TRANSIENT_ERROR_CODES),
    )
    for code in codes
    if code not in {"LimitExceededException", *(known for known, *_ in ERRORS)}
]


@pytest.mark.parametrize(("code", "status", "kind"), ERRORS)
def test_an_aws_error_becomes_the_domains_and_keeps_aws_words(
    code: str, status: int, kind: type[Exception]
) -> None:
    answer: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(kind, match=f"ec2:DoIt: {code}: why"), translated("ec2:DoIt"):
        raise ClientError(answer, "DoIt")


def test_a_call_that_botocore_refuses_to_send_is_not_tried_again() -> None:
    with (
        pytest.raises(errors.AwsCallRejected, match="ec2:DoIt: Parameter validation failed"),
        translated("ec2:DoIt"),
    ):
        raise ParamValidationError(report="Missing required parameter in input: VolumeId")


def test_no_answer_is_unavailable() -> None:
    with pytest.raises(errors.AwsUnavailable, match="ec2:DoIt: no answer"), translated("ec2:DoIt"):
        raise EndpointConnectionError(endpoint_url="https://ec2")
