"""A script is an input of a workflow, the answers to its tasks, and when it is stopped; the simulation runs it here."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from bench.faults.situations import Situation
from sim.workflows.executions import Execution
from sim.workflows.step_functions import StepFunctions
from sim.workflows.virtual_time import Promise, VirtualTime
from sim.workflows.walker import Asl, StateFailed, Walk
from statemachines.expansion import expand, in_partition, workflow_names

ACCOUNT, REGION = "123456789012", "us-east-1"
PREFIX = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:peaker-"
Key = tuple[str, str]
# (workflow, state, which way out of it)
Way = tuple[str, str, str]
# Longer than any TimeoutSeconds of a call.
SILENCE_SECONDS = 1000.0
THROTTLED = "ThrottlingException"
_FAILURES = frozenset({"retry", "last", "catch", "unreadable"})


def machines() -> dict[str, Asl]:
    """All workflows, calling functions and one another by plain names."""

    def plain(found: re.Match[str]) -> str:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", found[1]).lower()
        return f"{PREFIX}{name}" if found[2] else name

    return {
        name: json.loads(
            re.sub(r"\$\{(\w+?)(StateMachine)?Arn\}", plain, in_partition(json.dumps(expand(name)), "aws"))
        )
        for name in workflow_names()
    }


@dataclass(frozen=True)
class Answer:
    """What a function says after so many seconds, or the `errorType` and `errorMessage` that it fails with."""

    said: Any
    failed: bool = False
    seconds: float = 1.0


SILENCE = Answer({"errorMessage": "too late", "errorType": "TooLate"}, True, SILENCE_SECONDS)


def error(name: str, seconds: float = 1.0) -> Answer:
    return Answer({"errorMessage": f"{name} on purpose", "errorType": name}, True, seconds)


@dataclass(frozen=True)
class Script:
    """`first` are answers before the usual ones; `starts` the codes that starts of an execution are refused with."""

    title: str
    workflow: str
    name: str
    given: Any
    answers: Mapping[Key, tuple[Answer, ...]]
    stopped_after: float | None = None
    first: Mapping[Key, tuple[Answer, ...]] = field(default_factory=dict)
    starts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    usual: Mapping[str, Answer] = field(default_factory=dict)


def key_of(function: str, payload: Mapping[str, Any]) -> Key:
    """Whose call it is, of which state."""
    return str(payload.get("run_id", "")), str(payload.get("step", function))


class Answers:
    """The script's, one after the other, and the calls that asked for them."""

    def __init__(self, script: Script) -> None:
        keys = {*script.answers, *script.first}
        self._usual = script.usual
        self._left = {key: [*script.first.get(key, ()), *script.answers.get(key, ())] for key in keys}
        self._starts = {name: list(codes) for name, codes in script.starts.items()}
        self.calls: list[tuple[float, str, Any]] = []

    def next(self, seconds: float, function: str, payload: Any) -> Answer:
        self.calls.append((round(seconds, 3), function, payload))
        key = key_of(function, payload)
        if left := self._left.get(key):
            return left.pop(0)
        return self._usual.get(key[1]) or error("NoAnswerInTheScript")

    def refusal_of_start(self, name: str) -> str | None:
        left = self._starts.get(name)
        return left.pop(0) if left else None


@dataclass
class Ran:
    """What became of each execution, by workflow and name; the calls; the ways taken; each state's key of its calls."""

    executions: Mapping[Key, Mapping[str, Any]]
    calls: list[tuple[float, str, Any]]
    ways: set[Way] = field(default_factory=set)
    keys: Mapping[tuple[str, str], Key] = field(default_factory=dict)


