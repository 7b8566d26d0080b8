"""Random plans over two clusters, until nothing is left to happen; then the audit, an hour later.

A plan is a list of events, each of its own: without one of them the others mean the same. A plan that fails is made
shorter, event by event, for as long as it still fails.

    python -m bench.faults.soak                      1,000 plans; figures in build/bench/faults.json
    python -m bench.faults.soak --seed 17            one plan again, shortened if it fails, with what was found
    make soak, make soak SEED=17                     the same
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

from bench.faults import figures
from bench.faults.audit import Bounds, Finding, audit
from bench.faults.workflows.functions import Interference, Invocation
from bench.faults.workflows.interferences import (
    DiesAfter,
    DiesAtTheEnd,
    DiesBefore,
    LandsLate,
    LosesAnswer,
    Raises,
)
from bench.faults.world.world import World, by_name, settings
from peaker_contract.errors import AwsCallRejected, AwsUnavailable, Throttled
from peaker_contract.tags import CLUSTER_TAG, OWNER_TAG

CLUSTERS = ("orders", "carts")
PLANS = 1000
DISTURBED_SECONDS = 3 * 3600
AN_HOUR = 3600.0
LOOKED_AT = 300.0
LONGEST_RUN = 8 * 3600.0
WORK = ("scale_out", "scale_out", "scale_in", "automatic_out", "automatic_in")
FAULTS = (
    "throttled",
    "unavailable",
    "refused",
    "lost",
    "crash",
    "crash_after",
    "crash_at_end",
    "late",
    "late_unheard",
)
OTHERS = ("stop", "stop", "stop_undo", "lost_event", "double_event", "terminate", "deregister", "deploy")


@dataclass(frozen=True)
class Event:
    """What happens in a cluster from the second `at` on; `number` says which call, which instance, which way."""

    at: int
    what: str
    cluster: str
    number: int

    def __str__(self) -> str:
        return f"{self.at:6d} s  {self.cluster:7} {self.what} {self.number}"


@dataclass(frozen=True)
class Outcome:
    """`free_seconds` is the longest time from a stop until that run had no lease."""

    seed: int
    events: tuple[Event, ...]
    findings: tuple[Finding, ...]
    free_seconds: float


def plan(seed: int) -> tuple[Event, ...]:
    """Some work in each cluster, and as many things that go wrong."""
    chance = random.Random(seed)
    kinds = [
        *(chance.choice(WORK) for _ in range(chance.randint(3, 6))),
        *(chance.choice((*FAULTS, *OTHERS)) for _ in range(chance.randint(1, 6))),
    ]
    events = [
        Event(chance.randrange(60, DISTURBED_SECONDS), kind, chance.choice(CLUSTERS), chance.randrange(1000))
        for kind in kinds
    ]
    return tuple(sorted(events, key=lambda one: one.at))


def run(seed: int, events: Sequence[Event]) -> Outcome:
    """The same events with the same seed end alike."""
    park = "always" if seed % 2 else "never"
    retirement = {"idle_seconds": 60, "park": park}
    world = World(
        seed,
        settings("orders", retirement=retirement),
        settings("carts", read_endpoint=by_name("carts"), retirement=retirement),
    )
    try:
        return _run(world, seed, tuple(events))
    finally:
        world.close()


def _run(world: World, seed: int, events: tuple[Event, ...]) -> Outcome:
    happening = _Happening(world)
    for one in events:
        world.time.after(one.at, partial(happening.happens, one))
    world.run_for(DISTURBED_SECONDS)
    at_work = [one for one in world.workflows.executions if one.running and one.workflow != "roll_back"]
    for execution in at_work:
        world.finish(execution, LONGEST_RUN)
    passed = 0.0
    while True:
        world.run_for(LOOKED_AT)
        passed += LOOKED_AT
        findings = _findings(world)
        if (passed >= 3 * LOOKED_AT and not findings) or passed >= AN_HOUR:
            return Outcome(seed, events, tuple(findings), happening.longest_until_free())


def _findings(world: World) -> list[Finding]:
    found: list[Finding] = []
    for name in CLUSTERS:
        rules = world.clusters.settings(name)
        bounds = Bounds(name, rules.min_replicas, rules.max_replicas)
        found += [Finding(one.kind, f"{name}: {one.text}") for one in _of_one_cluster(world, bounds)]
    found += [Finding("lease", f"{one.name} still runs") for one in world.workflows.executions if one.running]
    return list(dict.fromkeys(found))


def _of_one_cluster(world: World, bounds: Bounds) -> list[Finding]:
    """The auditor looks at an account that holds this cluster alone."""
    account = copy(world.account)
    mine = {key for key, one in account.instances.items() if one["tags"].get(CLUSTER_TAG) == bounds.cluster}
    account.instances = {key: one for key, one in account.instances.items() if key in mine}
    account.volumes = {
        key: one
        for key, one in account.volumes.items()
        if one["tags"].get(CLUSTER_TAG, bounds.cluster) == bounds.cluster
    }
    account.snapshots = {
        key: one
        for key, one in account.snapshots.items()
        if one["tags"].get(CLUSTER_TAG, bounds.cluster) == bounds.cluster
    }
    account.targets = {key: one for key, one in account.targets.items() if key == bounds.cluster}
    account.past_targets = [one for one in account.past_targets if one["instance"] in mine]
    account.table = {
        key: rows
        for key, rows in account.table.items()
        if key == f"cluster#{bounds.cluster}" or rows.get("run", {}).get("cluster") == bounds.cluster
    }
    return audit(account, world.time.seconds, bounds, [])


class _Happening:
    """The events of a plan, as they come about."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._due: dict[str, list[Event]] = {name: [] for name in CLUSTERS}
        self._deliveries: list[Event] = []
        self._stopped: list[tuple[float, str, str]] = []
        world.functions.interfere = self._interfere
        world.deliveries = lambda _: self._delivered()

    def happens(self, event: Event) -> None:
        if event.what in FAULTS:
            self._due[event.cluster].append(event)
        elif event.what in ("lost_event", "double_event"):
            self._deliveries.append(event)
        else:
            getattr(self, f"_{event.what}")(event)

    def longest_until_free(self) -> float:
        """From each stop until the lease of that cluster was first another's or nobody's."""
        return max((self._until_free(*one) for one in self._stopped), default=0.0)

    def _until_free(self, at: float, cluster: str, holder: str) -> float:
        later = [
            one for one in self._world.account.leases if one["pk"] == f"cluster#{cluster}" and one["at"] > at
        ]
        freed = next((one["at"] for one in later if one["run_id"] != holder), None)
        return 0.0 if holder == "-" else (self._world.time.seconds if freed is None else freed) - at

    def _scale_out(self, event: Event) -> None:
        self._world.load(250, 3, cluster=event.cluster)
        self._world.start("scale_out", event.cluster)

    def _scale_in(self, event: Event) -> None:
        self._world.load(10, 1, 1, cluster=event.cluster)
        self._world.start("scale_in", event.cluster)

    def _automatic_out(self, event: Event) -> None:
        self._world.load(250, 3, cluster=event.cluster)
        self._world.start("scale_out", event.cluster, trigger={"kind": "schedule"})

    def _automatic_in(self, event: Event) -> None:
        self._world.load(10, 1, 1, cluster=event.cluster)
        self._world.start("scale_in", event.cluster, trigger={"kind": "schedule"})

    def _stop(self, event: Event) -> None:
        self._stop_one(event, ("scale_out", "scale_in"))

    def _stop_undo(self, event: Event) -> None:
        self._stop_one(event, ("roll_back",))

    def _stop_one(self, event: Event, workflows: tuple[str, ...]) -> None:
        running = [
            one for one in self._world.workflows.executions if one.running and one.workflow in workflows
        ]
        mine = [one for one in running if event.cluster in one.input]
        if not mine:
            return
        lease = self._world.account.table.get(f"cluster#{event.cluster}", {}).get("lease", {})
        self._stopped.append((self._world.time.seconds, event.cluster, str(lease.get("run_id", "-"))))
        self._world.stop(mine[event.number % len(mine)])

    def _terminate(self, event: Event) -> None:
        mine = self._peak(event.cluster)
        if mine:
            self._world.compute.terminate(mine[event.number % len(mine)])

    def _deregister(self, event: Event) -> None:
        mine = self._peak(event.cluster)
        if mine:
            rules = self._world.clusters.settings(event.cluster)
            self._world.endpoint.deregister(rules, mine[event.number % len(mine)])

    def _deploy(self, event: Event) -> None:
        rules = self._world.clusters.by_name[event.cluster]
        seconds = 60 + event.number % 120
        ramp = rules.ramp.model_copy(update={"step_seconds": seconds})
        self._world.clusters.by_name[event.cluster] = rules.model_copy(update={"ramp": ramp})

    def _peak(self, cluster: str) -> list[str]:
        return sorted(
            key
            for key, one in self._world.account.instances.items()
            if OWNER_TAG in one["tags"] and one["tags"][CLUSTER_TAG] == cluster
        )

    def _delivered(self) -> tuple[float, ...]:
        seconds = self._world.random.uniform(0.5, 8)
        if not self._deliveries:
            return (seconds,)
        event = self._deliveries.pop(0)
        return () if event.what == "lost_event" else (seconds, seconds + event.number % 300)

    def _interfere(self, invocation: Invocation) -> Interference | None:
        due = self._due.get(str(invocation.payload.get("cluster")), [])
        return self._fault(due.pop(0)) if due else None

    def _fault(self, event: Event) -> Interference:
        call, text = event.number % 6, "on purpose"
        match event.what:
            case "throttled":
                return Raises(at=call, error=Throttled(text))
            case "unavailable":
                return Raises(at=call, error=AwsUnavailable(text))
            case "refused":
                return Raises(at=call, error=AwsCallRejected(text))
            case "lost":
                return LosesAnswer(at=call, error=AwsUnavailable(text))
            case "crash":
                return DiesBefore(at=call)
            case "crash_after":
                return DiesAfter(at=call)
            case "crash_at_end":
                return DiesAtTheEnd()
            case _:
                unheard = "Lambda.SdkClientException" if event.what == "late_unheard" else None
                late = 5.0 + event.number % 50
                return LandsLate(at=call, functions=self._world.functions, seconds=late, error=unheard)


