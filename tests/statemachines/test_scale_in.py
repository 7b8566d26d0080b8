"""scale_in on the local cloud: retired when the load allows it, put back when anything fails."""

from __future__ import annotations

from datetime import timedelta

import pytest

from peaker_contract.endpoint_settings import NLB_PROPAGATION_SECONDS
from tests.support.refusals import assert_refused
from tests.support.workflow_cloud import CLOCK_SCALE, Cluster, WorkflowCloud

FATAL = "AwsCallRejected"
# Cloud seconds a second while something is measured: at the tests' own speed a call takes half a minute.
SLOW = 20.0


@pytest.fixture
def idle(cloud: WorkflowCloud) -> tuple[Cluster, str]:
    """A cluster with a peak replica that nobody needs."""
    cluster = cloud.cluster()
    peak = cloud.peak_replica(cluster)
    cloud.set_load(cluster, 50, 1)
    return cluster, peak


# Of environments/local.yaml.
LIMITS = {"max_hourly_cost_usd": 10.0, "prewarm_deadline_minutes": 2880}


def assert_still_serving(cloud: WorkflowCloud, cluster: Cluster, peak: str) -> None:
    assert cloud.health(cluster) == {cluster.base_id: "healthy", peak: "healthy"}
    assert cloud.lease_is_free(cluster)
    assert len(cloud.made_by_peaker(cluster)) == 3
    rows = {row["sk"]: row for row in cloud.rows(f"cluster#{cluster.name}")}
    assert rows[f"replica#{peak}"]["state"] == "in_service"


def test_an_idle_peak_replica_goes_with_all_that_was_made_for_it(
    cloud: WorkflowCloud, idle: tuple[Cluster, str]
) -> None:
    cluster, peak = idle
    cloud.answers.script("drain_replica", {"connections": 3, "transactions": 1}, {"connections": 1})
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert execution["status"] == "SUCCEEDED", execution
    assert cloud.last_state(execution) == "ReplicaRetired"
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}
    assert cloud.lease_is_free(cluster)
    run_id = next(run for run in cloud.runs(cluster) if run.startswith("scale-in"))
    receipt = cloud.receipt(run_id)
    steps = {step["step"]: step for step in receipt["steps"]}
    assert set(steps) >= {
        "SelectIdleReplicas",
        "GuardRetirement",
        "DeregisterReplica",
        "DrainReplica",
        "RetireReplica",
    }
    assert steps["DrainReplica"]["numbers"]["connections"] == 0
    rows = {row["sk"]: row for row in cloud.rows(f"cluster#{cluster.name}")}
    assert rows[f"replica#{peak}"]["state"] == "retired"


def test_two_that_nobody_needs_leave_side_by_side_in_one_run(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    peaks = {cloud.peak_replica(cluster), cloud.peak_replica(cluster, by="beside-built")}
    cloud.set_load(cluster, 50, 1)
    execution = cloud.run("scale_in", {"cluster": cluster.name, "count": 2})
    assert cloud.last_state(execution) == "ReplicaRetired", execution
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}
    assert cloud.lease_is_free(cluster)
    [run_id] = [run for run in cloud.runs(cluster) if run.startswith("scale-in") and not run.endswith("-2")]
    members = cloud.receipt(run_id)["members"]
    assert {one["instance_id"] for one in members} == peaks
    assert [(one["state"], one["stands"]) for one in members] == [("gone", "retired")] * 2
    assert cloud.receipt(f"{run_id}-2")["outcome"] == "succeeded"


def test_a_volume_that_ec2_still_calls_attached_is_waited_for(
    cloud: WorkflowCloud, idle: tuple[Cluster, str]
) -> None:
    cluster, _ = idle
    # DescribeVolumes may be ahead of DeleteVolume.
    cloud.cloud.faults.add("ec2:DeleteVolume", "VolumeInUse")
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaRetired", execution
    assert cloud.made_by_peaker(cluster) == []


def test_the_hourly_check_takes_away_what_was_refused_when_the_alarm_went_off(cloud: WorkflowCloud) -> None:
    """The alarm stays on and so says nothing more."""
    cluster = cloud.cluster(limits={**LIMITS, "minimum_lifetime_minutes": 0})
    peak = cloud.peak_replica(cluster)
    hourly = {"cluster": cluster.name, "trigger": {"kind": "schedule"}}
    unknown = cloud.run("scale_in", hourly)
    assert cloud.last_state(unknown) == "NothingToDo"
    assert "the surplus is unknown" in unknown["document"]["reason"]
    cloud.set_load(cluster, 150, 1, surplus=1)
    refused = cloud.run("scale_in", {"cluster": cluster.name, "trigger": {"kind": "alarm"}})
    assert "the measured load 150 exceeds 100" in refused["document"]["reason"]
    assert_still_serving(cloud, cluster, peak)
    assert [run for run in cloud.runs(cluster) if run.startswith("scale-in")] == []
    cloud.set_load(cluster, 50, 1, surplus=1)
    again = cloud.run("scale_in", hourly)
    assert cloud.last_state(again) == "ReplicaRetired", again
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}


