"""A direct fill on the local cloud: the real workflow, functions, documents and rights; hosts answer from a script."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.workflow_cloud import Cluster, WorkflowCloud

# Both volumes fit into memory twice, so that no database would start before all is read, and nothing is ready by the
# deadline: the quickest method is taken, and that is a fill where the instance carries what the volumes give. They are
# large, so that a second try has its time also on a busy machine: the cloud's clock runs on meanwhile.
SIZE_GIB, HOURS = 600, 0.5
FILLED = {
    "prewarm": {"direct_fill": True},
    "instance_type": "r6i.32xlarge",
    "instance_hourly_usd": 8.064,
    "limits": {
        "max_hourly_cost_usd": 100.0,
        "minimum_lifetime_minutes": 60,
        "prewarm_deadline_minutes": 2880,
    },
}
DENIED = {
    "state": "failed",
    "error": "DirectApiRefused",
    "message": "/snapshots/snap-1/blocks: AccessDeniedException",
}


def built(cloud: WorkflowCloud, **changes: Any) -> tuple[Cluster, dict[str, Any]]:
    """A replica that is to serve sooner than any can."""
    cluster = cloud.cluster(SIZE_GIB, **{**FILLED, **changes})
    ready_by = (cloud.cloud.clock.now() + timedelta(hours=HOURS)).isoformat()
    return cluster, cloud.run("scale_out", {"cluster": cluster.name, "ready_by": ready_by})


def volumes_of(cloud: WorkflowCloud, cluster: Cluster) -> list[dict[str, Any]]:
    """The data volumes that runs made."""
    filters = [
        {"Name": "tag:peaker:cluster", "Values": [cluster.name]},
        {"Name": "tag-key", "Values": ["peaker:owner"]},
        {"Name": "tag:peaker:volume", "Values": ["data", "log"]},
    ]
    found: list[dict[str, Any]] = cloud.client("ec2").describe_volumes(Filters=filters)["Volumes"]
    return found


def steps_of(cloud: WorkflowCloud, run_id: str) -> dict[str, dict[str, Any]]:
    return {step["step"]: step for step in cloud.receipt(run_id)["steps"]}


def test_a_replica_on_empty_volumes_is_filled_proven_and_serves(cloud: WorkflowCloud) -> None:
    before = len(cloud.answers.asked)
    cluster, execution = built(cloud)
    assert execution["status"] == "SUCCEEDED", execution
    assert cloud.last_state(execution) == "ReplicaInService"
    assert [one.get("SnapshotId") or "" for one in volumes_of(cloud, cluster)] == ["", ""]
    assert {one["Size"] for one in volumes_of(cloud, cluster)} == {SIZE_GIB}
    steps = steps_of(cloud, cloud.runs(cluster)[0])
    assert set(steps["StartPrewarm"]["numbers"]["filled_from"]) == {"data", "log"}
    assert steps["ReportPrewarm"]["numbers"]["state"] == "done"
    order = [
        steps[name]["started_at"]
        for name in ("StartPrewarm", "AssembleStorage", "StartDatabase", "VerifyStorage")
    ]
    assert order == sorted(order)
    asked = [document for document, _ in cloud.answers.asked[before:]]
    assert asked.count("start_fill") == 1


def test_a_role_without_the_right_costs_one_try_and_the_replica_serves_all_the_same(
    cloud: WorkflowCloud,
) -> None:
    cloud.answers.script("report_prewarm", DENIED)
    cluster, execution = built(cloud)
    assert execution["status"] == "SUCCEEDED", execution
    assert cloud.last_state(execution) == "ReplicaInService"
    assert all(one["SnapshotId"] for one in volumes_of(cloud, cluster)), "the empty ones are gone"
    first, second = cloud.receipt(cloud.runs(cluster)[0])["members"]
    assert "AccessDeniedException" in str(first), first
    assert "AccessDeniedException" not in str(second)
    assert sorted(cloud.health(cluster).values()) == ["healthy", "healthy"]


def test_without_the_setting_volumes_are_of_the_snapshots(cloud: WorkflowCloud) -> None:
    cluster, execution = built(cloud, prewarm={"direct_fill": False})
    assert execution["status"] == "SUCCEEDED", execution
    assert all(one["SnapshotId"] for one in volumes_of(cloud, cluster))
