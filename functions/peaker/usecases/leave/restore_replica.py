"""RestoreReplica: a retirement that failed puts the replica back into service (I9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import FailedStep, StepInput, Summary
from peaker.domain.runs.run_memory import RunReplica
from peaker.ports import Ports
from peaker.usecases.join.await_healthy import require_healthy
from peaker.usecases.join.database_control import bring_database_back
from peaker.usecases.leave.retire_replica import is_leaving
from peaker.usecases.leave.stop_database import stop_commands
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import HostCommandRunning, InstanceNotOnline


class Restored(Summary):
    """Where the replica stands; `restored` is false when it terminates: then the retirement must be finished."""

    restored: bool
    standing: Literal["in_service", "parked", "leaving"]
    failure: Failure


def restore_replica(ports: Ports, step: FailedStep) -> Restored:
    """Raises TargetNotHealthy until the replica serves again; InstanceNotOnline and HostCommandRunning before that.

    A replica whose database or instance was stopped already is started and catches up first. One that is parked stays
    so: parking was what the run was to do.
    """
    failure = step.failure.innermost()
    chosen = ports.ledger.run(step.run_id).part(RunReplica)
    if chosen is None:
        return Restored(text="no replica was chosen", restored=True, standing="in_service", failure=failure)
    instance_id = chosen.instance_id
    if is_leaving(ports, instance_id):
        return Restored(
            text=f"{instance_id} terminates already", restored=False, standing="leaving", failure=failure
        )
    row = ports.ledger.replicas(step.cluster).get(instance_id)
    if row is not None and row.state is ReplicaState.PARKED:
        return Restored(text=f"{instance_id} is parked", restored=True, standing="parked", failure=failure)
    if row is None or row.state is not ReplicaState.DRAINING:
        return Restored(
            text=f"{instance_id} was never taken out", restored=True, standing="in_service", failure=failure
        )
    settings = ports.clusters.settings(step.cluster)
    if stop_commands(ports, step.run_id):
        _wake(ports, step, settings, instance_id)
    ports.endpoint.register(settings, instance_id)
    ports.endpoint.promote(settings, instance_id)
    require_healthy(ports, settings, instance_id)
    serving = replace(row, state=ReplicaState.IN_SERVICE, changed_at=ports.clock.now())
    ports.ledger.set_replica(holder_of(step), serving)
    return Restored(text=f"{instance_id} serves again", restored=True, standing="in_service", failure=failure)


def _wake(ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str) -> None:
    state = ports.compute.instance(instance_id).state
    if state == "stopped":
        ports.compute.start(instance_id)
    if state != "running" or not ports.commands.is_online(instance_id):
        raise InstanceNotOnline(f"{instance_id} is {state}, it is being started again")
    _await_running_stop(ports, step.run_id, instance_id)
    bring_database_back(ports, step, settings, instance_id)


def _await_running_stop(ports: Ports, run_id: str, instance_id: str) -> None:
    """A database that is still shutting down must not be started meanwhile. Raises HostCommandRunning."""
    for row in stop_commands(ports, run_id):
        if row.resource_id is None or not row.is_open:
            continue
        outcome = ports.commands.outcome(row.resource_id, instance_id)
        if not outcome.status.is_over:
            raise HostCommandRunning(f"the database of {instance_id} is stopping: {outcome.status.value}")
