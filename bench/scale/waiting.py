"""How much of a scale_out only waits for its next look, in the hostile cloud and virtual time.

A hundred and eighty runs are made by the deployed workflows, and as many by workflows that look every second. What the
first take longer is when all was there and nobody had looked yet. What AWS and the hosts take is drawn as in
bench/faults/world, in another order where calls differ: the share is good to half a percent or so. Step Functions bills
each try of a state as a transition, $0.025 a thousand in us-east-1 (https://aws.amazon.com/step-functions/pricing/).
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import mean
from typing import Any

from bench.faults import figures
from bench.faults.workflows.walker import Asl
from bench.faults.world.world import World, settings
from statemachines.policies import WAITS

SEEDS = range(101, 281)
MOST_SHARE = 0.05
_PROCESSES = 2
USD_PER_TRANSITION = 0.000025

_NOT_YET = frozenset(error for wait in WAITS.values() for error in wait.errors)


@dataclass(frozen=True)
class Run:
    """Cloud seconds from the start to the end, and how often a function was called."""

    seconds: float
    calls: int


def scale_out(seed: int, *, eager: bool) -> Run:
    """One replica that is built; `eager`: looked for every second. Raises RuntimeError where it does not serve."""
    world = World(seed, settings(max_replicas=2))
    world.load(150.0, 2)
    if eager:
        world.workflows.machines = {name: _eager(one) for name, one in world.workflows.machines.items()}
    try:
        execution = world.finish(world.start("scale_out"))
        if execution.status != "SUCCEEDED" or execution.ended is None:
            raise RuntimeError(f"seed {seed}: {execution.status}, {execution.error}")
        return Run(execution.ended - execution.started, len(world.functions.invocations))
    finally:
        world.close()


def _eager(machine: Asl) -> Asl:
    """The workflow with a look every second wherever it waits for something."""
    looking: dict[str, Any] = deepcopy(dict(machine))
    _look_every_second(looking)
    return looking


def _look_every_second(part: Any) -> None:
    if isinstance(part, list):
        for one in part:
            _look_every_second(one)
    if not isinstance(part, dict):
        return
    if part.get("Type") == "Wait" and "$pause_seconds" in json.dumps(part):
        part["Seconds"] = 1
    if _NOT_YET.intersection(part.get("ErrorEquals", ())) and "IntervalSeconds" in part:
        part.update(IntervalSeconds=1, BackoffRate=1, MaxDelaySeconds=1, MaxAttempts=100_000)
    for one in part.values():
        _look_every_second(one)


def measure() -> figures.Figures:
    """All figures; some three minutes."""
    with get_context("spawn").Pool(_PROCESSES) as pool:
        deployed = pool.map(partial(scale_out, eager=False), SEEDS)
        eager = pool.map(partial(scale_out, eager=True), SEEDS)
    whole = mean(one.seconds for one in deployed)
    share = 1 - mean(one.seconds for one in eager) / whole
    calls = mean(one.calls for one in deployed)
    return {
        "share of a scale_out that only waits for its next look": {
            "value": round(share, 3),
            "must": f"<= {MOST_SHARE}",
            "holds": share <= MOST_SHARE,
        },
        "minutes from its start to its end; function calls; USD for as many transitions": {
            "value": [round(whole / 60, 1), round(calls), round(calls * USD_PER_TRANSITION, 4)],
            "must": "stated",
            "holds": True,
        },
    }
