"""Named situations in which others change a cluster while Peaker works on it: failovers, reboots, detached volumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.faults.audit import Bounds, audit
from peaker_contract.errors import AwsUnavailable
from sim import outside
from sim.endpoint import NLB_DRAIN_SECONDS
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import Raises
from sim.world import World
from tests.faults.test_scenarios import HOUR, MINUTE, a_world, alive, registered, rows, settled

BOUNDS = Bounds("orders", min_replicas=1, max_replicas=3)


def happens_at(world: World, state: str, what: Callable[[], None], after_seconds: float = 0.5) -> None:
    """Once, so long after an execution has entered the state; 0: before its function begins."""
    left = [what]

    def entered(_: Any, name: str) -> None:
        if name == state and left and not after_seconds:
            left.pop()()
        elif name == state and left:
            world.time.after(after_seconds, left.pop())

    world.workflows.on_enter = entered


def audited(world: World) -> list[str]:
    return [one.text for one in audit(world.account, world.time.seconds, BOUNDS, world.stops)]


@pytest.mark.parametrize("endpoint", ["nlb", "route53"])
def test_a_failover_after_the_registration_keeps_the_newcomer_out_of_service(endpoint: str) -> None:
    """It was registered while it followed the source; its reads grow no more, and it goes."""
    with a_world(endpoint=endpoint) as world:
        happens_at(world, "RampTraffic", lambda: outside.fail_over_to_standby(world, "orders"))
        execution = world.run("scale_out")
        assert (execution.states[-1], execution.error) == ("ScaleOutRolledBack", "ReplicaChanged")
        world.run_for(HOUR)
        settled(world)
        assert audited(world) == []


def test_a_replica_in_its_ramp_that_becomes_the_source_is_not_taken_away() -> None:
    """I2: the undo of its run leaves it alone, and tells a person."""
    with a_world() as world:
        sources: list[str] = []
        happens_at(world, "RampTraffic", lambda: sources.append(outside.fail_over_to_peak(world, "orders")))
        execution = world.run("scale_out")
        assert execution.states[-1] == "ScaleOutUndoIncomplete"
        assert f"{sources[0]} is left alone: it is the source (I2)" in execution.cause
        world.run_for(HOUR)
        assert sources == alive(world)


def test_a_replica_that_drains_and_becomes_the_source_is_not_told_to_follow_itself() -> None:
    with a_world() as world:
        to_spare(world)
        sources: list[str] = []
        happens_at(world, "ConfirmIdle", lambda: sources.append(outside.fail_over_to_peak(world, "orders")))
        assert world.run("scale_in").status == "FAILED"
        world.run_for(HOUR)
        sent = [one["document"] for one in world.account.commands.values() if one["instance"] == sources[0]]
        assert (sent.count("start_replication"), sources) == (1, alive(world))


def test_a_serving_replica_that_becomes_the_source_and_leaves_the_endpoint_is_left_alone() -> None:
    """The sweep brings no source back behind the endpoint, and never makes it follow itself."""
    with a_world() as world:
        served(world)
        source = outside.fail_over_to_peak(world, "orders")
        world.endpoint.deregister(world.clusters.settings("orders"), source)
        world.run_for(2 * HOUR)
        sent = [one["document"] for one in world.account.commands.values() if one["instance"] == source]
        assert (sent.count("start_replication"), source in registered(world)) == (1, False)
        assert alive(world) == [source]


@pytest.mark.parametrize("state", ["PrepareDonor", "CreateSnapshots"])
def test_a_donor_that_becomes_the_source_is_not_used(state: str) -> None:
    """I2: the only base replica is promoted after it was chosen."""
    with a_world() as world:
        donor = next(iter(world.account.targets["orders"]["serving"]))
        happens_at(world, state, lambda: outside.fail_over_to_base(world, "orders"), after_seconds=0.0)
        execution = world.run("scale_out")
        assert execution.error == "NoDonor"
        sent_before = [one for one in world.account.commands.values() if one["document"] == "prepare_donor"]
        assert [one["instance"] for one in sent_before] == ([donor] if state == "CreateSnapshots" else [])
        assert world.account.snapshots == {}
        world.run_for(HOUR)
        assert alive(world) == []
        assert audited(world) == []


def test_a_serving_replica_that_booted_anew_is_brought_back_by_a_retirement_that_fails() -> None:
    """Its database is down: nobody can ask it who is connected, and to wait for its health is to wait for ever."""
    with a_world() as world:
        outside.restart(world, served(world)[0])
        world.run_for(10 * MINUTE)
        world.load(measured=20, required=1, surplus=1)
        assert world.run("scale_in").status == "FAILED"
        world.run_for(HOUR)
        settled(world, peaks=1)
        assert audited(world) == []


@pytest.mark.parametrize("endpoint", ["nlb", "route53"])
def test_a_serving_replica_whose_host_boots_anew_serves_again(endpoint: str) -> None:
    """EC2 restarts it on another host: its database is down, and it would be paid for to the end of the peak."""
    with a_world(endpoint=endpoint) as world:
        [replica] = served(world)
        outside.restart(world, replica)
        world.run_for(5 * MINUTE)
        assert world.endpoint.serving("orders") != sorted(registered(world))
        world.run_for(HOUR)
        settled(world, peaks=1)
        assert replica in world.endpoint.serving("orders")
        assert audited(world) == []


@pytest.mark.parametrize("minutes", [15, 18, 21, 24, 27])
@pytest.mark.parametrize("happens", [outside.restart, outside.stop], ids=["boots anew", "is stopped"])
def test_a_replica_whose_host_fails_once_more_while_it_is_brought_back(
    happens: Callable[[World, str], None], minutes: float
) -> None:
    """What its database was told before is void: it is told again, and gets no reads meanwhile (I5)."""
    with a_world() as world:
        [replica] = served(world)
        outside.restart(world, replica)
        world.run_for(minutes * MINUTE)
        happens(world, replica)
        world.run_for(2 * HOUR)
        settled(world, peaks=1)
        assert replica in world.endpoint.serving("orders")
        assert audited(world) == []


def test_where_no_replica_is_healthy_none_is_taken_out() -> None:
    """A load balancer without a healthy target sends reads to all of them: the fewer they are, the worse."""
    with a_world() as world:
        served(world)
        before = registered(world)
        for replica in before:
            world.account.happened(replica, world.time.seconds, "database", False)
        world.run_for(HOUR)
        assert registered(world) == before
        assert world.endpoint.serving("orders") == []


def test_a_replica_that_is_unhealthy_for_some_minutes_stays_behind_the_endpoint() -> None:
    with a_world() as world:
        [replica] = served(world)
        world.account.happened(replica, world.time.seconds, "database", False)
        world.run_for(8 * MINUTE)
        assert rows(world, "replica#")[0].get("unhealthy_since") is not None
        world.account.happened(replica, world.time.seconds, "database", True)
        world.run_for(20 * MINUTE)
        assert rows(world, "replica#")[0].get("unhealthy_since") is None
        assert world.account.past_targets == []


@pytest.mark.parametrize("state", ["Prewarm", "VerifyStorage", "LoadBufferPool", "AwaitHealthy"])
def test_a_volume_that_somebody_detaches_from_a_replica_in_the_making(state: str) -> None:
    with a_world() as world:
        happens_at(world, state, lambda: outside.detach(world, alive(world)[0]))
        assert world.run("scale_out").status == "FAILED"
        world.run_for(HOUR)
        settled(world)
        assert audited(world) == []


PARKING = {"idle_seconds": 60, "park": "always"}


def served(world: World, count: int = 1) -> list[str]:
    """Ids of the replicas that were built, and have served for a quarter of an hour."""
    world.run("scale_out", count=count)
    world.run_for(15 * MINUTE)
    return alive(world)


def to_spare(world: World) -> None:
    """A replica has been built, and the load has gone."""
    served(world)
    world.load(measured=20, required=1, surplus=1)


def parked(world: World) -> str:
    to_spare(world)
    assert world.run("scale_in").states[-1] == "ReplicaParked"
    return alive(world)[0]


def may_return(world: World) -> bool:
    """Nothing in its row speaks against a return of the parked replica."""
    [row] = rows(world, "replica#")
    parking = json.loads(row["parking"])
    return row["state"] == "parked" and (parking["spent"], parking["incomplete_since"]) == (None, None)


def test_a_volume_that_somebody_detaches_from_a_parked_replica() -> None:
    """It can never come back: it goes with the volume, without waiting for a surplus."""
    with a_world(retirement=PARKING) as world:
        outside.detach(world, parked(world))
        world.run_for(HOUR)
        settled(world)
        assert audited(world) == []


def test_a_volume_of_a_parked_replica_that_is_back_within_minutes_costs_it_nothing() -> None:
    with a_world(retirement=PARKING) as world:
        replica = parked(world)
        world.run_for(15 * MINUTE)
        lost = outside.detach(world, replica)
        world.run_for(8 * MINUTE)
        assert not may_return(world)
        outside.attach(world, lost, replica)
        world.run_for(HOUR)
        assert alive(world) == [replica]
        assert may_return(world)
        assert audited(world) == []


def test_a_parked_replica_whose_volumes_somebody_strips_of_their_tags_is_as_before() -> None:
    """They are attached to it: that is EC2's word, and what a tag says is not."""
    with a_world(retirement=PARKING) as world:
        replica = parked(world)
        for volume in world.account.volumes.values():
            volume["tags"] = {}
        world.run_for(HOUR)
        assert alive(world) == [replica]
        assert may_return(world)


