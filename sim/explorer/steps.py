"""Each step of the workflows where a scenario comes to it: twice at once, beside the sweep, half dead, stopped.

Whatever the order, the account must come to the state to which the calls bring it one after the other, and no call may
be refused. Where an execution is stopped, whatever its step had done or still does, roll_back and the sweep must bring
everything to its end; where nobody hears of the stop, the sweep alone.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import peaker_contract.errors as contract_errors
from peaker_contract.errors import NothingToUndo, NotYet, Retryable
from sim.explorer.audit import left_over
from sim.explorer.orders import Turns, described, drawn, explore, turns_of
from sim.explorer.states import State, difference, plain, state_now
from sim.explorer.strands import (
    KINDS,
    Fault,
    GoesOn,
    Made,
    Outcome,
    Turn,
    answer_of,
    in_child,
    in_child_that_goes_on,
    outcome_of,
    run,
)
from sim.explorer.world import ExploredWorld
from sim.workflows.executions import Execution
from sim.workflows.functions import Interference, Invocation, Killed
from sim.world import ROLLED_BACK

TRIES = 9
# More than any grace after a lost answer; a schedule of the sweep; until the sweep has undone a whole run.
PAUSE_SECONDS = 100.0
RUNS_TO_THE_END = 20
# A killed look's lease ends after five minutes.
LOOK_SECONDS = 400.0
SWEPT_WITHIN_SECONDS = 2400.0
# roll_back and the sweep make about so many calls while a function of a stopped execution is at work.
CALLS_AFTER_A_STOP = 40
_ALONE: Turns = (Turn(0),)
_IN_TURN: Turns = (Turn(0), Turn(1))
Bodies = Sequence[Callable[[], Any]]
Answer = Callable[[bool, Any], None]


class Finding(NamedTuple):
    """What is wrong: a double, a row, a refusal or an unrepaired death; and how it is shown again."""

    kind: str
    step: str
    how: str
    text: str


@dataclass
class Explored:
    """What was tried, and what was found."""

    steps: Counter[str] = field(default_factory=Counter)
    orders: int = 0
    deaths: int = 0
    stops: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Explored) -> None:
        self.steps.update(other.steps)
        self.orders += other.orders
        self.deaths += other.deaths
        self.stops += other.stops
        self.findings += other.findings


class Trial(NamedTuple):
    """How the calls ended, all that they called, how the last of the calls after them ended, and the state then."""

    outcomes: tuple[Outcome, ...]
    made: tuple[Made, ...]
    last: Outcome
    state: State


class StepExplorer:
    """Explores the steps of a world while its scenario runs: each function with each set of changes that it makes once.

    Two states of one function whose calls change things of the same kinds run the same code.

    With `few` only so many orders, deaths and stops of each are tried, drawn by `chance`. Two calls of a state that is
    among `to_the_end` may leave more than one; the run then goes on to its end, and nothing may be left over.
    """

    def __init__(
        self,
        world: ExploredWorld,
        wanted: Callable[[str, str], bool],
        chance: random.Random,
        few: int | None = None,
        to_the_end: Collection[str] = (),
        known: set[tuple[Any, ...]] | None = None,
    ) -> None:
        self.explored = Explored()
        self.world = world
        self.chance = chance
        self.few = few
        self.to_the_end = to_the_end
        self._wanted = wanted
        self._known = set() if known is None else known
        self._at_work = True

    def beside(self, invocation: Invocation) -> Interference | None:
        """Asked at every invocation, before it begins."""
        name = invocation.state or invocation.function
        if self._at_work and self._wanted(name, invocation.function):
            with suppress(GoesOn):
                _Step(self, invocation, name).explore()
        return None

    def is_new(self, *what: Any) -> bool:
        """Tells whether it was not explored before."""
        if what in self._known:
            return False
        self._known.add(what)
        return True

    def ends(self) -> None:
        """In a child that goes on: nothing is explored there."""
        self._at_work = False

    def some(self, of: Sequence[Any]) -> Sequence[Any]:
        """All, or a few."""
        return of if self.few is None else self.chance.sample(of, min(self.few, len(of)))


class _Step:
    def __init__(self, explorer: StepExplorer, invocation: Invocation, name: str) -> None:
        self._explorer = explorer
        self._explored = explorer.explored
        self._world = explorer.world
        self._invocation = invocation
        self._name = name
        self._root = (
            None if invocation.execution is None else self._world.workflows.root(invocation.execution)
        )
        self._wanted: Trial

    def explore(self) -> None:
        outcomes, made = in_child(lambda: run([self._call], _ALONE))
        writes = [place for place, one in enumerate(made) if one.access.changes]
        called = frozenset(one.access.kind for one in made if one.access.changes)
        if writes:
            self._explored.steps[self._name] += 1
        if not writes or not self._explorer.is_new(self._invocation.function, called, outcomes[0].error):
            return
        twice = [self._call, self._call]
        self._wanted = in_child(lambda: self._trial(twice, _IN_TURN))
        self._judge(self._wanted, "one after the other", {"", outcomes[0].error})
        if self._name in self._explorer.to_the_end:
            self._to_the_end(len(made))
            return
        self._side_by_side(twice, len(made))
        for call in self._explorer.some(writes):
            for kind in KINDS:
                fault = Fault(call, kind)
                self._judge(in_child(lambda: self._trial([self._call], _ALONE, fault)), f"{kind} {call}")  # noqa: B023
            self._explored.deaths += 1
        if self._root is not None:
            self._beside_others(len(made))
            for call in self._explorer.some(writes):
                self._stopped(_IN_TURN, Fault(call, "dies"))
                late = self._explorer.chance.randrange(1, CALLS_AFTER_A_STOP)
                for until in self._explorer.some((None, late)):
                    self._stopped(turns_of(0, call, until))

    def _side_by_side(self, bodies: Bodies, calls: int) -> None:
        def one(turns: Turns) -> list[Made]:
            trial = in_child(lambda: self._trial(bodies, turns))
            self._judge(trial, ("" if bodies[0] == bodies[1] else "beside others ") + described(turns))
            return list(trial.made)

        few, chance = self._explorer.few, self._explorer.chance
        if few is None:
            self._explored.orders += explore(one, bodies[0] == bodies[1])
            return
        for turns in drawn(calls, few, chance, chance.choice((0, 1))):
            one(turns)
            self._explored.orders += 1

    def _beside_others(self, calls: int) -> None:
        """The sweep looks, and an event tells of an end that did not come: neither may touch a run that is at work."""
        bodies = [self._call, self._others]
        self._wanted = in_child(lambda: self._trial(bodies, _IN_TURN))
        self._judge(self._wanted, "before others", {*(one.error for one in self._wanted.outcomes[:1]), ""})
        self._side_by_side(bodies, calls)

    def _others(self) -> None:
        body, root = self._world.functions.body, self._root
        assert root is not None
        if root.workflow in ROLLED_BACK and root.running:
            event = {**self._world.workflows.detail(root), "status": "ABORTED"}
            with suppress(NothingToUndo, NotYet, Retryable):
                found = body("identify_stopped_run")({**event, "step": "IdentifyStoppedRun"})
                raise AssertionError(f"a run at work was taken for a stopped one: {found}")
        body("sweep_orphans")({"cluster": json.loads(root.input).get("cluster", "orders")})

    def _to_the_end(self, calls: int) -> None:
        # A whole run each: some of them.
        few = min(self._explorer.few or RUNS_TO_THE_END, RUNS_TO_THE_END)
        for turns in drawn(calls, few, self._explorer.chance):
            goes_on = lambda answer: self._goes_on(turns, answer)  # noqa: B023, E731
            status, left = in_child_that_goes_on(goes_on)
            for text in (*left, *([] if status == "SUCCEEDED" else [f"the run {status}"])):
                self._found("double", f"{described(turns)} and on", text)
            self._explored.orders += 1

    def _stopped(self, turns: Turns, fault: Fault | None = None) -> None:
        """The execution is stopped while its step is at work, or dies and nobody hears of the stop."""
        self._explored.stops += 1
        how = described(turns) if fault is None else f"dies {fault.call}"
        for text in in_child_that_goes_on(lambda answer: self._stops(turns, fault, answer)):
            self._found("unrepaired", f"{how}, stopped", text)

    def _trial(self, bodies: Bodies, turns: Turns, fault: Fault | None = None) -> Trial:
        """In a child: the calls, and the same step again until it has nothing more to wait for."""
        outcomes, made = run(bodies, turns, fault)
        last = outcomes[0]
        # One look of a schedule does one step of what is left over: all of them bring it to its end.
        for _ in range(TRIES):
            self._world.time.seconds += PAUSE_SECONDS if self._root else LOOK_SECONDS
            last = outcome_of(self._call)
            if not is_tried_again(last.error) and (self._root or not left_over(self._world)):
                break
        state = state_now() if self._root else tuple(plain(one) for one in left_over(self._world))
        return Trial(tuple(outcomes), tuple(made), last, state)

    def _call(self) -> Any:
        handle = self._world.functions.body(self._invocation.function)
        return json.loads(json.dumps(handle(json.loads(json.dumps(self._invocation.payload)))))

    def _goes_on(self, turns: Turns, answer: Answer) -> None:
        """In a child: the calls; the workflow hears the last answer and goes on, and the sweep looks after its end."""
        outcomes, _ = run([self._call, self._call], turns)
        world, root = self._world, self._root
        self._explorer.ends()
        assert root is not None

        def heard(ended: Execution) -> None:
            if ended is root:
                world.time.after(0.1, lambda: answer_of(lambda: (root.status, self._swept()), answer))

        world.workflows.on_end.append(heard)
        self._instead(lambda: _as_it_ended(outcomes[turns[-1].strand]))

    def _stops(self, turns: Turns, fault: Fault | None, answer: Answer) -> None:
        """In a child: the step is at work while its execution is stopped, for as long as a function can run."""
        world, root = self._world, self._root
        self._explorer.ends()
        world.deliveries = lambda _: () if fault else (0.0, 20.0)
        assert root is not None

        def killed() -> Any:
            raise Killed("Sandbox.Timedout")

        def stop() -> None:
            world.stop(root)
            world.time.run(world.time.seconds + self._invocation.limit_seconds)

        def at_once() -> list[str]:
            run([self._call, stop], turns, fault)
            return self._swept()

        self._instead(killed)
        world.time.after(0.1, lambda: answer_of(at_once, answer))

    def _swept(self) -> list[str]:
        """What is left over when the sweep has looked for long enough."""
        world = self._world
        until = world.time.seconds + SWEPT_WITHIN_SECONDS
        while (left := left_over(world)) and world.time.seconds < until:
            world.time.run(world.time.seconds + LOOK_SECONDS)
        return left

    def _instead(self, ended: Callable[[], Any]) -> None:
        """This invocation ends so; later ones are made."""
        functions = self._world.functions
        body = functions.body

        def once(_: str) -> Any:
            functions.body = body
            return lambda _: ended()

        functions.body = once

    def _judge(self, trial: Trial, how: str, may_end: Collection[str] = ()) -> None:
        wanted = self._wanted
        allowed = may_end or {"", "Died", *(one.error for one in (*wanted.outcomes, wanted.last))}
        if self._invocation.payload.get("fence"):
            # Of two that fence, the first is fenced by the other.
            allowed = {*allowed, "LeaseLost"}
        for outcome in (*trial.outcomes, *([trial.last] if may_end else [])):
            if outcome.error not in allowed and not is_tried_again(outcome.error):
                self._found("refusal", how, f"{outcome.error}: {outcome.text}")
        if trial.last.error != wanted.last.error:
            self._found("refusal", how, f"in the end {trial.last.error}: {trial.last.text}")
        for text in difference(wanted.state, trial.state):
            self._found("double" if text.startswith("too much: there is") else "row", how, text)

    def _found(self, kind: str, how: str, text: str) -> None:
        self._explored.findings.append(Finding(kind, self._name, how, text))


def is_tried_again(error: str) -> bool:
    """Tells whether the workflows call again after this error."""
    kind = getattr(contract_errors, error, None) if error else None
    return kind is not None and issubclass(kind, (NotYet, Retryable))


def _as_it_ended(outcome: Outcome) -> Any:
    if outcome.error:
        raise getattr(contract_errors, outcome.error, RuntimeError)(outcome.text)
    return outcome.value
