"""What a dead run left: it counts under the ceiling, it is not coming, and it goes when it is asked for by name."""

from __future__ import annotations

import pytest
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.run import PlanStep, SelectStep
from peaker.usecases.leave.guard_retirement import guard_retirement
from peaker.usecases.leave.retire_replica import retire_replica
from peaker.usecases.leave.select_idle_replicas import select_idle_replicas
from peaker.usecases.plan.check_shortage import check_shortage
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.release_lease import release_lease

from peaker_contract import errors
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, leased, orders
from tests.support.peak import PEAK, step, with_peak

OUT_RUN = "scale-out-orders-20261121T120000-0002"


@pytest.fixture
def ports() -> CalmPorts:
    return with_peak(calm_ports(orders(max_replicas=2)))


def left_behind(ports: CalmPorts, state: ReplicaState) -> None:
    """Its row, as a run left it whose execution is gone; nobody holds the lease."""
    given = leased(ports, "Left")
    ports.ledger.set_replica(given.holder, ReplicaRow("orders", PEAK, RUN_ID, state, NOON))
    ports.endpoint.forget(PEAK)
    release_lease(ports, given)


def planned(ports: CalmPorts) -> list[str]:
    given = PlanStep(run_id=OUT_RUN, cluster="orders", operation="scale_out", step="PlanOnly")
    refusals = plan_scale_out(ports, given).plan["refusals"]
    return [one["reason"] for one in refusals if one["code"] == "ceiling"]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (ReplicaState.DRAINING, f"1 serving + 0 building + {PEAK} (draining) + 1 wanted"),
        (ReplicaState.BUILDING, "1 serving + 1 building + 1 wanted"),
        (ReplicaState.IN_SERVICE, f"1 serving + 0 building + {PEAK} (in_service) + 1 wanted"),
    ],
)
def test_it_counts_under_the_ceiling(ports: CalmPorts, state: ReplicaState, shown: str) -> None:
    left_behind(ports, state)
    [reason] = planned(ports)
    assert reason == f"{shown} exceeds max_replicas 2, the ceiling (I12)"


def short(ports: CalmPorts) -> bool:
    given = PlanStep(
        run_id=OUT_RUN,
        cluster="orders",
        operation="scale_out",
        step="CheckShortage",
        trigger=Trigger(kind="schedule"),
    )
    try:
        check_shortage(ports, given)
    except errors.NoShortage:
        return False
    return True


def test_it_is_not_coming_and_suppresses_no_scale_out(ports: CalmPorts) -> None:
    left_behind(ports, ReplicaState.BUILDING)
    ports.readings.metrics["orders", "RequiredReplicas"] = 2
    assert short(ports)


def selected(ports: CalmPorts, name: str | None = PEAK) -> SelectStep:
    return SelectStep(**step(ports, "SelectIdleReplicas").model_dump(), replica=name)


def test_one_left_in_the_making_is_retired_at_any_load(ports: CalmPorts) -> None:
    """It serves nobody: no load forbids it."""
    left_behind(ports, ReplicaState.BUILDING)
    ports.clock.advance(minutes=10)
    ports.readings.loads["orders"] = 10_000.0
    select_idle_replicas(ports, selected(ports))
    for _ in range(2):
        with pytest.raises(errors.RetirementInProgress):
            retire_replica(ports, step(ports, "RetireReplica"))
        ports.clock.advance(seconds=15)
    retire_replica(ports, step(ports, "RetireReplica"))
    assert ports.done("compute.terminate") == [PEAK]
    assert ports.ledger.replicas("orders")[PEAK].state is ReplicaState.RETIRED


@pytest.mark.parametrize("state", [ReplicaState.BUILDING, ReplicaState.DRAINING])
def test_scale_in_takes_it_by_name_and_only_so(ports: CalmPorts, state: ReplicaState) -> None:
    left_behind(ports, state)
    with pytest.raises(errors.NoIdleReplica, match=f"the ledger says {state.value}"):
        select_idle_replicas(ports, selected(ports, None))
    found = select_idle_replicas(ports, selected(ports))
    assert found.replicas == (PEAK,)
    assert found.members[0]["out_of_service"] is (state is ReplicaState.BUILDING)
    guard_retirement(ports, step(ports, "GuardRetirement"))


def test_one_left_in_the_middle_of_its_ramp_keeps_its_clients_until_they_have_gone(ports: CalmPorts) -> None:
    left_behind(ports, ReplicaState.BUILDING)
    ports.endpoint.set(PEAK, TargetState.HEALTHY, only="warming")
    select_idle_replicas(ports, selected(ports))
    for _ in range(2):
        with pytest.raises(errors.RetirementInProgress, match=f"target {PEAK}"):
            retire_replica(ports, step(ports, "RetireReplica"))
    assert ports.done("compute.terminate") == []
