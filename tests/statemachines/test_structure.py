"""The workflows are whole; and each check finds the defect that it is there for."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import pytest
from peaker.domain.runs.run_execution import EVENT_GRACE
from peaker.domain.storage.prewarm_progress import pause_seconds

from peaker_contract import errors
from peaker_contract.catalogue import FUNCTIONS
from statemachines import structure
from statemachines.expansion import START_EXECUTION_AND_WAIT
from tests.support.workflows import MACHINES

CALLEES = {f"{one.pascal_name}Arn" for one in FUNCTIONS} | {
    "PrewarmStateMachineArn",
    "AddReplicaStateMachineArn",
    "RemoveReplicaStateMachineArn",
}

NOT_YET = {
    name
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.NotYet) and name != "NotYet"
}

GOOD: dict[str, Any] = {
    "QueryLanguage": "JSONata",
    "StartAt": "DrainReplica",
    "States": {
        "DrainReplica": {
            "Type": "Task",
            "Comment": "Drains.",
            "Resource": "arn:${Partition}:states:::lambda:invoke",
            "Arguments": {
                "FunctionName": "${DrainReplicaArn}",
                "Payload": {"operation": "scale_in", "step": "DrainReplica"},
            },
            "TimeoutSeconds": 60,
            "Retry": [{"ErrorEquals": ["ReplicaDraining"]}],
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Failed"}],
            "Next": "Done",
        },
        "Failed": {"Type": "Fail", "Comment": "No."},
        "Done": {"Type": "Succeed", "Comment": "Yes."},
    },
}


def broken(*path: str, value: Any) -> dict[str, Any]:
    """The good machine with one field changed; the value ... deletes it."""
    machine = copy.deepcopy(GOOD)
    place: Any = machine
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return machine


TASK = ("States", "DrainReplica")
BAD: list[tuple[dict[str, Any], str]] = [
    (broken("States", "Island", value={"Type": "Succeed", "Comment": "i"}), "machine.Island"),
    (
        broken(*TASK, "Catch", value=[{"ErrorEquals": ["States.ALL"], "Next": "DrainReplica"}]),
        "machine.DrainReplica: its failure leads back to it",
    ),
    (
        broken(*TASK, "Retry", value=[{"ErrorEquals": ["ReplicaDrained"]}]),
        "nobody raises ReplicaDrained",
    ),
    (broken(*TASK, "Retry", value=[{"ErrorEquals": ["NotYet"]}]), "nobody raises NotYet"),
    (
        broken(*TASK, "Retry", value=[{"ErrorEquals": ["Throttled"]}, {"ErrorEquals": ["Throttled"]}]),
        "Throttled is retried by two rules",
    ),
    (
        broken(*TASK, "Arguments", "FunctionName", value="${DrainReplikaArn}"),
        "machine.DrainReplica: nothing stands for ${DrainReplikaArn}: correct its call or start",
    ),
    (
        broken(*TASK, "Retry", value=[{"ErrorEquals": ["ReplicaDraining"], "MaxAttempts": 9_000}]),
        "may make 27009 events, an execution may have 25000; the most are DrainReplica's",
    ),
]
# Errors that are no fault of a function or of a workflow that is started (Step Functions guide, "Handle transient
# Lambda service exceptions"), a crash, and answers while a deployment is between a function's code and settings.
TRANSIENT = {
    structure.LAMBDA_INVOKE: {
        *("Lambda.AWSLambdaException", "Lambda.ClientExecutionTimeoutException", "Lambda.SdkClientException"),
        *("Lambda.ServiceException", "Lambda.TooManyRequestsException", "Lambda.Unknown", "Sandbox.Timedout"),
        *("Runtime.ExitError", "Runtime.HandlerNotFound", "Runtime.ImportModuleError"),
    },
    START_EXECUTION_AND_WAIT: {
        f"StepFunctions.{name}"
        for name in (
            "ExecutionLimitExceeded",
            "ThrottlingException",
            "AWSStepFunctionsException",
            "SdkClientException",
        )
    },
}


def test_every_task_ends_in_time_retries_transient_errors_and_catches_all_others() -> None:
    for machine in MACHINES.values():
        for state in structure.states(machine):
            if state.body["Type"] == "Task":
                retried = {name for rule in state.body["Retry"] for name in rule["ErrorEquals"]}
                assert retried >= TRANSIENT[state.body["Resource"]], state.place
                assert state.body["Catch"][-1]["ErrorEquals"] == ["States.ALL"], state.place
                assert state.body["TimeoutSeconds"] > 0, state.place


@pytest.mark.parametrize("workflow", MACHINES)
def test_the_workflows_are_whole(workflow: str) -> None:
    assert structure.problems(MACHINES[workflow], CALLEES) == []


def test_a_synth_runs_every_check() -> None:
    for machine, expected in BAD:
        assert any(expected in problem for problem in structure.problems(machine, CALLEES)), expected


def test_a_good_machine_passes() -> None:
    assert structure.problems(GOOD, CALLEES) == []


def test_defects_inside_a_branch_are_found_too() -> None:
    branch = broken("States", "Island", value={"Type": "Succeed", "Comment": "i"})
    parallel = {"Type": "Parallel", "Comment": "p", "Branches": [branch], "Next": "Done"}
    machine = {**GOOD, "StartAt": "Both", "States": {"Both": parallel, "Done": GOOD["States"]["Done"]}}
    assert structure.unreachable_states(machine) == ["machine.Both[0].Island: no way leads here"]


def test_an_execution_takes_one_of_two_ways_and_all_of_a_loop() -> None:
    """Task and wait are a loop; another execution passes the task beside them."""
    fewer, more = (
        {
            **GOOD["States"]["DrainReplica"],
            "Retry": [{"ErrorEquals": ["ReplicaDraining"], "MaxAttempts": tries}],
        }
        for tries in (99, 199)
    )
    ways = {
        "Which": {"Type": "Choice", "Choices": [{"Condition": "", "Next": "Once"}], "Default": "Again"},
        "Once": {**fewer, "Next": "Done"},
        "Again": {**more, "Next": "Pause"},
        "Pause": {"Type": "Wait", "Next": "Left"},
        "Left": {"Type": "Choice", "Choices": [{"Condition": "", "Next": "Again"}], "Default": "Done"},
        "Done": {"Type": "Succeed"},
    }
    once, again = 2 + 100 * 3, 2 + 200 * 3 + 2 + 2
    assert structure.most_events({"StartAt": "Which", "States": ways}) == 2 + 2 + again + 2
    assert structure.most_events({"StartAt": "Once", "States": ways}) == 2 + once + 2


def test_a_prewarm_of_which_nobody_knows_the_end_stays_under_the_limit_of_events() -> None:
    """Its engine dies three times, and begins each time to be asked each minute."""
    machine, poll = MACHINES["prewarm"], ("ReportPrewarm", "VolumesAreWarm", "WaitForWarmth")
    a_poll = (
        2 + 2 * 3 + 2 + 2
    )  # ReportPrewarm called twice, for its command and for the answer; a choice; a wait
    passed, polls = 0.0, 0
    while passed < machine["TimeoutSeconds"]:
        of_this_engine = min(passed, machine["TimeoutSeconds"] / 4)
        passed, polls = passed + 5 + pause_seconds(None, of_this_engine), polls + 1
    assert set(poll) <= set(machine["States"])
    assert polls * a_poll + structure.most_events(machine) < structure.MOST_EVENTS


def test_undos_begin_when_every_function_of_their_workflow_has_ended() -> None:
    for workflow in ("scale_out", "scale_in"):
        machine = MACHINES[workflow]
        called = structure.placeholders(machine)
        longest = max(one.timeout_seconds for one in FUNCTIONS if f"{one.pascal_name}Arn" in called)
        waited = int(machine["States"]["LetLateCallsEnd"]["Seconds"].strip("{% }"))
        assert waited > longest + 10


def test_roll_back_waits_for_every_function_of_the_workflows_that_may_have_been_stopped() -> None:
    called = structure.placeholders(MACHINES["scale_out"]) | structure.placeholders(MACHINES["prewarm"])
    longest = max(one.timeout_seconds for one in FUNCTIONS if f"{one.pascal_name}Arn" in called)
    waited = int(MACHINES["roll_back"]["States"]["LetLateCallsEnd"]["Seconds"].strip("{% }"))
    assert waited > longest + 10
    assert EVENT_GRACE.total_seconds() > longest + 10


def test_every_not_yet_error_is_retried_by_a_workflow() -> None:
    retried = {
        name
        for machine in MACHINES.values()
        for state in structure.states(machine)
        for rule in state.body.get("Retry", [])
        for name in rule["ErrorEquals"]
    }
    assert retried >= NOT_YET


@pytest.mark.parametrize("step", ["AwaitHealthy", "RampTraffic"])
def test_a_newcomer_at_the_endpoint_is_looked_at_every_ten_seconds_in_its_first_quarter_of_an_hour(
    step: str,
) -> None:
    """A ramp that was looked at every 15 s made a build wait for its next look for 6 % of its time."""
    [state] = [one for one in structure.states(MACHINES["add_replica"]) if one.name == step]
    [wait] = [rule for rule in state.body["Retry"] if "TargetNotHealthy" in rule["ErrorEquals"]]
    looks = [wait["IntervalSeconds"] * wait["BackoffRate"] ** tried for tried in range(90)]
    assert max(min(look, wait["MaxDelaySeconds"]) for look in looks) <= 10


def _hours(rule: Mapping[str, Any]) -> float:
    waits = [rule["IntervalSeconds"] * rule["BackoffRate"] ** tried for tried in range(rule["MaxAttempts"])]
    return sum(min(wait, rule.get("MaxDelaySeconds", wait)) for wait in waits) / 3600


@pytest.mark.parametrize(
    ("errors_of_a_look", "an_hour"), [({"Throttled", "AwsUnavailable"}, 4), ({"Lambda.ServiceException"}, 2)]
)
def test_a_state_that_looks_for_hours_is_not_ended_by_the_looks_that_fail_in_passing(
    errors_of_a_look: set[str], an_hour: int
) -> None:
    """Step Functions counts a retrier's attempts over all calls of a state: the ninth throttle ended AwaitSnapshots."""
    for machine in MACHINES.values():
        for state in structure.states(machine):
            rules = state.body.get("Retry", [])
            waits = [rule for rule in rules if NOT_YET & set(rule["ErrorEquals"])]
            for rule in rules:
                if errors_of_a_look <= set(rule["ErrorEquals"]):
                    assert rule["MaxAttempts"] >= 6 + an_hour * sum(map(_hours, waits)), state.place


AWAY = {
    structure.LAMBDA_INVOKE: {"Throttled", "AwsUnavailable", "Lambda.TooManyRequestsException"}
    | {"Sandbox.Timedout", "States.Timeout"},
    START_EXECUTION_AND_WAIT: TRANSIENT[START_EXECUTION_AND_WAIT],
}


@pytest.mark.parametrize("resource", AWAY)
def test_what_is_away_for_an_hour_ends_no_run(resource: str) -> None:
    """Full jitter waits half on average: a mean of an hour and a quarter hardly ever draws less than an hour."""
    for machine in MACHINES.values():
        for state in structure.states(machine):
            if state.body.get("Resource") == resource:
                [rule] = [one for one in state.body["Retry"] if AWAY[resource] <= set(one["ErrorEquals"])]
                assert _hours(rule) >= (2.5 if "JitterStrategy" in rule else 1), state.place
