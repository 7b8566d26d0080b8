"""A service of AWS is away from the moment at which a run enters a state, for as long as such a cause lasts.

Measured against the same run without it: does it end as well, and is a replica lost that was warm?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bench.faults.audit import Finding
from bench.faults.cells import SEED
from bench.faults.happenings import SERVICES
from bench.faults.matrix import findings_after
from bench.faults.processes import each
from bench.faults.situations import SITUATIONS
from bench.figures import Figure, Figures, at_least, exactly
from peaker_contract.errors import AwsUnavailable, Throttled
from sim.workflows.functions import Interference
from sim.workflows.interferences import DiesBefore, Down
from sim.workflows.walker import Walk

State = tuple[str, str]
MINUTE = 60.0
# Three tries of a call that nobody answers (adapters/aws_clients.py).
NO_ANSWER_SECONDS = 46.0
HOWS: Mapping[str, tuple[Exception | None, float]] = {
    "throttled": (Throttled("on purpose"), 0.0),
    "unavailable": (AwsUnavailable("on purpose"), 0.0),
    "silent": (AwsUnavailable("on purpose"), NO_ANSWER_SECONDS),
    "slow": (None, 31.0),
}
LAMBDA = "Lambda"
BUILDS = ("build", "return")


@dataclass(frozen=True)
class Outage:
    """Of one service, from the first entry into this state on."""

    situation: str
    state: State
    service: str
    how: str = "throttled"
    minutes: float = 20.0

    def interference(self) -> Interference:
        """What it does to each function."""
        if self.service == LAMBDA:
            return DiesBefore(at=0, always=True, error="Lambda.TooManyRequestsException")
        return Down(SERVICES[self.service], *HOWS[self.how])


@dataclass(frozen=True)
class Ended:
    """How a run ended. `warm` counts replicas in service or parked, `entered` are the states in their order."""

    outage: Outage
    end: tuple[str, str]
    warm: int
    findings: tuple[Finding, ...]
    entered: tuple[State, ...]


@cache
def undisturbed(situation: str) -> Ended:
    """The run without an outage."""
    return run(Outage(situation, ("", ""), LAMBDA))


def run(outage: Outage) -> Ended:
    """The run goes on through its outage, and what is left within an hour after it."""
    situation, until = SITUATIONS[outage.situation], 0.0
    world = situation.world(SEED)
    workflows, entered, interference = world.workflows, dict[State, None](), outage.interference()

    def on_enter(walk: Walk, name: str) -> None:
        nonlocal until
        state = (workflows.of(walk).workflow, name)
        if state == outage.state and state not in entered:
            until = world.time.seconds + outage.minutes * MINUTE
            excuse()
            if outage.service == "Step Functions":
                workflows.starts_throttled_until = until
        entered.setdefault(state)
        if of_situation is not None:
            of_situation(walk, name)

    def excuse() -> None:
        """Nobody can give a lease back before the service is there again."""
        world.stops[:] = [max(at, until) for at in world.stops]

    execution = situation.begin(world, lambda _: interference if world.time.seconds < until else None)
    of_situation, workflows.on_enter = workflows.on_enter, on_enter
    world.finish(execution)
    excuse()
    findings = findings_after(world)
    rows = [row for items in world.account.table.values() for key, row in items.items() if "replica#" in key]
    warm = sum(row.get("state") in ("in_service", "parked") for row in rows)
    world.close()
    return Ended(outage, (execution.status, execution.states[-1]), warm, findings, tuple(entered))


def states_of(situations: Sequence[str], workflows: Sequence[str] = ()) -> Iterator[tuple[str, State]]:
    """Each state with the first situation that enters it; of these workflows, or of all."""
    first: dict[State, str] = {}
    for name in situations:
        for state in undisturbed(name).entered:
            if not workflows or state[0] in workflows:
                first.setdefault(state, name)
    return ((name, state) for state, name in first.items())


def outages() -> Figures:
    """Of Lambda at each state of all workflows; of each service at each state of a build."""
    builds = list(states_of(BUILDS, ("add_replica", "prewarm")))
    throttled = _all([Outage(*one, LAMBDA, minutes=10.0) for one in states_of(list(SITUATIONS))])
    ledger = _all([Outage(*one, "DynamoDB", how) for one in builds for how in HOWS])
    others = [name for name in SERVICES if name != "DynamoDB"]
    away = _all([Outage(*one, service, how) for one in builds for service in others for how in HOWS])
    hour = _all([Outage(*one, name, minutes=60.0) for one in builds for name in (LAMBDA, *SERVICES)])
    at, lost = "from each state of a build", "runs that lose a finished prewarm"
    return {
        f"Lambda throttled for 10 min at each state: {lost}": exactly(throttled.lost, 0),
        f"DynamoDB away for 20 min {at}: builds that go on": ledger.most_go_on(),
        f"another service away for 20 min {at}: builds that go on": away.most_go_on(),
        f"any service throttled for an hour {at}: {lost}": exactly(hour.lost, 0),
        "outages after which something is left or broken": exactly(
            sum(one.broken for one in (throttled, ledger, away, hour)), 0
        ),
    }


@dataclass
class _Count:
    """Of so many runs: those that end as without an outage, that have fewer warm replicas, that leave something."""

    runs: int
    go_on: int = 0
    lost: int = 0
    broken: int = 0

    def most_go_on(self) -> Figure:
        """27 of 29 states, each with several kinds of outages."""
        return at_least(self.go_on, round(self.runs * 27 / 29))


def _all(chosen: Sequence[Outage]) -> _Count:
    count = _Count(len(chosen))
    for ended in each(run, chosen, "outages"):
        without = undisturbed(ended.outage.situation)
        count.go_on += ended.end == without.end
        count.lost += ended.warm < without.warm
        count.broken += bool(ended.findings)
        if ended.findings or ended.end != without.end:
            print(f"\r{ended.outage}: {ended.end}, {ended.warm} warm, {[one.text for one in ended.findings]}")
    return count
