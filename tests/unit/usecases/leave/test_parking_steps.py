"""Proof of idleness, parking and return against a world in memory; each guard is tried by breaking what it guards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.document.disposal import Disposal
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind
from peaker.domain.runs.run import FailedStep, PlanStep, RecordStep, SelectStep, StepInput
from peaker.usecases.create.start_parked_replica import start_parked_replica
from peaker.usecases.join.register_replica import register_replica
from peaker.usecases.leave import park_replica as parking
from peaker.usecases.leave.confirm_idle import confirm_idle
from peaker.usecases.leave.deregister_replica import deregister_replica
from peaker.usecases.leave.drain_replica import drain_replica
from peaker.usecases.leave.park_replica import Parked, choose_disposal, park_replica
from peaker.usecases.leave.restore_replica import restore_replica
from peaker.usecases.leave.retire_replica import retire_replica
from peaker.usecases.leave.select_idle_replicas import select_idle_replicas
from peaker.usecases.plan.disposal import disposal_of
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.release_lease import release_lease
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract import errors
from peaker_contract.endpoint_settings import NLB_PROPAGATION_SECONDS
from peaker_contract.metrics import Metric
from peaker_contract.names import OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.interferences import Watches
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, RUN_ID, leased, orders
from tests.support.peak import IN_RUN, PEAK, answers, clients, drain_to_idle, retired, step, with_peak

BACK_RUN = "scale-out-orders-20261121T200000-00bc"
FAILURE = Failure(failed_step="ParkReplica", error="RetirementRefused", cause="broken on purpose")
# Large enough that hydration takes longer than an hour of log to catch up.
LARGE_GIB = 400
ALWAYS = {"idle_seconds": 600, "park": "always"}


@pytest.fixture
def ports() -> CalmPorts:
    return with_peak(calm_ports(orders(retirement=ALWAYS)), size_gib=LARGE_GIB)


def recorded(ports: CalmPorts, name: str, **request: Any) -> StepInput:
    """A step whose start is in the ledger, as the handler writes it."""
    given = step(ports, name, **request)
    ports.ledger.start_step(given.holder, name, ports.clock.now(), lease_end(ports.clock.now()))
    return given


def drained(ports: CalmPorts, statements: int = 40) -> None:
    """Selected, deregistered and drained; `statements` were counted so far."""
    select_idle_replicas(ports, SelectStep(**step(ports, "SelectIdleReplicas").model_dump()))
    deregister_replica(ports, step(ports, "DeregisterReplica"))
    clients(ports, 0, statements)
    given = recorded(ports, "DrainReplica")
    ports.ledger.finish_step(given.holder, "DrainReplica", NOON, drain_to_idle(ports, given))


DRAINED_AT = NOON + timedelta(seconds=NLB_PROPAGATION_SECONDS)


def parked(ports: CalmPorts, binlog_expire_seconds: float | None = 86_400.0) -> Parked:
    drained(ports)
    answers(
        ports,
        "stop_database",
        gtid_set="uuid:1-99",
        stopped_seconds=2.5,
        binlog_expire_seconds=binlog_expire_seconds,
    )
    for _ in range(3):
        try:
            return park_replica(ports, step(ports, "ParkReplica"))
        except errors.ParkingInProgress:
            ports.clock.advance(seconds=20)
    raise AssertionError("it never stood")


def failed(ports: CalmPorts) -> FailedStep:
    return FailedStep(**step(ports, "RestoreReplica").model_dump(), failure=FAILURE)


def test_two_calls_at_once_settle_one_disposal(ports: CalmPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prices changed between them: the run keeps to the choice of the first (I10)."""
    drained(ports)
    given = step(ports, "ParkReplica")
    compare = disposal_of

    def meanwhile(*known: Any) -> Disposal:
        monkeypatch.setattr(parking, "disposal_of", compare)
        retire = compare(*known).model_copy(update={"action": "retire"})
        ports.ledger.settle(given.holder, retire)
        return compare(*known)

    monkeypatch.setattr(parking, "disposal_of", meanwhile)
    assert choose_disposal(ports, given).action == "retire"
    assert choose_disposal(ports, given).action == "retire"


