"""scale_in and scale_out on the local cloud with parking: what is stopped, what comes back, what breaks on the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.extensions.cloudwatch.metric_store import metric_key
from tests.support.workflow_cloud import TABLE, Cluster, WorkflowCloud

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


def test_plan_mode_shows_both_ways_in_seconds_and_usd(cloud: WorkflowCloud) -> None:
    cluster, instance_id = peak(cloud)
    planned = cloud.run("scale_in", {"cluster": cluster.name, "mode": "plan"})["document"]
    assert planned["text"] == f"would park {instance_id}"
    figures = planned["planned"][0]["disposal"]["figures"]
    assert figures["return_seconds"] < figures["build_seconds"]
    assert figures["parked_hourly_usd"] < figures["serving_hourly_usd"]
    assert planned["figures"][instance_id]["zone"] == "us-east-1a"
    assert_serving(cloud, cluster, instance_id)


def test_a_source_that_forgets_too_soon_has_it_retired_after_all(cloud: WorkflowCloud) -> None:
    cluster, _ = peak(cloud, retirement={"idle_seconds": 0, "park": "auto"})
    cloud.answers.script("stop_database", {"binlog_expire_seconds": 600})
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaRetired", execution
    assert cloud.made_by_peaker(cluster) == []


# -- each guard, broken -----------------------------------------------------------------------------------------


def remove_owner_tag(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    cloud.client("ec2").delete_tags(Resources=[instance_id], Tags=[{"Key": "peaker:owner"}])


def fake_ledger_row(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """A row and a tag that agree on a run which never made it."""
    cloud.client("dynamodb").update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"cluster#{cluster.name}"}, "sk": {"S": f"replica#{instance_id}"}},
        UpdateExpression="SET run_id = :run",
        ExpressionAttributeValues={":run": {"S": "another-run"}},
    )
    cloud.client("ec2").create_tags(
        Resources=[instance_id], Tags=[{"Key": "peaker:run-id", "Value": "another-run"}]
    )


def lose_the_metric(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """CloudWatch has no point of the load any more, as when its publisher never ran."""
    metric = cluster.settings["load_metric"]
    dimensions = [{"Name": name, "Value": value} for name, value in metric["dimensions"].items()]
    store = cloud.cloud.metrics
    with store._lock:
        store._series.pop(metric_key(metric["namespace"], metric["name"], dimensions))


def make_it_the_last(cloud: WorkflowCloud, cluster: Cluster, instance_id: str) -> None:
    """The base replica leaves the endpoint, by whatever hand."""
    cloud.client("elbv2").deregister_targets(
        TargetGroupArn=cluster.target_group_arn, Targets=[{"Id": cluster.base_id, "Port": 3306}]
    )
    cloud.eventually(lambda: cloud.health(cluster).get(cluster.base_id) != "healthy")


BREAKS: dict[str, tuple[Callable[[WorkflowCloud, Cluster, str], None], str]] = {
    "owner-tag-removed": (remove_owner_tag, "tag peaker:owner is None"),
    "ledger-row-faked": (fake_ledger_row, "run another-run has no record of having made it"),
    "metric-vanished": (lose_the_metric, "the measured load is unknown"),
    "last-replica": (make_it_the_last, "0 other replicas serve"),
}
# What is needed, or may be, is no failure: the removal is called off.
NEEDED = {"metric-vanished", "last-replica"}


class Meddler:
    """Breaks something at the moment when a host is asked for a document, that is, in the middle of a run."""

    def __init__(self, cloud: WorkflowCloud, document: str, break_it: Callable[[], None]) -> None:
        self._document, self._break_it = document, break_it
        self._lock = threading.Lock()
        self._left = 1
        cloud.answers.before_answering = self._meddle

    def _meddle(self, asked: str, instance_id: str) -> None:
        with self._lock:
            meddle, self._left = (
                (asked == self._document and self._left > 0),
                self._left - (asked == self._document),
            )
        if meddle:
            self._break_it()


# Before which destructive call it breaks: the host is asked for that document right before.
MOMENTS = {"before-the-database-stops": "drain_replica", "before-the-instance-stops": "stop_database"}


# bench/faults breaks all of them at every state.
BREAKS_AT = [
    ("owner-tag-removed", "before-the-database-stops"),
    ("metric-vanished", "before-the-instance-stops"),
]


@pytest.mark.parametrize(("broken", "moment"), BREAKS_AT)
def test_a_guard_that_breaks_during_the_run_brings_the_replica_back(
    cloud: WorkflowCloud, broken: str, moment: str
) -> None:
    cluster, instance_id = peak(cloud)
    break_it, said = BREAKS[broken]
    Meddler(cloud, MOMENTS[moment], lambda: break_it(cloud, cluster, instance_id))
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    if broken in NEEDED:
        assert cloud.last_state(execution) == "CalledOff", execution
        assert said in execution["document"]["reason"]
    else:
        assert (execution["status"], execution["error"]) == ("FAILED", "RetirementRefused"), execution
        assert cloud.last_state(execution) == "ScaleInRolledBack"
        assert said in execution["cause"]
    cloud.eventually(lambda: cloud.health(cluster)[instance_id] == "healthy")
    assert cloud.instance_state(instance_id) == "running"
    assert row_of(cloud, cluster, instance_id)["state"] == "in_service"
    assert cloud.lease_is_free(cluster)


# The guards do not ask whether a replica is parked or retired.
BROKEN_BEFORE = [("always" if number == 0 else "never", broken) for number, broken in enumerate(BREAKS)]


@pytest.mark.parametrize(("mode", "broken"), BROKEN_BEFORE)
def test_a_guard_that_is_broken_before_the_run_leaves_everything_as_it_is(
    cloud: WorkflowCloud, broken: str, mode: str
) -> None:
    cluster, instance_id = peak(cloud, retirement={"idle_seconds": 0, "park": mode})
    break_it, _ = BREAKS[broken]
    break_it(cloud, cluster, instance_id)
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert (execution["status"], cloud.last_state(execution)) == ("SUCCEEDED", "Refused"), execution
    assert execution["document"]["error"] in {"RetirementRefused", "NoIdleReplica"}
    assert cloud.health(cluster)[instance_id] == "healthy"
    assert cloud.instance_state(instance_id) == "running"
    assert row_of(cloud, cluster, instance_id)["state"] == "in_service"


def test_activity_while_drained_brings_it_back(cloud: WorkflowCloud) -> None:
    sample = {"client_statements": 4712}
    cluster, instance_id = peak(cloud, retirement={"idle_seconds": 28_800, "park": "never"})
    # From the first look on at which it is drained; that one is put off.
    cloud.cloud.faults.add(
        "lambda:confirm_idle",
        "IdleNotConfirmed",
        on_use=lambda: cloud.answers.script("drain_replica", sample),
    )
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", "ActivityWhileDrained"), execution
    assert_serving(cloud, cluster, instance_id)


def test_a_forced_cut_says_how_many_connections_it_cut(cloud: WorkflowCloud) -> None:
    cluster, instance_id = peak(cloud, drain={"limit_seconds": 0, "allow_forced": True})
    cloud.answers.script("drain_replica", *([{"connections": 3, "transactions": 1}] * 50))
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaParked", execution
    steps = {step["step"]: step for step in latest_receipt(cloud, cluster, "scale-in")["steps"]}
    assert steps["DrainReplica"]["numbers"]["cut_connections"] == 3
    assert steps["ConfirmIdle"]["numbers"]["idle_seconds"] == 0
    assert_parked(cloud, cluster, instance_id)


# -- faults -------------------------------------------------------------------------------------


# Out of its groups, and on the way to its stop; bench/faults tries every state.
@pytest.mark.parametrize(
    ("step", "function", "when"),
    [("DeregisterReplica", "deregister_replica", "after"), ("ParkReplica", "park_replica", "before")],
)
def test_a_fault_while_parking_brings_the_replica_back(
    cloud: WorkflowCloud, step: str, function: str, when: Any
) -> None:
    cluster, instance_id = peak(cloud)
    cloud.cloud.faults.add(f"lambda:{function}", FATAL, "on purpose", when=when)
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", FATAL), execution
    assert cloud.last_state(execution) == "ScaleInRolledBack"
    assert f"{step} failed ({FATAL}): on purpose" in execution["cause"]
    assert_serving(cloud, cluster, instance_id)


def test_a_stop_that_fails_brings_the_replica_back(cloud: WorkflowCloud) -> None:
    cluster, instance_id = peak(cloud)
    cloud.cloud.faults.add("ec2:StopInstances", "UnauthorizedOperation")
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ScaleInRolledBack", execution
    assert_serving(cloud, cluster, instance_id)
    asked = [document for document, host in cloud.answers.asked if host == instance_id]
    assert asked[-3:] == ["start_database", "start_replication", "wait_for_catch_up"]


def test_a_fault_after_the_parking_leaves_it_parked_and_says_so(cloud: WorkflowCloud) -> None:
    cluster, instance_id = peak(cloud)
    cloud.cloud.faults.add("lambda:record_receipt", FATAL, "on purpose")
    execution = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaGoneAfterFailure", execution
    assert_parked(cloud, cluster, instance_id)
    assert latest_receipt(cloud, cluster, "scale-in")["outcome"] == "rolled_forward"


def test_a_fault_on_the_way_back_parks_it_again(cloud: WorkflowCloud) -> None:
    """bench/faults tries every state."""
    cluster, instance_id = parked(cloud)
    cloud.cloud.faults.add("lambda:start_parked_replica", FATAL, "on purpose", when="after")
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", FATAL), execution
    assert cloud.last_state(execution) == "ScaleOutRolledBack"
    stands = assert_parked(cloud, cluster, instance_id)
    assert stands["failed_return"].endswith(f"StartParkedReplica: {FATAL}")
    receipt = latest_receipt(cloud, cluster, "scale-out")
    assert (receipt["outcome"], receipt["failure"]["failed_step"]) == ("rolled_back", "StartParkedReplica")
    assert receipt["kept_nothing_else"] is True


def test_no_room_to_start_parks_it_again_and_the_next_run_builds(cloud: WorkflowCloud) -> None:
    cluster, instance_id = parked(cloud)
    cloud.cloud.faults.add("ec2:StartInstances", "InsufficientInstanceCapacity")
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", "CapacityUnavailable"), execution
    assert_parked(cloud, cluster, instance_id)
    built = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(built) == "ReplicaInService", built
    assert sorted(cloud.health(cluster).values()) == ["healthy", "healthy"]
    assert cloud.instance_state(instance_id) == "stopped"


def test_purged_binary_logs_expire_it_and_the_next_scale_in_retires_it(cloud: WorkflowCloud) -> None:
    cluster, instance_id = parked(cloud)
    cloud.answers.fail("start_replication", "BinlogsGone", instance_id=instance_id)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", "BinlogsGone"), execution
    assert "purged binary logs" in assert_parked(cloud, cluster, instance_id)["spent"]
    retired = cloud.run("scale_in", {"cluster": cluster.name, "trigger": {"kind": "alarm"}})
    assert cloud.last_state(retired) == "ReplicaRetired", retired
    assert cloud.made_by_peaker(cluster) == []
