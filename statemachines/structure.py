"""Checks of the expanded state machines that no linter makes: each returns problems, a sentence each.

They run at every synth, before anything is deployed, and in the tests. No problem is an empty list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from peaker_contract import errors
from statemachines.expansion import LAMBDA_INVOKE, START_EXECUTION_AND_WAIT

_FAMILIES = {errors.PeakerError, *errors.PeakerError.__subclasses__()}
# What the functions raise; their families are only for Python.
RAISED = frozenset(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.PeakerError) and kind not in _FAMILIES
)
# ${Name} is a substitution. JSONata's own braces are {% ... %}, so the two cannot be mixed up.
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z][A-Za-z0-9]*)\}")
# What the role of a workflow may do: call functions, start workflows and wait for them.
GRANTED_RESOURCES = frozenset({LAMBDA_INVOKE, START_EXECUTION_AND_WAIT})
# What a call of a Lambda function may end in without a fault of its code (Step Functions guide, "Handle transient
# Lambda service exceptions"), how a crash or too little memory shows, and what is answered while a deployment has
# replaced a function's code and not yet its configuration, or the reverse: they are two calls of AWS.
TRANSIENT_LAMBDA_ERRORS = frozenset(
    {
        "Lambda.AWSLambdaException",
        "Lambda.ClientExecutionTimeoutException",
        "Lambda.SdkClientException",
        "Lambda.ServiceException",
        "Lambda.TooManyRequestsException",
        "Lambda.Unknown",
        "Runtime.ExitError",
        "Runtime.HandlerNotFound",
        "Runtime.ImportModuleError",
        "Sandbox.Timedout",
    }
)
# What a start of another workflow may be refused with for a while, its rate being the account's (policies.py).
TRANSIENT_START_ERRORS = frozenset(
    {
        "StepFunctions.AWSStepFunctionsException",
        "StepFunctions.ExecutionLimitExceeded",
        "StepFunctions.ExecutionLimitExceededException",
        "StepFunctions.SdkClientException",
        "StepFunctions.SfnException",
        "StepFunctions.ThrottlingException",
    }
)
# Names that Step Functions and the Lambda and Step Functions integrations raise themselves.
SERVICE_ERRORS = (
    TRANSIENT_LAMBDA_ERRORS
    | TRANSIENT_START_ERRORS
    | frozenset(
        {
            "States.ALL",
            "States.DataLimitExceeded",
            "States.HeartbeatTimeout",
            "States.Permissions",
            "States.QueryEvaluationError",
            "States.Runtime",
            "States.TaskFailed",
            "States.Timeout",
        }
    )
)
_CALLEES = "correct its call or start, or add the function to peaker_contract/catalogue.py"
# An execution that has as many fails at once, without its undo (Step Functions quotas).
MOST_EVENTS = 25_000
# TaskScheduled, TaskStarted, and its end; a workflow that is started and a wait for a token add TaskSubmitted.
_EVENTS_OF_CALL, _EVENTS_OF_START = 3, 4
# Of a Map: as many replicas as a cluster may have, each tried again once.
MOST_ITEMS = 200
_ENDS = frozenset({"Succeed", "Fail"})
_NOT_PORTABLE = (
    ("Succeed", "Output"),
    ("Parallel", "Arguments"),
)


@dataclass(frozen=True)
class State:
    """A state and where it is: `add_replica.LaunchBesideSnapshots[0].AwaitSnapshots`."""

    place: str
    name: str
    body: Mapping[str, Any]


def placeholders(machine: Mapping[str, Any]) -> set[str]:
    """Names in ${...} that the stack must substitute."""
    return {name for text in _texts(machine) for name in _PLACEHOLDER.findall(text)}


def problems(machine: Mapping[str, Any], callees: Collection[str]) -> list[str]:
    """All that is wrong. `callees` are the placeholders of what may be called."""
    return [
        *dangling_targets(machine),
        *unreachable_states(machine),
        *endless_failures(machine),
        *unguarded_tasks(machine),
        *untried_again(machine),
        *missing_comments(machine),
        *unknown_errors(machine),
        *shadowed_retries(machine),
        *misnamed_steps(machine),
        *unknown_callees(machine, callees),
        *wrong_integrations(machine),
        *not_portable(machine),
        *too_many_events(machine),
    ]


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
    """Returns the states that may follow a state."""
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
        seen = _reached(known, [scope.get("StartAt")])
        problems += [f"{place}.{name}: no way leads here" for name in known if name not in seen]
    return problems


def _reached(known: Mapping[str, Any], starts: Iterable[Any]) -> set[str]:
    seen: set[str] = set()
    ahead = list(starts)
    while ahead:
        name = ahead.pop()
        if name in known and name not in seen:
            seen.add(name)
            ahead += targets(known[name])
    return seen


def endless_failures(machine: Mapping[str, Any]) -> list[str]:
    """A state whose failure leads back to it: what keeps failing would never end."""
    problems = []
    for place, scope in scopes(machine, "machine"):
        known = scope.get("States", {})
        for name, body in known.items():
            caught = [catcher.get("Next") for catcher in body.get("Catch", [])]
            if name in _reached(known, caught):
                problems.append(
                    f"{place}.{name}: its failure leads back to it; give it an on_failure that ends"
                )
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
    """A task that gives up at an error which is no fault of its function or of the workflow that it starts."""
    problems = []
    for state in states(machine):
        resource = str(state.body.get("Resource", ""))
        transient = TRANSIENT_LAMBDA_ERRORS if ":lambda:invoke" in resource else frozenset()
        transient |= TRANSIENT_START_ERRORS if resource == START_EXECUTION_AND_WAIT else frozenset()
        retried = {name for rule in state.body.get("Retry", []) for name in rule["ErrorEquals"]}
        problems += [f"{state.place}: does not retry {name}" for name in sorted(transient - retried)]
    return problems


def missing_comments(machine: Mapping[str, Any]) -> list[str]:
    """A state that does not say what it is for."""
    return [f"{state.place}: has no Comment" for state in states(machine) if not state.body.get("Comment")]


def unknown_errors(machine: Mapping[str, Any]) -> list[str]:
    """An ErrorEquals that neither the functions nor Step Functions raise."""
    problems = []
    for state in states(machine):
        for rule in (*state.body.get("Retry", []), *state.body.get("Catch", [])):
            for name in rule.get("ErrorEquals", []):
                if name not in RAISED and name not in SERVICE_ERRORS:
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


def unknown_callees(machine: Mapping[str, Any], callees: Collection[str]) -> list[str]:
    """A task that calls a function or starts a workflow that does not exist."""
    problems = []
    for state in states(machine):
        called = state.body.get("Arguments", {}) if state.body.get("Type") == "Task" else {}
        for name in _PLACEHOLDER.findall(
            str(called.get("FunctionName") or called.get("StateMachineArn") or "")
        ):
            if name not in callees:
                problems.append(f"{state.place}: nothing stands for ${{{name}}}: {_CALLEES}")
    return problems


def wrong_integrations(machine: Mapping[str, Any]) -> list[str]:
    """A task for whose resource the role of a workflow has no permission."""
    return [
        f"{state.place}: calls {state.body.get('Resource')}, for which no permission is granted"
        for state in states(machine)
        if state.body.get("Type") == "Task" and state.body.get("Resource") not in GRANTED_RESOURCES
    ]


def too_many_events(machine: Mapping[str, Any]) -> list[str]:
    """A machine whose costliest way, each state on it tried as often as it may be, makes a history too long."""
    worst = most_events(machine)
    if worst < MOST_EVENTS:
        return []
    costly = max(states(machine), key=lambda state: events_of(state.body))
    return [
        f"machine: its states may make {worst} events, an execution may have {MOST_EVENTS}; the most are "
        f"{costly.name}'s: let it wait longer between two tries"
    ]


def most_events(machine: Mapping[str, Any]) -> int:
    """The events of the costliest way from start to end, each state tried as often as its Retry allows.

    States that lead to each other are all on it, each once: what goes round is not counted again.
    """
    return 2 + _most_events(machine)


def _most_events(scope: Mapping[str, Any]) -> int:
    known = scope.get("States", {})
    after = {name: _reached(known, targets(body)) for name, body in known.items()}

    @cache
    def from_here(name: str) -> int:
        circle = {name} | {other for other in after[name] if name in after[other]}
        onward = {to for one in circle for to in targets(known[one]) if to in known} - circle
        return sum(_with_branches(known[one]) for one in circle) + max(map(from_here, onward), default=0)

    start = scope.get("StartAt")
    return from_here(start) if start in known else 0


def _with_branches(body: Mapping[str, Any]) -> int:
    found = events_of(body) + sum(_most_events(branch) for branch in body.get("Branches", []))
    # Begun and ended, for each item.
    return found + sum(
        MOST_ITEMS * (2 + _most_events(body[key])) for key in ("ItemProcessor",) if key in body
    )


def events_of(body: Mapping[str, Any]) -> int:
    """The events of one state: its entry and its exit, its tries; those of its branches are their own states'."""
    if body.get("Type") in ("Parallel", "Map"):
        return 4
    if body.get("Type") != "Task":
        return 2
    tries: int = 1 + sum(rule.get("MaxAttempts", 3) for rule in body.get("Retry", []))
    return 2 + tries * (_EVENTS_OF_CALL if body.get("Resource") == LAMBDA_INVOKE else _EVENTS_OF_START)


def not_portable(machine: Mapping[str, Any]) -> list[str]:
    """Lists the parts that the local cloud's interpreter does not run as AWS does."""
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
