"""The service: executions by name, their ends and events, children that are waited for, and a client's view of it."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from sim.workflows.executions import Execution
from sim.workflows.functions import Functions
from sim.workflows.virtual_time import Process, Promise, VirtualTime
from sim.workflows.walker import Asl, Failure, StateFailed, Walk, snake_case

ARN = "arn:aws:states:us-east-1:123456789012"
# ListExecutions is eventually consistent.
LISTED_WITHIN_SECONDS = 3.0
# To stop the children of an execution that ended early is a best effort of Step Functions ("Run a Job (.sync)").
CHILD_STOPPED_WITHIN_SECONDS = 20.0
CHILDREN_NEVER_STOPPED = 0.1


class StepFunctions:
    """All executions of one environment. `machines` are the expanded workflows by name."""

    def __init__(
        self,
        machines: Mapping[str, Asl],
        time: VirtualTime,
        chance: random.Random,
        functions: Functions,
        prefix: str,
    ) -> None:
        self.machines = machines
        self.time = time
        self.executions: list[Execution] = []
        self.on_end: list[Callable[[Execution], None]] = []
        self.on_enter: Callable[[Walk, str], None] | None = None
        self.on_way: Callable[[Walk, str, str], None] | None = None
        # Whether the children of an execution that ended early are stopped at once, or as well as it can be done.
        self.children_outlive = False
        # Until then no workflow starts another one: the account's rate of starts is used up.
        self.starts_throttled_until = 0.0
        self._random = chance
        self._functions = functions
        self._prefix = prefix

    def start(self, workflow: str, given: Any, name: str | None = None) -> Execution:
        """Raises LookupError for a name that was taken; a running one with the same input is given again."""
        text = given if isinstance(given, str) else json.dumps(given)
        name = name or str(uuid.UUID(int=self._random.getrandbits(128)))
        there = next((one for one in self.executions if (one.workflow, one.name) == (workflow, name)), None)
        if there is not None:
            if there.running and there.input == text:
                return there
            raise LookupError(f"Execution Already Exists: '{there.arn}'")
        execution = self._made(workflow, name, text)
        self.executions.append(execution)
        self.time.after(0, lambda: self._begin(execution))
        return execution

    def plant(self, workflow: str, name: str, status: str = "RUNNING", given: Any = None) -> Execution:
        """Put an execution there that began at the world's beginning; nobody walks it."""
        text = json.dumps({} if given is None else given)
        execution = self._made(workflow, name, text)
        execution.started, execution.listed, execution.status = 0.0, 0.0, status
        execution.ended = None if execution.running else self.time.seconds
        same = (workflow, name)
        self.executions = [one for one in self.executions if (one.workflow, one.name) != same] + [execution]
        return execution

    def stop(self, execution: Execution, error: str = "", cause: str = "") -> None:
        """At once. What its functions are doing goes on."""
        self._end(execution, "ABORTED", error=error, cause=cause)

    def of(self, walk: Walk) -> Execution:
        return next(one for one in self.executions if one.walk is walk)

    def root(self, execution: Execution) -> Execution:
        """The one that was started by itself: its parent's parent, and so on."""
        parents = [one for one in self.executions if execution in one.children]
        return self.root(parents[0]) if parents else execution

    def invoke(self, walk: Walk, state: str, function: str, payload: Any) -> Promise:
        return self._functions.invoke(self.of(walk), state, function, payload)

    def start_and_wait(self, walk: Walk, state: str, arguments: Mapping[str, Any]) -> Promise:
        """The integration startExecution.sync:2: a failed child is States.TaskFailed, its description the cause."""
        ended = Promise()
        workflow = _workflow(arguments["StateMachineArn"])
        if self.time.seconds < self.starts_throttled_until:
            ended.fail(StateFailed("StepFunctions.AWSStepFunctionsException", "Rate exceeded"))
            return ended
        try:
            child = self.start(workflow, arguments["Input"], arguments.get("Name"))
        except LookupError as taken:
            ended.fail(StateFailed("StepFunctions.ExecutionAlreadyExistsException", str(taken)))
            return ended
        self.of(walk).children.append(child)

        def tell(_: Promise) -> None:
            # Of .sync:2 the input and the output are JSON, not text.
            said = {**self.described(child), "Input": json.loads(child.input)}
            if child.status == "SUCCEEDED":
                ended.keep({**said, "Output": child.output})
            else:
                ended.fail(StateFailed("States.TaskFailed", json.dumps(said)))

        child.waiting.then(tell)
        return ended

    def described(self, execution: Execution) -> dict[str, Any]:
        """As DescribeExecution tells of it, in the spelling of the integrations."""
        said: dict[str, Any] = {
            "ExecutionArn": execution.arn,
            "StateMachineArn": execution.machine_arn,
            "Name": execution.name,
            "Status": execution.status,
            "StartDate": _milliseconds(self.time, execution.started),
            "Input": execution.input,
        }
        if execution.ended is not None:
            said["StopDate"] = _milliseconds(self.time, execution.ended)
        if execution.status == "SUCCEEDED":
            said["Output"] = json.dumps(execution.output)
        elif execution.error or execution.cause:
            said |= {"Error": execution.error, "Cause": execution.cause}
        return said

    def detail(self, execution: Execution) -> dict[str, Any]:
        """The detail of the event of an execution's end."""
        said = {name[0].lower() + name[1:]: value for name, value in self.described(execution).items()}
        return {"output": None, "error": None, "cause": None, **said, "inputDetails": {"included": True}}

    def _made(self, workflow: str, name: str, text: str) -> Execution:
        machine = self.machines[workflow]
        machine_arn = f"{self._prefix}{workflow}"
        arn = f"{ARN}:execution:{machine_arn.rsplit(':', 1)[-1]}:{name}"
        started = self.time.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        context = {
            "Execution": {"Id": arn, "Name": name, "StartTime": started, "Input": json.loads(text)},
            "StateMachine": {"Id": machine_arn, "Name": workflow},
        }
        walk = Walk(machine, context, self.time, self._random, self, on_enter=self._entered)
        walk.on_way = self.on_way
        listed = self.time.seconds + self._random.uniform(0, LISTED_WITHIN_SECONDS)
        return Execution(workflow, name, text, self.time.seconds, arn, machine_arn, walk, listed)

    def _entered(self, walk: Walk, state: str) -> None:
        if self.on_enter is not None:
            self.on_enter(walk, state)

    def _begin(self, execution: Execution) -> None:
        if not execution.running:
            return
        execution.process = Process(execution.walk.steps(json.loads(execution.input)))
        execution.process.ended.then(lambda ended: self._walked(execution, ended))
        limit = execution.walk.machine.get("TimeoutSeconds")
        if limit is not None:
            self.time.after(limit, lambda: self._end(execution, "TIMED_OUT", error="States.Timeout"))
        execution.process.begin()

    def _walked(self, execution: Execution, ended: Promise) -> None:
        try:
            output = ended.result()
        except Failure as failure:
            self._end(execution, "FAILED", error=failure.error, cause=failure.cause)
        else:
            self._end(execution, "SUCCEEDED", output=output)

    def _end(
        self, execution: Execution, status: str, *, output: Any = None, error: str = "", cause: str = ""
    ) -> None:
        if not execution.running:
            return
        execution.status, execution.output = status, output
        execution.error, execution.cause = error, cause
        execution.ended = self.time.seconds
        execution.walk.cancel_branches()
        if execution.process is not None and not execution.process.ended.settled:
            execution.process.cancel()
        for child in execution.children:
            self._stop_child(child)
        execution.waiting.keep(None)
        for hear in self.on_end:
            hear(execution)

    def _stop_child(self, child: Execution) -> None:
        """At once; or late or never, by its own chance, so that the rest of the world stays as it is."""
        chance = random.Random(child.arn)
        if not self.children_outlive:
            self._end(child, "ABORTED")
        elif chance.random() >= CHILDREN_NEVER_STOPPED:
            seconds = chance.uniform(0, CHILD_STOPPED_WITHIN_SECONDS)
            self.time.after(seconds, lambda: self._end(child, "ABORTED"))


