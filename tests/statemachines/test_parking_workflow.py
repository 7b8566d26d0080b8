"""scale_in and scale_out on the local cloud with parking: what is stopped, what comes back, what is retired."""

from __future__ import annotations

import json
from typing import Any

from tests.statemachines.recorded_calls import assert_planned, recorded
from tests.support.workflow_cloud import Cluster, WorkflowCloud

# Hydration takes longer than what the tests' cloud hours of standing take to catch up.
LARGE_GIB = 2_000


def row_of(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> dict[str, Any]:
    found = [one for one in cloud.rows(f"cluster#{cluster.name}") if one["sk"] == f"replica#{instance_id}"]
    return {**found[0], "parking": json.loads(found[0].get("parking") or "null")}


def await_look_after_release(cloud: WorkflowCloud, cluster: Cluster) -> None:
    """The release of the lease let scale_out look at the shortage; a load that a test sets later is not for it."""
    answer = cloud.client("stepfunctions").list_executions(stateMachineArn=cloud.machines["scale_out"])
    looks = [
        one for one in answer["executions"] if cluster.name in one["name"] and one["name"].endswith("-then")
    ]
    assert looks
    for one in looks:
        cloud.finish(one["executionArn"])


def assert_serving(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """The fleet is as it was, and stays so: nothing of ours was stopped, taken out or deleted."""
    assert cloud.health(cluster) == {cluster.base_id: "healthy", instance_id: "healthy"}
    assert cloud.instance_state(instance_id) == "running"
    assert row_of(cloud, cluster, instance_id)["state"] == "in_service"
    assert len(cloud.made_by_peaker(cluster)) >= 4
    assert cloud.lease_is_free(cluster)


def assert_parked(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> dict[str, Any]:
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}
    assert cloud.instance_state(instance_id) == "stopped"
    assert len(cloud.made_by_peaker(cluster)) == 4, "the host, its data, log and root volumes"
    assert cloud.lease_is_free(cluster)
    row = row_of(cloud, cluster, instance_id)
    assert row["state"] == "parked"
    return dict(row["parking"])


def latest_receipt(cloud: WorkflowCloud, cluster: Cluster, operation: str) -> dict[str, Any]:
    return cloud.receipt(sorted(run for run in cloud.runs(cluster) if run.startswith(operation))[-1])


def test_an_idle_replica_is_parked_returns_is_parked_again_and_is_retired_by_name(
    cloud: WorkflowCloud,
) -> None:
    cluster = cloud.cluster(LARGE_GIB, retirement={"idle_seconds": 60, "park": "always"})
    cloud.set_load(cluster, 150, 2)
    assert cloud.last_state(cloud.run("scale_out", {"cluster": cluster.name})) == "ReplicaInService"
    [builder] = cloud.runs(cluster)
    [instance_id] = cloud.health(cluster).keys() - {cluster.base_id}
    cloud.set_load(cluster, 50, 1)
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaParked", execution
    await_look_after_release(cloud, cluster)
    stands = assert_parked(cloud, cluster, instance_id)
    assert row_of(cloud, cluster, instance_id)["run_id"] == builder
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
    with recorded() as calls:
        execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService", execution
    assert "ec2:StartInstances" in calls
    assert_planned(cloud, cluster, calls)
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
    await_look_after_release(cloud, cluster)

    cloud.set_load(cluster, 900, 3)
    by_name = {"cluster": cluster.name, "replica": instance_id}
    planned = cloud.run("scale_in", {**by_name, "mode": "plan"})["document"]
    assert planned["text"] == f"would retire {instance_id}"
    assert [one["objections"] for one in planned["planned"]] == [[]]
    retired = cloud.run("scale_in", by_name)
    assert cloud.last_state(retired) == "ReplicaRetired", retired
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}
    assert row_of(cloud, cluster, instance_id)["state"] == "retired"
