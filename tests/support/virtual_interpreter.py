"""The local cloud's interpreter of workflows in virtual time: its threads take turns, and nobody sleeps.

Neither server nor functions: a script answers the tasks. Of several threads exactly one runs, so that a run is the same
each time, and what waits for hours is over at once.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.exceptions import ClientError
from moto import mock_aws

from localcloud.clock import CloudClock
from localcloud.extensions import moto_clock
from localcloud.extensions.stepfunctions import executions, histories
from localcloud.open_cloud import OpenCloud
from sim.workflows.functions import Killed, Strand
from sim.workflows.virtual_time import VirtualTime
from tests.support.workflow_scripts import ACCOUNT, PREFIX, REGION, Answers, Ran, Script, moment

_ROLE = f"arn:aws:iam::{ACCOUNT}:role/tests"
_PARSER = "moto.stepfunctions.parser."
# Step Functions' default for a Parallel or a Map; who waits so long waits for ever.
_FOR_EVER = 9e7


class Turns:
    """Stands for the module `threading`: threads that take turns on one virtual time."""

    Lock, RLock, Condition = threading.Lock, threading.RLock, threading.Condition

    def __init__(self, time: VirtualTime) -> None:
        self.time = time
        self.here = threading.local()
        self.strands: list[Strand] = []
        turns = self

        class Event:
            def __init__(self) -> None:
                self._flag = False
                self._waiting: list[Callable[[bool], None]] = []

            def is_set(self) -> bool:
                return self._flag

            def set(self) -> None:
                self._flag = True
                for wake in self._waiting:
                    time.after(0, lambda wake=wake: wake(True))  # type: ignore[misc]
                self._waiting = []

            def clear(self) -> None:
                self._flag = False

            def wait(self, timeout: float | None = None) -> bool:
                if self._flag:
                    return True
                strand: Strand = turns.here.strand
                woken: list[bool] = []

                def wake(by_set: bool) -> None:
                    if not woken and not strand.over:
                        woken.append(by_set)
                        strand.resume()

                self._waiting.append(wake)
                limit = None
                if timeout is not None and timeout < _FOR_EVER:
                    limit = time.after(timeout, lambda: wake(False))
                strand.stand_still()
                if limit is not None:
                    limit.cancel()
                return woken[0]

        class Thread:
            native_id = 0

            def __init__(  # the parameters are threading's
                self,
                group: None = None,
                target: Callable[..., Any] = lambda: None,
                name: str | None = None,
                args: tuple[Any, ...] = (),
                kwargs: Any = None,
                *,
                daemon: bool | None = None,
            ) -> None:
                self._work = lambda: target(*args)
                self._ended = Event()
                self._strand = Strand(self._run)

            def start(self) -> None:
                turns.strands.append(self._strand)
                time.after(0, self._strand.resume)

            def join(self, timeout: float | None = None) -> None:
                self._ended.wait(timeout)

            def is_alive(self) -> bool:
                return not self._ended.is_set()

            def _run(self) -> None:
                turns.here.strand = self._strand
                try:
                    self._work()
                except Killed:
                    return
                self._ended.set()

        self.Event, self.Thread = Event, Thread

    def close(self) -> None:
        """End what still waits for nothing."""
        for strand in self.strands:
            strand.kill("over")
        self.strands.clear()


class VirtualClock(CloudClock):
    """The cloud's clock on virtual time."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._woken = turns.Event()

    def now(self) -> datetime:
        return self._turns.time.now()

    def epoch(self) -> float:
        return self.now().timestamp()

    def sleep(self, cloud_seconds: float, stop: Callable[[], bool] = lambda: False) -> bool:
        end = self._turns.time.seconds + cloud_seconds
        while not stop():
            if self._turns.time.seconds >= end:
                return True
            self._woken.wait(end - self._turns.time.seconds)
        return False

    def wake(self) -> None:
        self._woken.set()
        self._woken.clear()


class _Lambda:
    """Answers as the script says, after the seconds that it says."""

    def __init__(self, clock: VirtualClock, time: VirtualTime) -> None:
        self._clock, self._time = clock, time
        self.answers: Answers

    def invoke(self, FunctionName: str, Payload: bytes, **_: Any) -> dict[str, Any]:
        answer = self.answers.next(self._time.seconds, FunctionName, json.loads(Payload))
        self._clock.sleep(answer.seconds)
        failed = {"FunctionError": "Unhandled"} if answer.failed else {}
        body = BytesIO(json.dumps(answer.said).encode())
        return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": body, **failed}


