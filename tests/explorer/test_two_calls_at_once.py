"""Two calls at once, on the real adapters and moto: all methods, and a sample of the steps.

A finding names the step or the methods and the schedule, `0<5 1<3 0 1`: call 0 runs until before its fifth request to
AWS, call 1 until before its third, then call 0 to its end, and call 1. `make faults` tries all
orders. That every state of the workflows is in a situation which the explorer runs, tests/faults/test_matrix.py says.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import peaker.adapters

from bench.faults.interleavings import BESIDE_RUNS, SEED, explore, situations
from bench.faults.situations import SITUATIONS
from peaker_contract.catalogue import FUNCTIONS
from sim.explorer.methods import INSIDE, ONE_CALL, explore_methods
from sim.world import READS, SCHEDULES_OF_CLUSTERS

# The sample's steps make what has no ClientToken, write several rows, or take a replica away.
SAMPLED = (
    "AcquireLease",
    "CreateSnapshots",
    "LaunchReplica",
    "CreateVolumes",
    "RegisterReplica",
    "RecordMember",
    "ReleaseLease",
)


def test_every_method_of_an_adapter_beside_itself_and_its_rivals() -> None:
    """A new method needs a row in `sim.explorer.methods`."""
    explored, orders, findings = explore_methods()
    assert findings == []
    assert orders > 300
    there = set()
    for module in pkgutil.walk_packages(peaker.adapters.__path__, "peaker.adapters."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name and name not in INSIDE:
                methods = inspect.getmembers(kind, inspect.isfunction)
                there |= {f"{name}.{method}" for method, _ in methods if not method.startswith("_")}
    assert explored <= there
    assert {one.split(".")[1] for one in there - explored} <= READS | ONE_CALL


def test_every_function_is_called_by_a_run_or_a_schedule_that_is_explored() -> None:
    called = {one.name for one in FUNCTIONS if one.steps}
    assert {one.name for one in FUNCTIONS} - called <= {*SCHEDULES_OF_CLUSTERS, *BESIDE_RUNS}


def test_steps_twice_at_once_beside_the_sweep_dead_and_stopped() -> None:
    print(f"seed {SEED}")
    explored = explore("build", SITUATIONS["build"], lambda step, _: step in SAMPLED, few=1)
    assert explored.findings == []
    assert set(explored.steps) == set(SAMPLED)


def test_a_second_instance_that_flapping_room_gave_is_gone_in_the_end() -> None:
    name, situation = next(situations())
    explored = explore(name, situation, lambda *_: True, few=1)
    assert explored.findings == []
    assert explored.orders == 1
