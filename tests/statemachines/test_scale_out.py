"""scale_out on the local cloud: the real workflow, functions and documents; hosts answer from a script."""

from __future__ import annotations

import json
from typing import Any

import pytest

from peaker_contract.catalogue import states_passed
from peaker_contract.steps import Method
from tests.support.refusals import assert_refused
from tests.support.workflow_cloud import TABLE, Cluster, WorkflowCloud


def alarm(**more: Any) -> dict[str, Any]:
    return {
        "kind": "alarm",
        "alarm": "orders-shortage",
        "reason": "forecast",
        "at": "2026-11-21T01:00:00Z",
        **more,
    }


def assert_untouched(cloud: WorkflowCloud, cluster: Cluster) -> None:
    """Nothing of any run is there, the lease is free, and the serving fleet is what it was."""
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.lease_is_free(cluster)
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}


@pytest.fixture(scope="module")
def built(modules_cloud: WorkflowCloud) -> tuple[Cluster, dict[str, Any]]:
    """A cluster after a scale-out that an alarm began, and in which the prewarm engine died once."""
    cluster = modules_cloud.cluster()
    modules_cloud.set_load(cluster, 150, 2)
    modules_cloud.answers.script(
        "report_prewarm", {"state": "dead"}, {"state": "running", "eta_seconds": 100}
    )
    execution = modules_cloud.run("scale_out", {"cluster": cluster.name, "trigger": alarm()})
    return cluster, execution


def test_a_replica_is_built_and_serves(cloud: WorkflowCloud, built: tuple[Cluster, dict[str, Any]]) -> None:
    cluster, execution = built
    assert execution["status"] == "SUCCEEDED", execution
    assert cloud.last_state(execution) == "ReplicaInService"
    assert sorted(cloud.health(cluster).values()) == ["healthy", "healthy"]
    assert cloud.lease_is_free(cluster)


def test_instance_and_volumes_remain_and_the_snapshots_as_base_of_the_next_ones(
    cloud: WorkflowCloud, built: tuple[Cluster, dict[str, Any]]
) -> None:
    kinds = sorted(one.split("-")[0] for one in cloud.made_by_peaker(built[0]))
    assert kinds == ["i", "vol", "vol", "vol"]  # data, log and the root volume
    receipt = cloud.receipt(cloud.runs(built[0])[0])
    assert {row["state"] for row in receipt["resources"] if row["kind"] == "snapshot"} == {"kept"}
    assert len(cloud.kept_snapshots(built[0])) == 2
    assert receipt["kept_nothing_else"] is True
    assert any("copy only changes" in note for note in receipt["notes"])


def test_volumes_follow_the_zone_with_the_fewest_replicas(
    cloud: WorkflowCloud, built: tuple[Cluster, dict[str, Any]]
) -> None:
    cluster, _ = built
    volumes = cloud.client("ec2").describe_volumes(
        Filters=[
            {"Name": "tag:peaker:cluster", "Values": [cluster.name]},
            {"Name": "tag-key", "Values": ["peaker:owner"]},
        ]
    )["Volumes"]
    # The base replica is in us-east-1b.
    assert {volume["AvailabilityZone"] for volume in volumes} == {"us-east-1a"}


def test_everything_that_was_made_carries_the_run_id(
    cloud: WorkflowCloud, built: tuple[Cluster, dict[str, Any]]
) -> None:
    cluster, _ = built
    run_id = cloud.runs(cluster)[0]
    made = cloud.made_by_peaker(cluster)
    tags = cloud.client("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": made}])["Tags"]
    runs = {tag["ResourceId"]: tag["Value"] for tag in tags if tag["Key"] == "peaker:run-id"}
    assert runs == dict.fromkeys(made, run_id)
    assert {tag["Value"] for tag in tags if tag["Key"] == "peaker:owner"} == {"local"}


