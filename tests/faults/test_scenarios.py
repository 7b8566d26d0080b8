"""Named situations in which an undo had one chance only: the cluster is back to normal, without a person (I6, I7, I9).

Each ran into a wedge or a leak once. `settled` looks at the account alone, as a person would at AWS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from peaker_contract.errors import AwsCallRejected, AwsUnavailable
from peaker_contract.names import ROLE_TAG, RUN_TAG
from sim.account import state_at
from sim.endpoint import SERVING, WARMING
from sim.workflows.executions import Execution
from sim.workflows.interferences import (
    DiesAtTheEnd,
    DiesBefore,
    LandsLate,
    LosesAnswer,
    Raises,
)
from sim.world import World, by_name, settings

MINUTE, HOUR = 60.0, 3600.0


@contextmanager
def a_world(
    seed: int = 1, *, endpoint: str = "nlb", measured: float = 150, required: int = 2, **changes: object
) -> Iterator[World]:
    """One replica serves, and so many are needed."""
    if endpoint == "route53":
        changes["read_endpoint"] = by_name()
    world = World(seed, settings(**changes))
    try:
        world.load(measured=measured, required=required)
        yield world
    finally:
        world.close()


def alive(world: World, kind: str = "instances") -> list[str]:
    """What runs made and is there still."""
    gone = {"terminated", "shutting-down", "deleted"}
    records = getattr(world.account, kind).values()
    made = [one for one in records if RUN_TAG in one["tags"]]
    return [one["id"] for one in made if state_at(one, world.time.seconds) not in gone]


def lease_is_free(world: World) -> bool:
    item = rows(world, "lease")
    return not item or item[0]["run_id"] == "-"


def rows(world: World, prefix: str) -> list[dict[str, Any]]:
    """The ledger's rows of the cluster whose sort key begins so."""
    of_cluster = world.account.table.get("cluster#orders", {})
    return [item for key, item in sorted(of_cluster.items()) if key.startswith(prefix)]


def registered(world: World) -> set[str]:
    now, groups = world.time.seconds, world.account.targets["orders"]
    return {
        target
        for group in (SERVING, WARMING)
        for target, one in groups[group].items()
        if one["gone"] is None or one["gone"] > now
    }


def kept_snapshots(world: World) -> int:
    return sum("gone_at" not in row for row in rows(world, "snapshots#"))


def settled(world: World, peaks: int = 0) -> None:
    """So many replicas stand, all of them behind the endpoint; nothing else of any run is there, no lease is held."""
    assert lease_is_free(world)
    assert len(alive(world)) == peaks
    assert len(registered(world)) == peaks + 1
    assert len(alive(world, "snapshots")) == 2 * kept_snapshots(world)
    attached = [
        one
        for one in world.account.volumes.values()
        if one["id"] in alive(world, "volumes")
        and not any(at["instance"] in alive(world) for at in one["attachments"])
    ]
    assert attached == []
    states = [row["state"] for row in rows(world, "replica#")]
    assert [one for one in states if one != "retired"] == ["in_service"] * peaks


def at(state: str, make: Callable[[], Any], attempts: range = range(1, 2)) -> Callable[[Any], Any]:
    """The interference at this state's attempts, nothing elsewhere."""

    def interfere(invocation: Any) -> Any:
        return make() if invocation.state == state and invocation.attempt in attempts else None

    return interfere


def stopped_at(world: World, *places: tuple[str, str]) -> None:
    """Whatever enters one of these states, of this workflow, is stopped there, with what started it; once each."""
    left = set(places)

    def entered(walk: Any, state: str) -> None:
        execution = world.workflows.of(walk)
        if (execution.workflow, state) in left:
            left.discard((execution.workflow, state))
            world.time.after(0, lambda: world.stop(world.workflows.root(execution)))

    world.workflows.on_enter = entered


def stop_soon(world: World, execution: Execution) -> Callable[[], None]:
    return lambda: world.time.after(0, lambda: world.stop(execution))


def free_within(world: World, seconds: float) -> float:
    """How long it takes until the lease is free; fails after `seconds`."""
    began = world.time.seconds
    while not lease_is_free(world):
        world.run_for(10)
        assert world.time.seconds - began <= seconds, "the lease is held"
    return world.time.seconds - began