# -- confirm idle ------------------------------------------------------------------------------------------------


def test_a_quiet_replica_stays_drained_until_a_sample_from_after_the_window(ports: CalmPorts) -> None:
    drained(ports)
    given = recorded(ports, "ConfirmIdle")
    with pytest.raises(errors.IdleNotConfirmed, match="nothing in 0 s of 600 s"):
        confirm_idle(ports, given)
    ports.clock.advance(seconds=599)
    with pytest.raises(errors.IdleNotConfirmed):
        confirm_idle(ports, given)
    ports.clock.advance(seconds=2)
    assert confirm_idle(ports, given).numbers == {"idle_seconds": 601.0, "client_statements": 40}


def test_a_command_of_another_step_proves_no_idleness(ports: CalmPorts) -> None:
    """A late call of DrainReplica wrote its row after the sample that is still on its way."""
    drained(ports)
    given = recorded(ports, "ConfirmIdle")
    answered = ports.commands.said.pop("drain_replica")
    with pytest.raises(errors.HostCommandRunning):
        confirm_idle(ports, given)
    ports.clock.advance(seconds=700)
    details = {"document": "drain_replica", "instance_id": PEAK}
    ports.ledger.intend(
        given.holder, ResourceKind.COMMAND, "late", "DrainReplica", ports.clock.now(), details
    )
    ports.commands.said["drain_replica"] = answered
    with pytest.raises(errors.IdleNotConfirmed, match="nothing in 0 s"):
        confirm_idle(ports, given)


def test_any_activity_in_the_window_brings_it_back(ports: CalmPorts) -> None:
    drained(ports)
    given = recorded(ports, "ConfirmIdle")
    answers(ports, "drain_replica", connections=0, transactions=0, client_statements=43)
    with pytest.raises(errors.ActivityWhileDrained, match="clients ran 3 statements"):
        confirm_idle(ports, given)
    with pytest.raises(errors.TargetNotHealthy):
        restore_replica(ports, failed(ports))
    ports.endpoint.set(PEAK, TargetState.HEALTHY)
    assert restore_replica(ports, failed(ports)).standing == "in_service"
    assert ports.ledger.replicas("orders")[PEAK].state is ReplicaState.IN_SERVICE


# -- parking ----------------------------------------------------------------------------------------------------


def test_a_parked_replica_is_stopped_with_its_volumes_and_the_ledger_knows_until_when(
    ports: CalmPorts,
) -> None:
    found = parked(ports)
    assert found.parked is True
    assert ports.done("compute.stop") == [PEAK]
    assert ports.done("compute.terminate") == []
    assert len([one for one in ports.storage.volumes.values() if one.instance_id == PEAK]) == 2
    row = ports.ledger.replicas("orders")[PEAK]
    assert (row.state, row.run_id) == (ReplicaState.PARKED, RUN_ID)
    assert row.parking is not None
    assert (row.parking.gtid_set, row.parking.parked_at) == ("uuid:1-99", DRAINED_AT)
    assert row.parking.until is not None
    assert row.parking.until <= DRAINED_AT + timedelta(seconds=0.8 * 86_400)
    given = RecordStep(**step(ports, "RecordReceipt").model_dump(), outcome="succeeded")
    record_receipt(ports, given)
    receipt = ports.ledger.receipt(IN_RUN)
    assert receipt is not None
    assert receipt["replica"]["state"] == "parked"
    assert 0 < receipt["parking"]["parked_hourly_usd"] < receipt["parking"]["serving_hourly_usd"]


def take_owner_tag(ports: CalmPorts) -> None:
    one = ports.compute.instance(PEAK)
    tags = {name: value for name, value in one.tags.items() if name != OWNER_TAG}
    ports.compute.add(dataclasses.replace(one, tags=tags))


