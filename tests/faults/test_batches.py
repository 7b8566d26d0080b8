"""A batch in the hostile cloud: one snapshot set, members side by side, each undone alone."""

from __future__ import annotations

import json
import random
from statistics import median
from typing import Any

import pytest

from peaker_contract.errors import AwsCallRejected
from peaker_contract.names import OWNER_TAG, RUN_TAG
from sim.workflows import step_functions
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import LandsLate, Raises
from sim.world import World, settings
from tests.faults.batch_runs import batch, findings, member_steps


def members(world: World) -> dict[str, str]:
    """The states of the members that the ledger has, by the end of their run's id."""
    documents = {key: rows["run"].get("member") for key, rows in world.account.table.items() if "run" in rows}
    return {key.rsplit("-", 1)[-1]: json.loads(text)["state"] for key, text in documents.items() if text}


def outcomes(world: World) -> list[str]:
    return [rows["run"]["outcome"] for key, rows in world.account.table.items() if key.startswith("run#")]


def world_for(replicas: int, **changes: Any) -> World:
    world = World(7, settings(max_replicas=replicas + 1, **changes))
    world.load(100.0 * replicas + 50, replicas + 1)
    return world


def test_three_replicas_come_from_one_snapshot_set_in_little_more_than_the_time_of_one() -> None:
    """The median of three draws: one slow snapshot or host says nothing of batches."""
    alone, together = [batch(1, seed) for seed in (1, 2, 7)], [batch(3, seed) for seed in (1, 2, 7)]
    for three in together:
        assert (three.status, three.serving, three.snapshot_sets, three.leftovers) == ("SUCCEEDED", 3, 1, ())
    assert median(one.seconds for one in together) <= 1.25 * median(one.seconds for one in alone)


@pytest.mark.parametrize("state", random.Random(1).sample(member_steps(), 2))
def test_whatever_one_member_of_four_fails_at_the_others_serve_and_it_is_tried_again(state: str) -> None:
    ended = batch(4, 7, state)
    assert (ended.serving, ended.leftovers, ended.snapshot_sets) == (4, (), 1)


def test_the_members_of_a_batch_stand_in_different_zones() -> None:
    world = world_for(2)
    world.run("scale_out", count=2)
    made = [one["zone"] for one in world.account.instances.values() if OWNER_TAG in one["tags"]]
    assert len(set(made)) == 2


def test_what_fails_again_leaves_the_others_in_service_and_the_run_ends_partly() -> None:
    """Two replicas are wanted; the storage of all but the first is never proven."""
    world = world_for(2)

    def second_never(invocation: Invocation) -> Interference | None:
        first = str(invocation.payload.get("run_id")) == str(invocation.payload.get("batch"))
        if invocation.state != "VerifyStorage" or first:
            return None
        return Raises(at=1, always=True, error=AwsCallRejected("on purpose"))

    world.functions.interfere = second_never
    execution = world.run("scale_out", count=2)
    assert (execution.status, execution.states[-1]) == ("FAILED", "PartlyInService")
    assert execution.cause.startswith("Some of the replicas serve and stay; of the others nothing is left.")
    assert "VerifyStorage" in execution.cause
    # Else the look after the release would begin the one that is missing once more.
    world.load(150, 2)
    world.run_for(1200)
    assert sorted(members(world).values()) == ["gone", "gone", "gone", "in_service"]
    ends = [one for one in outcomes(world) if one != "nothing_to_do"]
    assert sorted(ends) == ["partly", "rolled_back", "rolled_back", "rolled_back"]
    assert findings(world, 3) == []


def test_a_batch_that_is_stopped_keeps_who_serves_and_undoes_the_others() -> None:
    world = world_for(3)
    execution = world.start("scale_out", count=3)

    def stop(walk: Any, state: str) -> None:
        if state == "RampTraffic" and not world.stops:
            world.time.after(1.0, lambda: world.stop(execution))

    world.workflows.on_enter = stop
    world.finish(execution)
    world.run_for(3600)
    assert (execution.status, findings(world, 4)) == ("ABORTED", [])
    assert "running" not in outcomes(world)


def test_a_late_call_of_a_member_that_was_undone_makes_nothing_while_the_others_go_on() -> None:
    """The answer of its CreateVolumes is lost for good, the function itself stands still before the call."""
    world = world_for(2)
    late = LandsLate(
        at="storage.create_volume",
        functions=world.functions,
        seconds=55,
        error="Lambda.Unknown",
        always=True,
    )

    def second(invocation: Invocation) -> Interference | None:
        mine = str(invocation.payload.get("run_id", "")).endswith("-2")
        return late if mine and invocation.state == "CreateVolumes" else None

    world.functions.interfere = second
    execution = world.run("scale_out", count=2)
    assert execution.status == "SUCCEEDED", execution.cause
    world.run_for(1200)
    assert (members(world)["2"], findings(world, 3)) == ("gone", [])
    tags = [
        one["tags"].get(RUN_TAG, "")
        for one in world.account.volumes.values()
        if one["history"][-1][1] != "deleted"
    ]
    assert not [one for one in tags if one.endswith("-2")]


