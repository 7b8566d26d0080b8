"""Random plans over two clusters, until nothing is left to happen; then the audit, an hour after the last run.

A plan is a list of events, each of its own: without one of them the others mean the same. A plan that fails is made
shorter, event by event, for as long as it still fails.

    python -m bench.faults --only soak    1,000 plans; figures in build/bench/faults.json
    python -m bench.faults --seed 17      one plan again, shortened if it fails, with what was found
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bench import figures
from bench.faults.audit import Bounds, Finding, audit, of_cluster
from bench.faults.happenings import Happening
from bench.faults.plans import CLUSTERS, DISTURBED_SECONDS, Event, plan
from bench.faults.processes import each
from peaker_contract.metrics import Metric
from sim.world import World, by_name, settings

PLANS = 1000
# The slowest look, at the kept snapshots, comes once an hour.
TWO_HOURLY_LOOKS = 2 * 3600.0
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
        if (passed >= 3 * LOOKED_AT and not findings) or passed >= TWO_HOURLY_LOOKS:
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


def soak(seeds: Sequence[int]) -> figures.Figures:
    """The figures of these plans; every plan that fails is told with its seed."""
    kinds, failed, longest = Counter[str](), list[int](), 0.0
    for outcome in each(run_seed, seeds, "plans"):
        longest = max(longest, outcome.free_seconds)
        if outcome.findings:
            failed.append(outcome.seed)
            kinds.update({one.kind for one in outcome.findings})
            first = outcome.findings[0]
            print(f"\rseed {outcome.seed}: {first.kind}: {first.text}", flush=True)
    print(f"failed: {sorted(failed)}; {dict(kinds)}")
    return {
        "soak: plans": figures.at_least(len(seeds), PLANS),
        "soak: kinds of invariants broken": figures.exactly(len(kinds), 0),
        "soak: plans after which a cluster was not back to normal": figures.exactly(len(failed), 0),
        "soak: longest minutes from a stop to a free lease": figures.at_most(longest / 60, 15),
    }
