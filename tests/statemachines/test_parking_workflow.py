"""scale_in and scale_out on the local cloud with parking: what is stopped, what comes back, what breaks on the way."""

from __future__ import annotations

import json
from typing import Any

from tests.support.workflow_cloud import Cluster, WorkflowCloud

FATAL = "AwsCallRejected"
PARKING = {"retirement": {"idle_seconds": 60, "park": "always"}}
# Hydration takes longer than what the tests' cloud hours of standing take to catch up.
LARGE_GIB = 2_000


def peak(cloud: WorkflowCloud, **changes: Any) -> tuple[Cluster, str]:
    """A cluster that parks, with a large peak replica that nobody needs."""
    cluster = cloud.cluster(**{**PARKING, **changes})
    instance_id = cloud.peak_replica(cluster, LARGE_GIB)
    cloud.set_load(cluster, 50, 1)
    return cluster, instance_id


def row_of(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> dict[str, Any]:
    found = [one for one in cloud.rows(f"cluster#{cluster.name}") if one["sk"] == f"replica#{instance_id}"]
    return {**found[0], "parking": json.loads(found[0].get("parking") or "null")}


def parked(cloud: WorkflowCloud, **changes: Any) -> tuple[Cluster, str]:
    cluster, instance_id = peak(cloud, **changes)
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaParked", execution
    await_look_after_release(cloud)
    return cluster, instance_id


def await_look_after_release(cloud: WorkflowCloud) -> None:
    """The release of the lease let scale_out look at the shortage; a load that a test sets later is not for it."""

    def at_work() -> list[str]:
        answer = cloud.client("stepfunctions").list_executions(
            stateMachineArn=cloud.machines["scale_out"], statusFilter="RUNNING"
        )
        return [one["name"] for one in answer["executions"] if one["name"].endswith("-then")]

    cloud.eventually(lambda: not at_work())


def assert_serving(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """The fleet is as it was, and stays so: nothing of ours was stopped, taken out or deleted."""
    assert cloud.health(cluster) == {cluster.base_id: "healthy", instance_id: "healthy"}
    assert cloud.instance_state(instance_id) == "running"
    assert row_of(cloud, cluster, instance_id)["state"] == "in_service"
    assert len(cloud.made_by_peaker(cluster)) >= 3
    assert cloud.lease_is_free(cluster)


def assert_parked(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> dict[str, Any]:
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}
    assert cloud.instance_state(instance_id) == "stopped"
    assert len(cloud.made_by_peaker(cluster)) == 3
    assert cloud.lease_is_free(cluster)
    row = row_of(cloud, cluster, instance_id)
    assert (row["state"], row["run_id"]) == ("parked", f"scale-out-{cluster.name}-built")
    return dict(row["parking"])


def latest_receipt(cloud: WorkflowCloud, cluster: Cluster, operation: str) -> dict[str, Any]:
    """Of the last run that the test itself started; the replica's builder left none."""
    found = [run for run in cloud.runs(cluster) if run.startswith(operation) and not run.endswith("-built")]
    return cloud.receipt(sorted(found)[-1])


# -- parked, and back -------------------------------------------------------------------------------------------


def test_an_idle_replica_is_parked_and_the_next_shortage_returns_it(cloud: WorkflowCloud) -> None:
    cluster, instance_id = parked(cloud)
    stands = assert_parked(cloud, cluster, instance_id)
    assert stands["gtid_set"].endswith(":1-99")
    assert stands["until"] > stands["parked_at"]
    receipt = latest_receipt(cloud, cluster, "scale-in")
    assert receipt["replica"]["state"] == "parked"
    assert receipt["parking"]["parked_hourly_usd"] < receipt["parking"]["serving_hourly_usd"]
    assert {"ConfirmIdle", "ParkReplica"} <= {step["step"] for step in receipt["steps"]}

    planned = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan"})["document"]
    assert planned["method"]["action"] == "return", planned["method"]["reason"]
    back, *builds = planned["choice"]["options"]
    assert back["p50_seconds"] < min(one["p50_seconds"] for one in builds)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService", execution
    assert_serving(cloud, cluster, instance_id)
    receipt = latest_receipt(cloud, cluster, "scale-out")
    steps = {step["step"] for step in receipt["steps"]}
    assert {"StartParkedReplica", "AwaitParkedReplica", "InstallOnParkedReplica", "WaitForCatchUp"} <= steps
    assert not {"CreateSnapshots", "LaunchReplica", "StartPrewarm", "VerifyStorage"} & steps
    assert receipt["plan"]["method"]["action"] == "return"
    assert receipt["replica"]["state"] == "in_service"
    assert receipt["cost"]["once"] == 0

    again = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(again) == "ReplicaParked", again
    assert_parked(cloud, cluster, instance_id)


def test_a_parked_replica_that_is_asked_for_by_name_is_retired_at_any_load(cloud: WorkflowCloud) -> None:
    cluster, instance_id = parked(cloud)
    cloud.set_load(cluster, 900, 3)
    planned = cloud.run("scale_in", {"cluster": cluster.name, "replica": instance_id, "mode": "plan"})[
        "document"
    ]
    assert planned["text"] == f"would retire {instance_id}"
    assert [one["objections"] for one in planned["planned"]] == [[]]
    execution = cloud.run("scale_in", {"cluster": cluster.name, "replica": instance_id})
    assert cloud.last_state(execution) == "ReplicaRetired", execution
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}


# -- each guard, broken -----------------------------------------------------------------------------------------


# -- faults -------------------------------------------------------------------------------------


def test_a_fault_after_the_parking_leaves_it_parked_and_says_so(cloud: WorkflowCloud) -> None:
    cluster, instance_id = peak(cloud)
    cloud.cloud.faults.add("lambda:record_receipt", FATAL, "on purpose")
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaGoneAfterFailure", execution
    assert_parked(cloud, cluster, instance_id)
    assert latest_receipt(cloud, cluster, "scale-in")["outcome"] == "rolled_forward"


def test_purged_binary_logs_expire_it_and_the_next_scale_in_retires_it(cloud: WorkflowCloud) -> None:
    cluster, instance_id = parked(cloud)
    cloud.answers.fail("start_replication", "BinlogsGone", instance_id=instance_id)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", "BinlogsGone"), execution
    assert "purged binary logs" in assert_parked(cloud, cluster, instance_id)["spent"]
    retired = cloud.run("scale_in", {"cluster": cluster.name, "trigger": {"kind": "alarm"}})
    assert cloud.last_state(retired) == "ReplicaRetired", retired
    assert cloud.made_by_peaker(cluster) == []