def test_a_member_whose_execution_is_stopped_is_undone_alone_and_tried_again() -> None:
    world = world_for(2)
    stopped: list[str] = []

    def stop_second(walk: Any, state: str) -> None:
        execution = world.workflows.of(walk)
        if state == "LoadBufferPool" and execution.name.endswith("-2-add") and not stopped:
            stopped.append(execution.name)
            world.time.after(1.0, lambda: world.workflows.stop(execution, "Stopped", "by a person"))

    world.workflows.on_enter = stop_second
    execution = world.run("scale_out", count=2)
    assert (execution.status, "UndoReplica" in execution.states) == ("SUCCEEDED", True)
    world.run_for(1200)
    assert (members(world)["2"], members(world)["3"], findings(world, 3)) == ("gone", "in_service", [])


def test_parked_replicas_return_first_and_the_others_are_built() -> None:
    world = world_for(2, retirement={"idle_seconds": 60, "park": "always"})
    assert world.run("scale_out").status == "SUCCEEDED"
    world.load(20, 1, 1)
    world.run_for(7200)
    assert world.run("scale_in").states[-1] == "ReplicaParked"
    world.load(250, 3)
    execution = world.run("scale_out", count=2)
    assert execution.status == "SUCCEEDED", execution.cause
    starts = [one["call"] for one in world.account.log if one["call"] in ("compute.start", "compute.launch")]
    assert sorted(starts[-2:]) == ["compute.launch", "compute.start"]
    world.run_for(1200)
    assert findings(world, 3) == []


def test_a_snapshot_set_that_nobody_who_serves_was_built_from_goes() -> None:
    """One returns, the other is never proven: what stays was made by an earlier run."""
    world = world_for(2, retirement={"idle_seconds": 60, "park": "always"})
    assert world.run("scale_out").status == "SUCCEEDED"
    world.load(20, 1, 1)
    world.run_for(7200)
    assert world.run("scale_in").states[-1] == "ReplicaParked"
    world.load(250, 3)
    world.functions.interfere = lambda one: (
        Raises(at=1, always=True, error=AwsCallRejected("on purpose"))
        if one.state == "VerifyStorage"
        else None
    )
    execution = world.run("scale_out", count=2)
    assert execution.states[-1] == "PartlyInService", execution.cause
    world.run_for(1200)
    assert (len(world.endpoint.serving("orders")), findings(world, 3)) == (2, [])


def test_a_returned_replica_that_a_later_run_parked_is_not_the_undo_s_of_its_own_run() -> None:
    """The other member's undo resists for hours: the run of both is unfinished while a scale_in parks the first."""
    world = world_for(2, retirement={"idle_seconds": 60, "park": "always"})
    world.run("scale_out")
    world.load(20, 1, 1)
    world.run_for(7200)
    world.run("scale_in")
    world.load(250, 3)
    refused = AwsCallRejected("ec2: OperationNotPermitted")

    def resists(invocation: Invocation) -> Interference | None:
        if invocation.state == "VerifyStorage":
            return Raises(at=1, always=True, error=refused)
        return Raises(at="storage.delete_volume", always=True, error=refused)

    world.functions.interfere = resists
    assert world.run("scale_out", count=2).states[-1] == "ScaleOutUndoIncomplete"
    world.load(20, 1, 1)
    world.run_for(7200)
    assert world.run("scale_in").states[-1] == "ReplicaParked"
    world.run_for(7200)
    world.functions.interfere = lambda _: None
    world.run_for(7200)
    replicas = world.account.table["cluster#orders"]
    [row] = [one for key, one in replicas.items() if key.startswith("replica#") and one["state"] == "parked"]
    assert json.loads(row["parking"])["failed_return"] is None
    assert findings(world, 3) == []


def test_a_batch_whose_members_outlive_their_stop_is_undone_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Step Functions stops the children of a stopped execution as well as it can, which may be not at all."""
    monkeypatch.setattr(step_functions, "CHILDREN_NEVER_STOPPED", 1.0)
    world = world_for(3)
    world.workflows.children_outlive = True
    execution = world.start("scale_out", count=3)

    def stop(walk: Any, state: str) -> None:
        if state == "CreateVolumes" and not world.stops:
            world.time.after(1.0, lambda: world.stop(execution))

    world.workflows.on_enter = stop
    world.finish(execution)
    world.run_for(3600)
    ends = {one.states[-1] for one in world.workflows.executions if one.workflow == "add_replica"}
    assert (ends, findings(world, 4)) == ({"MemberNotRecorded"}, [])
    assert not [one for one in world.workflows.executions if one.running]


def test_a_member_whose_undo_resists_twice_is_told_by_the_step_that_failed_first() -> None:
    world = world_for(1)
    world.commands.fail("load_buffer_pool", "DiskFull")

    def resists(invocation: Invocation) -> Interference | None:
        if invocation.state not in ("UndoMember", "UndoScaleOut"):
            return None
        return Raises(at="compute.terminate", always=True, error=AwsCallRejected("AccessDenied"))

    world.functions.interfere = resists
    execution = world.run("scale_out")
    assert execution.states[-1] == "ScaleOutUndoIncomplete"
    assert "LoadBufferPool failed (HostCommandFailed)" in execution.cause
    world.functions.interfere = lambda _: None
    world.run_for(3600)
    assert findings(world, 2) == []