def test_a_stop_while_the_lease_is_being_taken() -> None:
    """roll_back found no lease; AcquireLease, in flight, took it afterwards."""
    with a_world() as world:
        execution = world.start("scale_out")
        late = lambda: LandsLate(  # noqa: E731
            at="lease.acquire", seconds=50, functions=world.functions, hit=stop_soon(world, execution)
        )
        world.functions.interfere = at("AcquireLease", late)
        world.finish(execution)
        world.run_for(2 * MINUTE)
        free_within(world, 13 * MINUTE)
        world.run_for(HOUR)
        settled(world)


@pytest.mark.parametrize("state", ["UndoStoppedRun", "RecordRollBack", "FenceStoppedRun"])
def test_roll_back_itself_is_stopped(state: str) -> None:
    with a_world() as world:
        execution = world.start("scale_out")
        stopped_at(world, ("add_replica", "AttachVolumes"), ("roll_back", state))
        world.finish(execution)
        free_within(world, 15 * MINUTE)
        world.run_for(HOUR)
        settled(world)


@pytest.mark.parametrize("state", ["UndoScaleOut", "ReleaseLease", "RecordFailure"])
def test_an_undo_or_a_release_that_crashes_for_good(state: str) -> None:
    """`Runtime.ExitError` at each attempt: one of the errors that no step can say by itself."""
    with a_world() as world:
        crashes = lambda: DiesBefore(at=0)  # noqa: E731
        fails = state != "ReleaseLease"

        def interfere(invocation: Any) -> Any:
            if fails and invocation.state == "AttachVolumes":
                return Raises(at=0, error=AwsCallRejected("ec2:AttachVolume: no"))
            return crashes() if invocation.state == state else None

        world.functions.interfere = interfere
        execution = world.run("scale_out")
        assert execution.status == "FAILED"
        world.functions.interfere = lambda _: None
        free_within(world, 15 * MINUTE)
        world.run_for(HOUR)
        settled(world, peaks=0 if fails else 1)


@pytest.mark.parametrize("by", ["UndoScaleOut", "UndoStoppedRun", "sweep_orphans"])
def test_a_lease_that_runs_out_under_a_paused_run(by: str) -> None:
    """Lambda does not answer for seven hours; meanwhile the lease has ended, and the run cannot write any more.

    Its own undo takes a new token; roll_back does where that was stopped, and the sweep where nobody heard of the stop.
    """
    with a_world() as world:
        execution = world.start("scale_out")
        if by != "UndoScaleOut":
            stopped_at(world, ("scale_out", "FenceScaleOut"))
        if by == "sweep_orphans":
            world.deliveries = lambda _: ()
        stop = world.workflows.on_enter

        def entered(walk: Any, state: str) -> None:
            if state == "AttachVolumes":
                change_lease(world)
            if stop is not None:
                stop(walk, state)

        world.workflows.on_enter = entered
        world.finish(execution)
        world.run_for(HOUR)
        settled(world)
        ended_by = {one["step"] for one in world.account.log if one["call"] == "compute.terminate"}
        assert ended_by == {by}


def change_lease(world: World) -> None:
    """Its end has passed and another run has had it since: the token is not this run's any more."""
    item = world.account.table["cluster#orders"]["lease"]
    item["held_until"], item["run_id"] = "2020-01-01T00:00:00Z", "-"
    item["fencing_token"] = int(item["fencing_token"]) + 1


@pytest.mark.parametrize("call", ["compute.terminate", "storage.delete_volume", "storage.delete_snapshot"])
def test_an_undo_that_meets_a_refused_deletion(call: str) -> None:
    """It is refused for twenty minutes: termination protection, a person's attachment, an image of the snapshot."""
    with a_world() as world:
        until = world.time.seconds + 40 * MINUTE

        def interfere(invocation: Any) -> Any:
            if invocation.state == "AttachVolumes":
                return Raises(at=0, error=AwsCallRejected("ec2:AttachVolume: no"))
            refused = world.time.seconds < until
            return Raises(at=call, error=AwsCallRejected("ec2: OperationNotPermitted")) if refused else None

        world.functions.interfere = interfere
        execution = world.run("scale_out")
        assert execution.states[-1] == "ScaleOutUndoIncomplete"
        world.run_for(2 * HOUR)
        settled(world)


