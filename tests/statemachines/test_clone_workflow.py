"""A clone on the local cloud: the real workflow, functions, documents and rights; hosts answer from a script."""

from __future__ import annotations

from tests.statemachines.test_direct_fill_workflow import SIZE_GIB, built, steps_of, volumes_of
from tests.statemachines.test_planned_calls import recorded
from tests.support.workflow_cloud import WorkflowCloud

# All tests share the account's vCPUs; there is no second try here that would need its time.
SMALL = {"instance_type": "r6i.4xlarge", "instance_hourly_usd": 1.008}


def test_a_donor_is_cloned_onto_empty_volumes_without_a_snapshot_by_calls_that_the_plan_lists(
    cloud: WorkflowCloud,
) -> None:
    with recorded() as calls:
        cluster, execution = built(cloud, **SMALL, prewarm={"clone_mib_per_s": 4000})
    assert execution["status"] == "SUCCEEDED", execution
    assert cloud.last_state(execution) == "ReplicaInService"
    assert [one.get("SnapshotId") or "" for one in volumes_of(cloud, cluster)] == ["", ""]
    assert {one["Size"] for one in volumes_of(cloud, cluster)} == {SIZE_GIB}
    run_id = cloud.runs(cluster)[0]
    steps = steps_of(cloud, run_id)
    assert steps["StartPrewarm"]["numbers"]["cloned_from"] == cluster.base_id
    assert "ec2:CreateSnapshots" not in calls
    assert set(calls) - {one["action"] for one in cloud.receipt(run_id)["plan"]["calls"]} == set()
    asked = [document for document, _ in cloud.answers.asked]
    assert asked.count("start_clone") == 1
    assert sorted(cloud.health(cluster).values()) == ["healthy", "healthy"]
