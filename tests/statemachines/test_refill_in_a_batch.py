"""A batch of an expired parked replica that is refilled and of another one that is built: the real workflow."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.statemachines.test_planned_calls import recorded
from tests.statemachines.test_refill_workflow import expired, parameters_of, volumes_of
from tests.support.workflow_cloud import Cluster, WorkflowCloud


@pytest.fixture
def batch(cloud: WorkflowCloud) -> tuple[Cluster, str, dict[str, Any], Counter[str]]:
    """The cluster, its replica that had expired, the receipt of the batch, and what its run called."""
    cluster, instance_id = expired(cloud)
    cloud.set_load(cluster, 250, 3)
    with recorded() as calls:
        execution = cloud.run("scale_out", {"cluster": cluster.name, "count": 2})
    assert cloud.last_state(execution) == "ReplicaInService", execution
    # The second member's row is the newest; the batch is written under its first member's.
    run_id = cloud.runs(cluster)[-1].removesuffix("-2")
    return cluster, instance_id, cloud.receipt(run_id), calls


def snapshots(cloud: WorkflowCloud, **tags: str) -> list[dict[str, Any]]:
    filters = [{"Name": f"tag:peaker:{name}", "Values": [text]} for name, text in tags.items()]
    return list(cloud.client("ec2").describe_snapshots(Filters=filters)["Snapshots"])


def test_a_refill_and_a_build_share_the_donors_set_and_both_serve(
    cloud: WorkflowCloud, batch: tuple[Cluster, str, dict[str, Any], Counter[str]]
) -> None:
    cluster, refilled, receipt, calls = batch
    serving = cloud.health(cluster)
    assert set(serving.values()) == {"healthy"}
    [built] = set(serving) - {cluster.base_id, refilled}
    assert sorted(one["method"] for one in receipt["members"]) == ["build", "refill"]

    # One set of the donor's volumes, one of the refilled replica's own.
    assert calls["ec2:CreateSnapshots"] == 2
    of_donor = {
        one["SnapshotId"]: one["VolumeId"] for one in snapshots(cloud, **{"run-id": receipt["run_id"]})
    }
    assert set(of_donor.values()) <= volumes_of(cloud, cluster.base_id)
    made_of = {
        one["SnapshotId"]
        for one in cloud.client("ec2").describe_volumes(VolumeIds=sorted(volumes_of(cloud, built)))["Volumes"]
    }
    assert set(of_donor) <= made_of
    newest = parameters_of(cloud, refilled, "start_fill")["Snapshots"]
    assert all(one in newest for one in of_donor)

    own = volumes_of(cloud, refilled)
    left = [one for one in snapshots(cloud, cluster=cluster.name) if one["VolumeId"] in own]
    assert left == [], "its own snapshots are gone"

    listed = {one["action"]: one["times"] for one in receipt["plan"]["calls"]}
    assert set(calls) - set(listed) == set()
    counted = {action: times for action, times in listed.items() if times is not None}
    assert counted == {action: calls[action] for action in counted}