def ways_of(workflow: str, machine: Asl) -> Iterator[tuple[Way, Asl]]:
    """Every way into and out of each state, with its state."""
    for name, state in machine["States"].items():
        if state["Type"] in ("Task", "Parallel", "Map"):
            yield (workflow, name, "next"), state
        for index, _ in enumerate(state.get("Retry", [])):
            yield (workflow, name, f"retry {index}"), state
            yield (workflow, name, f"last {index}"), state
        for index, _ in enumerate(state.get("Catch", [])):
            yield (workflow, name, f"catch {index}"), state
        if "$states.result.Payload." in json.dumps(state.get("Assign", state.get("Output", ""))):
            yield (workflow, name, "unreadable"), state
        targets = {one["Next"] for one in state.get("Choices", [])} | {state.get("Default")} - {None}
        for way in ("enter", *(f"to {target}" for target in targets)):
            yield (workflow, name, way), state
        processor = [state["ItemProcessor"]] if "ItemProcessor" in state else []
        for inner in (*state.get("Branches", []), *processor):
            yield from ways_of(workflow, inner)


def _failures(state: Asl, way: str) -> tuple[Answer, ...]:
    """Answers by which a state leaves by this way."""
    kind, _, index = way.partition(" ")
    retriers = state.get("Retry", [])
    if kind == "unreadable":
        return (Answer({}),)
    if kind == "retry":
        busy = "States.Timeout" in retriers[int(index)]["ErrorEquals"]
        return (SILENCE if busy else error(retriers[int(index)]["ErrorEquals"][0]),)
    if kind == "last":
        return (error(retriers[int(index)]["ErrorEquals"][0]),) * (retriers[int(index)]["MaxAttempts"] + 1)
    named = state["Catch"][int(index)]["ErrorEquals"][0]
    tries = sum(one["MaxAttempts"] for one in retriers if named in one["ErrorEquals"])
    return (error("Unforeseen" if named == "States.ALL" else named),) * (tries + 1)


def led_astray(script: Script, ran: Ran, ways: Mapping[Way, Asl]) -> Script | None:
    """The script, but that the first calls of these states fail so that they leave by these ways."""
    first, starts = dict(script.first), dict(script.starts)
    known = {
        way: state for way, state in ways.items() if way[:2] in ran.keys and way[2].split()[0] in _FAILURES
    }
    for (workflow, name, way), state in known.items():
        key, failures = ran.keys[workflow, name], _failures(state, way)
        if key[0] == "start":
            code = "ExecutionAlreadyExists" if way.startswith("catch") else THROTTLED
            starts[key[1]] = (*starts.get(key[1], ()), *(code,) * len(failures))
        else:
            first[key] = (*first.get(key, ()), *failures)
    title = f"{script.title}; {', '.join(f'{name} {way}' for _, name, way in known)}"
    return replace(script, title=title, first=first, starts=starts) if known else None


def turned(script: Script, ran: Ran, workflow: str, said: Mapping[str, Sequence[Answer]]) -> Script:
    """The script, but that states answer so at first; what their answers do not say is as usual."""
    first = dict(script.first)
    for name, answers in said.items():
        own_run = next(
            key[0] for state, key in ran.keys.items() if state[0] == workflow and key[0] not in ("", "start")
        )
        key = ran.keys.get((workflow, name), (own_run, name))
        usual = script.usual[key[1]].said
        first[key] = tuple(one if one.failed else Answer({**usual, **one.said}) for one in answers)
    return replace(script, title=f"{script.title}; {', '.join(said)} by hand", first=first)


def recorded(title: str, situation: Situation) -> Iterator[Script]:
    """What the campaign's situation answered each execution that was started by itself."""
    world = situation.world(seed=7)
    try:
        world.finish(situation.begin(world, lambda _: None))
        world.run_for(3600)
        answers: dict[str, dict[Key, list[Answer]]] = defaultdict(lambda: defaultdict(list))
        for one in world.functions.invocations:
            if one.execution is not None:
                root = world.workflows.root(one.execution)
                answers[root.arn][key_of(one.function, one.payload)].append(_answer(one.answer, one.elapsed))
        for one in world.workflows.executions:
            if world.workflows.root(one) is one:
                stopped = one.ended is not None and one.status == "ABORTED"
                yield Script(
                    f"{title}, {one.workflow} {one.name[:4]}",
                    one.workflow,
                    one.name,
                    json.loads(one.input),
                    {key: tuple(said) for key, said in answers[one.arn].items()},
                    (one.ended or 0.0) - one.started if stopped else None,
                )
    finally:
        world.close()


