"""Several replicas leave in one run, in the hostile cloud: side by side, each put back alone, the floor kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from peaker_contract.errors import AwsCallRejected
from peaker_contract.names import LOAD_TAG
from sim.workflows import step_functions
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import Raises
from sim.world import World, settings
from tests.faults.batch_runs import findings

PARKING = {"retirement": {"idle_seconds": 60, "park": "always"}}
USED = {"connections": 0, "transactions": 0, "client_statements": 4_712}


def world_with(peaks: int, **changes: Any) -> World:
    """So many peak replicas serve, and nobody needs them any more."""
    world = World(7, settings(max_replicas=peaks + 1, **changes))
    world.load(100.0 * peaks + 50, peaks + 1)
    built = world.run("scale_out", count=peaks)
    assert built.status == "SUCCEEDED", built.cause
    world.load(20, 1, peaks)
    world.run_for(2 * 3600)
    return world


def members(world: World) -> dict[int, str]:
    """The states of the retirement's members, by their number."""
    rows = [rows["run"] for rows in world.account.table.values() if "run" in rows]
    told = [json.loads(row["member"]) for row in rows if row["operation"] == "scale_in" and "member" in row]
    return {one["number"]: one["state"] for one in told}


def outcomes(world: World) -> list[str]:
    rows = [rows["run"] for rows in world.account.table.values() if "run" in rows]
    return sorted(row["outcome"] for row in rows if row["operation"] == "scale_in")


def serving(world: World) -> int:
    return len(world.endpoint.serving("orders"))


def replica_of(world: World, invocation: Invocation) -> str:
    row = world.account.table[f"run#{invocation.payload['run_id']}"]["run"]
    return str(json.loads(row["replica"])["instance_id"])


def of_second(invocation: Invocation) -> bool:
    return str(invocation.payload.get("run_id", "")).endswith("-2")


def test_three_leave_in_little_more_than_the_time_of_one() -> None:
    seconds = []
    for peaks in (1, 3):
        world = world_with(peaks)
        begun = world.time.seconds
        execution = world.run("scale_in", count=peaks)
        assert (execution.states[-1], serving(world)) == ("ReplicaRetired", 1)
        seconds.append(world.time.seconds - begun)
        assert findings(world, peaks + 1, 1200) == []
    assert seconds[1] <= 1.2 * seconds[0]


def test_an_automatic_start_takes_all_that_are_to_spare_and_a_person_one() -> None:
    world = world_with(3)
    world.run("scale_in")
    assert serving(world) == 3
    world.load(120, 2, 1)
    world.run("scale_in", trigger={"kind": "schedule"})
    assert serving(world) == 2
    world.load(20, 1, 1)
    world.run("scale_in", trigger={"kind": "schedule"})
    assert (serving(world), findings(world, 4, 1200)) == (1, [])


def test_parked_side_by_side_they_come_back_side_by_side() -> None:
    world = world_with(2, **PARKING)
    assert world.run("scale_in", count=2).states[-1] == "ReplicaParked"
    world.load(250, 3)
    back = world.run("scale_out", count=2)
    assert (back.status, serving(world)) == ("SUCCEEDED", 3)
    assert findings(world, 3, 1200) == []


def test_one_that_is_used_after_its_drain_is_put_back_and_the_others_go() -> None:
    world = world_with(2)

    def second_is_used(invocation: Invocation) -> Interference | None:
        if invocation.state == "ConfirmIdle" and of_second(invocation):
            world.commands.scripts["drain_replica", replica_of(world, invocation)] = [USED] * 1000
        return None

    world.functions.interfere = second_is_used
    execution = world.run("scale_in", count=2)
    assert execution.states[-1] == "PartlyGone"
    assert execution.cause.startswith(
        "Some of the replicas are parked or gone; the others serve. ConfirmIdle"
    )
    assert (members(world), serving(world)) == ({1: "gone", 2: "in_service"}, 2)
    assert (outcomes(world), findings(world, 3, 1200)) == (["partly", "rolled_back"], [])