def test_nine_minutes_of_ec2_unavailable_in_the_undo() -> None:
    with a_world() as world:
        began: list[float] = []

        def interfere(invocation: Any) -> Any:
            if invocation.state == "AttachVolumes":
                return Raises(at=0, error=AwsCallRejected("ec2:AttachVolume: no"))
            if invocation.state == "UndoScaleOut":
                began[:1] = began[:1] or [world.time.seconds]
            down = began and world.time.seconds - began[0] < 9 * MINUTE
            return (
                Raises(at="compute.instances_of_run", error=AwsUnavailable("ec2: Unavailable"))
                if down
                else None
            )

        world.functions.interfere = interfere
        world.run("scale_out")
        world.run_for(HOUR)
        settled(world)


def test_a_peak_replica_that_somebody_terminates() -> None:
    with a_world() as world:
        world.run("scale_out")
        world.run_for(15 * MINUTE)
        settled(world, peaks=1)
        world.compute.terminate(alive(world)[0])
        world.load(measured=20, required=1)
        world.run_for(HOUR)
        settled(world)


def test_a_stop_event_that_comes_twice_is_no_failure() -> None:
    with a_world() as world:
        world.deliveries = lambda _: (2.0, 40.0)
        execution = world.start("scale_out")
        stopped_at(world, ("add_replica", "AttachVolumes"))
        world.finish(execution)
        world.run_for(HOUR)
        settled(world)
        ends = [one.status for one in world.workflows.executions if one.workflow == "roll_back"]
        assert ends == ["SUCCEEDED", "SUCCEEDED"]


@pytest.mark.parametrize("state", ["RecordReceipt", "ReleaseLease"])
def test_what_fails_after_a_replica_serves_takes_nothing_away(state: str) -> None:
    """The function does its work and crashes before it says so, at each attempt."""
    with a_world() as world:
        world.functions.interfere = at(state, DiesAtTheEnd, range(1, 99))
        world.run("scale_out")
        world.functions.interfere = lambda _: None
        world.run_for(HOUR)
        settled(world, peaks=1)


def test_a_call_of_a_stopped_retirement_that_lands_after_its_roll_back() -> None:
    """DeregisterReplica stands still right before the endpoint is told, for longer than roll_back needs."""
    with a_world() as world:
        world.run("scale_out")
        world.run_for(15 * MINUTE)
        world.load(measured=20, required=1, surplus=1)
        execution = world.start("scale_in")
        world.functions.interfere = at(
            "DeregisterReplica",
            lambda: LandsLate(
                at="endpoint.deregister",
                seconds=55,
                functions=world.functions,
                hit=stop_soon(world, execution),
            ),
        )
        world.finish(execution)
        world.run_for(HOUR)
        settled(world, peaks=1)


def test_a_zone_without_capacity_that_has_some_again_when_the_launch_is_repeated() -> None:
    """The launch in the second zone has its effect, and its answer is lost: the retry asks for no third one."""
    with a_world() as world:
        first = settings().subnets
        world.account.full_zones.add(sorted(first)[0])

        def freed() -> None:
            world.account.full_zones.clear()

        lost = AwsUnavailable("ec2:RunInstances: lost")
        world.functions.interfere = at(
            "LaunchReplica", lambda: LosesAnswer(at="compute.launch", error=lost, hit=freed)
        )
        world.run("scale_out")
        world.run_for(HOUR)
        settled(world, peaks=1)


def given_back(world: World, seconds: float) -> float:
    """When the lease that was held at `seconds` was given back."""
    return next(
        float(one["at"]) for one in world.account.leases if one["at"] > seconds and one["run_id"] == "-"
    )


def taken(world: World, workflow: str) -> list[float]:
    """When runs of this workflow got the lease anew."""
    rows = [one for one in world.account.leases if one["run_id"].startswith(workflow.replace("_", "-"))]
    tokens = {one["fencing_token"]: one["at"] for one in reversed(rows)}
    return sorted(tokens.values())


