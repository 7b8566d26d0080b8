"""An expired parked replica comes back by changed blocks: the real workflow; hosts answer from a script."""

from __future__ import annotations

import json
from typing import Any

from peaker.domain.replicas.fleet import REFILL_DID_NOT_END

from peaker_contract import names
from tests.statemachines.test_direct_fill_workflow import DENIED
from tests.statemachines.test_parking_workflow import PARKING, latest_receipt, row_of
from tests.statemachines.test_snapshots_of_the_first_week import looked
from tests.support.workflow_cloud import TABLE, Cluster, WorkflowCloud

# Little changes in the tests' hours, and reading all of a volume of this size takes half a day.
LARGE_GIB = 2_000
REFILLED = {
    "retirement": {**PARKING["retirement"], "refill_expired": True},
    "prewarm": {"direct_fill": True},
    "limits": {
        "max_hourly_cost_usd": 100.0,
        "minimum_lifetime_minutes": 0,
        "prewarm_deadline_minutes": 2880,
    },
}


def expired(cloud: WorkflowCloud) -> tuple[Cluster, str]:
    """A replica that a run built and another parked, and of whose source the binary logs are gone since."""
    cluster = cloud.cluster(LARGE_GIB, **REFILLED)
    cloud.set_load(cluster, 150, 2)
    built = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(built) == "ReplicaInService", built
    [instance_id] = set(cloud.health(cluster)) - {cluster.base_id}
    cloud.set_load(cluster, 50, 1)
    gone = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(gone) == "ReplicaParked", gone
    cloud.set_load(cluster, 150, 2)
    cloud.answers.fail("start_replication", "BinlogsGone", instance_id=instance_id)
    failed = cloud.run("scale_out", {"cluster": cluster.name})
    assert failed["error"] == "BinlogsGone", failed
    cloud.answers.healthy()
    return cluster, instance_id


def parameters_of(cloud: WorkflowCloud, instance_id: str, document: str) -> dict[str, str]:
    """Of the newest command of that document on the host."""
    commands = cloud.client("ssm").list_commands(InstanceId=instance_id)["Commands"]
    mine = [one for one in commands if one["DocumentName"] == names.document("local", document)]
    newest = max(mine, key=lambda one: one["RequestedDateTime"])
    return {name: values[0] for name, values in newest["Parameters"].items()}


def kept_snapshots(cloud: WorkflowCloud, cluster: Cluster) -> set[str]:
    """Those of the donor that outlive their runs."""
    filters = [
        {"Name": "tag:peaker:cluster", "Values": [cluster.name]},
        {"Name": "tag-key", "Values": ["peaker:owner"]},
    ]
    return {one["SnapshotId"] for one in cloud.client("ec2").describe_snapshots(Filters=filters)["Snapshots"]}


def volumes_of(cloud: WorkflowCloud, instance_id: str) -> set[str]:
    filters = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
    return {one["VolumeId"] for one in cloud.client("ec2").describe_volumes(Filters=filters)["Volumes"]}


def asked_by_the_schedule(cloud: WorkflowCloud, cluster: Cluster) -> dict[str, Any]:
    return cloud.run("scale_in", {"cluster": cluster.name, "trigger": {"kind": "schedule"}})


def has_stood_long_enough(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """It has expired, and by now its standing has cost what a build would."""
    parking = row_of(cloud, cluster, instance_id)["parking"]
    assert parking["stands_until"] > parking["parked_at"]
    over = {"until": parking["parked_at"], "stands_until": parking["parked_at"]}
    cloud.client("dynamodb").update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"cluster#{cluster.name}"}, "sk": {"S": f"replica#{instance_id}"}},
        UpdateExpression="SET parking = :parking",
        ExpressionAttributeValues={":parking": {"S": json.dumps({**parking, **over})}},
    )


