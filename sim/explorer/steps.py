"""Each step of the workflows where a scenario comes to it: twice at once, dead after each write, its answers lost.

Whatever the order, the account must come to the state to which two calls one after the other bring it, and neither call
may be refused. Where nobody calls again after a death, the sweep alone must bring everything to its end.
"""

from __future__ import annotations

import json
import random
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import peaker_contract.errors as contract_errors
from peaker_contract.errors import NotYet, Retryable
from sim.explorer.audit import left_over
from sim.explorer.orders import Turns, described, drawn, explore
from sim.explorer.states import State, difference, plain, state_now
from sim.explorer.strands import (
    Fault,
    GoesOn,
    Made,
    Outcome,
    Turn,
    in_child,
    in_child_that_goes_on,
    outcome_of,
    run,
)
from sim.explorer.world import ExploredWorld
from sim.workflows.executions import Execution
from sim.workflows.functions import Interference, Invocation, Killed

TRIES = 9
# More than any grace after a lost answer; a schedule of the sweep; until the sweep has undone a whole run.
PAUSE_SECONDS = 100.0
RUNS_TO_THE_END = 20
# A killed look's lease ends after five minutes.
LOOK_SECONDS = 400.0
SWEPT_WITHIN_SECONDS = 2400.0
_ALONE: Turns = (Turn(0),)
_ONE_AFTER_THE_OTHER: Turns = (Turn(0), Turn(1))


@dataclass(frozen=True)
class Finding:
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
    same: int = 0
    deaths: int = 0
    lost_answers: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Explored) -> None:
        self.steps.update(other.steps)
        self.orders += other.orders
        self.same += other.same
        self.deaths += other.deaths
        self.lost_answers += other.lost_answers
        self.findings += other.findings


@dataclass(frozen=True)
class Trial:
    """How the calls ended, all that they called, how the last of the calls after them ended, and the state then."""

    outcomes: tuple[Outcome, ...]
    made: tuple[Made, ...]
    last: Outcome
    state: State


class StepExplorer:
    """Explores the steps of a world while its scenario runs, each with each set of calls that it makes once.

    With `chance` only `few` orders, deaths and lost answers of each are tried. Of the states `to_the_end` two calls may
    leave more than one; then the run goes on to its end, and the sweep after it, and nothing may be left over.
    """

    def __init__(
        self,
        world: ExploredWorld,
        wanted: Callable[[str], bool] = lambda _: True,
        chance: random.Random | None = None,
        few: int = 20,
        to_the_end: Collection[str] = (),
        known: set[tuple[Any, ...]] | None = None,
    ) -> None:
        self.explored = Explored()
        self._world = world
        self._wanted = wanted
        self.chance = chance
        self.few = few
        self.to_the_end = to_the_end
        self._known = set() if known is None else known
        self._at_work = True

    def beside(self, invocation: Invocation) -> Interference | None:
        """Asked at every invocation, before it begins."""
        name = invocation.state or invocation.function
        if self._at_work and self._wanted(name):
            with suppress(GoesOn):
                _Step(self, self._world, invocation, name).explore()
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

    def some(self, of: Sequence[Any]) -> list[Any]:
        """All, or a few."""
        if self.chance is None or len(of) <= self.few:
            return list(of)
        return self.chance.sample(list(of), self.few)

    def orders(self, run: Callable[[Turns], list[Made]], calls: int) -> Iterator[tuple[Turns, bool]]:
        if self.chance is None:
            yield from explore(run, 0)
            return
        for turns in drawn(0, calls, self.few, self.chance):
            run(turns)
            yield turns, True


