"""The matrix: every task state of the workflows, every fault that applies to it, and what comes with the fault.

A cell's name is all that it takes to run it again: `scale_out/RegisterReplica/endpoint.register/late/stop`. A fault of
the read endpoint comes to a DNS name too, `.../stop/route53`, one of each state while another cluster is at work,
`.../stop/beside`, and what a run of several replicas passes is disturbed for one of them, `.../once/batch`.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

from peaker.usecases.run.release_lease import THEN

from bench.faults.situations import SITUATIONS, Situation, beside_another, by_dns_name
from peaker_contract.errors import AwsCallRejected, AwsUnavailable, Throttled
from sim.outside import restart_at_work
from sim.workflows.functions import Interference
from sim.workflows.interferences import (
    DiesAfter,
    DiesAtTheEnd,
    DiesBefore,
    Followed,
    LandsLate,
    LosesAnswer,
    Raises,
)
from sim.world import EFFECTS, WRITES, World, machines
from statemachines import structure

# Of one call: refused or lost on the way to AWS, or the function ends around it.
OF_A_CALL = (
    "throttled",
    "unavailable",
    "refused",
    "answer lost",
    "timed out before",
    "timed out after",
    "late",
)
# Of the function as a whole.
OF_A_FUNCTION = ("crash before", "crash in the middle", "crash after")
# For one try of the state or for all of them, or with a stop at that moment, whose event comes once, twice or never.
MODES = ("once", "for good", "stop", "duplicate", "unheard")
# In a batch: a person stops the execution that the fault came to, of one member alone.
STOP_MEMBER = "stop member"
OF_A_BATCH = ("refused", "answer lost", "late")
SEED = 20261122
DNS, BESIDE, BATCH = "route53", "beside", "batch"
BATCHES = ("batch of three", "two go")


@dataclass(frozen=True)
class Cell:
    """`call` is the port's method that the fault is for; of a fault of the function it is one in its middle.

    `variant` says what is there besides: a DNS name as the read endpoint, another cluster at work, or two more members
    of the batch.
    """

    situation: str
    workflow: str
    state: str
    call: str
    fault: str
    mode: str
    variant: str | None = None

    @property
    def name(self) -> str:
        more = () if self.variant is None else (self.variant,)
        return "/".join((self.workflow, self.state, self.call, self.fault, self.mode, *more))

    @property
    def begun(self) -> Situation:
        """What its fault comes into."""
        situation = SITUATIONS[self.situation]
        if self.variant == DNS:
            return by_dns_name(situation)
        return beside_another(situation) if self.variant == BESIDE else situation

    @property
    def seed(self) -> int:
        """Of this cell alone, so that others may come and go."""
        return SEED ^ zlib.crc32(self.name.encode())

    def interference(self, world: World) -> Interference:
        """What its fault does to the functions of its state."""
        always = self.mode == "for good"
        text = f"{self.call}: on purpose"
        match self.fault:
            case "throttled":
                return Raises(at=self.call, always=always, error=Throttled(text))
            case "unavailable":
                return Raises(at=self.call, always=always, error=AwsUnavailable(text))
            case "refused":
                return Raises(at=self.call, always=always, error=AwsCallRejected(f"{text}: AccessDenied"))
            case "answer lost":
                return LosesAnswer(at=self.call, always=always, error=AwsUnavailable(text))
            case "timed out before":
                return DiesBefore(at=self.call, always=always, error="Sandbox.Timedout")
            case "timed out after":
                return DiesAfter(at=self.call, always=always, error="Sandbox.Timedout")
            case "crash before":
                return DiesBefore(at=0, always=always)
            case "crash in the middle":
                return DiesAfter(at=self.call, always=always)
            case "crash after":
                return DiesAtTheEnd(always=always)
            case "host restarts":
                return Followed(at=self.call, always=always, hit=partial(restart_at_work, world))
            case "late":
                seconds = random.Random(self.seed).uniform(5, 58)
                alone = self.mode in ("once", "for good")
                error = "Lambda.SdkClientException" if alone else None
                return LandsLate(
                    at=self.call, always=always, functions=world.functions, seconds=seconds, error=error
                )
        raise ValueError(self.fault)


def task_states() -> set[tuple[str, str]]:
    """Workflow and state of everything that calls a function."""
    return {
        (workflow, state.name)
        for workflow, machine in machines().items()
        for state in structure.states(machine)
        if state.body["Type"] == "Task" and "FunctionName" in state.body["Arguments"]
    }


@cache
def reached() -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    """By workflow and state: the first situation that passes it, and the calls that its functions make there."""
    found: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}
    for name in SITUATIONS:
        for key, made in passed(name).items():
            found.setdefault(key, (name, made))
    return found


@cache
def passed(name: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """The states that a situation passes, and the calls that are made there."""
    situation = SITUATIONS[name]
    world = situation.world(SEED)
    begun = len(world.functions.invocations)
    execution = situation.begin(world, lambda _: None)
    world.finish(execution)
    world.run_for(3600)
    calls: dict[tuple[str, str], dict[str, None]] = {}
    for one in world.functions.invocations[begun:]:
        # What a release starts has situations of its own.
        if one.execution is not None and not one.execution.name.endswith(THEN):
            calls.setdefault((one.execution.workflow, one.state), {}).update(dict.fromkeys(one.calls))
    world.close()
    return {key: tuple(made) for key, made in calls.items()}


def cells() -> Iterator[Cell]:
    """All of them, in the order of the situations."""
    for (workflow, state), (situation, calls) in reached().items():
        for call in targets(calls):
            for variant in (None, DNS) if call.startswith("endpoint.") else (None,):
                faults = (*OF_A_CALL, *(("host restarts",) if call == "commands.send" else ()))
                for fault, mode in product(faults, MODES):
                    yield Cell(situation, workflow, state, call, fault, mode, variant)
        middle = calls[len(calls) // 2]
        for fault, mode in product(OF_A_FUNCTION, MODES):
            yield Cell(situation, workflow, state, middle, fault, mode)
        yield Cell(situation, workflow, state, middle, "crash after", "stop", BESIDE)
    yield from _cells_of_a_batch()


def _cells_of_a_batch() -> Iterator[Cell]:
    """Faults of one of several members, or of what they share; in a member's own state also its stop alone."""
    for situation in BATCHES:
        for (workflow, state), calls in passed(situation).items():
            modes = MODES if workflow == SITUATIONS[situation].workflow else (*MODES, STOP_MEMBER)
            middle = calls[len(calls) // 2]
            for call, fault, mode in (
                *product(targets(calls), OF_A_BATCH, modes),
                *product((middle,), OF_A_FUNCTION, modes),
            ):
                yield Cell(situation, workflow, state, call, fault, mode, BATCH)


def named(name: str) -> Cell:
    """Raises LookupError, naming those that are like it."""
    there = {cell.name: cell for cell in cells()}
    if name not in there:
        alike = [one for one in there if one.startswith("/".join(name.split("/")[:2]))]
        raise LookupError(f"no cell {name!r}; of this state there are: {', '.join(alike[:20]) or 'none'}")
    return there[name]


def targets(calls: tuple[str, ...]) -> list[str]:
    """The calls that faults are for: all that change AWS, else the last that writes, else the last of all."""
    effects = [one for one in calls if one in EFFECTS]
    writes = [
        one for one in calls if one in WRITES and one not in ("ledger.start_step", "ledger.finish_step")
    ]
    return effects or writes[-1:] or list(calls[-1:])
