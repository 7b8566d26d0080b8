"""scale_out on the local cloud: the real workflow, functions and documents; hosts answer from a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.faults import Fault
from peaker_contract.catalogue import states_passed
from peaker_contract.steps import Method
from tests.statemachines.recorded_calls import assert_planned, recorded
from tests.support.workflow_cloud import Cluster, WorkflowCloud

ALARM = {
    "kind": "alarm",
    "alarm": "orders-shortage",
    "reason": "forecast",
    "at": "2026-11-21T01:00:00Z",
}
RAMP = {"shares": [0.1, 0.5, 1.0], "step_seconds": 60, "window_seconds": 2, "latency_margin": 1.5}
# A host whose image knows nothing of the cluster listens at 9200 unless it is told.
HEALTH_PORT = 9201
STANDARD, GP3 = ("ec2", "L-1216C47A"), ("ebs", "L-7A658B76")
GIB_PER_TIB = 1024


@dataclass(frozen=True)
class Built:
    """A cluster after a scale-out that an alarm began, and in which the prewarm engine died once."""

    cluster: Cluster
    execution: dict[str, Any]
    calls: Counter[str]
    receipt: dict[str, Any]


@pytest.fixture(scope="module")
def built(modules_cloud: WorkflowCloud) -> Built:
    cloud = modules_cloud
    endpoint = {"kind": "nlb", "port": 3306, "listener_port": 13306, "health_port": HEALTH_PORT}
    cluster = cloud.cluster(ramp=RAMP, read_endpoint=endpoint)
    cloud.set_load(cluster, 150, 2)
    # The serving replica is in the serving group alone: RampTraffic compares with it in the other one.
    cloud.client("elbv2").deregister_targets(
        TargetGroupArn=cluster.warming_group_arn, Targets=[{"Id": cluster.base_id, "Port": 3306}]
    )
    cloud.eventually(lambda: cloud.warming_health(cluster) == {})
    cloud.answers.script("report_prewarm", {"state": "dead"}, {"state": "running", "eta_seconds": 100})
    with recorded() as calls:
        execution = cloud.run("scale_out", {"cluster": cluster.name, "trigger": ALARM})
    assert execution["status"] == "SUCCEEDED", execution
    return Built(cluster, execution, calls, cloud.receipt(cloud.runs(cluster)[0]))


def test_a_replica_is_built_and_serves(cloud: WorkflowCloud, built: Built) -> None:
    assert cloud.last_state(built.execution) == "ReplicaInService"
    assert sorted(cloud.health(built.cluster).values()) == ["healthy", "healthy"]
    assert cloud.lease_is_free(built.cluster)


def test_what_was_made_stands_in_the_zone_with_the_fewest_replicas_and_carries_the_run_id(
    cloud: WorkflowCloud, built: Built
) -> None:
    made = cloud.made_by_peaker(built.cluster)
    assert sorted(one.split("-")[0] for one in made) == ["i", "vol", "vol", "vol"]  # data, log and root
    volumes = [one for one in made if one.startswith("vol")]
    found = cloud.client("ec2").describe_volumes(VolumeIds=volumes)["Volumes"]
    # The base replica is in us-east-1b.
    assert {volume["AvailabilityZone"] for volume in found} == {"us-east-1a"}
    tags = cloud.client("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": made}])["Tags"]
    runs = {tag["ResourceId"]: tag["Value"] for tag in tags if tag["Key"] == "peaker:run-id"}
    assert runs == dict.fromkeys(made, cloud.runs(built.cluster)[0])
    assert {tag["Value"] for tag in tags if tag["Key"] == "peaker:owner"} == {"local"}


def test_the_snapshots_remain_as_base_of_the_next_ones(cloud: WorkflowCloud, built: Built) -> None:
    assert {one["state"] for one in built.receipt["resources"] if one["kind"] == "snapshot"} == {"kept"}
    assert len(cloud.kept_snapshots(built.cluster)) == 2
    assert built.receipt["kept_nothing_else"] is True
    assert any("copy only changes" in note for note in built.receipt["notes"])


def test_the_receipt_has_every_step_its_numbers_the_cost_and_the_lead(built: Built) -> None:
    steps = {step["step"]: step for step in built.receipt["steps"]}
    expected = {"PlanScaleOut", *states_passed(Method.BUILD)}
    assert expected <= set(steps)
    assert all(steps[name]["seconds"] > 0 for name in expected)
    started = steps["StartPrewarm"]["numbers"]
    assert (started["block_list_missing"], set(started["blocks_in_snapshots"])) == ("", {"data", "log"})
    proof = steps["VerifyStorage"]["numbers"]
    assert (proof["await_first_ms"], proof["instance_baseline_unknown"]) == (0.71, "")
    assert steps["ReportPrewarm"]["numbers"]["rate_mib_per_s"] == 250.0
    cost = built.receipt["cost"]
    assert cost["hourly"] > 0.126
    assert cost["per_month_if_kept"] == pytest.approx(cost["hourly"] * 730, rel=0.01)
    assert built.receipt["forecast_lead"]["seconds_alarm_to_serving"] > 0


def test_a_replica_answers_at_the_clusters_own_health_port(cloud: WorkflowCloud, built: Built) -> None:
    assert {port for _, port, _ in cloud.plane.endpoints.probes} >= {HEALTH_PORT}


def test_the_share_rises_step_by_step_among_peers_that_are_put_into_the_warming_group_first(
    cloud: WorkflowCloud, built: Built
) -> None:
    cluster, steps = built.cluster, {step["step"]: step for step in built.receipt["steps"]}
    windows = steps["RampTraffic"]["numbers"]["windows"]
    assert [(one["share"], one["action"]) for one in windows] == [
        (0.1, "advance"),
        (0.5, "advance"),
        (1.0, "advance"),
    ]
    assert windows[0]["reason"] == "mean 0.41 ms, peers 0.41 ms, margin 1.5"
    [listener] = cloud.client("elbv2").describe_listeners(ListenerArns=[cluster.listener_arn])["Listeners"]
    groups = listener["DefaultActions"][0]["ForwardConfig"]["TargetGroups"]
    weights = {group["TargetGroupArn"]: group["Weight"] for group in groups}
    assert weights == {cluster.target_group_arn: 1, cluster.warming_group_arn: 999}
    assert cloud.warming_health(cluster) == cloud.health(cluster)


def test_a_dead_prewarm_engine_was_started_again(cloud: WorkflowCloud, built: Built) -> None:
    new_hosts = {one for one in cloud.made_by_peaker(built.cluster) if one.startswith("i-")}
    starts = [host for document, host in cloud.answers.asked if document == "start_prewarm"]
    assert len([host for host in starts if host in new_hosts]) == 2


def test_a_build_calls_what_its_plan_lists(cloud: WorkflowCloud, built: Built) -> None:
    listed = assert_planned(cloud, built.cluster, built.calls)
    # The engine that died was started by one command more, and the peer was registered anew.
    counted = {action: times for action, times in listed.items() if times is not None}
    assert counted == {action: built.calls[action] for action in counted}


def test_a_wrong_input_fails_at_once_with_the_field_named(cloud: WorkflowCloud, built: Built) -> None:
    before = cloud.runs(built.cluster)
    execution = cloud.run("scale_out", {"cluster": built.cluster.name, "count": 4})
    assert (execution["status"], execution["error"]) == ("FAILED", "InvalidRequest")
    assert execution["cause"].startswith("Nothing was done. ValidateRequest (InvalidRequest):\n")
    assert "count: given 4; allowed is a whole number from 1 to 3" in execution["cause"]
    assert cloud.last_state(execution) == "RequestRejected"
    assert cloud.runs(built.cluster) == before


def test_a_batch_comes_from_one_snapshot_set_though_answers_are_lost_and_leaves_side_by_side(
    cloud: WorkflowCloud,
) -> None:
    """Another team's burst of starts empties the bucket that the account has for all of them."""
    cluster, faults = cloud.cluster(), cloud.cloud.faults
    for action in ("ec2:CreateSnapshots", "ec2:RunInstances", "ec2:CreateVolume", "ec2:AttachVolume",
                   "ssm:SendCommand", "elbv2:RegisterTargets", "dynamodb:TransactWriteItems"):  # fmt: skip
        faults.add(action, "InternalError", when="after")
    faults.add("ec2:DescribeVolumes", "RequestLimitExceeded", times=4)
    starts: list[Fault] = []

    def lay(document: str, _: str) -> None:
        """When the donor is prepared: the run itself has been started by then, and no child of it."""
        if document == "prepare_donor" and not starts:
            starts.append(
                faults.add("stepfunctions:StartExecution", "ThrottlingException", "Rate exceeded", times=8)
            )

    cloud.answers.before_answering = lay
    execution = cloud.run("scale_out", {"cluster": cluster.name, "count": 2})
    assert execution["status"] == "SUCCEEDED", execution
    assert [one.times for one in starts] == [0]
    first, second = sorted(cloud.runs(cluster))
    assert second == f"{first}-2"
    assert list(cloud.health(cluster).values()).count("healthy") == 3
    assert len(cloud.kept_snapshots(cluster)) == 2, "a set of the two data volumes"
    told = cloud.receipt(first)["members"]
    assert [(one["run_id"], one["state"]) for one in told] == [(first, "in_service"), (second, "in_service")]
    assert cloud.receipt(second)["outcome"] == "succeeded"
    kinds = sorted(one.split("-")[0] for one in cloud.made_by_peaker(cluster))
    assert kinds == ["i"] * 2 + ["vol"] * 6
    peaks = {one["instance_id"] for one in told}

    # DescribeVolumes may be ahead of DeleteVolume.
    faults.add("ec2:DeleteVolume", "VolumeInUse")
    cloud.set_load(cluster, 50, 1)
    execution = cloud.run("scale_in", {"cluster": cluster.name, "count": 2})
    assert cloud.last_state(execution) == "ReplicaRetired", execution
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}
    assert cloud.lease_is_free(cluster)
    run_id, _ = sorted(run for run in cloud.runs(cluster) if run.startswith("scale-in"))
    members = cloud.receipt(run_id)["members"]
    assert {one["instance_id"] for one in members} == peaks
    assert [(one["state"], one["stands"]) for one in members] == [("gone", "retired")] * 2