@pytest.mark.parametrize("endpoint", ["nlb", "route53"])
def test_a_volume_that_somebody_detaches_from_a_serving_replica(endpoint: str) -> None:
    """Its database is down and cannot come back: it leaves the endpoint, and all that its run made goes."""
    with a_world(endpoint=endpoint) as world:
        outside.detach(world, served(world)[0])
        world.run_for(HOUR)
        settled(world)
        assert audited(world) == []


@pytest.mark.parametrize("measured", [20, 250], ids=["little load", "much load"])
@pytest.mark.parametrize("state", ["DrainReplica", "ConfirmIdle", "RetireReplica"])
def test_a_volume_that_somebody_detaches_from_a_replica_that_drains(state: str, measured: float) -> None:
    """There is no way back into service: the retirement is finished, and what the load needs by then is built."""
    with a_world() as world:
        to_spare(world)

        def detached() -> None:
            outside.detach(world, alive(world)[0])
            world.load(measured=measured, required=1 if measured < 100 else 3)

        happens_at(world, state, detached, after_seconds=0.0)
        world.run("scale_in")
        world.run_for(HOUR)
        # The alarm of a shortage that lasts asks each hour.
        world.run("scale_out", trigger={"kind": "schedule"})
        settled(world, peaks=0 if measured < 100 else 2)
        assert audited(world) == []


