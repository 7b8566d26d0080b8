"""The explorer's part: the situations of the matrix on the real adapters and moto, their steps explored."""

from __future__ import annotations

import os
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, cast

from bench import figures
from bench.faults.situations import SITUATIONS, Situation, by_dns_name
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.metrics import Metric
from sim.explorer.methods import explore_methods
from sim.explorer.steps import Explored, StepExplorer
from sim.explorer.world import ExploredWorld

SEED = 20261122
# After a run's end: each schedule looks twice at what is there, and a stopped run is rolled back.
AFTER_SECONDS = 7300.0
# What no situation of a run comes to; what they write is written by methods that are explored.
BESIDE_RUNS: Mapping[str, str] = {
    "validate_request": "it writes nothing",
    "identify_stopped_run": "it writes nothing",
    "check_shortage": "it writes nothing, before there is a lease",
    "check_surplus": "it writes nothing, before there is a lease",
    "check_replicas": "it sends commands that may run twice and writes metrics",
    "forecast_load": "its records are methods of DynamoForecastRecords",
    "refresh_prices": "it writes one parameter; the last call counts",
}
ROOM_COMES_AND_GOES = "a zone's room comes and goes"
_KINDS = {
    "double": "doubles",
    "row": "wrong rows",
    "refusal": "refusals of a healthy run",
    "unrepaired": "deaths and stops that no look repairs",
}


def situations() -> Iterator[tuple[str, Situation]]:
    """All, with a load balancer and with a DNS name."""
    yield ROOM_COMES_AND_GOES, Situation("scale_out", prepare=_without_room)
    observed: Mapping[str, Any] = {"observation_days": 7.0}
    yield "observed", Situation("scale_in", {"mode": "plan"}, changes=observed, prepare=_observed)
    for name, situation in SITUATIONS.items():
        yield name, situation
        yield f"{name}, DNS", by_dns_name(situation)


def explore(
    name: str,
    situation: Situation,
    wanted: Callable[[str, str], bool],
    known: set[tuple[Any, ...]] | None = None,
    few: int | None = None,
) -> Explored:
    """Run one situation and explore the steps to which it comes; with `few` a sample of each.

    `wanted` is asked with a step and its function.
    """
    flapping = name == ROOM_COMES_AND_GOES
    with ExploredWorld.opened():
        world = cast("ExploredWorld", situation.world(SEED, ExploredWorld))
        explorer = StepExplorer(
            world,
            (lambda step, function: step == "LaunchReplica" and wanted(step, function))
            if flapping
            else wanted,
            random.Random(SEED),
            few,
            to_the_end=("LaunchReplica",) if flapping else (),
            known=None if flapping else known,
        )
        execution = situation.begin(world, explorer.beside)
        world.finish(execution)
        world.run_for(AFTER_SECONDS)
        return explorer.explored


def interleavings() -> figures.Figures:
    """All of them, each step in one of as many processes as there are processors."""
    processes = os.cpu_count() or 1
    found = Explored()
    with ProcessPoolExecutor(processes) as pool:
        for part in pool.map(partial(_share, of=processes), range(processes)):
            found.add(part)
    _, orders, findings = explore_methods()
    print(f"seed {SEED}: {found.orders} orders of steps", flush=True)
    for one in findings:
        print(f"{one.kind}: {one.step}, {one.how}: {one.text}", flush=True)
    kinds = Counter(one.kind for one in (*found.findings, *findings))
    states = {step.state for one in FUNCTIONS for step in one.steps if one.name not in BESIDE_RUNS}
    scheduled = {one.name for one in FUNCTIONS if not one.steps and one.name not in BESIDE_RUNS}
    if missing := sorted((states | scheduled) - set(found.steps)):
        print(f"not explored: {', '.join(missing)}")
    return {
        "two calls at once: states and schedules without exploration": figures.exactly(len(missing), 0),
        "two calls at once: orders of steps": figures.at_least(found.orders, 9000),
        "two calls at once: writes after which a step died": figures.at_least(found.deaths, 600),
        "two calls at once: stops while a step was at work": figures.at_least(found.stops, 1500),
        "two calls at once: orders of methods of adapters": figures.at_least(orders, 350),
        **{f"two calls at once: {text}": figures.exactly(kinds[kind], 0) for kind, text in _KINDS.items()},
    }


def _share(share: int, of: int) -> Explored:
    """The steps of one process; what two situations have in common is explored once."""
    known: set[tuple[Any, ...]] = set()
    found = Explored()
    for name, situation in situations():
        part = explore(
            name, situation, lambda _, function: zlib.crc32(function.encode()) % of == share, known
        )
        for one in part.findings:
            print(f"{one.kind}: {name}, {one.step}, {one.how}: {one.text}", flush=True)
        found.add(part)
        print(
            f"{share}: {name}: until now {found.orders} orders, {found.deaths} deaths, {found.stops} stops; "
            f"{sum(os.times()[:4]) / 60:.1f} min of processors",
            flush=True,
        )
    return found


def _observed(world: Any) -> None:
    world.load(20, 1)
    world.readings.metrics["orders", Metric.OBSERVING] = 1.0


def _without_room(world: Any) -> None:
    """The first call for an instance is refused; the next one of the same zone would not be."""
    world.load(250, 2)
    world.aws.refusals["RunInstances"] = ["InsufficientInstanceCapacity"]
