"""Checks of the state machine files that no linter makes: each returns problems as sentences, none when all is well.

Used by the tests and, for the placeholders, by the construct that inlines the files at synth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
from botocore.exceptions import UnknownServiceError

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z][A-Za-z0-9]*)\}")
_SDK_RESOURCE = re.compile(
    r"^arn:[a-z-]+:states:::aws-sdk:([a-zA-Z0-9]+):([a-zA-Z0-9]+)(\.waitForTaskToken)?$"
)
OPTIMIZED_RESOURCES = frozenset(
    {"arn:aws:states:::lambda:invoke", "arn:aws:states:::states:startExecution.sync:2"}
)
# Service names of SDK integrations that are not botocore's (Step Functions guide, "Supported AWS SDK integrations").
_BOTOCORE_NAMES = {
    "sfn": "stepfunctions",
    "elasticloadbalancingv2": "elbv2",
    "cloudwatchlogs": "logs",
    "eventbridge": "events",
}
# What a call of a Lambda function may end in without a fault of its code (Step Functions guide, "Handle transient
# Lambda service exceptions"), and how a crash or too little memory shows.
TRANSIENT_LAMBDA_ERRORS = frozenset(
    {
        "Lambda.AWSLambdaException",
        "Lambda.ClientExecutionTimeoutException",
        "Lambda.SdkClientException",
        "Lambda.ServiceException",
        "Lambda.TooManyRequestsException",
        "Lambda.Unknown",
        "Runtime.ExitError",
        "Sandbox.Timedout",
    }
)
# Names that Step Functions and the Lambda and Step Functions integrations raise themselves.
SERVICE_ERRORS = TRANSIENT_LAMBDA_ERRORS | frozenset(
    {
        "States.ALL",
        "States.DataLimitExceeded",
        "States.HeartbeatTimeout",
        "States.Permissions",
        "States.QueryEvaluationError",
        "States.Runtime",
        "States.TaskFailed",
        "States.Timeout",
        "StepFunctions.ExecutionLimitExceededException",
        "StepFunctions.SdkClientException",
    }
)
_ENDS = frozenset({"Succeed", "Fail"})
_NOT_PORTABLE = (
    ("Succeed", "Output"),
    ("Parallel", "Arguments"),
)


@dataclass(frozen=True)
class State:
    """A state and where it is: `scale_out.SnapshotAndLaunch[0].CreateSnapshots`."""

    place: str
    name: str
    body: Mapping[str, Any]


def load(path: Path) -> dict[str, Any]:
    """The machine of a file."""
    machine: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return machine


def placeholders(path: Path) -> set[str]:
    """Names in ${...} that the stack must substitute."""
    return set(_PLACEHOLDER.findall(path.read_text(encoding="utf-8")))


def scopes(machine: Mapping[str, Any], place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The machine and every branch and item processor in it, each with StartAt and States."""
    yield place, machine
    for name, state in machine.get("States", {}).items():
        inner = [*state.get("Branches", [])]
        inner += [state[key] for key in ("ItemProcessor", "Iterator") if key in state]
        for index, scope in enumerate(inner):
            yield from scopes(scope, f"{place}.{name}[{index}]")


def states(machine: Mapping[str, Any], place: str = "machine") -> Iterator[State]:
    """All states, those inside branches too."""
    for scope_place, scope in scopes(machine, place):
        for name, body in scope.get("States", {}).items():
            yield State(f"{scope_place}.{name}", name, body)


def targets(body: Mapping[str, Any]) -> list[str]:
    """Where a state may go next."""
    found = [body[key] for key in ("Next", "Default") if key in body]
    found += [choice["Next"] for choice in body.get("Choices", []) if "Next" in choice]
    found += [catcher["Next"] for catcher in body.get("Catch", []) if "Next" in catcher]
    return found


def dangling_targets(machine: Mapping[str, Any]) -> list[str]:
    """A StartAt, Next or Default that names no state of its own scope; a state without a way on."""
    problems = []
    for place, scope in scopes(machine, "machine"):
        known = scope.get("States", {})
        if scope.get("StartAt") not in known:
            problems.append(f"{place}: StartAt {scope.get('StartAt')} is no state")
        for name, body in known.items():
            problems += [f"{place}.{name}: {to} is no state" for to in targets(body) if to not in known]
            if body.get("Type") not in _ENDS and not body.get("End") and not targets(body):
                problems.append(f"{place}.{name}: has neither Next nor End")
    return problems


def unreachable_states(machine: Mapping[str, Any]) -> list[str]:
    """A state to which no way leads from StartAt."""
    problems = []
    for place, scope in scopes(machine, "machine"):
        known = scope.get("States", {})
        seen: set[str] = set()
        ahead = [scope.get("StartAt")]
        while ahead:
            name = ahead.pop()
            if name in known and name not in seen:
                seen.add(name)
                ahead += targets(known[name])
        problems += [f"{place}.{name}: no way leads here" for name in known if name not in seen]
    return problems