def _answer(promise: Promise, seconds: float) -> Answer:
    if not promise.settled:
        return SILENCE
    try:
        return Answer(promise.result()["Payload"], seconds=seconds)
    except StateFailed as failure:
        return Answer(json.loads(failure.cause), True, seconds)


class _Functions:
    """Answers as the script says, after the seconds that it says."""

    def __init__(self, time: VirtualTime, answers: Answers) -> None:
        self._time, self._answers = time, answers
        self.keys: dict[tuple[str, str], Key] = {}

    def invoke(self, execution: Execution, state: str, function: str, payload: Any) -> Promise:
        payload = json.loads(json.dumps(payload))
        self.keys.setdefault((execution.workflow, state), key_of(function, payload))
        answer, promise = self._answers.next(self._time.seconds, function, payload), Promise()
        if answer.failed:
            failure = StateFailed(answer.said["errorType"], json.dumps(answer.said))
            self._time.after(answer.seconds, lambda: promise.fail(failure))
        else:
            said = {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": answer.said}
            self._time.after(answer.seconds, lambda: promise.keep(said))
        return promise


class _Refusing(StepFunctions):
    answers: Answers
    keys: dict[tuple[str, str], Key]

    def start_and_wait(self, walk: Walk, state: str, arguments: Mapping[str, Any]) -> Promise:
        self.keys.setdefault((self.of(walk).workflow, state), ("start", arguments["Name"]))
        code = self.answers.refusal_of_start(arguments["Name"])
        if code is None:
            return super().start_and_wait(walk, state, arguments)
        refused = Promise()
        # What the model of StartExecution does not have comes under the service's name.
        name = "AWSStepFunctionsException" if code == THROTTLED else f"{code}Exception"
        said = f"{code} (Service: AWSStepFunctions; Status Code: 400; Error Code: {code}; Request ID: 1; Proxy: null)"
        refused.fail(StateFailed(f"StepFunctions.{name}", said))
        return refused


class _Longest(random.Random):
    """Of a retry's jitter the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        return b


def moment(at: datetime) -> str:
    """Milliseconds, as a history has them."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_in_sim(machines: Mapping[str, Asl], script: Script) -> Ran:
    time, answers = VirtualTime(), Answers(script)
    functions: Any = _Functions(time, answers)
    sim = _Refusing(machines, time, _Longest(), functions, PREFIX)
    sim.answers, sim.keys = answers, functions.keys
    ways: set[Way] = set()
    entered: dict[int, list[tuple[str, str]]] = defaultdict(list)

    def enter(walk: Walk, state: str) -> None:
        entered[id(walk)].append((moment(time.now()), state))
        ways.add((sim.of(walk).workflow, state, "enter"))

    sim.on_enter = enter
    sim.on_way = lambda walk, state, way: ways.add((sim.of(walk).workflow, state, way))
    root = sim.start(script.workflow, script.given, script.name)
    if script.stopped_after is not None:
        time.after(script.stopped_after, lambda: sim.stop(root, "Stopped", "by a person"))
    time.run(1e9, lambda: False)
    found = {
        (one.workflow, one.name): {
            "entered": sorted(entered[id(one.walk)]),
            "input": json.loads(one.input),
            "status": one.status,
            "output": one.output,
            "error": one.error,
            "cause": one.cause,
            "ended": moment(time.datetime_of(one.ended or 0.0)),
        }
        for one in sim.executions
    }
    return Ran(found, answers.calls, ways, functions.keys)