def test_a_serving_replica_whose_instance_somebody_stops_comes_back_after_it_has_caught_up() -> None:
    with a_world() as world:
        outside.stop(world, served(world)[0])
        world.run_for(HOUR)
        settled(world, peaks=1)
        assert audited(world) == []


@pytest.mark.parametrize("endpoint", ["nlb", "route53"])
def test_a_failover_while_a_replica_drains_and_the_load_comes_back(endpoint: str) -> None:
    """Who fails over moves what serves; this one serves again only after it has followed the new source."""
    with a_world(endpoint=endpoint) as world:
        to_spare(world)

        def changed() -> None:
            outside.fail_over_to_standby(world, "orders")
            world.load(measured=250, required=3)

        happens_at(world, "ConfirmIdle", changed)
        removal = world.run("scale_in")
        assert (removal.status, removal.states[-1]) == ("SUCCEEDED", "CalledOff")
        world.run_for(HOUR)
        settled(world, peaks=2)
        assert audited(world) == []


def test_a_failover_while_a_replica_was_taken_out_of_the_endpoint_by_somebody() -> None:
    with a_world() as world:
        world.endpoint.deregister(world.clusters.settings("orders"), served(world)[0])
        world.run_for(MINUTE)
        outside.fail_over_to_standby(world, "orders")
        world.run_for(HOUR)
        settled(world, peaks=1)
        assert audited(world) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_replicas_that_are_brought_back_at_once_have_each_its_own_proof(order: tuple[int, int]) -> None:
    """One was stopped, one taken out of the endpoint: what one host answered is no answer of the other."""
    with a_world() as world:
        replicas = served(world, count=2)
        stopped, taken_out = (replicas[one] for one in order)
        outside.stop(world, stopped)
        world.run_for(4 * MINUTE)
        world.endpoint.deregister(world.clusters.settings("orders"), taken_out)
        world.run_for(HOUR)
        settled(world, peaks=2)
        assert audited(world) == []


