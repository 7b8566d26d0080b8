"""Several replicas leave in one run: how many, each in rows of its own, and never two on the same last spare one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.batch import Member, outcome_of_removal, state_after
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, RunReplica
from peaker.domain.runs.run import FailedStep, RecordStep, SelectStep, StepInput
from peaker.usecases.leave.deregister_replica import deregister_replica
from peaker.usecases.leave.drain_replica import drain_replica
from peaker.usecases.leave.guard_retirement import guard_retirement
from peaker.usecases.leave.select_idle_replicas import Selected, select_idle_replicas
from peaker.usecases.leave.sum_up_removal import sum_up_removal
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.release_lease import release_lease
from peaker.usecases.undo.undo_removal import undo_removal

from peaker_contract import errors
from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.interferences import Watches
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, instance, leased, orders
from tests.support.peak import IN_RUN, PEAK, clients, step, with_peak

SECOND, ITS_RUN = "i-000000000000c0003", f"{RUN_ID}-2"
FAILURE = Failure(failed_step="ConfirmIdle", error="ActivityWhileDrained", cause="used")


@pytest.fixture
def ports() -> CalmPorts:
    """A base replica and two of Peaker's serve; the load needs one."""
    made = with_peak(calm_ports(orders(max_replicas=4)))
    built = leased(made, "AwaitHealthy", run_id=ITS_RUN)
    tags = {OWNER_TAG: "local", RUN_TAG: ITS_RUN, LOAD_TAG: "peak"}
    made.compute.add(instance(SECOND, tags=tags, launched_at=NOON - timedelta(hours=5)))
    row = made.ledger.intend(built.holder, ResourceKind.INSTANCE, "replica", "Made", NOON, {})
    made.ledger.made(built.holder, row, SECOND, NOON)
    serves = ReplicaRow("orders", SECOND, ITS_RUN, ReplicaState.IN_SERVICE, NOON)
    made.ledger.set_replica(built.holder, serves)
    made.endpoint.set(SECOND, TargetState.HEALTHY)
    release_lease(made, built)
    return made


def selected(ports: CalmPorts, count: int = 2, **trigger: Any) -> Selected:
    given = step(ports, "SelectIdleReplicas", count=count, **({"trigger": trigger} if trigger else {}))
    asked = {"count": count, **({"trigger": trigger} if trigger else {})}
    return select_idle_replicas(ports, SelectStep(**given.model_dump(), **asked))


def of_member(member: dict[str, Any], name: str) -> StepInput:
    return StepInput(**{key: one for key, one in member.items() if key != "out_of_service"}, step=name)


def ended(ports: CalmPorts, member: dict[str, Any], outcome: str, failure: Failure | None = None) -> None:
    given = of_member(member, "RecordMember").model_dump()
    record_receipt(ports, RecordStep(**given, outcome=outcome, failure=failure))  # type: ignore[arg-type]


def states(ports: CalmPorts) -> dict[str, str]:
    return {name: row.state.value for name, row in ports.ledger.replicas("orders").items()}


def test_two_that_count_on_one_another_do_not_both_leave(ports: CalmPorts) -> None:
    """Both have counted when the first one begins: the second counts again, and is one too many."""
    first, second = selected(ports).members
    ports.readings.metrics["orders", "RequiredReplicas"] = 2
    other_begins = lambda: deregister_replica(ports, of_member(second, "DeregisterReplica"))  # noqa: E731
    ports.meets(Watches(at="ledger.begin_exit", hit=other_begins))
    with pytest.raises(errors.Throttled, match="count again"):
        deregister_replica(ports, of_member(first, "DeregisterReplica"))
    with pytest.raises(errors.RetirementRefused, match="the forecast needs 2 replicas, 1 would remain"):
        deregister_replica(ports, of_member(first, "DeregisterReplica"))
    assert sorted(states(ports).values()) == ["draining", "in_service"]


def test_one_that_drains_is_not_counted_before_it_has_left_the_endpoint(ports: CalmPorts) -> None:
    first, second = selected(ports).members
    ports.readings.metrics["orders", "RequiredReplicas"] = 2
    row = ports.ledger.replicas("orders")[PEAK]
    leaving = ReplicaRow("orders", PEAK, row.run_id, ReplicaState.DRAINING, NOON)
    mine, other = (first, second) if first["run_id"] == IN_RUN else (second, first)
    by_id = {
        ports.ledger.run(one["run_id"]).required(RunReplica, "x").instance_id: one for one in (mine, other)
    }
    ports.ledger.begin_exit(of_member(by_id[PEAK], "DeregisterReplica").holder, leaving, [])
    assert ports.endpoint.health(orders())[PEAK].state is TargetState.HEALTHY
    with pytest.raises(errors.RetirementRefused, match="1 would remain"):
        guard_retirement(ports, of_member(by_id[SECOND], "GuardRetirement"))


