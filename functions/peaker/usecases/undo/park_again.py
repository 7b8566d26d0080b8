"""The undo of a return: the replica leaves the endpoint, stops, and stands parked with what was learned (I9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from peaker.domain.host_results import DatabaseStopped
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.leave.retire_replica import is_leaving
from peaker.usecases.leave.stop_replica import stop_commands, stop_database, stop_owned_instance
from peaker.usecases.run.run_memory import host_id
from peaker.usecases.run.tear_down import (
    TearDown,
    cancel_commands,
    remove_targets,
    require_not_source,
    tear_down,
)
from peaker_contract.errors import BinlogsGone, HostCommandFailed, HostCommandRunning, UndoInProgress


def park_again(ports: Ports, step: StepInput, builder: str, failure: Failure) -> str:
    """Raises UndoInProgress until it stands. One that EC2 has ended meanwhile goes with all that was made for it."""
    holder, settings = step.holder, ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step, "replica")
    job = TearDown(ports, holder, settings, step.run_id, builder)
    rows = ports.ledger.resources(step.run_id)
    _wait(step, cancel_commands(job, rows, except_of=step.step))
    row = ports.ledger.replicas(step.cluster)[instance_id]
    if is_leaving(ports, instance_id):
        _wait(step, tear_down(TearDown(ports, holder, settings, builder)))
        ports.ledger.set_replica(
            holder, replace(row, state=ReplicaState.RETIRED, changed_at=ports.clock.now())
        )
        return f"{instance_id} had ended; nothing of it is left"
    _wait(step, remove_targets(job, rows))
    stopped = _stop(ports, step, instance_id, builder)
    parked = _parked_row(ports, step, row, stopped, failure)
    ports.ledger.set_replica(holder, parked)
    return f"{instance_id} is parked again"


def _wait(step: StepInput, waiting: list[str]) -> None:
    if waiting:
        raise UndoInProgress(f"{step.run_id}: waiting for {', '.join(waiting)}")


def _stop(ports: Ports, step: StepInput, instance_id: str, builder: str) -> DatabaseStopped | None:
    """Stop database and instance; None when the database could not say where it stood. Raises UndoInProgress."""
    instance = ports.compute.instance(instance_id)
    require_not_source(instance_id, instance.tags)
    state = instance.state
    answers = state == "running" and ports.commands.agent(instance_id).is_online
    if state == "stopped":
        return _position(ports, step, instance_id)
    if answers:
        try:
            stop_database(ports, step, instance_id)
        except HostCommandRunning as running:
            raise UndoInProgress(str(running)) from running
        except HostCommandFailed:
            # EC2 shuts the system down, and with it the database; InnoDB recovers at the next start if need be.
            pass
    if state != "stopping":
        stop_owned_instance(ports, step.holder, instance_id, builder)
    raise UndoInProgress(f"{instance_id} is {state}, waiting for it to stop")


def _position(ports: Ports, step: StepInput, instance_id: str) -> DatabaseStopped | None:
    """Returns the answer of stop_database in this undo, without asking a host that has stopped."""
    if not any(row.resource_id is not None for row in stop_commands(ports, step.run_id, step.step)):
        return None
    try:
        return stop_database(ports, step, instance_id)
    except (HostCommandFailed, HostCommandRunning):
        return None


def _parked_row(
    ports: Ports, step: StepInput, row: ReplicaRow, stopped: DatabaseStopped | None, failure: Failure
) -> ReplicaRow:
    now = ports.clock.now()
    before = row.parking or Parking(now, "", None, now, "nothing is known of its first parking")
    gone = failure.error == BinlogsGone.__name__
    spent = f"the source has purged binary logs that it lacks ({failure.cause})" if gone else before.spent
    parking = replace(
        before,
        gtid_set=before.gtid_set if stopped is None or stopped.gtid_set is None else stopped.gtid_set,
        parked_at=_applied_until(ports, step, before, stopped, now),
        spent=spent,
        failed_return=f"{step.run_id}, {failure.failed_step}: {failure.error}",
    )
    return replace(row, state=ReplicaState.PARKED, changed_at=now, parking=parking)


def _applied_until(
    ports: Ports, step: StepInput, before: Parking, stopped: DatabaseStopped | None, now: datetime
) -> datetime:
    """Returns the time until which it followed its source: now if it had caught up in this run, else as before."""
    caught_up = any(
        row.step == "WaitForCatchUp" and row.finished_at is not None
        for row in ports.ledger.steps(step.run_id)
    )
    return now if caught_up and stopped is not None else before.parked_at
