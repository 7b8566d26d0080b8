"""Who begins in each round of a batch: all of the plan, then what is missing by the need of then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.batch import Member
from peaker.domain.runs.ledger import Holder
from peaker.domain.runs.run import PlanStep, RoundStep, StepInput
from peaker.usecases.plan.next_members import MembersChosen, next_members
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.release_lease import release_lease

from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import RUN_ID, instance, leased, orders, with_cluster

ALARM = {"kind": "alarm"}


@pytest.fixture
def ports() -> CalmPorts:
    """A base replica serves, and the forecast needs three."""
    made = with_cluster(calm_ports(orders(max_replicas=8)))
    made.readings.metrics["orders", "RequiredReplicas"] = 3
    return made


def step(ports: CalmPorts, name: str, trigger: dict[str, Any]) -> StepInput:
    return leased(ports, name, request={"cluster": "orders", "count": 2, "trigger": trigger})


def round_of(ports: CalmPorts, number: int, trigger: dict[str, Any]) -> MembersChosen:
    return next_members(ports, RoundStep(**step(ports, "NextMembers", trigger).model_dump(), round=number))


def first_round(ports: CalmPorts, trigger: dict[str, Any]) -> MembersChosen:
    planned = step(ports, "PlanScaleOut", trigger).model_dump()
    plan_scale_out(ports, PlanStep(**planned, count=2, trigger=trigger))
    return round_of(ports, 0, trigger)


def ended(ports: CalmPorts, run_id: str, state: str) -> None:
    """A member whose replica serves, or of which nothing is left."""
    holder: Holder = replace(step(ports, "RecordMember", ALARM).holder, run_id=run_id, batch=RUN_ID)
    member = ports.ledger.run(run_id).required(Member, "x")
    ports.ledger.settle(holder, member.model_copy(update={"state": state}))
    if state == "in_service":
        instance_id, now = f"i-of-{run_id[-4:]}", ports.clock.now()
        tags = {OWNER_TAG: "local", RUN_TAG: run_id, LOAD_TAG: "peak"}
        ports.compute.add(instance(instance_id, tags=tags))
        ports.endpoint.set(instance_id, TargetState.HEALTHY)
        row = ReplicaRow("orders", instance_id, run_id, ReplicaState.IN_SERVICE, now)
        ports.ledger.set_replica(holder, row)


@pytest.mark.parametrize(
    ("trigger", "required", "begins"),
    [
        (ALARM, 4, 2),  # The failed one, and one more.
        (ALARM, 2, 0),  # Those that serve suffice by now.
        (ALARM, None, 1),  # Nobody knows: as planned.
        ({"kind": "manual"}, 4, 1),  # A person asked for two.
    ],
)
def test_after_a_failure_what_the_need_of_then_misses_begins(
    ports: CalmPorts, trigger: dict[str, Any], required: int | None, begins: int
) -> None:
    first, second = first_round(ports, trigger).members
    ended(ports, first["run_id"], "in_service")
    ended(ports, second["run_id"], "gone")
    ports.readings.metrics = {} if required is None else {("orders", "RequiredReplicas"): required}
    found = round_of(ports, 1, trigger)
    assert (found.more, len(found.members)) == (begins > 0, begins)
    assert found.outcome == ("succeeded" if begins else "partly")


def test_a_shortage_that_has_grown_while_the_batch_was_built_begins_in_the_same_run(ports: CalmPorts) -> None:
    first = first_round(ports, ALARM)
    for one in first.members:
        ended(ports, one["run_id"], "in_service")
    ports.readings.metrics["orders", "RequiredReplicas"] = 5
    grown = round_of(ports, 1, ALARM)
    assert (len(first.members), len(grown.members)) == (2, 2)
    for one in grown.members:
        ended(ports, one["run_id"], "in_service")
    last = round_of(ports, 2, ALARM)
    assert (last.more, last.outcome) == (False, "succeeded")


@pytest.mark.parametrize(("outcome", "looks"), [("succeeded", 1), ("partly", 1), ("rolled_back", 0)])
def test_the_release_of_a_scale_out_that_brought_a_replica_lets_scale_out_look(
    ports: CalmPorts, outcome: str, looks: int
) -> None:
    """Also of a person's: an alarm may have met its lease."""
    given = step(ports, "ReleaseLease", {"kind": "manual"})
    ports.ledger.close_run(given.holder, outcome, ports.clock.now())
    release_lease(ports, given)
    assert len(ports.done("executions.start_scale_out")) == looks
