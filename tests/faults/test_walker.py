"""The walker runs a machine as Step Functions does."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sim.workflows.executions import Execution
from sim.workflows.functions import Functions
from sim.workflows.interferences import DiesAtTheEnd, LandsLate
from sim.workflows.step_functions import ARN, StepFunctions
from sim.workflows.virtual_time import VirtualTime

DONE = {"Type": "Succeed"}


class Service:
    """A machine `flow` whose tasks call functions that the test gives."""

    def __init__(self, states: Mapping[str, Any], *, start: str, limit: float = 60, **more: Any) -> None:
        self.time = VirtualTime()
        self.bodies: dict[str, Callable[[Any], Any]] = {}
        self.functions = Functions(
            self.time, random.Random(1), lambda name: self.bodies[name], lambda _: limit
        )
        machine = {"StartAt": start, "States": states, **more}
        machines = {
            "flow": machine,
            "child": {"StartAt": "C", "States": {"C": task("inner", "E"), "E": DONE}},
        }
        self.workflows = StepFunctions(
            machines, self.time, random.Random(1), self.functions, f"{ARN}:stateMachine:x-"
        )

    def run(self, given: Any = None) -> Execution:
        execution = self.workflows.start("flow", {} if given is None else given)
        self.time.run(10**7, lambda: not execution.running)
        return execution


def task(function: str, then: str, **more: Any) -> dict[str, Any]:
    name = "".join(part.capitalize() for part in function.split("_"))
    arguments = {"FunctionName": f"${{{name}Arn}}", "Payload": "{% $states.input %}"}
    body = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Arguments": arguments}
    return {**body, "Output": "{% $states.result.Payload %}", "Next": then, **more}


def test_a_stopped_execution_leaves_its_function_at_work() -> None:
    service = Service({"T": task("slow", "D"), "D": DONE}, start="T")
    landed: list[float] = []
    service.bodies["slow"] = lambda _: service.functions.called(
        "port.call", lambda: landed.append(service.time.seconds)
    )
    service.functions.interfere = lambda _: LandsLate(at="port.call", functions=service.functions, seconds=50)
    execution = service.workflows.start("flow", {})
    service.time.after(3, lambda: service.workflows.stop(execution))
    service.time.run(600)
    assert (execution.status, execution.ended) == ("ABORTED", 3)
    assert [round(at) for at in landed] == [50]


def test_a_function_ends_at_its_own_limit() -> None:
    service = Service({"T": task("slow", "D"), "D": DONE}, start="T", limit=30)
    landed: list[str] = []
    service.bodies["slow"] = lambda _: service.functions.called("port.call", lambda: landed.append("landed"))
    service.functions.interfere = lambda _: LandsLate(at="port.call", functions=service.functions, seconds=50)
    execution = service.run()
    assert (execution.error, round(service.time.seconds), landed) == ("Sandbox.Timedout", 30, [])


def test_a_task_that_takes_too_long_is_a_timeout_that_can_be_retried() -> None:
    retry = {"ErrorEquals": ["States.Timeout"], "IntervalSeconds": 1, "MaxAttempts": 1}
    service = Service({"T": task("slow", "D", TimeoutSeconds=9, Retry=[retry]), "D": DONE}, start="T")
    service.bodies["slow"] = lambda _: service.functions.called("port.call", lambda: 7)
    service.functions.interfere = lambda one: (
        LandsLate(at=0, functions=service.functions, seconds=40) if one.attempt == 1 else None
    )
    execution = service.run()
    assert (execution.output, execution.states, len(service.functions.invocations)) == (7, ["T", "D"], 2)


def test_a_crash_has_lambdas_name_for_it() -> None:
    service = Service({"T": task("good", "D"), "D": DONE}, start="T")
    service.bodies["good"] = lambda _: 1
    service.functions.interfere = lambda _: DiesAtTheEnd()
    assert service.run().error == "Runtime.ExitError"


def test_a_failed_child_is_a_failed_task_and_a_stopped_parent_stops_it() -> None:
    arguments = {"StateMachineArn": "${ChildStateMachineArn}", "Name": "one", "Input": {}}
    start = {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2", "Next": "D"}
    service = Service({"S": {**start, "Arguments": arguments}, "D": DONE}, start="S")
    service.bodies["inner"] = lambda event: event["nothing"]
    execution = service.run()
    assert (execution.error, '"Error": "KeyError"' in execution.cause) == ("States.TaskFailed", True)
    service = Service({"S": {**start, "Arguments": arguments}, "D": DONE}, start="S")
    service.bodies["inner"] = lambda _: service.functions.called("port.call", lambda: 1)
    service.functions.interfere = lambda _: LandsLate(at=0, functions=service.functions)
    execution = service.workflows.start("flow", {})
    service.time.after(2, lambda: service.workflows.stop(execution))
    service.time.run(3)
    assert [one.status for one in service.workflows.executions] == ["ABORTED", "ABORTED"]
    service.functions.close()


def test_an_execution_ends_at_25_000_events() -> None:
    wait = {"Type": "Wait", "Seconds": 1, "Next": "Again"}
    again = {"Type": "Pass", "Next": "Wait"}
    service = Service({"Wait": wait, "Again": again}, start="Wait", TimeoutSeconds=10**6)
    execution = service.run()
    assert (execution.status, execution.error) == ("FAILED", "States.Runtime")
    assert execution.walk.events == pytest.approx(25_000, abs=2)


def test_a_machine_has_a_timeout_of_its_own() -> None:
    service = Service(
        {"W": {"Type": "Wait", "Seconds": 99, "Next": "D"}, "D": DONE}, start="W", TimeoutSeconds=9
    )
    execution = service.run()
    assert (execution.status, execution.ended) == ("TIMED_OUT", 9)


def test_an_undefined_value_is_an_error_of_the_query() -> None:
    wrong = {"Type": "Pass", "Output": "{% $states.input.nothing %}", "Next": "D"}
    execution = Service({"P": wrong, "D": DONE}, start="P").run({})
    assert (execution.status, execution.error) == ("FAILED", "States.QueryEvaluationError")