def shortened(outcome: Outcome) -> Outcome:
    """Without every event that the failure does not need."""
    index = 0
    while index < len(outcome.events):
        fewer = (*outcome.events[:index], *outcome.events[index + 1 :])
        shorter = run(outcome.seed, fewer)
        if shorter.findings:
            outcome = shorter
        else:
            index += 1
    return outcome


def run_seed(seed: int) -> Outcome:
    """The plan of this seed."""
    return run(seed, plan(seed))


def run_seeds(seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """In the order in which they end."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=4)


def main(argv: Sequence[str]) -> int:
    """Run, print, write the figures; 1 when a plan fails."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.faults.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, help="this plan alone")
    parser.add_argument("--plans", type=int, default=PLANS, help=f"how many (default {PLANS})")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    given = parser.parse_args(argv)
    if given.seed is not None:
        return _replay(given.seed)
    told = figures.written(soak(range(given.first, given.first + given.plans)))
    figures.shown({name: one for name, one in told.items() if name.startswith("soak")})
    return 0 if all(one["holds"] for name, one in told.items() if name.startswith("soak")) else 1


def _replay(seed: int) -> int:
    outcome = run_seed(seed)
    if outcome.findings:
        print(f"seed {seed} fails; without what the failure does not need:", flush=True)
        outcome = shortened(outcome)
    for event in outcome.events:
        print(event)
    for finding in outcome.findings:
        print(f"{finding.kind}: {finding.text}")
    return 1 if outcome.findings else 0


def soak(seeds: Sequence[int]) -> figures.Figures:
    """The figures of these plans; every plan that fails is told with its seed."""
    began, kinds, failed, longest = time.monotonic(), Counter[str](), list[int](), 0.0
    told = began
    for done, outcome in enumerate(run_seeds(seeds, processes=os.cpu_count() or 1), start=1):
        longest = max(longest, outcome.free_seconds)
        if outcome.findings:
            failed.append(outcome.seed)
            kinds.update({one.kind for one in outcome.findings})
            first = outcome.findings[0]
            print(f"\rseed {outcome.seed}: {first.kind}: {first.text}", flush=True)
        if time.monotonic() - told > 2:
            told = time.monotonic()
            print(f"\r{done} of {len(seeds)} plans, {told - began:.0f} s", end="", flush=True)
    print(
        f"\r{len(seeds)} plans in {time.monotonic() - began:.0f} s; failed: {sorted(failed)}; {dict(kinds)}"
    )
    return {
        "soak: plans": figures.at_least(len(seeds), PLANS),
        "soak: kinds of invariants broken": figures.exactly(len(kinds), 0),
        "soak: plans after which a cluster was not back to normal": figures.exactly(len(failed), 0),
        "soak: longest minutes from a stop to a free lease": figures.at_most(longest / 60, 15),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
