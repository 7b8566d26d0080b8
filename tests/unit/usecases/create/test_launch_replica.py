"""LaunchReplica: one instance from one run, whatever EC2 refuses, forgets to answer or shows late (I10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, ResourceState, of_kind
from peaker.domain.runs.run import PlanStep, StepInput
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.tear_down import TearDown, tear_down

from peaker_contract import errors
from peaker_contract.cluster import ClusterSettings
from sim.calm import CalmPorts, calm_ports
from sim.workflows.interferences import LosesAnswer
from tests.support.builders import RUN_ID, leased, orders, with_cluster

ZONE_A, ZONE_B = "subnet-0a77000000000001a", "subnet-0a77000000000001b"


def launches_without_an_answer(ports: CalmPorts, *, shows: bool = True) -> None:
    """The next launch is lost on the function; EC2 lists its instance only half a minute later unless it `shows`."""
    ports.meets(LosesAnswer(at="compute.launch", error=TimeoutError("the function's time was over")))
    ports.chance.late = not shows
    with pytest.raises(TimeoutError):
        launch(ports)
    ports.chance.late = False


def zones_asked(ports: CalmPorts) -> list[str]:
    return [spec.subnet_id for spec, _ in ports.asked("compute.launch")]


def put_first(ports: CalmPorts, one: Instance) -> None:
    """Lists show it before all others."""
    there = dict(ports.world.account.instances)
    ports.world.account.instances.clear()
    ports.compute.add(one)
    ports.world.account.instances.update(there)


@pytest.fixture
def ports() -> CalmPorts:
    return planned(orders())


def planned(settings: ClusterSettings) -> CalmPorts:
    """A run of this cluster that has its plan and its donor."""
    world = with_cluster(calm_ports(settings))
    plan_scale_out(world, PlanStep(**leased(world, "PlanScaleOut").model_dump()))
    choose_donor(world, leased(world, "ChooseDonor"))
    return world


def launch(ports: CalmPorts) -> StepInput:
    given = leased(ports, "LaunchReplica")
    launch_replica(ports, given)
    return given


def rows(ports: CalmPorts) -> Sequence[ResourceRow]:
    return of_kind(ports.ledger.resources(RUN_ID), ResourceKind.INSTANCE)


def test_a_zone_that_refused_is_not_asked_again_while_the_next_one_has_not_answered(ports: CalmPorts) -> None:
    """Zone a refuses, zone b launches, the function ends without an answer; then zone a has capacity."""
    ports.world.account.full_zones = {"us-east-1a"}
    launches_without_an_answer(ports, shows=False)
    ports.world.account.full_zones = set()
    launch(ports)
    assert zones_asked(ports) == [ZONE_A, ZONE_B, ZONE_B]
    ports.clock.advance(seconds=30)
    [instance] = ports.compute.instances_of_run(RUN_ID)
    assert {row.name: (row.state, row.resource_id) for row in rows(ports)} == {
        "replica/us-east-1a": (ResourceState.UNDONE, None),
        "replica/us-east-1b": (ResourceState.MADE, instance.instance_id),
    }


def test_zones_that_have_all_refused_are_not_asked_once_more(ports: CalmPorts) -> None:
    ports.world.account.full_zones = {"us-east-1a", "us-east-1b"}
    for said in (r"us-east-1a: .*us-east-1b: ", "us-east-1a, us-east-1b have refused before"):
        with pytest.raises(errors.CapacityUnavailable, match=said):
            launch(ports)
    assert zones_asked(ports) == [ZONE_A, ZONE_B]


def test_an_instance_with_copied_tags_is_no_attempt_of_the_run(ports: CalmPorts) -> None:
    """Somebody launched more like the one that the run launched without an answer: its tags are the same."""
    launches_without_an_answer(ports)
    [ours] = ports.compute.instances_of_run(RUN_ID)
    copied = replace(ours, instance_id="i-0fffffffffffffff1", client_token="of the console")
    put_first(ports, copied)
    given = launch(ports)
    [row] = rows(ports)
    assert row.resource_id == ours.instance_id
    job = TearDown(ports, given.holder, ports.clusters.settings("orders"), RUN_ID)
    assert tear_down(job) == [ours.instance_id]
    ports.compute.forget(ours.instance_id)
    ports.clock.advance(minutes=10)
    with pytest.raises(errors.NotOwned, match="i-0fffffffffffffff1 is left alone"):
        tear_down(job)
    assert ports.done("compute.terminate") == [ours.instance_id]


GROUP = "arn:aws:resource-groups:us-east-1:111111111111:group/orders-peak"


def with_group() -> CalmPorts:
    """A cluster whose settings named a group of capacity reservations when the run was planned."""
    return planned(orders(capacity_reservation_group_arn=GROUP))


def states(ports: CalmPorts) -> dict[str, str]:
    return {row.name.removeprefix("replica/us-east-"): row.state.value for row in rows(ports)}


@pytest.mark.parametrize(
    "refusal",
    [
        errors.CapacityUnavailable("ReservationCapacityExceeded"),
        errors.ResourceNotFound("no such group"),
        errors.AwsCallRejected("UnauthorizedOperation"),
    ],
    ids=["full", "gone", "not allowed"],
)
def test_a_launch_goes_on_without_a_group_that_ec2_refuses(refusal: errors.PeakerError) -> None:
    ports = with_group()
    ports.compute.group_refused = refusal
    launch(ports)
    assert states(ports) == {"1a/group": "undone", "1a": "made"}


def test_a_zone_is_left_only_after_it_refused_with_the_group_and_without() -> None:
    ports = with_group()
    ports.world.account.full_zones = {"us-east-1a"}
    launch(ports)
    assert states(ports) == {"1a/group": "undone", "1a": "undone", "1b/group": "made"}


def test_a_late_call_of_a_fenced_run_launches_nothing(ports: CalmPorts) -> None:
    """An earlier call wrote the pool's row: no write stands between the late one and EC2 (I6)."""
    given = leased(ports, "LaunchReplica")
    launches_without_an_answer(ports, shows=False)
    now = ports.clock.now()
    ports.lease.acquire("orders", RUN_ID, "scale_out", now, lease_end(now), fence=True)
    with pytest.raises(errors.LeaseLost):
        launch_replica(ports, given)
    assert zones_asked(ports) == [ZONE_A]


def test_an_instance_that_shows_is_taken_over(ports: CalmPorts) -> None:
    launches_without_an_answer(ports)
    launch(ports)
    assert zones_asked(ports) == [ZONE_A]
    [row] = rows(ports)
    assert row.resource_id == ports.compute.instances_of_run(RUN_ID)[0].instance_id


def test_the_undo_finds_what_was_launched_without_an_answer(ports: CalmPorts) -> None:
    ports.world.account.full_zones = {"us-east-1a"}
    launches_without_an_answer(ports)
    given = leased(ports, "UndoScaleOut")
    job = TearDown(ports, given.holder, ports.clusters.settings("orders"), RUN_ID)
    [left] = tear_down(job)
    assert ports.done("compute.terminate") == [left]