class _Step:
    def __init__(
        self, explorer: StepExplorer, world: ExploredWorld, invocation: Invocation, name: str
    ) -> None:
        self._explorer = explorer
        self._world = world
        self._invocation = invocation
        self._name = name
        self._wanted: Trial

    def explore(self) -> None:
        outcomes, made = in_child(lambda: run([self._call], _ALONE))
        writes = [place for place, one in enumerate(made) if one.access.changes]
        called = tuple(one.access.operation for one in made if one.access.changes)
        if not writes or not self._explorer.is_new(self._name, called, outcomes[0].error):
            return
        explored = self._explorer.explored
        explored.steps[self._name] += 1
        self._wanted = in_child(lambda: self._trial(_ONE_AFTER_THE_OTHER, both=True))
        self._judge(self._wanted, "one after the other", {"", outcomes[0].error})
        if self._name in self._explorer.to_the_end:
            self._to_the_end(len(made))
            return
        self._side_by_side(len(made))
        for call in self._explorer.some(writes):
            self._dies(call)
            for kind in ("loses", "sends again"):
                explored.lost_answers += 1
                self._judge(in_child(lambda: self._trial(_ALONE, Fault(call, kind))), f"{kind} {call}")  # noqa: B023

    def _side_by_side(self, calls: int) -> None:
        def one(turns: Turns) -> list[Made]:
            trial = in_child(lambda: self._trial(turns, both=True))
            self._judge(trial, described(turns))
            return list(trial.made)

        for _, ran in self._explorer.orders(one, calls):
            self._explorer.explored.orders += 1
            self._explorer.explored.same += not ran

    def _to_the_end(self, calls: int) -> None:
        def one(turns: Turns) -> None:
            _, status, left = in_child_that_goes_on(lambda answer: self._goes_on(turns, answer))
            for text in (*left, *([] if status == "SUCCEEDED" else [f"the run {status}"])):
                self._found("double", f"{described(turns)} and on", text)

        # A whole run each: some of them.
        chance, few = self._explorer.chance or random.Random(calls), min(self._explorer.few, RUNS_TO_THE_END)
        for turns in drawn(0, calls, few, chance):
            one(turns)
            self._explorer.explored.orders += 1

    def _dies(self, call: int) -> None:
        self._explorer.explored.deaths += 1
        self._judge(in_child(lambda: self._trial(_ALONE, Fault(call, "dies"))), f"dies {call}")
        if self._invocation.execution is not None:
            for text in in_child_that_goes_on(lambda answer: self._swept(call, answer)):
                self._found("unrepaired", f"dies {call} for good", text)

    def _trial(self, turns: Turns, fault: Fault | None = None, *, both: bool = False) -> Trial:
        """In a child: the calls, and the same step again until it has nothing more to wait for."""
        outcomes, made = run([self._call] * (2 if both else 1), turns, fault)
        last = outcomes[0]
        for _ in range(TRIES):
            self._world.time.seconds += LOOK_SECONDS if self._is_scheduled else PAUSE_SECONDS
            last = outcome_of(self._call)
            if not is_tried_again(last.error) and not self._is_scheduled:
                break
        # One look of a schedule does one step of what is left over: all of them bring it to its end.
        left = (plain(one) for one in left_over(self._world))
        state = tuple(left) if self._is_scheduled else state_now()
        return Trial(tuple(outcomes), tuple(made), last, state)

    @property
    def _is_scheduled(self) -> bool:
        return self._invocation.execution is None

    def _call(self) -> Any:
        handle = self._world.functions.body(self._invocation.function)
        return json.loads(json.dumps(handle(json.loads(json.dumps(self._invocation.payload)))))

    def _goes_on(self, turns: Turns, answer: Callable[[bool, Any], None]) -> None:
        """In a child: the calls; the workflow hears the last answer and goes on, and the sweep looks after its end."""
        outcomes, made = run([self._call, self._call], turns)
        world = self._world
        self._explorer.ends()
        execution = self._invocation.execution
        assert execution is not None
        root = world.workflows.root(execution)

        def look() -> None:
            world.time.run(world.time.seconds + SWEPT_WITHIN_SECONDS)
            answer(True, (len(made), root.status, left_over(world)))

        def heard(ended: Execution) -> None:
            if ended is root:
                world.time.after(0.1, look)

        world.workflows.on_end.append(heard)
        self._instead(lambda: _as_it_ended(outcomes[turns[-1].strand]))

    def _swept(self, call: int, answer: Callable[[bool, Any], None]) -> None:
        """In a child: the step dies, its execution is stopped, nobody hears of it, and the sweep looks."""
        run([self._call], _ALONE, Fault(call, "dies"))
        world = self._world
        self._explorer.ends()
        world.deliveries = lambda _: ()
        assert self._invocation.execution is not None
        root = world.workflows.root(self._invocation.execution)

        def killed() -> Any:
            raise Killed("Sandbox.Timedout")

        def stop_and_look() -> None:
            try:
                world.stop(root)
                world.time.run(world.time.seconds + SWEPT_WITHIN_SECONDS)
                found: tuple[bool, Any] = (True, left_over(world))
            except BaseException:
                found = (False, traceback.format_exc())
            answer(*found)

        self._instead(killed)
        world.time.after(0.1, stop_and_look)

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
        self._explorer.explored.findings.append(Finding(kind, self._name, how, text))


def is_tried_again(error: str) -> bool:
    """Tells whether the workflows call again after this error."""
    kind = getattr(contract_errors, error, None) if error else None
    return kind is not None and issubclass(kind, (NotYet, Retryable))


def _as_it_ended(outcome: Outcome) -> Any:
    if outcome.error:
        raise getattr(contract_errors, outcome.error, RuntimeError)(outcome.text)
    return outcome.value
