"""Random plans over two clusters, until nothing is left to happen; then the audit, an hour after the last run.

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
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench.faults import figures
from bench.faults.audit import Bounds, Finding, audit, of_cluster
from bench.faults.happenings import Happening
from bench.faults.plans import CLUSTERS, DISTURBED_SECONDS, Event, plan
from peaker_contract.metrics import Metric
from sim.world import World, by_name, settings

PLANS = 1000
AN_HOUR = 3600.0
LOOKED_AT = 300.0
LONGEST_RUN = 8 * 3600.0


@dataclass(frozen=True)
class Outcome:
    """`free_seconds` is the longest time from a stop until that run had no lease."""

    seed: int
    events: tuple[Event, ...]
    findings: tuple[Finding, ...]
    free_seconds: float


def run(seed: int, events: Sequence[Event]) -> Outcome:
    """The same events with the same seed end alike."""
    park = "always" if seed % 2 else "never"
    retirement = {"idle_seconds": 60, "park": park}
    world = World(
        seed,
        settings("orders", retirement=retirement),
        settings(
            "carts",
            read_endpoint=by_name("carts"),
            retirement=retirement,
        ),
    )
    world.readings.metrics["carts", Metric.OBSERVING] = 0.0
    world.workflows.children_outlive = True
    try:
        return _run(world, seed, tuple(events))
    finally:
        world.close()


def _run(world: World, seed: int, events: tuple[Event, ...]) -> Outcome:
    happening = Happening(world)
    for one in events:
        world.time.after(one.at, partial(happening.happens, one))
    world.run_for(DISTURBED_SECONDS)
    passed, longest = 0.0, world.time.seconds + 2 * LONGEST_RUN
    while True:
        # A run may start the next one, which holds the lease that the sweep waits for.
        at_work = [one for one in world.workflows.executions if one.running and one.workflow != "roll_back"]
        if at_work and world.time.seconds < longest:
            world.finish(at_work[0], LONGEST_RUN)
            passed = 0.0
            continue
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
        alone = of_cluster(world.account, name)
        found += [
            Finding(one.kind, f"{name}: {one.text}") for one in audit(alone, world.time.seconds, bounds, [])
        ]
    found += [Finding("lease", f"{one.name} still runs") for one in world.workflows.executions if one.running]
    return list(dict.fromkeys(found))


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
