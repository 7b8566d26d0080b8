"""A seeded sample of the matrix; `make faults` runs all of it."""

from __future__ import annotations

import os
import random

import pytest

from bench.faults.audit import Bounds, audit, seconds_to_free_lease
from bench.faults.cells import MODES, OF_A_CALL, OF_A_FUNCTION, Cell, cells, named, reached, task_states
from bench.faults.matrix import run_cell
from bench.faults.situations import SITUATIONS
from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.account import Account
from sim.world import World

LEAST_CELLS = 2000
SAMPLED = 15
# Another sample: PEAKER_FAULTS_SEED=7 pytest tests/faults.
SEED = int(os.environ.get("PEAKER_FAULTS_SEED", "1"))
EVERY = Bounds("orders", min_replicas=1, max_replicas=2)


def test_every_task_state_has_cells() -> None:
    """A new state is reached by a situation of bench/faults/situations.py, or this fails."""
    assert task_states() - set(reached()) == set()


def test_every_fault_comes_at_every_task_state_in_every_mode() -> None:
    made = {(one.workflow, one.state, one.fault, one.mode) for one in cells()}
    wanted = {
        (workflow, state, fault, mode)
        for workflow, state in task_states()
        for fault in (*OF_A_CALL, *OF_A_FUNCTION)
        for mode in MODES
    }
    assert wanted - made == set()
    assert len(list(cells())) >= LEAST_CELLS


def test_a_sample_of_the_cells_passes() -> None:
    chosen = random.Random(SEED).sample(list(cells()), SAMPLED)
    failed = [result for result in map(run_cell, chosen) if not result.passed]
    told = [
        f"python -m bench.faults --cell '{one.cell.name}': {[str(each) for each in one.findings] or 'no fault came'}"
        for one in failed
    ]
    assert not told, "\n".join([f"seed {SEED}", *told])


def test_a_fault_comes_at_the_end_of_a_long_undo_whose_event_comes_twice() -> None:
    assert run_cell(named("roll_back/ReleaseUnfinishedRun/lease.release/timed out before/duplicate")).passed


def test_a_cell_is_run_again_by_its_name() -> None:
    cell = named("scale_out/ChooseDonor/ledger.settle/refused/stop")
    first, again = run_cell(cell), run_cell(cell)
    assert (first.story, first.findings) == (again.story, again.findings)
    with pytest.raises(LookupError, match=r"ledger\.settle/throttled/once"):
        named("scale_out/ChooseDonor/never")


def serving() -> World:
    world = SITUATIONS["retire"].world(1)
    assert audit(world.account, world.time.seconds, EVERY, []) == []
    return world


def kinds(world: World, stops: list[float] | None = None) -> list[str]:
    return sorted({one.kind for one in audit(world.account, world.time.seconds, EVERY, stops or [])})


def peak_of(world: World) -> str:
    return next(key for key, one in world.account.instances.items() if OWNER_TAG in one["tags"])


def test_the_auditor_sees_a_replica_that_the_endpoint_lost() -> None:
    world = serving()
    world.endpoint.deregister(world.clusters.settings("orders"), peak_of(world))
    assert kinds(world) == ["ledger"]


def test_the_auditor_sees_what_no_row_knows() -> None:
    world = serving()
    owned = world.account.instances[peak_of(world)]["tags"]
    world.compute.made({**owned, RUN_TAG: "nobody"}, "us-east-1a", "r6i.large")
    assert kinds(world) == ["bounds", "orphan"]


@pytest.mark.parametrize("kind", ["volume", "snapshot"])
def test_the_auditor_sees_a_row_of_what_is_gone(kind: str) -> None:
    world = serving()
    runs = [rows for key, rows in world.account.table.items() if key.startswith("run#")]
    row = next(one for rows in runs for one in rows.values() if one.get("kind") == kind)
    there = {"volume": world.account.volumes, "snapshot": world.account.snapshots}[kind][row["id"]]
    there["history"].append((world.time.seconds, "deleted"))
    found = [one.text for one in audit(world.account, world.time.seconds, EVERY, [])]
    assert [one for one in found if one.endswith(f"{row['id']} is gone, its row {row['state']}")]


def test_the_auditor_sees_two_instances_of_one_run() -> None:
    world = serving()
    world.compute.made(world.account.instances[peak_of(world)]["tags"], "us-east-1a", "r6i.large")
    assert "double" in kinds(world)


def test_the_auditor_sees_reads_before_the_proof() -> None:
    world = serving()
    peak, now = peak_of(world), world.time.seconds
    world.account.happened(peak, now - 90, "database", False)
    world.account.happened(peak, now - 60, "database", True)
    assert kinds(world) == ["unproven"]


def test_the_auditor_sees_a_base_replica_that_was_touched() -> None:
    world = serving()
    base = next(key for key, one in world.account.instances.items() if one["tags"].get(LOAD_TAG) == "base")
    world.compute.stop(base)
    assert kinds(world) == ["base"]


def test_the_auditor_sees_a_lease_that_stays() -> None:
    account, until = Account(), "2026-11-21T18:00:00.000Z"
    held = {"pk": "cluster#orders", "sk": "lease", "run_id": "r", "held_until": until}
    account.leases = [{**held, "at": 5.0}, {**held, "run_id": "-", "at": 1010.0}, {**held, "at": 1100.0}]
    account.leases += [{**held, "run_id": "-", "at": 1150.0}]
    account.table = {"cluster#orders": {"lease": account.leases[-1]}}
    assert seconds_to_free_lease(account, "orders", [10.0]) == 1000.0
    assert [one.kind for one in audit(account, 2000.0, EVERY, [10.0])] == ["lease"]
    assert seconds_to_free_lease(account, "orders", [1010.5]) == 50.0
    assert seconds_to_free_lease(account, "orders", [1200.0]) == 0.0


def test_a_lease_that_nobody_gives_back_is_held_until_its_end() -> None:
    account = Account()
    held = {"pk": "cluster#orders", "sk": "lease", "run_id": "r", "held_until": "2026-11-21T12:10:00.000Z"}
    account.leases = [{**held, "at": 5.0}]
    assert seconds_to_free_lease(account, "orders", [60.0]) == 540.0


def test_a_name_is_one_cell() -> None:
    names = [one.name for one in cells()]
    assert len(set(names)) == len(names)
    assert isinstance(named(names[0]), Cell)
