"""RestoreReplica: a retirement that failed puts the replica back into service (I9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import computed_field

from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceState, of_kind
from peaker.domain.runs.run import FailedStep, StepInput, Summary
from peaker.domain.runs.run_memory import RunReplica
from peaker.ports import Ports
from peaker.usecases.join.await_healthy import require_healthy
from peaker.usecases.join.database_control import bring_database_back, database_step
from peaker.usecases.leave.lost_volumes import lost_volumes
from peaker.usecases.leave.retire_replica import is_leaving
from peaker.usecases.leave.stop_database import stop_commands
from peaker.usecases.plan.gather_fleet import source_of
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.lost_commands import lost_in_silence
from peaker.usecases.run.sent_commands import RESEND_AFTER, sent_command
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import HostCommandRunning, InstanceNotOnline


class Restored(Summary):
    """Where the replica stands; `restored` is false when it terminates, or has lost a volume: then the retirement must
    be finished.

    `outcome` is the run's: one that had parked its replica did what it was to do.
    """

    restored: bool
    standing: Literal["in_service", "parked", "leaving", "lost"]
    failure: Failure

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> Literal["rolled_back", "rolled_forward"]:
        return "rolled_back" if self.standing == "in_service" else "rolled_forward"


def restore_replica(ports: Ports, step: FailedStep) -> Restored:
    """Raises TargetNotHealthy until the replica serves again; InstanceNotOnline and HostCommandRunning before that.

    A replica whose database or instance was stopped already is started and catches up first; so is one that the
    endpoint finds unhealthy: its host may have booted anew; and one that was out of the endpoint while there may have
    been a failover. One that is parked stays so: parking was what the run was
    to do.
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
    if lost := lost_volumes(ports, instance_id, chosen.builder):
        return Restored(
            text=f"{instance_id} cannot serve again: {', '.join(lost)} of it is attached to it no more",
            restored=False,
            standing="lost",
            failure=failure,
        )
    settings = ports.clusters.settings(step.cluster)
    if _may_be_down(ports, step, settings, row, chosen):
        _wake(ports, step, settings, instance_id)
    for enter in (ports.endpoint.register, ports.endpoint.promote):
        ports.ledger.require_lease(holder_of(step))
        enter(settings, instance_id)
    require_healthy(ports, settings, instance_id)
    serving = replace(row, state=ReplicaState.IN_SERVICE, changed_at=ports.clock.now())
    ports.ledger.set_replica(holder_of(step), serving)
    return Restored(text=f"{instance_id} serves again", restored=True, standing="in_service", failure=failure)


def _may_be_down(
    ports: Ports, step: StepInput, settings: ClusterSettings, row: ReplicaRow, chosen: RunReplica
) -> bool:
    """Whether its database has to be started, or to be told the source. One that may leaves the endpoint first (I5)."""
    if stop_commands(ports, step.run_id) or _is_being_woken(ports, step) or not _ran_all_the_time(ports, row):
        return True
    health = ports.endpoint.health(settings).get(row.instance_id)
    if health is None or health.state is TargetState.DRAINING:
        return not _same_source(ports, settings, chosen)
    if health.state is not TargetState.UNHEALTHY or not ports.commands.is_online(row.instance_id):
        return False
    ports.ledger.require_lease(holder_of(step))
    ports.endpoint.deregister(settings, row.instance_id)
    return True


def _same_source(ports: Ports, settings: ClusterSettings, chosen: RunReplica) -> bool:
    """Who fails a cluster over moves the replicas that serve; one that is out of the endpoint may be forgotten."""
    source = source_of(ports, settings)
    return not isinstance(source, Unknown) and source.instance_id == chosen.follows


def _is_being_woken(ports: Ports, step: StepInput) -> bool:
    """An earlier look began to: by now the endpoint has nothing to say of it."""
    commands = of_kind(ports.ledger.resources(step.run_id), ResourceKind.COMMAND)
    return any(row.step == database_step(step, "start_database") for row in commands)


def _ran_all_the_time(ports: Ports, row: ReplicaRow) -> bool:
    """Its instance runs as it did when the replica left the endpoint; after a start its database may be down."""
    instance = ports.compute.instance(row.instance_id)
    return instance.state == "running" and instance.launched_at <= row.changed_at


def _wake(ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str) -> None:
    state = ports.compute.instance(instance_id).state
    if state == "stopped":
        _leave_before_it_starts(ports, step, settings, instance_id)
        ports.ledger.require_lease(holder_of(step))
        ports.compute.start(instance_id)
    if state != "running" or not ports.commands.is_online(instance_id):
        raise InstanceNotOnline(f"{instance_id} is {state}, it is being started again")
    _await_running_stop(ports, step, instance_id)
    bring_database_back(ports, step, settings, instance_id)


def _leave_before_it_starts(
    ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str
) -> None:
    """A database that has to catch up gets no reads meanwhile (I5)."""
    if instance_id in ports.endpoint.health(settings):
        ports.ledger.require_lease(holder_of(step))
        ports.endpoint.deregister(settings, instance_id)


def _await_running_stop(ports: Ports, step: StepInput, instance_id: str) -> None:
    """A database that is still shutting down must not be started meanwhile. Raises HostCommandRunning.

    A command whose answer was lost shows within RESEND_AFTER, if it was sent; one on which
    nobody works any more is over.
    """
    for row in stop_commands(ports, step.run_id):
        if not row.is_open:
            continue
        command_id = sent_command(ports, step.run_id, row)
        if command_id is None:
            if ports.clock.now() - row.intended_at < RESEND_AFTER:
                raise HostCommandRunning(
                    f"{row.name} of {instance_id}: its answer was lost; it may still show"
                )
            continue
        outcome = ports.commands.outcome(command_id, instance_id)
        if outcome.status.is_over:
            continue
        if lost_in_silence(ports, step, row) is None:
            raise HostCommandRunning(f"the database of {instance_id} is stopping: {outcome.status.value}")
        ports.commands.cancel(command_id, instance_id)
        ports.ledger.mark(holder_of(step), step.run_id, row, ResourceState.UNDONE)