def test_the_receipt_has_every_step_its_numbers_the_cost_and_the_lead(
    cloud: WorkflowCloud, built: tuple[Cluster, dict[str, Any]]
) -> None:
    receipt = cloud.receipt(cloud.runs(built[0])[0])
    steps = {step["step"]: step for step in receipt["steps"]}
    expected = {"PlanScaleOut", *states_passed(Method.BUILD)}
    assert expected <= set(steps)
    assert all(steps[name]["seconds"] > 0 for name in expected)
    started = steps["StartPrewarm"]["numbers"]
    assert (started["block_list_missing"], set(started["blocks_in_snapshots"])) == ("", {"data", "log"})
    proof = steps["VerifyStorage"]["numbers"]
    assert (proof["await_first_ms"], proof["instance_baseline_unknown"]) == (0.71, "")
    assert steps["ReportPrewarm"]["numbers"]["rate_mib_per_s"] == 250.0
    assert receipt["cost"]["hourly"] > 0.126
    assert receipt["cost"]["per_month_if_kept"] == pytest.approx(receipt["cost"]["hourly"] * 730, rel=0.01)
    assert receipt["forecast_lead"]["seconds_alarm_to_serving"] > 0


def test_a_replica_answers_at_the_clusters_own_health_port(cloud: WorkflowCloud) -> None:
    """The settings say 9201. A host whose image knows nothing of the cluster listens at 9200 unless it is told."""
    endpoint = {"kind": "nlb", "port": 3306, "listener_port": 13306, "health_port": 9201}
    cluster = cloud.cluster(read_endpoint=endpoint)
    cloud.set_load(cluster, 150, 2)
    execution = cloud.run("scale_out", {"cluster": cluster.name, "trigger": alarm()})
    assert execution["status"] == "SUCCEEDED", execution
    assert sorted(cloud.health(cluster).values()) == ["healthy", "healthy"]
    assert {port for _, port, _ in cloud.plane.endpoints.probes} >= {9201}


