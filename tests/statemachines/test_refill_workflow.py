"""An expired parked replica comes back by changed blocks: the real workflow; hosts answer from a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker.domain.instants import from_iso, to_iso
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, WROTE_NOTHING

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
    prewarms_took_long(cloud, cluster)
    expires(cloud, cluster, instance_id)
    return cluster, instance_id


def earlier(cloud: WorkflowCloud, run_id: str, row: str, by: timedelta) -> None:
    """The row of that run began earlier than it did; nothing where the run has no such row."""
    for found in cloud.rows(f"run#{run_id}"):
        if found["sk"] == row:
            cloud.client("dynamodb").update_item(
                TableName=TABLE,
                Key={"pk": {"S": found["pk"]}, "sk": {"S": row}},
                UpdateExpression="SET started_at = :at",
                ExpressionAttributeValues={":at": {"S": to_iso(from_iso(found["started_at"]) - by)}},
            )


def prewarms_took_long(cloud: WorkflowCloud, cluster: Cluster) -> None:
    """What is quicker is not how busy this machine is: tests' hosts have read all at once."""
    for run_id in cloud.runs(cluster):
        earlier(cloud, run_id, "step#ReportPrewarm", timedelta(days=1))


def expires(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """It leaves, and its return finds that the source has purged what it lacks."""
    cloud.set_load(cluster, 50, 1)
    gone = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(gone) == "ReplicaParked", gone
    cloud.set_load(cluster, 150, 2)
    cloud.answers.fail("start_replication", "BinlogsGone", instance_id=instance_id)
    failed = cloud.run("scale_out", {"cluster": cluster.name})
    assert failed["error"] == "BinlogsGone", failed
    cloud.answers.healthy()


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
    assert cloud.is_gone(instance_id), gone


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
    assert cloud.is_gone(instance_id), retired
    looked(cloud, cluster)
    left = cloud.kept_snapshots(cluster)
    assert left
    assert left.isdisjoint(base)
    assert kept_snapshots(cloud, cluster) == left


def compares(cloud: WorkflowCloud, instance_id: str) -> Callable[[str, str], None]:
    """A host that asks the cloud for the lists of its pairs before it writes, as the engine does."""

    def ask(document: str, asked: str) -> None:
        if (document, asked) != ("report_prewarm", instance_id):
            return
        changed = json.loads(parameters_of(cloud, instance_id, "start_fill")["Changed"])
        try:
            for first, second in (pair for pairs in changed.values() for pair in pairs):
                cloud.client("ebs").list_changed_blocks(FirstSnapshotId=first, SecondSnapshotId=second)
        except ClientError as refused:
            told = {"state": "failed", "error": "DirectApiRefused", "message": str(refused), "written": False}
            cloud.answers.script("report_prewarm", told, instance_id=instance_id)

    return ask


def members_of_the_newest(cloud: WorkflowCloud, cluster: Cluster) -> list[dict[str, Any]]:
    batches = [one for one in cloud.runs(cluster) if one.startswith("scale-out") and one[-2:] != "-2"]
    return list(cloud.receipt(sorted(batches)[-1])["members"])


def refill_in_plan(cloud: WorkflowCloud, cluster: Cluster) -> dict[str, Any]:
    """What the next plan says of a refill."""
    planned = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan"})["document"]
    [refill] = [one for one in planned["comparison"]["methods"] if one["name"] == "return_expired"]
    return {**refill, "action": planned["method"]["action"], "replica": planned["method"]["replica"]}


def leaves_the_endpoint(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """By whatever hand: it is no donor then, and a replica is refilled from the one that it was made from alone."""
    cloud.client("elbv2").deregister_targets(
        TargetGroupArn=cluster.target_group_arn, Targets=[{"Id": instance_id, "Port": 3306}]
    )
    cloud.eventually(lambda: cloud.health(cluster).get(instance_id) != "healthy")


def runs_began(cloud: WorkflowCloud, cluster: Cluster, ago: timedelta) -> None:
    """All runs of the cluster, by the cloud's clock; hours of it pass while a slow machine does a few steps."""
    now = cloud.cloud.clock.now()
    for run_id in cloud.runs(cluster):
        [row] = [one for one in cloud.rows(f"run#{run_id}") if one["sk"] == "run"]
        earlier(cloud, run_id, "run", from_iso(row["started_at"]) - (now - ago))


def test_where_aws_compares_no_lineage_it_stands_as_it_was_and_the_run_builds_and_a_day_later_it_is_tried(
    cloud: WorkflowCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, instance_id = expired(cloud)
    spent = row_of(cloud, cluster, instance_id)["parking"]["spent"]
    monkeypatch.setattr(cloud.cloud, "settings", replace(cloud.cloud.settings, compares_along_lineage=False))
    cloud.answers.before_answering = compares(cloud, instance_id)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService", "the same run has built one"
    refill, build = members_of_the_newest(cloud, cluster)
    assert (refill["method"], build["method"]) == ("refill", "build")
    assert "are not related" in str(refill)
    assert cloud.instance_state(instance_id) == "stopped"
    row = row_of(cloud, cluster, instance_id)
    assert (row["state"], row["parking"]["spent"]) == ("parked", spent)
    assert row["parking"]["failed_return"].endswith(WROTE_NOTHING)
    prewarms_took_long(cloud, cluster)
    [built] = set(cloud.health(cluster)) - {cluster.base_id}
    leaves_the_endpoint(cloud, cluster, built)
    cloud.set_load(cluster, 250, 3)
    cloud.cloud.clock.set(scale=1)  # else a day of it has passed where the machine stalls for two minutes
    runs_began(cloud, cluster, timedelta(minutes=1))
    planned = refill_in_plan(cloud, cluster)
    assert planned["action"] == "build", planned
    assert "it is tried again a day after" in planned["why_not"], planned
    runs_began(cloud, cluster, timedelta(days=1))
    planned = refill_in_plan(cloud, cluster)
    assert (planned["action"], planned["replica"]) == ("refill", instance_id), planned


def test_a_second_refill_compares_with_the_same_set_and_serves_again(cloud: WorkflowCloud) -> None:
    """All that can differ from the donor's newest shows against the set that it was once made from."""
    cluster, instance_id = expired(cloud)
    first_set = kept_snapshots(cloud, cluster)
    newest: list[set[str]] = []
    for _ in range(2):
        execution = cloud.run("scale_out", {"cluster": cluster.name})
        assert cloud.last_state(execution) == "ReplicaInService", execution
        [member] = members_of_the_newest(cloud, cluster)
        assert (member["method"], member["state"]) == ("refill", "in_service"), member
        told = parameters_of(cloud, instance_id, "start_fill")
        pairs = [pair for of_volume in json.loads(told["Changed"]).values() for pair in of_volume]
        assert {first for first, _ in pairs} == first_set
        newest.append(set(json.loads(told["Snapshots"]).values()))
        if len(newest) == 1:
            expires(cloud, cluster, instance_id)
    assert not newest[0] & newest[1]
    assert kept_snapshots(cloud, cluster) == first_set | newest[1], "the set between them is of no use"
