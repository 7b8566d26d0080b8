"""An expired parked replica is refilled: it serves proven anew, or is never trusted again (I5, I9)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.faults.audit import Bounds, audit
from bench.faults.cells import BATCH_OF_REFILLS, REFILLED, STOP_MEMBER, Cell
from bench.faults.matrix import run_cell
from bench.faults.situations import SITUATIONS, expired_on, peak
from bench.faults.workflows.executions import Execution
from bench.faults.workflows.interferences import Raises
from bench.faults.world.account import state_at
from bench.faults.world.world import World
from peaker_contract.errors import AwsCallRejected
from tests.faults.test_from_outside import happens_at
from tests.faults.test_scenarios import HOUR, MINUTE, alive, lease_is_free, rows

AT_WORK = ("SnapshotOwnVolumes", "AwaitBothSnapshots", "FillVolumes", "AssembleStorage", "StartDatabase")

BOUNDS = Bounds("orders", min_replicas=1, max_replicas=3)


@contextmanager
def a_world(situation: str = "refill") -> Iterator[tuple[World, str]]:
    """It, and the replica that has expired, of several the first."""
    world = SITUATIONS[situation].world(1)
    try:
        yield world, peak(world)
    finally:
        world.close()


def parking(world: World, replica: str) -> dict[str, str | None]:
    [row] = rows(world, f"replica#{replica}")
    return dict(json.loads(row["parking"]))


def state(world: World, replica: str) -> str:
    return str(rows(world, f"replica#{replica}")[0]["state"])


def kept(world: World) -> list[str]:
    """The runs whose sets are kept, in the order of their times."""
    return [row["sk"].removeprefix("snapshots#") for row in rows(world, "snapshots#") if "gone_at" not in row]


def back_to_normal(world: World) -> None:
    world.run_for(HOUR)
    assert audit(world.account, world.time.seconds, BOUNDS, []) == []
    assert lease_is_free(world)
    assert len(alive(world, "snapshots")) == 2 * len(kept(world)), "its own snapshots are gone"


def built_after(execution: Execution, world: World, replica: str) -> None:
    """The same run has built one, and the expired one stands as a mixture until a scale-in retires it."""
    assert execution.status == "SUCCEEDED", execution.cause
    assert state(world, replica) == "parked"
    assert "a refill of it did not end" in str(parking(world, replica)["spent"])
    back_to_normal(world)
    world.load(20, 1, 1)
    gone = world.run("scale_in", trigger={"kind": "alarm"})
    assert gone.states[-1] == "ReplicaRetired", gone
    assert state(world, replica) == "retired"
    back_to_normal(world)


def test_it_serves_and_what_it_was_made_from_stays_beside_the_new_set() -> None:
    with a_world() as (world, replica):
        [first] = kept(world)
        execution = world.run("scale_out")
        assert execution.status == "SUCCEEDED", execution.cause
        assert state(world, replica) == "in_service"
        assert kept(world)[0] == first
        assert len(kept(world)) == 2
        back_to_normal(world)
        assert kept(world)[0] == first


def test_its_own_snapshots_that_cannot_be_deleted_fail_nothing() -> None:
    with a_world() as (world, replica):
        refused = AwsCallRejected("ec2:DeleteSnapshot: OperationNotPermitted")
        world.functions.interfere = lambda one: (
            Raises(at="storage.delete_snapshot", error=refused, always=True)
            if one.state in ("RecordMember", "RecordReceipt")
            else None
        )
        execution = world.run("scale_out")
        assert execution.states[-1] == "ReplicaInService", execution.cause
        assert state(world, replica) == "in_service"
        world.run_for(HOUR)
        back_to_normal(world)


def test_the_row_of_one_whose_deletion_was_not_answered_says_that_it_is_gone() -> None:
    given = ("refill", "add_replica", "RecordMember", "storage.delete_snapshot", "timed out after", "once")
    assert run_cell(Cell(*given, variant=REFILLED)).passed


def test_a_second_refill_still_compares_with_what_it_was_made_from() -> None:
    with a_world() as (world, replica):
        [first] = kept(world)
        world.run("scale_out")
        world.load(20, 1, 1)
        world.run_for(2 * HOUR)
        assert world.run("scale_in").states[-1] == "ReplicaParked"
        expired_on(world.account.table["cluster#orders"][f"replica#{replica}"], "2026-11-22T12:00:00.000Z")
        world.load(250, 2)
        execution = world.run("scale_out")
        assert execution.status == "SUCCEEDED", execution.cause
        assert state(world, replica) == "in_service"
        assert kept(world)[0] == first
        back_to_normal(world)


@pytest.mark.parametrize("at", ["SnapshotOwnVolumes", "FillVolumes"])
def test_its_base_set_that_somebody_deletes_leaves_it_parked_and_the_same_run_builds(at: str) -> None:
    with a_world() as (world, replica):
        [row] = rows(world, "snapshots#")
        base = sorted(json.loads(row["document"])["snapshots"].values())
        happens_at(
            world,
            at,
            lambda: [world.storage.delete_snapshot(one) for one in base],
            after_seconds=MINUTE,
        )
        built_after(world.run("scale_out"), world, replica)


@pytest.mark.parametrize("at", AT_WORK)
def test_a_host_that_is_gone_in_the_middle_leaves_nothing_of_it(at: str) -> None:
    with a_world() as (world, replica):
        happens_at(world, at, lambda: world.compute.terminate(replica), after_seconds=5.0)
        world.run("scale_out")
        world.run_for(HOUR)
        assert state_at(world.account.instances[replica], world.time.seconds) == "terminated"
        assert state(world, replica) == "retired"
        back_to_normal(world)


@pytest.mark.parametrize("at", AT_WORK)
def test_so_does_one_of_two_that_are_refilled_side_by_side(at: str) -> None:
    with a_world("two refills") as (world, _):
        gone: list[str] = []

        def second_is_gone() -> None:
            gone.append(second_member(world))
            world.compute.terminate(gone[0])

        happens_at(world, at, second_is_gone, after_seconds=60.0)
        world.run("scale_out", count=2)
        assert len(alive(world, "snapshots")) == 2 * len(kept(world)), (
            "the run itself deletes its own snapshots"
        )
        world.run_for(HOUR)
        assert state(world, gone[0]) == "retired"
        back_to_normal(world)


def second_member(world: World) -> str:
    """The replica of the newest batch's second member."""
    newest = max(key for key in world.account.table if key.endswith("-2"))
    return str(json.loads(world.account.table[newest]["run"]["replica"])["instance_id"])


def test_two_are_refilled_side_by_side_from_one_set_of_the_donor() -> None:
    with a_world("two refills") as (world, _):
        execution = world.run("scale_out", count=2)
        assert execution.status == "SUCCEEDED", execution.cause
        assert [row["state"] for row in rows(world, "replica#")] == ["in_service"] * 2
        assert len(kept(world)) == 2
        back_to_normal(world)


def test_one_of_two_that_a_person_stops_while_its_volumes_are_written_leaves_nothing_of_it() -> None:
    given = ("two refills", "add_replica", "AssembleStorage", "commands.send", "late", STOP_MEMBER)
    result = run_cell(Cell(*given, variant=BATCH_OF_REFILLS))
    assert result.passed, result.findings


def test_the_auditor_sees_reads_of_a_refilled_one_that_was_not_proven_since() -> None:
    with a_world() as (world, replica):
        world.run("scale_out")
        events = world.account.hosts[replica]
        refilled = next(at for at, what, _ in events if what == "refill")
        world.account.hosts[replica] = [
            one for one in events if not (one[1] == "verified" and one[0] > refilled)
        ]
        assert [one.kind for one in audit(world.account, world.time.seconds, BOUNDS, [])] == ["unproven"]