def test_a_run_begins_only_when_no_call_of_the_one_before_can_be_under_way() -> None:
    """A call that has passed its last look at the lease lands within a minute."""
    with a_world() as world:
        world.run("scale_out")
        back = given_back(world, taken(world, "scale_out")[-1])
        world.run("scale_in", mode="act")
        assert taken(world, "scale_in")[0] - back >= MINUTE


def test_an_earlier_attempt_of_a_failed_retirement_lands_before_its_undo() -> None:
    """The first answer of DeregisterReplica is lost and its call stands still; the second attempt is refused."""
    with a_world() as world:
        world.run("scale_out")
        world.run_for(15 * MINUTE)
        world.load(measured=20, required=1, surplus=1)
        lost = LandsLate(
            at="endpoint.deregister", seconds=55, functions=world.functions, error="Lambda.SdkClientException"
        )
        refused = Raises(at=0, error=AwsCallRejected("elasticloadbalancing: AccessDenied"))
        world.functions.interfere = lambda one: (
            None if one.state != "DeregisterReplica" else lost if one.attempt == 1 else refused
        )
        retirement = world.run("scale_in")
        assert retirement.states[-1] == "ScaleInRolledBack"
        # Long enough for a target to leave, too short for the sweep to find that it has left.
        world.run_for(8 * MINUTE)
        settled(world, peaks=1)


def entered(world: World) -> set[str]:
    """The states that any execution has come to."""
    return {state for one in world.workflows.executions for state in one.states}


def failover(world: World) -> None:
    """Another server is the source from now on, and nothing else has changed."""
    old = next(one for one in world.account.instances.values() if one["tags"].get(ROLE_TAG) == "source")
    new = world.compute.made(old["tags"], old["zone"], old["type"])
    new["shown"] = world.time.seconds
    old["tags"] = {name: text for name, text in old["tags"].items() if name != ROLE_TAG}


def test_a_failover_during_a_build() -> None:
    """It follows the old source: it is not registered, and what was built goes."""
    with a_world() as world:
        world.workflows.on_enter = lambda _, state: failover(world) if state == "LoadBufferPool" else None
        execution = world.run("scale_out")
        assert execution.states[-1] == "ScaleOutRolledBack"
        assert "AwaitHealthy" not in entered(world)
        world.run_for(HOUR)
        settled(world)


def test_a_volume_that_is_mounted_nowhere_any_more_at_the_door() -> None:
    with a_world() as world:
        gone = [
            {"name": "data", "mount_point": "/var/lib/mysql", "problem": "nothing is mounted there"},
            {"name": "log", "mount_point": "/var/lib/mysql-log", "problem": ""},
        ]
        world.commands.scripts["check_mounts", None] = [{"mounts": gone}]
        execution = world.run("scale_out")
        assert execution.states[-1] == "ScaleOutRolledBack"
        assert "AwaitHealthy" not in entered(world)
        world.run_for(HOUR)
        settled(world)


def test_a_registration_of_a_stopped_build_that_lands_late() -> None:
    """It stands still right before the endpoint is told: nobody unproven stays registered."""
    with a_world() as world:
        execution = world.start("scale_out")
        world.functions.interfere = at(
            "RegisterReplica",
            lambda: LandsLate(
                at="endpoint.register", seconds=55, functions=world.functions, hit=stop_soon(world, execution)
            ),
            range(1, 99),
        )
        world.finish(execution)
        world.run_for(HOUR)
        settled(world)


def test_a_stop_whose_event_came_without_the_input() -> None:
    with a_world() as world:
        told = world.workflows.detail
        without = {"input": None, "inputDetails": {"included": False}}
        world.workflows.detail = lambda execution: {**told(execution), **without}  # type: ignore[method-assign]
        execution = world.start("scale_out")
        stopped_at(world, ("add_replica", "AttachVolumes"))
        world.finish(execution)
        world.run_for(HOUR)
        settled(world)
        [undo] = [one for one in world.workflows.executions if one.workflow == "roll_back"]
        assert undo.states[-1] == "RolledBack"
