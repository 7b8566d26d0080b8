"""The steps of scale_in, and the receipt, against a world in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import Removal, ResourceState
from peaker.domain.runs.run import FailedStep, RecordStep, SelectStep
from peaker.usecases.leave import retire_replica as retiring
from peaker.usecases.leave.drain_replica import drain_replica
from peaker.usecases.leave.guard_retirement import guard_retirement
from peaker.usecases.leave.restore_replica import restore_replica
from peaker.usecases.leave.retire_replica import retire_replica
from peaker.usecases.leave.select_idle_replicas import select_idle_replicas
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.release_lease import release_lease

from peaker_contract import errors
from peaker_contract.endpoint_settings import NLB_PROPAGATION_SECONDS
from peaker_contract.names import LOAD_TAG
from sim.calm import CalmPorts, calm_ports
from sim.outside import detach
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, RUN_ID, SOURCE, back_up_with_tags, instance, orders
from tests.support.peak import IN_RUN, PEAK, TAGS, clients, retired, step, with_peak

FAILURE = Failure(failed_step="DrainReplica", error="DrainLimitReached", cause="late")


@pytest.fixture
def ports() -> CalmPorts:
    return with_peak(calm_ports(orders()))


def select(ports: CalmPorts, **more: Any) -> SelectStep:
    return SelectStep(**step(ports, "SelectIdleReplicas").model_dump(), **more)


def selected(ports: CalmPorts) -> None:
    select_idle_replicas(ports, select(ports))


def failed(ports: CalmPorts) -> FailedStep:
    return FailedStep(**step(ports, "RestoreReplica").model_dump(), failure=FAILURE)


def test_a_wrong_or_foreign_replica_is_refused_by_name_with_the_reason(ports: CalmPorts) -> None:
    ports.compute.add(instance("i-00000000000009999", tags={"peaker:cluster": "payments"}))
    cases = {
        BASE: f"replica: given {BASE}: is base load, permanent; only what Peaker made may go (I1)",
        SOURCE: f"replica: given {SOURCE}: is the source of orders; the source is never retired (I2)",
        "i-00000000000009999": "is not a replica of orders; only its own peak replicas may go (I1); "
        "its tag peaker:cluster is 'payments'",
        "i-0000000000000dead": "is not a replica of orders; only its own peak replicas may go (I1); "
        "EC2 knows no such instance",
    }
    for wanted, said in cases.items():
        with pytest.raises(errors.NoIdleReplica) as refused:
            select_idle_replicas(ports, select(ports, replica=wanted))
        assert said in str(refused.value)
        planned = SelectStep(
            run_id=IN_RUN, cluster="orders", operation="scale_in", step="PlanOnly", replica=wanted
        )
        assert said in select_idle_replicas(ports, planned).text


def test_plan_mode_compares_parking_with_retiring_in_seconds_and_usd(ports: CalmPorts) -> None:
    given = SelectStep(run_id=IN_RUN, cluster="orders", operation="scale_in", step="PlanOnly")
    disposal = select_idle_replicas(ports, given).planned[0].disposal
    assert disposal is not None
    assert disposal.action == "retire"  # the local environment's policy is never
    assert disposal.figures.return_seconds < disposal.figures.build_seconds
    assert disposal.figures.parked_hourly_usd == pytest.approx(8 * 0.08 / 730, abs=1e-5)


def test_the_minimum_lifetime_binds_alarms_not_people(ports: CalmPorts) -> None:
    ports.compute.add(
        instance(PEAK, tags={**TAGS, LOAD_TAG: "peak"}, launched_at=NOON - timedelta(minutes=30))
    )
    by_alarm = step(ports, "GuardRetirement", trigger={"kind": "alarm"})
    selected(ports)
    with pytest.raises(errors.RetirementRefused, match="it is 30 min old"):
        guard_retirement(ports, by_alarm)
    by_hand = with_peak(calm_ports(orders()))
    by_hand.compute.add(
        instance(PEAK, tags={**TAGS, LOAD_TAG: "peak"}, launched_at=NOON - timedelta(minutes=30))
    )
    selected(by_hand)
    guard_retirement(by_hand, step(by_hand, "GuardRetirement"))


@pytest.mark.parametrize(("kind", "surplus"), [("alarm", 0), ("schedule", 0), ("schedule", None)])
def test_an_automatic_start_takes_nobody_once_the_surplus_is_gone(
    ports: CalmPorts, kind: str, surplus: float | None
) -> None:
    """It was there when CheckSurplus asked, or CheckSurplus had no answer; the forecast holds after a failover."""
    if surplus is not None:
        ports.readings.metrics["orders", "ReplicaSurplus"] = surplus
    with pytest.raises(errors.NoIdleReplica, match=r"to spare|surplus is unknown"):
        select_idle_replicas(ports, select(ports, trigger={"kind": kind}))
    assert ports.ledger.run(IN_RUN).part(Removal) is None


def test_a_replica_is_idle_once_nobody_came_for_a_while(ports: CalmPorts) -> None:
    selected(ports)
    given = step(ports, "DrainReplica")
    ports.ledger.start_step(given.holder, "DrainReplica", NOON, lease_end(NOON))
    clients(ports, 0, statements=40)
    with pytest.raises(errors.ReplicaDraining, match=r"the load balancer acts minutes late: 0 of 300 s"):
        drain_replica(ports, given)
    ports.clock.advance(seconds=290)
    clients(ports, 0, statements=41)
    with pytest.raises(errors.ReplicaDraining, match="unused for 0 s"):
        drain_replica(ports, given)
    ports.clock.advance(seconds=119)
    with pytest.raises(errors.ReplicaDraining, match="unused for 119 s after 409 s"):
        drain_replica(ports, given)
    ports.clock.advance(seconds=1)
    numbers = drain_replica(ports, given).numbers
    assert (numbers["waited_seconds"], numbers["quiet_seconds"], numbers["forced"]) == (410, 120, False)


def test_clients_that_come_and_go_without_end_pass_the_limit_like_those_that_stay(ports: CalmPorts) -> None:
    selected(ports)
    given = step(ports, "DrainReplica")
    ports.ledger.start_step(given.holder, "DrainReplica", NOON, lease_end(NOON))
    for statements, minutes in ((1, 30), (2, 30)):
        clients(ports, 0, statements)
        with pytest.raises(errors.ReplicaDraining):
            drain_replica(ports, given)
        ports.clock.advance(minutes=minutes)
    clients(ports, 0, 3)
    with pytest.raises(errors.DrainLimitReached, match="0 connections"):
        drain_replica(ports, given)


def test_a_volume_that_peaker_deleted_is_not_lost(ports: CalmPorts) -> None:
    detach(ports.world, PEAK)
    [lost] = retiring.lost_volumes(ports, PEAK, RUN_ID)
    row = next(one for one in ports.ledger.resources(RUN_ID) if one.resource_id == lost)
    ports.ledger.mark(step(ports, "RetireReplica").holder, RUN_ID, row, ResourceState.UNDONE)
    assert retiring.lost_volumes(ports, PEAK, RUN_ID) == ()


def test_a_replica_that_was_never_taken_out_is_left_as_it_is(ports: CalmPorts) -> None:
    assert restore_replica(ports, failed(ports)).restored is True
    selected(ports)
    ports.endpoint.set(PEAK, TargetState.UNHEALTHY)
    assert restore_replica(ports, failed(ports)).restored is True


def test_a_release_lets_scale_out_look_once(ports: CalmPorts) -> None:
    """A shortage that met the lease begins now, not at the next hour; a call that is made twice starts once."""
    given = step(ports, "ReleaseLease")
    for _ in range(2):
        release_lease(ports, given)
    name, asked = ports.asked("executions.start_scale_out")[0]
    assert (name, asked["cluster"], asked["trigger"]["kind"]) == (f"{IN_RUN}-then", "orders", "schedule")


def test_a_start_of_scale_out_that_is_refused_fails_no_run(ports: CalmPorts) -> None:
    """By a company's boundary: the lease has gone back all the same."""
    ports.refuses("executions.start_scale_out", errors.AwsCallRejected("AccessDeniedException"))
    released = release_lease(ports, step(ports, "ReleaseLease"))
    assert "scale_out was not started: AccessDeniedException" in released.text
    assert ports.lease.current("orders", ports.clock.now()) is None


