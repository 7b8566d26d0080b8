"""Checks of the expanded state machines that neither a source nor the expansion makes: each returns sentences.

They run at every synth, before anything is deployed, and in the tests. No problem is an empty list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from peaker_contract import errors
from statemachines import policies
from statemachines.expansion import LAMBDA_INVOKE

_FAMILIES = {errors.PeakerError, *errors.PeakerError.__subclasses__()}
# What the functions raise; their families are only for Python.
RAISED = frozenset(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.PeakerError) and kind not in _FAMILIES
)
# ${Name} is a substitution. JSONata's own braces are {% ... %}, so the two cannot be mixed up.
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z][A-Za-z0-9]*)\}")
# Names that Step Functions and its integrations raise themselves.
SERVICE_ERRORS = frozenset(
    {
        "States.ALL",
        "States.DataLimitExceeded",
        "States.Permissions",
        "States.QueryEvaluationError",
        "States.TaskFailed",
        "States.Timeout",
        *(
            error
            for retrier in (*policies.standard_of_calls(), *policies.STANDARD_OF_STARTS)
            for error in retrier.errors
        ),
    }
)
_CALLEES = "correct its call or start, or add the function to peaker_contract/catalogue.py"
# An execution that has as many fails at once, without its undo (Step Functions quotas).
MOST_EVENTS = 25_000
# TaskScheduled, TaskStarted, and its end; a workflow that is started and a wait for a token add TaskSubmitted.
_EVENTS_OF_CALL, _EVENTS_OF_START = 3, 4
# Of a Map: as many replicas as a cluster may have, each tried again once.
MOST_ITEMS = 200


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
        *unreachable_states(machine),
        *endless_failures(machine),
        *unknown_errors(machine),
        *shadowed_retries(machine),
        *unknown_callees(machine, callees),
        *too_many_events(machine),
    ]


def scopes(machine: Mapping[str, Any], place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The machine and every branch and item processor in it, each with StartAt and States."""
    yield place, machine
    for name, state in machine.get("States", {}).items():
        inner = [*state.get("Branches", [])]
        inner += [state["ItemProcessor"]] if "ItemProcessor" in state else []
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
    items = MOST_ITEMS * (2 + _most_events(body["ItemProcessor"])) if "ItemProcessor" in body else 0
    return found + items


def events_of(body: Mapping[str, Any]) -> int:
    """The events of one state: its entry and its exit, its tries; those of its branches are their own states'."""
    if body.get("Type") in ("Parallel", "Map"):
        return 4
    if body.get("Type") != "Task":
        return 2
    tries: int = 1 + sum(rule.get("MaxAttempts", 3) for rule in body.get("Retry", []))
    return 2 + tries * (_EVENTS_OF_CALL if body.get("Resource") == LAMBDA_INVOKE else _EVENTS_OF_START)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