def test_a_load_that_rises_on_the_way_keeps_as_many_as_it_needs() -> None:
    """Both were chosen and guarded when one would do; then two are needed: one goes, and one serves again."""
    world = world_with(2)

    def rises(invocation: Invocation) -> Interference | None:
        if invocation.state == "DeregisterReplica":
            world.load(150, 2)
        return None

    world.functions.interfere = rises
    execution = world.run("scale_in", count=2)
    assert execution.states[-1] == "ReplicaRetired"
    assert (sorted(members(world).values()), serving(world)) == (["called_off", "gone"], 2)
    assert findings(world, 3, 1200) == []


def test_one_that_the_guard_refuses_stays_as_it_was_and_the_run_has_done_its_work() -> None:
    world = world_with(2)

    def becomes_base_load(invocation: Invocation) -> Interference | None:
        if invocation.state != "GuardRetirement" or not of_second(invocation):
            return None
        world.account.instances[replica_of(world, invocation)]["tags"][LOAD_TAG] = "base"
        return None

    world.functions.interfere = becomes_base_load
    execution = world.run("scale_in", count=2)
    assert (execution.states[-1], serving(world)) == ("ReplicaRetired", 2)
    assert (members(world), outcomes(world)) == ({1: "gone", 2: "refused"}, ["refused", "succeeded"])


@pytest.mark.parametrize("state", ["DrainReplica", "ParkReplica"])
def test_a_stop_of_the_run_puts_back_who_has_not_gone(state: str) -> None:
    world = world_with(2, **PARKING)
    execution = world.start("scale_in", count=2)

    def stop(walk: Any, entered: str) -> None:
        if entered == state and not world.stops:
            world.time.after(1.0, lambda: world.stop(execution))

    world.workflows.on_enter = stop
    world.finish(execution)
    world.run_for(3600)
    assert (execution.status, findings(world, 3, 1200)) == ("ABORTED", [])
    assert "running" not in outcomes(world)
    assert set(members(world).values()) <= {"gone", "in_service"}


def test_a_member_that_is_stopped_is_put_back_alone() -> None:
    world = world_with(2)
    stopped: list[str] = []

    def stop_second(walk: Any, state: str) -> None:
        execution = world.workflows.of(walk)
        if state == "DrainReplica" and execution.name.endswith("-2-remove") and not stopped:
            stopped.append(execution.name)
            world.time.after(1.0, lambda: world.workflows.stop(execution, "Stopped", "by a person"))

    world.workflows.on_enter = stop_second
    execution = world.run("scale_in", count=2)
    assert ("PutBackReplica" in execution.states, execution.states[-1]) == (True, "PartlyGone")
    assert (members(world), findings(world, 3, 1200)) == ({1: "gone", 2: "in_service"}, [])


def test_members_that_outlive_the_stop_of_their_run_change_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_functions, "CHILDREN_NEVER_STOPPED", 1.0)
    world = world_with(2)
    world.workflows.children_outlive = True
    execution = world.start("scale_in", count=2)

    def stop(walk: Any, state: str) -> None:
        if state == "ConfirmIdle" and not world.stops:
            world.time.after(1.0, lambda: world.stop(execution))

    world.workflows.on_enter = stop
    world.finish(execution)
    world.run_for(3600)
    assert (serving(world), findings(world, 3, 1200)) == (3, [])
    assert not [one for one in world.workflows.executions if one.running]


def test_what_cannot_be_put_back_is_taken_up_until_it_serves() -> None:
    world = world_with(2)

    def resists(invocation: Invocation) -> Interference | None:
        denied = AwsCallRejected("AccessDenied")
        if invocation.state in ("UndoRemoval", "UndoScaleIn") and (
            of_second(invocation) or invocation.state == "UndoScaleIn"
        ):
            return Raises(at="endpoint.register", always=True, error=denied)
        if invocation.state == "ConfirmIdle" and of_second(invocation):
            return Raises(at="commands.send", always=True, error=denied)
        return None

    world.functions.interfere = resists
    execution = world.run("scale_in", count=2)
    assert (execution.states[-1], members(world)) == ("ScaleInUndoIncomplete", {1: "gone", 2: "left"})
    world.functions.interfere = lambda _: None
    world.run_for(3600)
    assert (members(world), serving(world), findings(world, 3, 1200)) == ({1: "gone", 2: "in_service"}, 2, [])
