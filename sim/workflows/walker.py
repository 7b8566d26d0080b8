"""One execution of an expanded workflow, state by state, as Step Functions runs it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from sim.workflows.expressions import EvaluationError, filled
from sim.workflows.virtual_time import Process, Promise, Steps, VirtualTime

# Quotas of Step Functions for a standard workflow.
MOST_EVENTS = 25_000
MOST_BYTES = 262_144
Asl = Mapping[str, Any]


class Failure(Exception):
    """An error by its name in the States Language."""

    def __init__(self, error: str, cause: str = "") -> None:
        super().__init__(f"{error}: {cause}")
        self.error = error
        self.cause = cause


class StateFailed(Failure):
    """A state has failed; a Retry or a Catch may take it up."""


class ExecutionEnds(Failure):
    """Step Functions itself ends the execution; no Catch sees it."""


class Integrations(Protocol):
    """What Task states reach."""

    def invoke(self, walk: Walk, state: str, function: str, payload: Any) -> Promise:
        """The function's answer, or StateFailed."""

    def start_and_wait(self, walk: Walk, state: str, arguments: Mapping[str, Any]) -> Promise:
        """The child's end, or StateFailed."""


@dataclass
class Scope:
    """Variables; a branch reads those around it and assigns its own."""

    around: Mapping[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)

    def all(self) -> dict[str, Any]:
        return {**self.around, **self.own}