def fake_ledger_row(ports: CalmPorts) -> None:
    """Tag and row agree on a run that never made it."""
    row = ports.ledger.replicas("orders")[PEAK]
    one = ports.compute.instance(PEAK)
    ports.compute.add(dataclasses.replace(one, tags={**one.tags, RUN_TAG: "another-run"}))
    holder = step(ports, "Broken").holder
    ports.ledger.set_replica(holder, dataclasses.replace(row, run_id="another-run"))


def lose_the_metric(ports: CalmPorts) -> None:
    ports.readings.metrics.clear()


def raise_the_load(ports: CalmPorts) -> None:
    ports.readings.metrics["orders", "RequiredReplicas"] = 2


def make_it_the_last(ports: CalmPorts) -> None:
    ports.endpoint.set(BASE, TargetState.UNHEALTHY)


BREAKS: dict[str, tuple[Callable[[CalmPorts], None], str]] = {
    "owner-tag-removed": (take_owner_tag, "tag peaker:owner"),
    "ledger-row-faked": (fake_ledger_row, "run another-run has no record"),
    "metric-vanished": (lose_the_metric, "the forecast's need is unknown"),
    "load-rose": (raise_the_load, "the forecast needs 2"),
    "last-replica": (make_it_the_last, "0 other replicas serve"),
}
CALLS = ("deregister", "stop-database", "stop-instance", "terminate")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("broken", BREAKS)
def test_every_guard_is_asked_again_right_before_every_destructive_call(
    ports: CalmPorts, broken: str, call: str
) -> None:
    """What holds at selection is broken just before the call; the call is not made."""
    break_it, said = BREAKS[broken]
    if call == "deregister":
        select_idle_replicas(ports, SelectStep(**step(ports, "SelectIdleReplicas").model_dump()))
        attempt, name = deregister_replica, "DeregisterReplica"
    else:
        drained(ports)
        attempt, name = (
            (retire_replica, "RetireReplica") if call == "terminate" else (park_replica, "ParkReplica")
        )  # type: ignore[assignment]
    if call == "stop-instance":
        with pytest.raises(errors.HostCommandRunning):
            park_replica(ports, step(ports, "ParkReplica"))
        answers(ports, "stop_database", gtid_set="uuid:1-99", binlog_expire_seconds=86_400)
    before = len([one for one in ports.commands.sent if one[0] == "stop_database"])
    registered = dict(ports.endpoint.health(orders()))
    break_it(ports)
    with pytest.raises(errors.RetirementRefused, match=said):
        attempt(ports, step(ports, name))
    assert ports.done("compute.stop") == []
    assert ports.done("compute.terminate") == []
    assert ports.done("storage.delete_snapshot", "storage.delete_volume") == []
    assert ports.endpoint.health(orders()).get(PEAK) == registered.get(PEAK)
    assert len([one for one in ports.commands.sent if one[0] == "stop_database"]) == before


def test_a_replica_that_is_needed_before_it_goes_is_called_back_and_no_failure(ports: CalmPorts) -> None:
    drained(ports)
    ports.readings.metrics["orders", Metric.REQUIRED_REPLICAS.value] = 2
    for name, attempt in (("ParkReplica", park_replica), ("RetireReplica", retire_replica)):
        with pytest.raises(errors.ReplicaNeeded, match="the forecast needs 2 replicas") as needed:
            attempt(ports, step(ports, name))  # type: ignore[operator]
    why = Failure(failed_step="ParkReplica", error=type(needed.value).__name__, cause=str(needed.value))
    undo = FailedStep(**step(ports, "UndoRemoval").model_dump(), failure=why)
    assert restore_replica(ports, undo).outcome == "called_off"


def test_a_volume_whose_owner_tag_is_gone_is_not_deleted(ports: CalmPorts) -> None:
    drained(ports)
    with pytest.raises(errors.RetirementInProgress):
        retire_replica(ports, step(ports, "RetireReplica"))
    ports.clock.advance(seconds=15)
    data = next(one for one in ports.storage.volumes.values() if one.volume_id == f"vol-data-{PEAK[-4:]}")
    ports.storage.add(dataclasses.replace(data, tags={**data.tags, OWNER_TAG: "someone"}))
    with pytest.raises(errors.RetirementInProgress, match="vol-log"):
        retire_replica(ports, step(ports, "RetireReplica"))
    retire_replica(ports, step(ports, "RetireReplica"))
    assert data.volume_id not in ports.done("storage.delete_snapshot", "storage.delete_volume")


