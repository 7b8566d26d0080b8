"""Which donor a plan takes where an expired parked replica can be refilled from one of them alone, and what a run does
that must take another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from peaker.domain.reading import Known
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.run import PlanStep
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.start_parked_replica import start_parked_replica
from peaker.usecases.plan.account_use import account_use
from peaker.usecases.plan.gather_fleet import possible_donors
from peaker.usecases.plan.plan_scale_out import decided, plan_scale_out

from peaker_contract.errors import ReturnRefused
from tests.support import refills
from tests.support.builders import BASE, PEAK, data_volumes_of, instance, leased
from tests.support.fakes import NOON, FakePorts
from tests.unit.usecases.plan.test_refill_of_an_expired_replica import (
    DAY,
    RETIREMENT,
    kept,
    made,
    parking,
    planned,
    refill_of,
)

OTHER = "i-00000000000000a01"


def beside_another(ports: FakePorts) -> FakePorts:
    """A second replica serves, with a name before BASE's, and lags less than that."""
    ports.compute.add(instance(OTHER))
    for one in data_volumes_of(OTHER, size_gib=200):
        ports.storage.add(one)
    ports.endpoint.set(OTHER, TargetState.HEALTHY)
    ports.readings.lags = {BASE: Known(4.0), OTHER: Known(0.0)}
    return ports


def test_of_two_donors_the_one_is_taken_that_the_expired_one_was_made_from() -> None:
    plan = planned(beside_another(made()))
    assert (plan.donor, plan.refills, plan.returns) == (BASE, True, PEAK)
    assert plan.donor_reasons[0] == (
        f"{BASE}: healthy, lag 4 s; {PEAK}, which has expired, was made from it and is refilled from it alone"
    )


NOT_TAKEN: dict[str, tuple[Callable[[FakePorts], object], str]] = {
    "it is unhealthy": (
        lambda ports: ports.endpoint.set(BASE, TargetState.UNHEALTHY),
        f"it was made from {BASE}, and the donor is {OTHER} now ({BASE}: read endpoint says",
    ),
    "it lags too much": (
        lambda ports: ports.readings.lags.update({BASE: Known(6.0)}),
        f"({BASE}: lags 6 s, gate 5 s)",
    ),
    "its lag alone is unknown": (
        lambda ports: ports.readings.lags.pop(BASE),
        f"({BASE}: healthy, lag unknown",
    ),
}


@pytest.mark.parametrize("situation", NOT_TAKEN)
def test_where_that_one_is_no_donor_the_other_is_and_the_plan_says_why_nothing_is_refilled(
    situation: str,
) -> None:
    change, why = NOT_TAKEN[situation]
    ports = beside_another(made())
    change(ports)
    plan = planned(ports)
    assert (plan.donor, plan.refills, plan.builds) == (OTHER, False, 1)
    assert why in str(refill_of(plan).why_not)


NOTHING_NEEDS_IT: dict[str, Callable[[FakePorts], object]] = {
    "its volumes are a mixture": lambda ports: parking(ports, spent=f"{REFILL_DID_NOT_END}: run-9"),
    "its set was not kept": kept,
    "the donor has another volume now": lambda ports: kept(
        ports, sources={"data": "vol-data-0001", "log": "vol-older"}
    ),
    "it can return as it is": lambda ports: parking(ports, until=NOON + DAY),
}


@pytest.mark.parametrize("situation", NOTHING_NEEDS_IT)
def test_where_it_cannot_be_refilled_the_donor_is_the_one_that_lags_least(situation: str) -> None:
    ports = beside_another(made())
    NOTHING_NEEDS_IT[situation](ports)
    assert planned(ports).donor == OTHER


def test_where_the_settings_allow_no_refill_the_donor_is_the_one_that_lags_least() -> None:
    assert planned(beside_another(made(retirement={**RETIREMENT, "refill_expired": False}))).donor == OTHER


def test_a_run_that_has_snapshots_of_another_one_already_refills_nothing() -> None:
    ports = beside_another(made())
    settings = ports.clusters.settings("orders")
    fleet = possible_donors(ports, settings)
    step = leased(ports, "NextMembers", run_id="scale-out-orders-2")
    account = account_use(ports, settings, fleet)
    plan = decided(ports, step, settings, fleet, 1, None, account, taken_donor=OTHER)
    assert (plan.donor, plan.refills) == (OTHER, False)
    assert f"the donor is {OTHER} now" in str(refill_of(plan).why_not)


def test_a_run_that_must_take_another_donor_starts_no_replica_that_only_the_planned_one_could_refill() -> (
    None
):
    ports = beside_another(refills.with_expired_replica())
    plan = plan_scale_out(ports, PlanStep(**refills.of_run(ports, "PlanScaleOut").model_dump())).plan
    assert (plan["method"]["action"], plan["donor"]) == ("refill", BASE)
    ports.endpoint.set(BASE, TargetState.UNHEALTHY)
    said = choose_donor(ports, refills.of_run(ports, "ChooseDonor"))
    assert said.text.startswith(f"donor {OTHER} instead of {BASE}: read endpoint says")
    with pytest.raises(ReturnRefused, match=f"made from {BASE}, and the donor of this run is {OTHER}"):
        start_parked_replica(ports, refills.of_run(ports, "StartParkedReplica"))
    expired = plan["method"]["replica"]
    assert ports.compute.instances[expired].state == "stopped"
    assert ports.ledger.replicas("orders")[expired].state is ReplicaState.PARKED


def test_one_whose_donor_has_got_other_volumes_since_the_plan_is_not_started_either() -> None:
    ports = refills.with_expired_replica()
    plan_scale_out(ports, PlanStep(**refills.of_run(ports, "PlanScaleOut").model_dump()))
    ports.storage.volumes.pop(f"vol-log-{BASE[-4:]}")
    [_, log] = data_volumes_of(BASE, size_gib=refills.SIZE_GIB)
    ports.storage.add(replace(log, volume_id="vol-newer"))
    choose_donor(ports, refills.of_run(ports, "ChooseDonor"))
    with pytest.raises(ReturnRefused, match="has another volume log than when it was made from it"):
        start_parked_replica(ports, refills.of_run(ports, "StartParkedReplica"))