def test_a_deploy_with_fewer_shares_in_the_middle_of_a_ramp() -> None:
    with a_world() as world:
        world.clusters.by_name["orders"] = ramped(world, (0.2, 0.5, 1.0))
        fewer = ramped(world, (1.0,))

        def deployed() -> None:
            world.clusters.by_name["orders"] = fewer

        happens_at(world, "RampTraffic", deployed, after_seconds=160)
        assert world.run("scale_out").status == "SUCCEEDED"
        settled(world, peaks=1)


def ramped(world: World, shares: tuple[float, ...]) -> Any:
    rules = world.clusters.settings("orders")
    return rules.model_copy(update={"ramp": rules.ramp.model_copy(update={"shares": shares})})


def put_back_by_hand(world: World, instance_id: str) -> None:
    """A person starts a parked replica and its database, and registers it."""
    orders = world.clusters.settings("orders")
    world.compute.start(instance_id)
    world.run_for(3 * MINUTE)
    world.account.happened(instance_id, world.time.seconds, "database", True)
    for enter in (world.endpoint.register, world.endpoint.promote):
        enter(orders, instance_id)
    world.run_for(5 * MINUTE)


def sweep_is_away(one: Invocation) -> Interference | None:
    """The sweep parks it again within minutes: here it does not come in time."""
    return Raises(at=0, always=True, error=AwsUnavailable("ec2")) if one.function == "sweep_orphans" else None


def test_a_parked_replica_that_a_person_put_back_drains_before_it_is_retired() -> None:
    """Its row says parked, so that no step has drained it; its readers get the load balancer's time."""
    with a_world(retirement=PARKING) as world:
        replica = parked(world)
        world.functions.interfere = sweep_is_away
        put_back_by_hand(world, replica)
        assert world.run("scale_in", replica=replica).states[-1] == "ReplicaRetired"
        last = {one["call"]: one["at"] for one in world.account.log}
        assert last["compute.terminate"] - last["endpoint.deregister"] >= NLB_DRAIN_SECONDS


def test_a_parked_replica_that_a_person_put_back_is_not_taken_from_its_readers() -> None:
    """I3: the base replica is down. Its row still says parked, and the row is not what the readers see."""
    with a_world(retirement=PARKING) as world:
        replica = parked(world)
        [base] = registered(world)
        world.account.happened(base, world.time.seconds, "database", False)
        world.functions.interfere = sweep_is_away
        put_back_by_hand(world, replica)
        world.functions.interfere = lambda _: None
        assert world.run("scale_in", replica=replica).states[-1] == "Refused"
        world.run_for(HOUR)
        assert world.endpoint.serving("orders") == [replica]
        world.account.happened(base, world.time.seconds, "database", True)
        world.run_for(2 * HOUR)
        assert (world.endpoint.serving("orders"), may_return(world)) == ([base], True)