def test_a_backup_that_copied_a_volumes_tags_keeps_no_replica_from_being_retired(ports: CalmPorts) -> None:
    """AWS Backup gives a snapshot the tags of its volume, those of the run among them."""
    selected(ports)
    back_up_with_tags(ports, PEAK)
    retired(ports)
    assert ports.done("storage.delete_snapshot") == []


def test_the_receipt_of_an_incomplete_undo_says_both_what_failed_and_what_keeps_the_undo(
    ports: CalmPorts,
) -> None:
    selected(ports)
    given = RecordStep(
        **step(ports, "RecordRestoreIncomplete").model_dump(),
        outcome="undo_incomplete",
        failure=FAILURE,
        undo=Failure(failed_step="RestoreReplica", error="AwsCallRejected", cause="denied"),
    )
    found = record_receipt(ports, given)
    assert found.error == "AwsCallRejected"
    assert found.cause == (
        "DrainReplica failed (DrainLimitReached): late. Then RestoreReplica failed (AwsCallRejected): denied"
    )
    receipt = ports.ledger.receipt(given.run_id)
    assert receipt is not None
    assert "the undo is incomplete: RestoreReplica failed (AwsCallRejected): denied" in receipt["notes"]


def test_a_replica_that_another_call_terminated_meanwhile_is_no_refusal(
    ports: CalmPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between this call's look at the instance and its look at the fleet."""
    selected(ports)
    look = retiring.require_removable

    def terminated_before(*given: Any, **named: Any) -> Any:
        ports.compute.terminate(PEAK)
        return look(*given, **named)

    monkeypatch.setattr(retiring, "require_removable", terminated_before)
    with pytest.raises(errors.RetirementInProgress):
        retire_replica(ports, step(ports, "RetireReplica"))


def test_clients_are_cut_off_only_where_that_is_allowed() -> None:
    ports = with_peak(calm_ports(orders(drain={"limit_seconds": 0, "allow_forced": True})))
    selected(ports)
    given = step(ports, "DrainReplica")
    ports.ledger.start_step(given.holder, "DrainReplica", NOON, lease_end(NOON))
    ports.clock.advance(seconds=NLB_PROPAGATION_SECONDS)
    clients(ports, 2)
    numbers = drain_replica(ports, given).numbers
    assert (numbers["forced"], numbers["cut_connections"], numbers["cut_transactions"]) == (True, 2, 0)
