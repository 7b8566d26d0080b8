"""roll_back on the local cloud: what an execution left that was stopped from outside is undone."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from peaker.domain.runs.run_execution import EVENT_GRACE

from tests.support.workflow_cloud import Cluster, WorkflowCloud

ENOUGH = 1_000  # failures, more than an execution meets before it is stopped


def stopped(
    cloud: WorkflowCloud,
    workflow: str,
    given: dict[str, Any],
    handler: str,
    waits_for: str,
    after: str | None = None,
) -> dict[str, Any]:
    """An execution that waits in the step of that handler and is stopped there; the event's detail.

    The clock is slow from the first failure on, so that the step's attempts do not run out before it is stopped. With
    `after` only calls after the first one of that handler fail.
    """
    stepfunctions, clock = cloud.client("stepfunctions"), cloud.cloud.clock
    fault = cloud.cloud.faults.add(
        f"lambda:{handler}", waits_for, "on purpose", times=ENOUGH, on_use=lambda: clock.set(scale=1)
    )
    if after is not None:
        fault.times = 0
        cloud.cloud.faults.add(
            f"lambda:{after}", "Throttled", "once", on_use=lambda: setattr(fault, "times", ENOUGH)
        )
    usual = clock.scale
    arn = cloud.start(workflow, given)
    state = "".join(part.capitalize() for part in handler.split("_"))
    # Stopped while it waits to try again: a function that runs at the stop runs to its end, on AWS too.
    cloud.eventually(lambda: state in cloud.states_now(arn) and 0 < fault.times < ENOUGH)
    stepfunctions.stop_execution(executionArn=arn, cause="pressed Stop in the console")
    fault.times = 0
    clock.set(scale=usual)
    found = stepfunctions.describe_execution(executionArn=arn)
    return {
        "executionArn": arn,
        "stateMachineArn": f"arn:aws:states:us-east-1:123456789012:stateMachine:peaker-local-{workflow}",
        "name": found["name"],
        "status": found["status"],
        "startDate": int(found["startDate"].timestamp() * 1000),
        "input": json.dumps(given),
        "cause": found.get("cause"),
        "inputDetails": {"included": True},
    }


def test_a_build_that_another_workflow_started_and_somebody_stopped_leaves_nothing(
    cloud: WorkflowCloud,
) -> None:
    """A release's own workflow starts it and associates the executions. bench/faults stops at every state."""
    cluster = cloud.cluster()
    parent = "arn:aws:states:us-east-1:123456789012:execution:release:2026-11"
    given = {"cluster": cluster.name, "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID": parent}
    detail = stopped(cloud, "scale_out", given, "await_healthy", "TargetNotHealthy")
    assert not cloud.lease_is_free(cluster)
    execution = cloud.run("roll_back", detail)
    assert (execution["status"], cloud.last_state(execution)) == ("SUCCEEDED", "RolledBack")
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.lease_is_free(cluster)
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}
    receipt = cloud.receipt(cloud.runs(cluster)[0])
    assert receipt["outcome"] == "rolled_back"
    assert "pressed Stop in the console" in json.dumps(receipt["failure"])


def test_an_execution_whose_event_never_came_is_found_by_the_periodic_look(cloud: WorkflowCloud) -> None:
    """This cloud has no rule: the event of the stop is lost."""
    cluster = cloud.cluster()
    detail = stopped(cloud, "scale_out", {"cluster": cluster.name}, "prepare_donor", "HostCommandRunning")
    cloud.cloud.clock.set(now=cloud.cloud.clock.now() + EVENT_GRACE)
    [run] = cloud.runs(cluster)
    cloud.eventually(lambda: look(cloud, cluster)["text"] == "nothing is left over")
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.lease_is_free(cluster)
    receipt = cloud.receipt(run)
    assert receipt["outcome"] == "rolled_back"
    assert detail["status"] in receipt["failure"]["cause"]


def look(cloud: WorkflowCloud, cluster: Cluster) -> dict[str, Any]:
    """What the schedule starts every three minutes."""
    payload = json.dumps({"cluster": cluster.name}).encode()
    answer = cloud.client("lambda").invoke(FunctionName="peaker-local-sweep_orphans", Payload=payload)
    found: dict[str, Any] = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, found
    return found


def test_a_redrive_takes_nothing_away_that_the_run_has_brought_into_service(cloud: WorkflowCloud) -> None:
    """Stopped in the evening, parked at night, and in the morning somebody presses Redrive."""
    cluster = cloud.cluster(retirement={"idle_seconds": 60, "park": "always"})
    given = {"cluster": cluster.name}
    detail = stopped(cloud, "scale_out", given, "next_members", "Throttled", after="record_receipt")
    assert cloud.last_state(cloud.run("roll_back", detail)) == "RolledBack"
    [run] = cloud.runs(cluster)
    assert (before := cloud.receipt(run))["outcome"] == "rolled_forward"
    cloud.cloud.clock.set(now=cloud.cloud.clock.now() + timedelta(hours=3))
    cloud.set_load(cluster, 50, 1)
    assert cloud.last_state(cloud.run("scale_in", given)) == "ReplicaParked"
    stands = cloud.made_by_peaker(cluster)
    cloud.client("stepfunctions").redrive_execution(executionArn=detail["executionArn"])
    ended = cloud.finish(detail["executionArn"])
    assert cloud.made_by_peaker(cluster) == stands
    assert (cloud.last_state(ended), ended["error"]) == ("LeaseNotAcquired", "LeaseHeld")
    assert f"{run} has ended" in ended["cause"]
    assert cloud.receipt(run) == before
    assert cloud.lease_is_free(cluster)