class _Starts:
    """Step Functions' own API, that refuses starts as the script says."""

    def __init__(self) -> None:
        self.answers: Answers
        self._real = boto3.client("stepfunctions", region_name=REGION)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def start_execution(self, **asked: Any) -> Any:
        code = self.answers.refusal_of_start(asked["name"])
        if code is None:
            return self._real.start_execution(**asked)
        said = {"Error": {"Code": code, "Message": code}}
        raise ClientError(
            {**said, "ResponseMetadata": {"HTTPStatusCode": 400, "RequestId": "1"}}, "StartExecution"
        )


class LocalInterpreter:
    """Runs scripts in the local cloud's interpreter."""

    def __init__(self, cloud: OpenCloud, turns: Turns, machines: Mapping[str, Any]) -> None:
        from moto.stepfunctions.parser.models import stepfunctions_parser_backends

        self._turns = turns
        clock: Any = cloud.clock
        self._functions, self._starts = _Lambda(clock, turns.time), _Starts()
        cloud.task_clients.update({"lambda": self._functions, "stepfunctions": self._starts})
        self._backend = stepfunctions_parser_backends[ACCOUNT][REGION]
        for name, machine in machines.items():
            self._backend.create_state_machine(
                name=f"peaker-{name}", definition=json.dumps(machine), roleArn=_ROLE
            )

    def run(self, script: Script) -> Ran:
        time = self._turns.time
        time.seconds = 0.0
        self._functions.answers = self._starts.answers = answers = Answers(script)
        for machine in self._backend.state_machines:
            machine.executions.clear()
        root = self._backend.start_execution(
            f"{PREFIX}{script.workflow}", script.name, json.dumps(script.given)
        )
        if script.stopped_after is not None:
            time.after(script.stopped_after, lambda: root.stop(time.now(), "Stopped", "by a person"))
        time.run(1e9, lambda: False)
        self._turns.close()
        found = {}
        for machine in self._backend.state_machines:
            for one in machine.executions:
                found[machine.name.removeprefix("peaker-"), one.name] = _ended(one)
        return Ran(found, answers.calls)


def _ended(one: Any) -> dict[str, Any]:
    entered = [
        (event["timestamp"], event["stateEnteredEventDetails"]["name"])
        for event in one.to_history_output()["events"]
        if "stateEnteredEventDetails" in event
    ]
    return {
        "entered": sorted(entered),
        "input": json.loads(one.execution_input),
        "status": one.status,
        "output": one.output if one.status == "SUCCEEDED" else None,
        "error": one.error or "",
        "cause": one.cause or "",
        "ended": moment(one.stop_date),
    }


@contextmanager
def local_interpreter(folder: Path, machines: Mapping[str, Any]) -> Iterator[LocalInterpreter]:
    """Open the local cloud's interpreter alone."""
    turns = Turns(VirtualTime())
    with mock_aws():
        cloud = OpenCloud(None, folder)
        cloud.clock = VirtualClock(turns)
        changed = turns.Event()

        def hear(*_: Any) -> None:
            changed.set()
            changed.clear()

        cloud.deliver_events_with(hear)
        try:
            for extension in (moto_clock, executions, histories):
                extension.install(cloud)
            _take_turns(cloud, turns, changed.wait)
            yield LocalInterpreter(cloud, turns, machines)
        finally:
            cloud.closing.set()
            while cloud._callbacks:
                cloud._callbacks.pop()()


def _take_turns(cloud: OpenCloud, turns: Turns, until_changed: Callable[[], bool]) -> None:
    for name, module in list(sys.modules.items()):
        if not name.startswith(_PARSER):
            continue
        if getattr(module, "threading", None) is threading:
            cloud.patch(module, "threading", turns)
        for part in ("Thread", "Event"):
            if getattr(module, part, None) is getattr(threading, part):
                cloud.patch(module, part, getattr(turns, part))
    polled = sys.modules[f"{_PARSER}asl.component.state.exec.state_task.service.state_task_service_callback"]
    cloud.patch(polled, "time", SimpleNamespace(sleep=lambda _: until_changed()))
    component = sys.modules[f"{_PARSER}asl.component.eval_component"].EvalComponent
    for report in ("_log_failure_event_exception", "_log_exception"):
        cloud.patch(component, report, lambda *_, **__: None)  # each writes its whole tree out
    jitter = sys.modules[f"{_PARSER}asl.component.common.retry.jitter_strategy_decl"]
    cloud.patch(jitter, "random", SimpleNamespace(uniform=lambda _, most: most))