class StepFunctionsClient:
    """What boto3's client answers, as much as the functions ask for."""

    def __init__(self, service: StepFunctions) -> None:
        self._service = service

    def get_paginator(self, operation: str) -> StepFunctionsClient:
        if operation != "list_executions":
            raise NotImplementedError(operation)
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        yield self.list_executions(**asked)

    def list_executions(
        self, stateMachineArn: str, statusFilter: str | None = None, **_: Any
    ) -> dict[str, Any]:
        now = self._service.time.seconds
        found = [
            one
            for one in reversed(self._service.executions)
            if one.machine_arn == stateMachineArn and one.listed <= now and statusFilter in (None, one.status)
        ]
        # Those that run stand by their start, the others by their end.
        found.sort(key=lambda one: one.started if one.ended is None else one.ended, reverse=True)
        return {"executions": [self._row(one) for one in found]}

    def describe_execution(self, executionArn: str, **_: Any) -> dict[str, Any]:
        found = [one for one in self._service.executions if one.arn == executionArn]
        if not found:
            raise _refused("ExecutionDoesNotExist", "DescribeExecution")
        [one] = found
        more = {"error": one.error, "cause": one.cause} if one.error or one.cause else {}
        return {**self._row(one), "input": one.input, **more}

    def start_execution(
        self, stateMachineArn: str, name: str | None = None, input: str = "{}"
    ) -> dict[str, Any]:
        try:
            started = self._service.start(_workflow(stateMachineArn), input, name)
        except LookupError as taken:
            raise _refused("ExecutionAlreadyExists", "StartExecution") from taken
        return {"executionArn": started.arn, "startDate": self._service.time.datetime_of(started.started)}

    def _row(self, one: Execution) -> dict[str, Any]:
        row = {
            "executionArn": one.arn,
            "stateMachineArn": one.machine_arn,
            "name": one.name,
            "status": one.status,
            "startDate": self._service.time.datetime_of(one.started),
        }
        return row if one.ended is None else {**row, "stopDate": self._service.time.datetime_of(one.ended)}


def _refused(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, operation)


def _workflow(arn: str) -> str:
    """`prewarm` of `${PrewarmStateMachineArn}` or of `arn:...:peaker-local-prewarm`."""
    if arn.startswith("${"):
        return snake_case(arn.removeprefix("${").removesuffix("StateMachineArn}"))
    return arn.rsplit("-", 1)[-1]


def _milliseconds(time: VirtualTime, seconds: float) -> int:
    return int(time.datetime_of(seconds).timestamp() * 1000)