def test_of_two_that_drain_no_more_serve_again_than_are_needed(ports: CalmPorts) -> None:
    """Both look by themselves; the order of their ids says who goes back first."""
    mine = {
        ports.ledger.run(one["run_id"]).required(RunReplica, "x").instance_id: one
        for one in selected(ports).members
    }
    for member in mine.values():
        deregister_replica(ports, of_member(member, "DeregisterReplica"))
        ports.ledger.start_step(
            of_member(member, "DrainReplica").holder, "DrainReplica", NOON, lease_end(NOON)
        )
    clients(ports, 2)
    ports.clock.advance(minutes=10)

    def look(instance_id: str) -> None:
        drain_replica(ports, of_member(mine[instance_id], "DrainReplica"))

    ports.readings.metrics["orders", "RequiredReplicas"] = 2
    first, second = sorted(mine)
    with pytest.raises(errors.ReplicaDraining):
        look(second)
    with pytest.raises(errors.ReplicaNeeded):
        look(first)
    ports.clock.advance(minutes=5)
    why = Failure(failed_step="DrainReplica", error="ReplicaNeeded", cause="the forecast needs 2 replicas")
    undo_removal(ports, FailedStep(**of_member(mine[first], "UndoRemoval").model_dump(), failure=why))
    with pytest.raises(errors.ReplicaDraining):  # It counts on the other, which is registered again.
        look(second)
    ports.readings.metrics["orders", "RequiredReplicas"] = 3
    with pytest.raises(errors.ReplicaNeeded):
        look(second)


def test_a_member_that_said_nothing_is_undone_with_the_run(ports: CalmPorts) -> None:
    first, second = selected(ports).members
    ended(ports, first, "succeeded")
    told = sum_up_removal(ports, step(ports, "SumUpRemoval"))
    assert (told.outcome, told.failure.error) == ("undo_incomplete", "MemberLeft")
    undone = undo_removal(ports, FailedStep(**step(ports, "UndoScaleIn").model_dump(), failure=told.failure))
    assert undone.outcome == "partly"
    assert ports.ledger.run(second["run_id"]).required(Member, "x").state == "in_service"


def members(*found: str) -> list[Member]:
    late = {"gone late": FAILURE, "in_service": FAILURE}
    return [
        Member(batch=IN_RUN, number=number, state=one.split()[0], failure=late.get(one))  # type: ignore[arg-type]
        for number, one in enumerate(found, 1)
    ]


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (("gone", "gone"), "succeeded"),
        (("gone", "refused"), "succeeded"),
        (("refused", "refused"), "refused"),
        (("refused", "called_off"), "called_off"),
        (("gone", "called_off"), "succeeded"),
        (("called_off", "in_service"), "rolled_back"),
        (("gone", "in_service"), "partly"),
        (("refused", "in_service"), "rolled_back"),
        (("gone late", "gone"), "rolled_forward"),
        (("gone", "left"), "undo_incomplete"),
        (("gone", "at_work"), "undo_incomplete"),
    ],
)
def test_a_batch_stands_as_its_members_do(found: tuple[str, ...], outcome: str) -> None:
    assert outcome_of_removal(members(*found)) == outcome


def test_where_a_member_stands_depends_on_what_it_was_to_do() -> None:
    outcomes = ("succeeded", "rolled_forward", "rolled_back", "refused", "undo_incomplete")
    assert [state_after("scale_in", one) for one in outcomes] == [
        "gone",
        "gone",
        "in_service",
        "refused",
        "left",
    ]
    assert [state_after("scale_out", one) for one in outcomes] == [
        "in_service",
        "in_service",
        "gone",
        "gone",
        "left",
    ]


def test_one_that_is_put_back_counts_again_and_the_other_is_gone(ports: CalmPorts) -> None:
    first, second = selected(ports).members
    deregister_replica(ports, of_member(first, "DeregisterReplica"))
    deregister_replica(ports, of_member(second, "DeregisterReplica"))
    ended(ports, first, "succeeded")
    for _ in range(2):
        undo = FailedStep(**of_member(second, "UndoRemoval").model_dump(), failure=FAILURE)
        try:
            undone = undo_removal(ports, undo)
            break
        except errors.TargetNotHealthy:
            ports.endpoint.set(SECOND, TargetState.HEALTHY)
            ports.endpoint.set(PEAK, TargetState.HEALTHY)
    assert undone.outcome == "rolled_back"
    ended(ports, second, undone.outcome, FAILURE)
    told = sum_up_removal(ports, step(ports, "SumUpRemoval"))
    assert (told.outcome, told.failure) == ("partly", FAILURE)