# -- the plan and what the account may have --------------------------------------------------------------


@contextmanager
def the_account_may_have(cloud: WorkflowCloud, quota: tuple[str, str], value: float) -> Iterator[None]:
    quotas = cloud.cloud.quotas
    before = quotas.value(*quota)
    assert before is not None
    quotas.give(*quota, value)
    try:
        yield
    finally:
        quotas.give(*quota, before)


def vcpus_in_use(cloud: WorkflowCloud) -> int:
    """Of all hosts that earlier tests left, whatever their type."""
    ec2 = cloud.client("ec2")
    running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=running)
    types = [
        host["InstanceType"]
        for page in pages
        for group in page["Reservations"]
        for host in group["Instances"]
    ]
    described = ec2.describe_instance_types(InstanceTypes=sorted(set(types)))["InstanceTypes"]
    vcpus = {one["InstanceType"]: one["VCpuInfo"]["DefaultVCpus"] for one in described}
    return sum(vcpus[name] for name in types)


def gp3_gib(cloud: WorkflowCloud) -> int:
    pages = cloud.client("ec2").get_paginator("describe_volumes").paginate()
    return sum(one["Size"] for page in pages for one in page["Volumes"] if one["VolumeType"] == "gp3")


def planned(cloud: WorkflowCloud, cluster: Cluster) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan of two replicas, and its checks by their names."""
    execution = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan", "count": 2})
    assert execution["status"] == "SUCCEEDED", execution
    plan = execution["document"]
    return plan, {one["name"]: one for one in plan["checks"]}


def test_plan_mode_returns_the_plan_and_writes_nothing(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    plan, checks = planned(cloud, cluster)
    assert (plan["donor"], plan["zones"][0]) == (cluster.base_id, "us-east-1a")
    assert plan["price"]["hourly"] > 0.126
    assert plan["lead_time"]["seconds"] > 0
    assert plan["refusals"] == []
    shared = checks["initialization rate"]["detail"]
    assert "of 5,000, the account's quota" in shared, "Service Quotas was asked, and may be"
    assert (checks["vCPUs"]["verdict"], checks["EBS storage"]["verdict"]) == ("pass", "pass")
    assert cloud.rows(f"cluster#{cluster.name}") == []
    assert cloud.made_by_peaker(cluster) == []


def test_what_ec2_and_ebs_would_refuse_is_refused_by_the_plan(cloud: WorkflowCloud) -> None:
    """Of two there is room for one: EC2 would launch the first, and say VcpuLimitExceeded to the second."""
    cluster = cloud.cluster()
    storage = the_account_may_have(cloud, GP3, (gp3_gib(cloud) + 12) / GIB_PER_TIB)
    with the_account_may_have(cloud, STANDARD, vcpus_in_use(cloud) + 3), storage:
        with pytest.raises(ClientError, match="VcpuLimitExceeded"):
            cloud.client("ec2").run_instances(
                ImageId=cluster.settings["image_id"], InstanceType="r6i.large", MinCount=2, MaxCount=2,
                SubnetId=cluster.settings["subnets"]["us-east-1a"],
            )  # fmt: skip
        plan, checks = planned(cloud, cluster)
    assert {one["code"] for one in plan["refusals"]} == {"check"}, "the plan says that all is well"
    for name, code in (("vCPUs", STANDARD[1]), ("EBS storage", GP3[1])):
        found = checks[name]
        assert (found["verdict"], found["numbers"]["fit"]) == ("refuse", 1), plan["checks"]
        assert f"--quota-code {code}" in found["remedy"]
    assert "1 of 2 replicas would fit" in checks["vCPUs"]["detail"]
