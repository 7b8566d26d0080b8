"""RampTraffic on the local cloud: the share rises while the newcomer answers as well as its peers."""

from __future__ import annotations

from typing import Any

from tests.support.workflow_cloud import Cluster, WorkflowCloud

RAMP = {
    "shares": [0.1, 0.5, 1.0],
    "step_seconds": 60,
    "window_seconds": 2,
    "latency_margin": 1.5,
}


def ramp_windows(cloud: WorkflowCloud, cluster: Cluster) -> list[dict[str, Any]]:
    [run] = cloud.runs(cluster)
    steps = {step["step"]: step for step in cloud.receipt(run)["steps"]}
    return list(steps["RampTraffic"]["numbers"]["windows"])


def weights(cloud: WorkflowCloud, cluster: Cluster) -> dict[str, int]:
    [listener] = cloud.client("elbv2").describe_listeners(ListenerArns=[cluster.listener_arn])["Listeners"]
    groups = listener["DefaultActions"][0]["ForwardConfig"]["TargetGroups"]
    return {group["TargetGroupArn"]: group["Weight"] for group in groups}


def new_replica(cloud: WorkflowCloud, cluster: Cluster) -> str:
    return next(one for one in cloud.warming_health(cluster) if one != cluster.base_id)


def test_the_share_rises_step_by_step_and_the_receipt_has_every_window(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(ramp=RAMP)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService"
    windows = ramp_windows(cloud, cluster)
    assert [window["share"] for window in windows] == [0.1, 0.5, 1.0]
    assert {window["action"] for window in windows} == {"advance"}
    assert windows[0]["reason"] == "mean 0.41 ms, peers 0.41 ms, margin 1.5"
    assert weights(cloud, cluster) == {cluster.target_group_arn: 1, cluster.warming_group_arn: 999}
    replica = new_replica(cloud, cluster)
    assert cloud.health(cluster)[replica] == cloud.warming_health(cluster)[replica] == "healthy"


def test_a_newcomer_that_cannot_be_compared_is_never_promoted(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(ramp=RAMP)
    cloud.answers.script("measure_service", *([{"queries": 3}, {}] * 13))
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", "RampUndecided")
    assert "3 queries on the newcomer, 20 needed to compare" in execution["cause"]
    assert cloud.made_by_peaker(cluster) == []


def test_a_serving_replica_that_only_the_serving_group_knows_is_put_into_the_warming_group_first(
    cloud: WorkflowCloud,
) -> None:
    cluster = cloud.cluster(ramp=RAMP)
    elbv2 = cloud.client("elbv2")
    elbv2.deregister_targets(
        TargetGroupArn=cluster.warming_group_arn, Targets=[{"Id": cluster.base_id, "Port": 3306}]
    )
    cloud.eventually(lambda: cloud.warming_health(cluster) == {})
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService"
    assert set(cloud.warming_health(cluster)) == set(cloud.health(cluster))