def test_without_an_answer_before_the_lease_the_guard_decides_under_it(cloud: WorkflowCloud) -> None:
    """With an answer no lease is taken and no run recorded."""
    cluster = cloud.cluster()
    peak = cloud.peak_replica(cluster)
    cloud.set_load(cluster, 150, 1, surplus=0)
    hourly = {"cluster": cluster.name, "trigger": {"kind": "schedule"}}
    told = cloud.run("scale_in", hourly)
    assert (cloud.last_state(told), told["document"]["error"]) == ("NothingToDo", "NoSurplus")
    assert "no replica to spare" in told["document"]["reason"]
    cloud.cloud.faults.add("lambda:check_surplus", FATAL)
    unanswered = cloud.run("scale_in", hourly)
    assert (unanswered["status"], cloud.last_state(unanswered)) == ("SUCCEEDED", "NothingToDo")
    assert "the measured load 150 exceeds 100" in unanswered["document"]["reason"]
    [recorded] = [run for run in cloud.runs(cluster) if run.startswith("scale-in")]
    assert cloud.receipt(recorded)["outcome"] == "nothing_to_do"
    assert_still_serving(cloud, cluster, peak)


def test_the_floor_is_kept(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(min_replicas=2)
    peak = cloud.peak_replica(cluster)
    cloud.set_load(cluster, 0, 0)
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    floor = "1 other replicas serve, fewer than min_replicas 2 (I3)"
    assert_refused(cloud, execution, "RetirementRefused", floor)
    assert_still_serving(cloud, cluster, peak)


def test_a_shortage_during_a_long_drain_waits_neither_for_its_end_nor_for_the_next_hour(
    cloud: WorkflowCloud,
) -> None:
    """One connection keeps a replica in its drain of two hours; ten minutes later two more are needed."""
    cluster = cloud.cluster(drain={"limit_seconds": 7200, "allow_forced": False})
    peak = cloud.peak_replica(cluster)
    cloud.set_load(cluster, 50, 1)
    clock = cloud.cloud.clock
    cloud.answers.script("drain_replica", *([{"connections": 1}] * 2000))
    removal = cloud.start("scale_in", {"cluster": cluster.name})
    cloud.eventually(lambda: peak not in cloud.health(cluster))
    began = clock.now()
    cloud.eventually(lambda: clock.now() - began >= timedelta(minutes=10))
    cloud.set_load(cluster, 150, 3)
    alarm = {"cluster": cluster.name, "trigger": {"kind": "alarm"}}
    before = set(cloud.runs(cluster))
    clock.set(scale=SLOW)
    try:
        short = clock.now()
        waits = cloud.run("scale_out", alarm)
        cloud.eventually(lambda: peak in cloud.health(cluster))
        registered = clock.now() - short
        cloud.eventually(lambda: set(cloud.runs(cluster)) - before)
        begins = clock.now() - short
        clock.set(scale=3 * SLOW)
        cloud.eventually(lambda: cloud.health(cluster)[peak] == "healthy")
        serves = clock.now() - short
    finally:
        clock.set(scale=CLOCK_SCALE)
    print(f"registered {registered}, serves {serves}, the missing one's run begins {begins}")
    assert cloud.last_state(waits) == "WaitsForLease"
    assert registered <= timedelta(minutes=2)
    # What the load balancer takes is its own.
    assert serves - registered <= timedelta(seconds=NLB_PROPAGATION_SECONDS + 30)
    assert begins <= timedelta(minutes=5)
    execution = cloud.finish(removal)
    assert (execution["status"], cloud.last_state(execution)) == ("SUCCEEDED", "CalledOff"), execution
    assert execution["document"]["outcome"] == "called_off"
    assert "the forecast needs 3 replicas" in execution["document"]["reason"]
    [run_id] = [run for run in cloud.runs(cluster) if run.startswith("scale-in")]
    assert cloud.receipt(run_id)["outcome"] == "called_off"
    cloud.eventually(lambda: len(cloud.health(cluster)) == 3 and cloud.lease_is_free(cluster))
    [built] = set(cloud.runs(cluster)) - before - {run_id}
    # The one that was put back counted, although the load balancer had not found it healthy yet.
    assert cloud.receipt(built)["plan"]["count"] == 1