def test_plan_mode_returns_the_plan_and_writes_nothing(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    execution = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan", "count": 2})
    assert execution["status"] == "SUCCEEDED", execution
    plan = execution["document"]
    assert plan["donor"] == cluster.base_id
    assert plan["zones"][0] == "us-east-1a"
    assert plan["price"]["hourly"] > 0.126
    assert plan["lead_time"]["seconds"] > 0
    assert plan["refusals"] == []
    [shared] = [one for one in plan["checks"] if one["name"] == "initialization rate"]
    assert "of 5,000, the account's quota" in shared["detail"], "Service Quotas was asked, and may be"
    assert cloud.rows(f"cluster#{cluster.name}") == []
    assert_untouched(cloud, cluster)


def test_a_cluster_in_mode_observe_is_only_planned(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(mode="observe")
    execution = cloud.run("scale_out", {"cluster": cluster.name, "trigger": alarm()})
    assert cloud.last_state(execution) == "PlanReturned"
    assert cloud.rows(f"cluster#{cluster.name}") == []


BAD_INPUTS = [
    ({}, "InvalidRequest", "cluster: not given; allowed is the name"),
    ({"cluster": "nowhere"}, "UnknownCluster", 'cluster: given "nowhere"; clusters of this environment: c'),
    (
        {"cluster": "{name}", "count": 4},
        "InvalidRequest",
        "count: given 4; allowed is a whole number from 1 to 3",
    ),
]


@pytest.mark.parametrize(
    ("given", "error", "text"), BAD_INPUTS, ids=[json.dumps(one[0])[:40] for one in BAD_INPUTS]
)
def test_a_wrong_input_fails_at_once_with_the_field_named(
    cloud: WorkflowCloud, built: tuple[Cluster, Any], given: Any, error: str, text: str
) -> None:
    before = len(cloud.runs(built[0]))
    given = json.loads(json.dumps(given).replace("{name}", built[0].name))
    execution = cloud.run("scale_out", given)
    assert (execution["status"], execution["error"]) == ("FAILED", error)
    assert text in execution["cause"]
    assert execution["cause"].startswith(f"Nothing was done. ValidateRequest ({error}):\n")
    assert "stackTrace" not in execution["cause"]
    assert cloud.last_state(execution) == "RequestRejected"
    assert len(cloud.runs(built[0])) == before


def test_a_second_run_is_refused_while_the_lease_is_held_and_an_alarm_waits_for_it(
    cloud: WorkflowCloud,
) -> None:
    cluster = cloud.cluster()
    hold_lease(cloud, cluster)
    by_hand = cloud.run("scale_out", {"cluster": cluster.name})
    assert_refused(cloud, by_hand, "LeaseHeld", "another-run holds the lease until")
    by_alarm = cloud.run("scale_out", {"cluster": cluster.name, "trigger": alarm()})
    assert (by_alarm["status"], cloud.last_state(by_alarm)) == ("SUCCEEDED", "WaitsForLease")
    assert by_alarm["document"]["outcome"] == "waiting"
    planned = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan"})
    assert [refusal["code"] for refusal in planned["document"]["refusals"]] == ["operation_running"]
    assert cloud.made_by_peaker(cluster) == []


def test_an_alarm_that_comes_too_late_has_nothing_to_do(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    cloud.set_load(cluster, 50, 1)
    hold_lease(cloud, cluster)
    execution = cloud.run("scale_out", {"cluster": cluster.name, "trigger": alarm()})
    assert (execution["status"], cloud.last_state(execution)) == ("SUCCEEDED", "NothingToDo")
    assert cloud.runs(cluster) == [], "it asked for the lease although nothing was missing"
    assert cloud.made_by_peaker(cluster) == []


def test_a_cluster_without_a_replica_is_refused_with_the_reason(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    cloud.client("elbv2").deregister_targets(
        TargetGroupArn=cluster.target_group_arn, Targets=[{"Id": cluster.base_id, "Port": 3306}]
    )
    cloud.client("ec2").terminate_instances(InstanceIds=[cluster.base_id])
    cloud.eventually(lambda: cloud.is_gone(cluster.base_id))
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert_refused(cloud, execution, "ScaleOutRefused", "no_donor")
    assert cloud.receipt(cloud.runs(cluster)[0])["outcome"] == "refused"
    by_alarm = cloud.run("scale_out", {"cluster": cluster.name, "trigger": alarm()})
    assert (by_alarm["status"], by_alarm["error"]) == ("FAILED", "ScaleOutRefused"), "people must hear of it"
    assert by_alarm["cause"].startswith("Replicas are missing and none was built. PlanScaleOut failed")
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.lease_is_free(cluster)


def test_two_replicas_come_in_one_run_from_one_snapshot_set(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    execution = cloud.run("scale_out", {"cluster": cluster.name, "count": 2})
    assert execution["status"] == "SUCCEEDED", execution
    first, second = sorted(cloud.runs(cluster))
    assert second == f"{first}-2"
    assert list(cloud.health(cluster).values()).count("healthy") == 3
    assert len(cloud.kept_snapshots(cluster)) == 2, "a set of the two data volumes"
    told = cloud.receipt(first)["members"]
    assert [(one["run_id"], one["state"]) for one in told] == [(first, "in_service"), (second, "in_service")]
    assert cloud.receipt(second)["outcome"] == "succeeded"


def test_a_dead_prewarm_engine_was_started_again(
    cloud: WorkflowCloud, built: tuple[Cluster, dict[str, Any]]
) -> None:
    new_hosts = {one for one in cloud.made_by_peaker(built[0]) if one.startswith("i-")}
    starts = [
        host for document, host in cloud.answers.asked if document == "start_prewarm" and host in new_hosts
    ]
    assert len(starts) == 2


def hold_lease(cloud: WorkflowCloud, cluster: Cluster) -> None:
    cloud.client("dynamodb").put_item(
        TableName=TABLE,
        Item={
            "pk": {"S": f"cluster#{cluster.name}"},
            "sk": {"S": "lease"},
            "run_id": {"S": "another-run"},
            "operation": {"S": "scale_in"},
            "fencing_token": {"N": "7"},
            "held_until": {"S": "2099-01-01T00:00:00.000Z"},
        },
    )