@dataclass
class Walk:
    """The walk through one machine. `entered` are the states in their order; `events` counts the history."""

    machine: Asl
    context: dict[str, Any]
    time: VirtualTime
    random: random.Random
    integrations: Integrations
    entered: list[str] = field(default_factory=list)
    events: int = 1
    on_enter: Callable[[Walk, str], None] | None = None
    # Hears the way out of each state: "to NEXT" of a Choice, "next", "retry 0", "last 0" (no more tries), "catch 0".
    on_way: Callable[[Walk, str, str], None] | None = None
    _branches: list[Process] = field(default_factory=list)

    def steps(self, given: Any) -> Steps:
        return self._through(self.machine, given, Scope())

    def cancel_branches(self) -> None:
        for branch in self._branches:
            branch.cancel()
        self._branches.clear()

    def _through(self, machine: Asl, given: Any, scope: Scope) -> Steps:
        name, states = machine["StartAt"], machine["States"]
        while True:
            state = states[name]
            self._enter(name)
            kind = state["Type"]
            if kind == "Succeed":
                self._count(1)
                return self._filled(state["Output"], given, scope) if "Output" in state else given
            if kind == "Fail":
                raise StateFailed(
                    self._filled(state.get("Error", ""), given, scope, name),
                    self._filled(state.get("Cause", ""), given, scope, name),
                )
            if kind in ("Task", "Parallel", "Map"):
                given, name = yield from self._tried(name, state, given, scope)
            elif kind == "Choice":
                name = self._chosen(name, state, given, scope)
            elif kind == "Wait":
                yield self.time.sleep(float(self._filled(state["Seconds"], given, scope, name)))
                name = state["Next"]
            elif kind == "Pass":
                output = self._filled(state.get("Output", "{% $states.input %}"), given, scope, name)
                self._assign(state, given, scope, {})
                given, name = output, state.get("Next", "")
            else:
                raise NotImplementedError(f"{name}: a state of type {kind}")
            self._count(1)
            if not name:
                return given

    def _enter(self, name: str) -> None:
        self._count(1)
        self.entered.append(name)
        if self.on_enter is not None:
            self.on_enter(self, name)

    def _count(self, events: int) -> None:
        self.events += events
        if self.events > MOST_EVENTS:
            cause = f"The execution reached the maximum of {MOST_EVENTS} history events"
            raise ExecutionEnds("States.Runtime", cause)

    def _take(self, name: str, way: str) -> None:
        if self.on_way is not None:
            self.on_way(self, name, way)

    def _chosen(self, name: str, state: Asl, given: Any, scope: Scope) -> str:
        for way in state["Choices"]:
            holds = self._filled(way["Condition"], given, scope, "")
            if holds is True:
                self._assign(way, given, scope, {})
                self._take(name, f"to {way['Next']}")
                return str(way["Next"])
            if holds is not False:
                cause = f"a condition gave {holds!r}: {way['Condition']}"
                raise ExecutionEnds("States.QueryEvaluationError", cause)
        if "Default" not in state:
            raise StateFailed("States.NoChoiceMatched")
        self._assign(state, given, scope, {})
        self._take(name, f"to {state['Default']}")
        return str(state["Default"])

    def _tried(self, name: str, state: Asl, given: Any, scope: Scope) -> Steps:
        """Runs a Task, a Parallel or a Map with its Retry and Catch: the next input, and the next state or ""."""
        tries = [0] * len(state.get("Retry", []))
        while True:
            try:
                self._count(2)
                if state["Type"] == "Parallel":
                    branches = [(one, given) for one in state["Branches"]]
                    result = yield from self._side_by_side(branches, scope)
                elif state["Type"] == "Map":
                    items = self._filled(state["Items"], given, scope, name)
                    _require_list(items, state["Items"])
                    self._count(2 * len(items))
                    result = yield from self._side_by_side(
                        [(state["ItemProcessor"], one) for one in items], scope
                    )
                else:
                    result = yield from self._task(name, state, given, scope, sum(tries))
                self._count(1)
                more = {"result": result}
                assigned = self._filled(state.get("Assign", {}), given, scope, name, more)
                output = self._filled(state.get("Output", "{% $states.result %}"), given, scope, name, more)
                _require_size(output)
                scope.own.update(assigned)
                self._take(name, "next")
                return output, state.get("Next", "")
            except StateFailed as failure:
                self._count(1)
                pause = self._pause(name, state.get("Retry", []), tries, failure)
                if pause is not None:
                    yield self.time.sleep(pause)
                    continue
                return self._caught(name, state, given, scope, failure)

    def _task(self, name: str, state: Asl, given: Any, scope: Scope, tried: int) -> Steps:
        resource = state["Resource"]
        arguments = self._filled(state["Arguments"], given, scope, name)
        _require_size(arguments)
        if resource.endswith(":lambda:invoke"):
            function = _function(arguments["FunctionName"])
            promise = self.integrations.invoke(self, name, function, arguments["Payload"])
        elif resource.endswith(":states:startExecution.sync:2"):
            promise = self.integrations.start_and_wait(self, name, arguments)
        else:
            raise NotImplementedError(f"{name}: the integration {resource}")
        result = yield self._within(promise, state.get("TimeoutSeconds"))
        _require_size(result)
        return result

    def _within(self, promise: Promise, seconds: float | None) -> Promise:
        """The same, or States.Timeout: whoever works on it goes on."""
        if seconds is None:
            return promise
        first = Promise()
        timer = self.time.after(seconds, lambda: first.fail(StateFailed("States.Timeout")))

        def settle(settled: Promise) -> None:
            timer.cancel()
            try:
                first.keep(settled.result())
            except Exception as error:
                first.fail(error)

        promise.then(settle)
        return first

    def _side_by_side(self, machines: list[tuple[Asl, Any]], scope: Scope) -> Steps:
        """Each machine with its input; the first that fails stops the others."""
        ended = Promise()
        around = scope.all()
        branches = [Process(self._through(one, given, Scope(around))) for one, given in machines]
        if not branches:
            return []
        results: list[Any] = [None] * len(branches)
        missing = set(range(len(branches)))

        def one_ended(index: int, promise: Promise) -> None:
            try:
                results[index] = promise.result()
            except Exception as error:
                ended.fail(error)
            else:
                missing.discard(index)
                if not missing:
                    ended.keep(results)

        def begin(branch: Process) -> None:
            if branch in self._branches:
                branch.begin()

        self._branches.extend(branches)
        for index, branch in enumerate(branches):
            branch.ended.then(partial(one_ended, index))
            # As on AWS all begin at one time, also where the first fails at once.
            self.time.after(0, partial(begin, branch))
        try:
            return (yield ended)
        finally:
            for branch in branches:
                if branch in self._branches:
                    self._branches.remove(branch)
                if not branch.ended.settled:
                    branch.cancel()

    def _pause(self, name: str, retriers: list[Asl], tries: list[int], failure: StateFailed) -> float | None:
        """Seconds until the next try, or None without one."""
        for index, retrier in enumerate(retriers):
            if not _matches(retrier["ErrorEquals"], failure.error):
                continue
            if tries[index] >= retrier.get("MaxAttempts", 3):
                self._take(name, f"last {index}")
                return None
            self._take(name, f"retry {index}")
            pause = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2) ** tries[index]
            pause = min(pause, retrier.get("MaxDelaySeconds", pause))
            tries[index] += 1
            return self.random.uniform(0, pause) if retrier.get("JitterStrategy") == "FULL" else float(pause)
        return None

    def _caught(
        self, name: str, state: Asl, given: Any, scope: Scope, failure: StateFailed
    ) -> tuple[Any, str]:
        said = {"Error": failure.error, "Cause": failure.cause}
        for index, catcher in enumerate(state.get("Catch", [])):
            if _matches(catcher["ErrorEquals"], failure.error):
                more = {"errorOutput": said}
                output = self._filled(
                    catcher.get("Output", "{% $states.errorOutput %}"), given, scope, name, more
                )
                self._assign(catcher, given, scope, more)
                self._take(name, f"catch {index}")
                return output, str(catcher["Next"])
        raise failure

    def _assign(self, state: Asl, given: Any, scope: Scope, more: Mapping[str, Any]) -> None:
        if "Assign" in state:
            scope.own.update(self._filled(state["Assign"], given, scope, "", more))

    def _filled(
        self, template: Any, given: Any, scope: Scope, name: str = "", more: Mapping[str, Any] | None = None
    ) -> Any:
        context = {**self.context, "State": {"Name": name}}
        bindings = {**scope.all(), "states": {"input": given, "context": context, **(more or {})}}
        try:
            return filled(template, bindings, self.time.now())
        except EvaluationError as error:
            raise StateFailed("States.QueryEvaluationError", str(error)) from error


def _matches(names: list[str], error: str) -> bool:
    if error in names or ("States.ALL" in names and error != "States.DataLimitExceeded"):
        return True
    return "States.TaskFailed" in names and error != "States.Timeout"


def _function(placeholder: str) -> str:
    """`drain_replica` of `${DrainReplicaArn}`."""
    return snake_case(placeholder.removeprefix("${").removesuffix("Arn}"))


def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _require_list(items: Any, expression: Any) -> None:
    if not isinstance(items, list):
        kind = {str: "string", bool: "boolean", dict: "object"}.get(type(items), "number")
        raise StateFailed(
            "States.QueryEvaluationError",
            f"The JSONata expression '{str(expression)[2:-2].strip()}' specified for the field 'Items' returned an "
            f"unexpected result type. Expected 'array', but was '{kind}' for value: {json.dumps(items)}",
        )


def _require_size(document: Any) -> None:
    if len(json.dumps(document)) > MOST_BYTES:
        raise StateFailed("States.DataLimitExceeded", f"more than {MOST_BYTES} bytes")