def test_a_failure_after_parking_leaves_it_parked(ports: CalmPorts) -> None:
    parked(ports)
    found = restore_replica(ports, failed(ports))
    assert (found.standing, found.restored) == ("parked", True)
    assert ports.done("compute.start") == []


# -- return -----------------------------------------------------------------------------------------------------


def back(ports: CalmPorts, name: str) -> StepInput:
    given = leased(ports, name, "scale_out", BACK_RUN)
    ports.ledger.start_step(given.holder, name, ports.clock.now(), lease_end(ports.clock.now()))
    return given


def finish(ports: CalmPorts, name: str, run_id: str = BACK_RUN, **numbers: Any) -> None:
    given = leased(ports, name, "scale_out", run_id)
    ports.ledger.start_step(given.holder, name, ports.clock.now(), lease_end(ports.clock.now()))
    ports.ledger.finish_step(given.holder, name, ports.clock.now(), numbers)


def returning(ports: CalmPorts, hours: float = 1.0, prove: bool = True) -> None:
    """Parked, an hour later a shortage, and the plan returns it."""
    parked(ports)
    release_lease(ports, step(ports, "ReleaseLease"))
    if prove:
        for name, numbers in (
            ("VerifyStorage", {"verdict": "warm"}),
            ("PrepareDonor", {"server_uuid": "donor"}),
        ):
            finish(ports, name, RUN_ID, **numbers)
        release_lease(ports, leased(ports, "ReleaseLease"))
    ports.clock.advance(hours=hours)
    plan = plan_scale_out(ports, PlanStep(**back(ports, "PlanScaleOut").model_dump())).plan
    assert plan["method"]["action"] == "return", plan["method"]["reason"]
    start_parked_replica(ports, back(ports, "StartParkedReplica"))
    ports.clock.advance(seconds=15)


def test_without_the_builders_proof_it_is_not_registered(ports: CalmPorts) -> None:
    returning(ports, prove=False)
    finish(ports, "StartDatabase", server_uuid="its-own", read_only=True)
    finish(ports, "StartReplication", io_running=True, sql_running=True)
    finish(ports, "WaitForCatchUp", samples=[0, 0, 0])
    with pytest.raises(errors.RegistrationRefused, match="VerifyStorage: verdict is missing"):
        register_replica(ports, back(ports, "RegisterReplica"))


def undone(ports: CalmPorts, failure: Failure) -> None:
    given = FailedStep(**back(ports, "UndoScaleOut").model_dump(), failure=failure)
    for _ in range(5):
        try:
            undo_run(ports, given)
            return
        except errors.UndoInProgress:
            ports.clock.advance(seconds=NLB_PROPAGATION_SECONDS)
    raise AssertionError("the undo never ended")


def test_the_undo_of_a_return_parks_it_again_and_the_next_plan_builds(ports: CalmPorts) -> None:
    returning(ports)
    undone(ports, Failure(failed_step="StartDatabase", error="HostCommandFailed", cause="torn"))
    row = ports.ledger.replicas("orders")[PEAK]
    assert row.state is ReplicaState.PARKED
    assert row.parking is not None
    assert row.parking.failed_return == f"{BACK_RUN}, StartDatabase: HostCommandFailed"
    assert (row.parking.parked_at, row.parking.spent) == (DRAINED_AT, None)
    assert ports.compute.instance(PEAK).state == "stopped"
    assert ports.done("compute.terminate") == []
    plan = plan_scale_out(ports, PlanStep(**back(ports, "PlanScaleOut").model_dump())).plan
    assert plan["method"]["action"] == "build"
    assert "an earlier return failed" in plan["method"]["rejected"][PEAK]