def test_an_expired_replica_is_refilled_proven_and_serves(cloud: WorkflowCloud) -> None:
    cluster, instance_id = expired(cloud)
    first_set = kept_snapshots(cloud, cluster)
    volumes = volumes_of(cloud, instance_id)
    planned = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan"})["document"]
    assert planned["method"]["action"] == "refill", planned["method"]["reason"]
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService", execution
    assert cloud.health(cluster) == {cluster.base_id: "healthy", instance_id: "healthy"}
    assert row_of(cloud, cluster, instance_id)["state"] == "in_service"
    receipt = latest_receipt(cloud, cluster, "scale-out")
    steps = [step["step"] for step in receipt["steps"]]
    assert {
        "SnapshotOwnVolumes",
        "AwaitBothSnapshots",
        "StartPrewarm",
        "AssembleStorage",
        "VerifyStorage",
    } <= set(steps)
    assert not {"LaunchReplica", "CreateVolumes", "AttachVolumes"} & set(steps)
    changed = json.loads(parameters_of(cloud, instance_id, "start_fill")["Changed"])
    assert {name: len(pairs) for name, pairs in changed.items()} == {"data": 2, "log": 2}
    assert {pair[0] for pairs in changed.values() for pair in pairs} == first_set
    run_id = (
        next(step["numbers"] for step in receipt["steps"] if step["step"] == "AssembleStorage")
        and receipt["run_id"]
    )
    assert parameters_of(cloud, instance_id, "assemble_storage")["RefilledBy"] == run_id
    mine = cloud.client("ec2").describe_snapshots(Filters=[{"Name": "tag:peaker:run", "Values": [run_id]}])[
        "Snapshots"
    ]
    assert {one["VolumeId"] for one in mine}.isdisjoint(volumes), "its own snapshots are gone"


def test_a_refill_that_fails_in_the_middle_is_never_trusted_again(cloud: WorkflowCloud) -> None:
    cluster, instance_id = expired(cloud)
    cloud.answers.script("report_prewarm", DENIED, instance_id=instance_id)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.instance_state(instance_id) == "stopped"
    parking = row_of(cloud, cluster, instance_id)["parking"]
    assert parking["spent"].startswith(REFILL_DID_NOT_END), parking
    assert cloud.last_state(execution) == "ReplicaInService", "the same run has built one"
    newest = sorted(one for one in cloud.runs(cluster) if one.startswith("scale-out") and one[-2:] != "-2")[
        -1
    ]
    receipt = cloud.receipt(newest)
    assert [one["method"] for one in receipt["members"]] == ["refill", "build"], receipt["members"]
    assert "AccessDeniedException" in str(receipt["members"][0])
    gone = cloud.run("scale_in", {"cluster": cluster.name, "trigger": {"kind": "alarm"}})
    assert cloud.instance_state(instance_id) == "terminated", gone


def test_an_expired_replica_stands_when_nobody_needs_it_and_the_next_peak_refills_it(
    cloud: WorkflowCloud,
) -> None:
    cluster, instance_id = expired(cloud)
    volumes = volumes_of(cloud, instance_id)
    cloud.set_load(cluster, 50, 1, surplus=1)
    asked = asked_by_the_schedule(cloud, cluster)
    assert cloud.last_state(asked) == "NothingToDo", asked
    refused = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(refused) == "Refused", refused
    assert "it may come back by its changed blocks; standing costs $" in str(refused["document"])
    assert (cloud.instance_state(instance_id), volumes_of(cloud, instance_id)) == ("stopped", volumes)
    cloud.set_load(cluster, 150, 2)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService", execution
    assert cloud.health(cluster) == {cluster.base_id: "healthy", instance_id: "healthy"}
    assert latest_receipt(cloud, cluster, "scale-out")["plan"]["method"]["action"] == "refill"


def test_what_has_stood_as_long_as_a_build_costs_is_retired_and_its_base_set_goes(
    cloud: WorkflowCloud,
) -> None:
    cluster, instance_id = expired(cloud)
    base = cloud.kept_snapshots(cluster)
    refilled = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(refilled) == "ReplicaInService", refilled
    cloud.set_load(cluster, 50, 1, surplus=1)
    gone = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(gone) == "ReplicaParked", gone
    looked(cloud, cluster)
    assert base < cloud.kept_snapshots(cluster), "what it was made from is kept beside the newest set"
    has_stood_long_enough(cloud, cluster, instance_id)
    cloud.set_load(cluster, 50, 1, surplus=0)
    retired = asked_by_the_schedule(cloud, cluster)
    assert cloud.last_state(retired) == "ReplicaRetired", retired
    assert cloud.instance_state(instance_id) == "terminated"
    looked(cloud, cluster)
    left = cloud.kept_snapshots(cluster)
    assert left
    assert left.isdisjoint(base)
    assert kept_snapshots(cloud, cluster) == left
