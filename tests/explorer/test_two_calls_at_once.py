"""A sample of the explorer: two calls at once, on the real adapters and moto. `make faults` tries all orders.

A finding names the step or the methods and the schedule, `0<5 1<3 0 1`: call 0 runs until before its fifth request to
AWS, call 1 until before its third, then call 0 to its end, and call 1.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random

import peaker.adapters

from bench.faults.interleavings import BESIDE_RUNS, SEED, explore, situations
from bench.faults.situations import SITUATIONS
from peaker_contract.catalogue import FUNCTIONS
from sim.explorer.methods import INSIDE, METHODS, ONE_CALL, explore_methods

# The sample's steps make what has no ClientToken, write several rows, or take a replica away.
SAMPLED = (
    "AcquireLease",
    "CreateSnapshots",
    "LaunchReplica",
    "CreateVolumes",
    "RegisterReplica",
    "ReleaseLease",
)


def test_every_method_of_an_adapter_has_its_row() -> None:
    there = set()
    for module in pkgutil.walk_packages(peaker.adapters.__path__, "peaker.adapters."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name and name not in INSIDE:
                methods = inspect.getmembers(kind, inspect.isfunction)
                there |= {f"{name}.{method}" for method, _ in methods if not method.startswith("_")}
    assert there == METHODS | {f"{name}.{one}" for name, methods in ONE_CALL.items() for one in methods}


def test_every_function_is_one_of_a_run_or_says_why_it_is_not() -> None:
    """`make faults` counts those of runs, and one more that no situation comes to does not hold."""
    assert set(BESIDE_RUNS) <= {one.name for one in FUNCTIONS}


def test_methods_side_by_side_are_as_one_after_the_other() -> None:
    print(f"seed {SEED}")
    _, findings = explore_methods(random.Random(SEED), few=1)
    assert findings == []


def test_steps_twice_at_once_dead_and_without_an_answer() -> None:
    print(f"seed {SEED}")
    build, chance = SITUATIONS["build"], random.Random(SEED)
    explored = explore("build", build, lambda step: step in SAMPLED, None, chance, few=1)
    assert set(explored.steps) == set(SAMPLED)
    assert explored.findings == []


def test_a_second_instance_that_flapping_room_gave_is_gone_in_the_end() -> None:
    name, situation = next(situations())
    explored = explore(name, situation, lambda _: True, None, random.Random(SEED), few=2)
    assert explored.orders == 2
    assert explored.findings == []
