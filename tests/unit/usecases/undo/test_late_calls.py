"""A function of a stopped execution may still be at work: what lands late must harm nobody (I5, I6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceState, RunReplica, find
from peaker.domain.runs.run import FailedStep, StepInput
from peaker.usecases.leave.deregister_replica import deregister_replica
from peaker.usecases.leave.restore_replica import restore_replica
from peaker.usecases.leave.stop_replica import stop_owned_instance
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import intend
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract import errors
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, leased, orders
from tests.support.peak import IN_RUN, PEAK, answers, step, with_peak

BACK_RUN = "scale-out-orders-20261121T200000-00bc"
FAILURE = Failure(failed_step="Execution", error="ExecutionAborted", cause="pressed Stop")


@pytest.fixture
def ports() -> CalmPorts:
    return with_peak(calm_ports(orders()))


def fenced(ports: CalmPorts, run_id: str = IN_RUN) -> None:
    """roll_back has taken the run over."""
    ports.lease.acquire(
        "orders", run_id, "scale_in", ports.clock.now(), lease_end(ports.clock.now()), fence=True
    )


def retiring(ports: CalmPorts) -> StepInput:
    given = step(ports, "DeregisterReplica")
    replica = RunReplica(instance_id=PEAK, builder=RUN_ID, running_since=NOON)
    ports.ledger.settle(given.holder, replica)
    return given


def draining(ports: CalmPorts) -> None:
    row = ReplicaRow("orders", PEAK, RUN_ID, ReplicaState.DRAINING, NOON)
    ports.ledger.set_replica(retiring(ports).holder, row)
    ports.endpoint.forget(PEAK)


def deregisters(ports: CalmPorts, late: StepInput) -> None:
    deregister_replica(ports, late)


def stops_the_instance(ports: CalmPorts, late: StepInput) -> None:
    stop_owned_instance(ports, late.holder, PEAK, RUN_ID)


def restores(ports: CalmPorts, late: StepInput) -> None:
    restore_replica(ports, FailedStep(**late.model_dump(), failure=FAILURE))


def commands(ports: CalmPorts, late: StepInput) -> None:
    run_host_command(ports, late, "stop_database", PEAK, {"RunId": RUN_ID})


@pytest.mark.parametrize("act", [deregisters, stops_the_instance, restores, commands])
def test_a_call_of_a_fenced_run_changes_nothing(
    ports: CalmPorts, act: Callable[[CalmPorts, StepInput], None]
) -> None:
    late = retiring(ports)
    if act is restores:
        draining(ports)
    if act is commands:
        # The intent was written before the run was fenced: no write stands between it and the command.
        details = {"document": "stop_database", "instance_id": PEAK}
        intend(ports, late, ResourceKind.COMMAND, f"{late.step}#1", details)
        ports.clock.advance(minutes=2)
    before = (dict(ports.endpoint.health(orders())), dict(ports.endpoint.warming_health(orders())))
    fenced(ports)
    with pytest.raises(errors.LeaseLost):
        act(ports, late)
    assert (ports.endpoint.health(orders()), ports.endpoint.warming_health(orders())) == before
    assert (ports.done("compute.stop"), ports.done("compute.start"), ports.commands.sent) == ([], [], [])


def restored(ports: CalmPorts) -> str:
    given = step(ports, "RestoreStoppedRun")
    return restore_replica(ports, FailedStep(**given.model_dump(), failure=FAILURE)).standing


def asked_to_stop(ports: CalmPorts) -> None:
    """The command to stop its database was sent, and its function ended before it wrote the id."""
    draining(ports)
    given = step(ports, "ParkReplica")
    details = {"document": "stop_database", "instance_id": PEAK}
    ports.ledger.intend(
        given.holder, ResourceKind.COMMAND, "ParkReplica#1", "ParkReplica", ports.clock.now(), details
    )


def test_a_database_is_not_started_while_a_command_to_stop_it_may_still_show(ports: CalmPorts) -> None:
    asked_to_stop(ports)
    with pytest.raises(errors.HostCommandRunning, match=r"ParkReplica#1 .* it may still show"):
        restored(ports)
    assert ports.commands.sent == []


def test_a_database_is_not_started_while_it_stops_by_a_command_that_no_row_knows(ports: CalmPorts) -> None:
    asked_to_stop(ports)
    asked = {"RunId": RUN_ID, "FencingToken": "local/orders:1.0", "NotAfter": "9"}
    ports.commands.send("stop_database", PEAK, asked, f"{IN_RUN} ParkReplica#1")
    ports.clock.advance(minutes=5)
    with pytest.raises(errors.HostCommandRunning, match="is stopping"):
        restored(ports)
    assert [one[0] for one in ports.commands.sent] == ["stop_database", "report_work"]


def test_a_replica_that_a_late_call_registered_gets_no_reads_while_its_database_starts(
    ports: CalmPorts,
) -> None:
    asked_to_stop(ports)
    ports.endpoint.set(PEAK, TargetState.HEALTHY)
    with pytest.raises(errors.HostCommandRunning):
        restored(ports)
    assert ports.endpoint.health(orders())[PEAK].state is TargetState.DRAINING


def test_a_database_whose_host_restarted_while_it_stopped_is_started(ports: CalmPorts) -> None:
    asked_to_stop(ports)
    asked = {"RunId": RUN_ID, "FencingToken": "local/orders:1.0", "NotAfter": "9"}
    ports.commands.send("stop_database", PEAK, asked, f"{IN_RUN} ParkReplica#1")
    answers(ports, "report_work", at_work=False)
    for _ in range(2):
        ports.clock.advance(minutes=3)
        with pytest.raises(errors.HostCommandRunning):
            restored(ports)
    assert [one[0] for one in ports.commands.sent][-1] == "start_database"
    assert ports.done("commands.cancel") == list(ports.world.account.commands)[:1]
    answers(ports, "stop_database", gtid_set="uuid:1-9")
    with pytest.raises(errors.HostCommandRunning, match="start_database"):
        restored(ports)
    assert PEAK not in ports.endpoint.warming_health(orders())


def returned(ports: CalmPorts) -> FailedStep:
    """A return that was stopped after it had written that it registers, and before it did."""
    ports.endpoint.forget(PEAK)
    given = leased(ports, "UndoStoppedRun", "scale_out", BACK_RUN)
    holder = given.holder
    ports.ledger.settle(holder, RunReplica(instance_id=PEAK, builder=RUN_ID, running_since=NOON))
    parking = Parking(NOON, "uuid:1-9", 86_400, None, "no limit is known")
    row = ReplicaRow("orders", PEAK, RUN_ID, ReplicaState.BUILDING, NOON, parking)
    ports.ledger.set_replica(holder, row)
    ports.ledger.intend(
        holder, ResourceKind.TARGET, "read-endpoint", "RegisterReplica", NOON, {"instance_id": PEAK}
    )
    return FailedStep(**given.model_dump(), failure=FAILURE)


def test_a_parked_replica_never_stays_in_the_warming_group(ports: CalmPorts) -> None:
    undo = returned(ports)
    ports.commands.said["stop_database"] = CommandOutcome(CommandStatus.FAILED, stderr="no server")
    with pytest.raises(errors.UndoInProgress, match="waiting for it to stop"):
        undo_run(ports, undo)
    row = find(ports.ledger.resources(BACK_RUN), ResourceKind.TARGET, "read-endpoint")
    assert row is not None
    assert row.state is ResourceState.UNDONE
    ports.endpoint.set(PEAK, TargetState.INITIAL, only="warming")  # the registration lands now
    ports.clock.advance(seconds=20)
    with pytest.raises(errors.UndoInProgress, match=f"target {PEAK} initial"):
        undo_run(ports, undo)
    ports.clock.advance(minutes=5)
    undo_run(ports, undo)
    assert ports.endpoint.warming_health(orders()).get(PEAK) is None
    assert ports.ledger.replicas("orders")[PEAK].state is ReplicaState.PARKED
