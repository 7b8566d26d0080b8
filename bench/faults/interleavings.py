"""The explorer's part: the situations of the matrix on the real adapters and moto, their steps explored."""

from __future__ import annotations

import os
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, cast

from bench.faults import figures
from bench.faults.figures import Figures
from bench.faults.situations import SITUATIONS, Situation, by_dns_name
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.metrics import Metric
from sim.explorer.methods import METHODS, explore_methods
from sim.explorer.steps import Explored, Finding, StepExplorer
from sim.explorer.world import ExploredWorld

SEED = 20261122
# After a run's end: the schedules look at what is there, and a stopped run is rolled back.
AFTER_SECONDS = 1800.0
# What no situation of a run comes to; what they write is written by methods that are explored.
BESIDE_RUNS: Mapping[str, str] = {
    "validate_request": "it writes nothing",
    "identify_stopped_run": "it writes nothing",
    "check_shortage": "it writes nothing, before there is a lease",
    "check_surplus": "it writes nothing, before there is a lease",
    "check_replicas": "it sends read-only commands and writes metrics",
    "forecast_load": "its records are methods of DynamoForecastRecords",
    "refresh_prices": "it writes one parameter; the last call counts",
}
ROOM_COMES_AND_GOES = "a zone's room comes and goes"
_KINDS = {
    "double": "doubles",
    "row": "wrong rows",
    "refusal": "refusals of a healthy run",
    "unrepaired": "deaths that no look repairs",
}
Wanted = Callable[[str], bool]


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
    wanted: Wanted,
    known: set[tuple[Any, ...]] | None = None,
    chance: random.Random | None = None,
    few: int = 20,
) -> Explored:
    """Run one situation and explore the steps to which it comes."""
    with ExploredWorld.opened():
        world = cast("ExploredWorld", situation.world(SEED, ExploredWorld))
        once = name == ROOM_COMES_AND_GOES
        explorer = StepExplorer(
            world,
            (lambda step: step == "LaunchReplica" and wanted(step)) if once else wanted,
            chance,
            few,
            to_the_end=("LaunchReplica",) if once else (),
            known=None if once else known,
        )
        execution = situation.begin(world, explorer.beside)
        world.finish(execution)
        world.run_for(AFTER_SECONDS)
        return explorer.explored


def interleavings() -> Figures:
    """All of them, each step in one of as many processes as there are processors."""
    processes = os.cpu_count() or 1
    found = Explored()
    with ProcessPoolExecutor(processes) as pool:
        for part in pool.map(partial(_share, of=processes), range(processes)):
            found.add(part)
    orders, findings = explore_methods()
    shown([*found.findings, *findings])
    return {
        **_figures(found),
        "methods of adapters explored": figures.exactly(len(METHODS), len(METHODS)),
        "orders of two calls of methods at once": figures.at_least(orders, 200),
        "two calls of methods at once: findings": figures.exactly(len(findings), 0),
    }


def shown(findings: Sequence[Finding]) -> None:
    """Each finding with the schedule that shows it again."""
    for one in findings:
        print(f"{one.kind}: {one.step}, {one.how}: {one.text}")


def _share(share: int, of: int) -> Explored:
    """The steps of one process; what two situations have in common is explored once."""
    known: set[tuple[Any, ...]] = set()
    found = Explored()

    def wanted(step: str) -> bool:
        return zlib.crc32(step.encode()) % of == share

    for name, situation in situations():
        found.add(explore(name, situation, wanted, known))
    return found


def _figures(found: Explored) -> dict[str, figures.Figure]:
    kinds = Counter(one.kind for one in found.findings)
    explored = {
        one.name
        for one in FUNCTIONS
        if one.name in found.steps or any(step.state in found.steps for step in one.steps)
    }
    wanted = [one.name for one in FUNCTIONS if one.name not in BESIDE_RUNS]
    return {
        "functions whose steps were explored": figures.exactly(len(explored & set(wanted)), len(wanted)),
        "orders of two calls of a step at once": figures.at_least(found.orders, 5000),
        "steps that died after a write": figures.at_least(found.deaths, 300),
        **{f"two calls at once: {text}": figures.exactly(kinds[kind], 0) for kind, text in _KINDS.items()},
    }


def _observed(world: Any) -> None:
    world.load(20, 1)
    world.readings.metrics["orders", Metric.OBSERVING] = 1.0


def _without_room(world: Any) -> None:
    """The first call for an instance is refused; the next one of the same zone would not be."""
    world.load(250, 2)
    world.aws.refusals["RunInstances"] = ["InsufficientInstanceCapacity"]