def test_one_that_lost_its_owner_tag_meanwhile_is_not_started(ports: CalmPorts) -> None:
    parked(ports)
    release_lease(ports, step(ports, "ReleaseLease"))
    plan_scale_out(ports, PlanStep(**back(ports, "PlanScaleOut").model_dump()))
    take_owner_tag(ports)
    with pytest.raises(errors.ReturnRefused, match="I1"):
        start_parked_replica(ports, back(ports, "StartParkedReplica"))
    assert ports.done("compute.start") == []


def test_of_two_calls_that_start_it_at_once_the_later_one_goes_on(ports: CalmPorts) -> None:
    parked(ports)
    release_lease(ports, step(ports, "ReleaseLease"))
    plan_scale_out(ports, PlanStep(**back(ports, "PlanScaleOut").model_dump()))
    given = back(ports, "StartParkedReplica")
    ports.meets(Watches(at="compute.instances_of_cluster", hit=lambda: start_parked_replica(ports, given)))
    start_parked_replica(ports, given)
    assert ports.ledger.replicas("orders")[PEAK].state is ReplicaState.BUILDING


# -- room of a group of capacity reservations -------------------------------------------------------------------

GROUP = "arn:aws:resource-groups:us-east-1:111111111111:group/orders-peak"


def started_with_a_group(ports: CalmPorts) -> None:
    """The replica was parked, and somebody reserved room for an event since."""
    parked(ports)
    release_lease(ports, step(ports, "ReleaseLease"))
    settings = orders(retirement=ALWAYS, capacity_reservation_group_arn=GROUP)
    ports.clusters.by_name["orders"] = settings  # type: ignore[attr-defined]
    plan_scale_out(ports, PlanStep(**back(ports, "PlanScaleOut").model_dump()))
    start_parked_replica(ports, back(ports, "StartParkedReplica"))


def test_a_parked_replica_starts_in_the_room_of_the_group(ports: CalmPorts) -> None:
    ports.world.account.full_zones.add("us-east-1b")
    ports.compute.group_room = 1
    started_with_a_group(ports)
    assert (ports.done("compute.start"), ports.compute.group_room) == ([PEAK], 0)


def test_a_parked_replica_starts_also_where_the_group_is_gone(ports: CalmPorts) -> None:
    ports.compute.group_refused = errors.AwsCallRejected("ec2:StartInstances: InvalidParameterValue")
    started_with_a_group(ports)
    assert ports.asked("compute.start") == [(PEAK, GROUP), (PEAK,)]


def test_clients_that_a_forced_drain_will_cut_are_not_activity() -> None:
    limits = {"drain": {"limit_seconds": 0, "allow_forced": True}, "retirement": ALWAYS}
    ports = with_peak(calm_ports(orders(**limits)))
    select_idle_replicas(ports, SelectStep(**step(ports, "SelectIdleReplicas").model_dump()))
    deregister_replica(ports, step(ports, "DeregisterReplica"))
    clients(ports, 3, 7)
    given = recorded(ports, "DrainReplica")
    ports.clock.advance(seconds=NLB_PROPAGATION_SECONDS)
    ports.ledger.finish_step(given.holder, "DrainReplica", NOON, drain_replica(ports, given).numbers)
    assert "3 connections are to be cut" in confirm_idle(ports, recorded(ports, "ConfirmIdle")).text


def test_a_source_that_forgets_too_soon_sends_it_to_retirement() -> None:
    ports = with_peak(calm_ports(orders(retirement={"idle_seconds": 0, "park": "auto"})), LARGE_GIB)
    found = parked(ports, binlog_expire_seconds=1800)
    assert found.parked is False
    assert "it could stand for 0.4 h only" in found.text
    assert ports.done("compute.stop") == []
    retired(ports)


def test_no_capacity_to_start_leaves_it_parked(ports: CalmPorts) -> None:
    ports.world.account.full_zones.add("us-east-1b")
    with pytest.raises(errors.CapacityUnavailable):
        returning(ports)
    undone(ports, Failure(failed_step="StartParkedReplica", error="CapacityUnavailable", cause="full"))
    row = ports.ledger.replicas("orders")[PEAK]
    assert row.state is ReplicaState.PARKED
    assert ports.compute.instance(PEAK).state == "stopped"