def unguarded_tasks(machine: Mapping[str, Any]) -> list[str]:
    """A Task without timeout, retry or a Catch of everything."""
    problems = []
    for state in states(machine):
        if state.body.get("Type") != "Task":
            continue
        problems += [
            f"{state.place}: has no {part}"
            for part in ("TimeoutSeconds", "Retry", "Catch")
            if not state.body.get(part)
        ]
        caught = [name for catcher in state.body.get("Catch", []) for name in catcher.get("ErrorEquals", [])]
        if state.body.get("Catch") and "States.ALL" not in caught:
            problems.append(f"{state.place}: its Catch lets errors through; end it with States.ALL")
    return problems


def untried_again(machine: Mapping[str, Any]) -> list[str]:
    """A Lambda task that gives up at an error which is no fault of its function."""
    problems = []
    for state in states(machine):
        if not str(state.body.get("Resource", "")).endswith("lambda:invoke"):
            continue
        retried = {name for rule in state.body.get("Retry", []) for name in rule["ErrorEquals"]}
        problems += [f"{state.place}: does not retry {name}" for name in sorted(TRANSIENT_LAMBDA_ERRORS - retried)]
    return problems


def missing_comments(machine: Mapping[str, Any]) -> list[str]:
    """A state that does not say what it is for."""
    return [f"{state.place}: has no Comment" for state in states(machine) if not state.body.get("Comment")]


def unknown_errors(machine: Mapping[str, Any], raised: Collection[str]) -> list[str]:
    """An ErrorEquals that neither the functions (`raised`) nor Step Functions raise."""
    problems = []
    for state in states(machine):
        for rule in (*state.body.get("Retry", []), *state.body.get("Catch", [])):
            for name in rule.get("ErrorEquals", []):
                if name not in raised and name not in SERVICE_ERRORS:
                    problems.append(f"{state.place}: nobody raises {name}")
    return problems


def shadowed_retries(machine: Mapping[str, Any]) -> list[str]:
    """An error that a state retries twice: only the first rule ever counts."""
    problems = []
    for state in states(machine):
        seen: set[str] = set()
        for rule in state.body.get("Retry", []):
            again = seen & set(rule["ErrorEquals"])
            problems += [f"{state.place}: {name} is retried by two rules" for name in sorted(again)]
            seen |= set(rule["ErrorEquals"])
    return problems


def misnamed_steps(machine: Mapping[str, Any]) -> list[str]:
    """A Lambda task that tells its function the name of another state, or none."""
    problems = []
    for state in states(machine):
        payload = (
            state.body.get("Arguments", {}).get("Payload", {}) if state.body.get("Type") == "Task" else {}
        )
        names_a_step = (
            isinstance(payload, Mapping) and "operation" in payload and "execution_name" not in payload
        )
        if names_a_step and payload.get("step") != state.name:
            problems.append(f"{state.place}: its payload says step {payload.get('step')}")
    return problems


def wrong_integrations(machine: Mapping[str, Any]) -> list[str]:
    """A Task whose resource, or whose arguments of an SDK integration, do not exist in botocore's model."""
    problems = []
    for state in states(machine):
        if state.body.get("Type") != "Task":
            continue
        resource = str(state.body.get("Resource"))
        match = _SDK_RESOURCE.match(resource)
        if match:
            problems += _sdk_problems(state, match.group(1), match.group(2))
        elif resource not in OPTIMIZED_RESOURCES:
            problems.append(f"{state.place}: unknown integration {resource}")
    return problems


def not_portable(machine: Mapping[str, Any]) -> list[str]:
    """What the local cloud's interpreter does not run as AWS does."""
    problems = []
    if machine.get("QueryLanguage") != "JSONata":
        problems.append("machine: QueryLanguage must be JSONata")
    for state in states(machine):
        for kind, field in _NOT_PORTABLE:
            if state.body.get("Type") == kind and field in state.body:
                problems.append(f"{state.place}: {field} of {kind} is not portable")
        if isinstance(state.body.get("ToleratedFailurePercentage"), int):
            problems.append(f"{state.place}: an integer ToleratedFailurePercentage is not portable")
        problems += [
            f"{state.place}: an expression spans lines" for text in _texts(state.body) if "\n" in text
        ]
    return problems


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _sdk_problems(state: State, service: str, action: str) -> list[str]:
    try:
        model = botocore.session.get_session().get_service_model(_BOTOCORE_NAMES.get(service, service))
    except UnknownServiceError:
        return [f"{state.place}: no AWS service {service}"]
    operations = {name[0].lower() + name[1:]: name for name in model.operation_names}
    if action not in operations:
        return [f"{state.place}: {service} has no action {action}"]
    shape = model.operation_model(operations[action]).input_shape
    members = set(shape.members) if shape is not None else set()
    # SDK integrations take PascalCase names whatever the API's own case is.
    accepted = {name[0].upper() + name[1:] for name in members}
    given = state.body.get("Arguments", {})
    names = given if isinstance(given, Mapping) else {}
    return [
        f"{state.place}: {service}:{action} has no argument {name}" for name in names if name not in accepted
    ]
