"""A long prewarm with the catch-up beside it, against one that reads first, in the hostile cloud and virtual time.

The workflows, functions and use cases are the deployed ones. Reading first is the same workflow with its states in the
order in which everything is read and proven before the database starts. What AWS and the hosts take is drawn as in
bench/faults/world. The prewarm takes an hour and a tenth of it until the database may start. The replica lacks what
was written since its snapshot and replays at three times the source's speed, also beside the reading.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from bench.faults import figures
from bench.faults.workflows.walker import Asl
from bench.faults.world.world import World, settings
from lab.simulated_hosts import Pace

SEEDS = range(201, 213)
HOUR_LONG = Pace(prewarm_mib=90_000.0, rate_mib_per_s=25.0, apply_speed=3.0, hot_share=0.1)
LONGEST_RATIO = 0.8
# As an applier that the reading leaves little of its volume.
SLOWER = 1.3
# From the shortage to the start of the execution: a forecast every five minutes, and the alarm's own minute.
ALARM_SECONDS = 360.0


@dataclass(frozen=True)
class Served:
    """Cloud seconds from the alarm to the end of the run, and what the replica waited for its catch-up."""

    seconds: float
    catch_up_seconds: float


def build(seed: int, *, reading_first: bool, pace: Pace = HOUR_LONG) -> Served:
    """One replica. Raises RuntimeError where it does not serve."""
    world = World(seed, settings(max_replicas=2))
    world.commands.pace, world.commands.behind_since_snapshot = pace, True
    world.load(150.0, 2)
    if reading_first:
        machines = world.workflows.machines
        world.workflows.machines = {**machines, "add_replica": read_first(machines["add_replica"])}
    try:
        execution = world.finish(world.start("scale_out"))
        if execution.status != "SUCCEEDED" or execution.ended is None:
            raise RuntimeError(f"seed {seed}: {execution.status}, {execution.error}")
        waited = [one for one in world.account.commands.values() if one["document"] == "wait_for_catch_up"]
        took = sum(one["done"] - one["sent"] for one in waited)
        return Served(ALARM_SECONDS + execution.ended - execution.started, took)
    finally:
        world.close()


def read_first(machine: Asl) -> Asl:
    """The workflow with its states in the order of reading, proof, database, catch-up."""
    changed: dict[str, Any] = deepcopy(dict(machine))
    states = changed["States"]
    states["Prewarm"]["Arguments"]["Input"].pop("until")
    states["Prewarm"]["Next"] = "VerifyStorage"
    states["VerifyStorage"]["Next"] = "StartDatabase"
    states["StartReplication"]["Next"] = "WaitForCatchUp"
    return changed


def measure() -> figures.Figures:
    """All figures; half a minute."""
    beside = [build(seed, reading_first=False) for seed in SEEDS]
    first = [build(seed, reading_first=True) for seed in SEEDS]
    slower = replace(HOUR_LONG, apply_speed=SLOWER)
    slowly = [build(seed, reading_first=False, pace=slower) for seed in SEEDS]
    after, before = (median(one.seconds for one in runs) for runs in (beside, first))
    return {
        "alarm to serving, prewarm of 60 min, replay at 3 times: catch-up beside the reading, against after it": {
            "value": round(after / before, 3),
            "must": f"<= {LONGEST_RATIO}",
            "holds": after / before <= LONGEST_RATIO,
        },
        "minutes from the alarm to the run's end: beside, after; minutes of them that the catch-up is waited for": {
            "value": [
                round(after / 60, 1),
                round(before / 60, 1),
                *(round(median(one.catch_up_seconds for one in runs) / 60, 1) for runs in (beside, first)),
            ],
            "must": "stated",
            "holds": True,
        },
        "minutes that the catch-up is waited for where the replica replays at 1.3 times": {
            "value": round(median(one.catch_up_seconds for one in slowly) / 60, 1),
            "must": "stated",
            "holds": True,
        },
    }
