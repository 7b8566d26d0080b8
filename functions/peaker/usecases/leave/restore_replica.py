"""RestoreReplica: a retirement that failed puts the replica back into service (I9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import computed_field

from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, ResourceState, RunReplica, Waking, of_kind
from peaker.domain.runs.run import FailedStep, StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.create.start_instance import start_instance
from peaker.usecases.join.await_healthy import require_healthy, require_registered
from peaker.usecases.join.database_control import bring_database_back, database_step
from peaker.usecases.leave.retire_replica import is_leaving, lost_volumes
from peaker.usecases.leave.stop_replica import stop_commands
from peaker.usecases.plan.gather_fleet import source_of
from peaker.usecases.run.lost_commands import lost_in_silence
from peaker.usecases.run.sent_commands import RESEND_AFTER, sent_command
from peaker.usecases.run.tear_down import require_not_source
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import HostCommandFailed, HostCommandRunning, InstanceNotOnline, ReplicaNeeded


class Restored(Summary):
    """Where the replica stands; `restored` is false when it terminates, or has lost a volume: then the retirement must
    be finished.

    `outcome` is the run's: one that had parked its replica did what it was to do; one whose replica is needed again is
    called off.
    """

    restored: bool
    standing: Literal["in_service", "parked", "leaving", "lost"]
    failure: Failure

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> Literal["rolled_back", "rolled_forward", "called_off"]:
        if self.standing != "in_service":
            return "rolled_forward"
        return "called_off" if self.failure.error == ReplicaNeeded.__name__ else "rolled_back"


def restore_replica(ports: Ports, step: FailedStep) -> Restored:
    """Raises TargetNotHealthy until the replica serves again; InstanceNotOnline and HostCommandRunning before that.

    A replica that is needed again ends its run as soon as it is registered: more may be missing, and their run waits
    for the lease. It counts as coming until the load balancer finds it healthy; sweep_orphans restores one that stays
    unhealthy.

    A replica whose database or instance was stopped already is started and catches up first; so is one that the
    endpoint finds unhealthy: its host may have booted anew; and one that was out of the endpoint while there may have
    been a failover. Where its host fails once more, all of it is done again, out of the endpoint.
    One that is parked stays so: parking was what the run was to do. Raises NotOwned for one that a failover made the
    source: it follows nobody (I2).
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
    require_not_source(instance_id, ports.compute.instance(instance_id).tags)
    settings = ports.clusters.settings(step.cluster)
    if times := _times_brought_back(ports, step, settings, row, chosen):
        _bring_back(ports, step, settings, instance_id, times)
    for enter in (ports.endpoint.register, ports.endpoint.promote):
        ports.ledger.require_lease(step.holder)
        enter(settings, instance_id)
    called_off = failure.error == ReplicaNeeded.__name__
    (require_registered if called_off else require_healthy)(ports, settings, instance_id)
    serving = replace(row, state=ReplicaState.IN_SERVICE, changed_at=ports.clock.now())
    ports.ledger.set_replica(step.holder, serving)
    text = f"{instance_id} {'is registered' if called_off else 'serves'} again"
    return Restored(text=text, restored=True, standing="in_service", failure=failure)


def _times_brought_back(
    ports: Ports, step: StepInput, settings: ClusterSettings, row: ReplicaRow, chosen: RunReplica
) -> int:
    """Counts how often the replica's database was brought back, this time included; 0 where it is up.

    To bring it back is to start it and to make it follow the source of today.
    """
    known = ports.ledger.run(step.run_id).part(Waking)
    times = 0 if known is None else known.times.get(row.instance_id, 0)
    if times == 0:
        begins = _may_be_down(ports, step, settings, row, chosen)
    else:
        begins = _is_void(ports, step, row.instance_id, times) or _is_down(ports, settings, row)
    if not begins:
        return times
    _note_times(ports, step, row.instance_id, times + 1)
    return times + 1


def _may_be_down(
    ports: Ports, step: StepInput, settings: ClusterSettings, row: ReplicaRow, chosen: RunReplica
) -> bool:
    if stop_commands(ports, step.run_id) or not _ran_all_the_time(ports, row):
        return True
    health = ports.endpoint.health(settings).get(row.instance_id)
    if health is None or health.state is TargetState.DRAINING:
        return not _same_source(ports, settings, chosen)
    return _is_down(ports, settings, row)


def _is_down(ports: Ports, settings: ClusterSettings, row: ReplicaRow) -> bool:
    """The endpoint finds it unhealthy, and its host takes commands: it may have booted anew."""
    health = ports.endpoint.health(settings).get(row.instance_id)
    unhealthy = health is not None and health.state is TargetState.UNHEALTHY
    return unhealthy and ports.commands.agent(row.instance_id).is_online


def _is_void(ports: Ports, step: StepInput, instance_id: str, times: int) -> bool:
    """Tells whether the instance was started after the first command to start its database: then that is void."""
    sent = [row.intended_at for row in _start_commands(ports, step, times)]
    return bool(sent) and ports.compute.instance(instance_id).launched_at > min(sent)


def _start_commands(ports: Ports, step: StepInput, times: int) -> list[ResourceRow]:
    """Returns the commands that start its database this time."""
    commands = of_kind(ports.ledger.resources(step.run_id), ResourceKind.COMMAND)
    return [row for row in commands if row.step == database_step(step, "start_database", times)]


def _same_source(ports: Ports, settings: ClusterSettings, chosen: RunReplica) -> bool:
    """Tells whether the source is still that of the drain. A failover moves the replicas that serve, and may forget
    one that is out of the endpoint.
    """
    source = source_of(ports, settings)
    return not isinstance(source, Unknown) and source.instance_id == chosen.follows


def _ran_all_the_time(ports: Ports, row: ReplicaRow) -> bool:
    """Its instance runs as it did when the replica left the endpoint; after a start its database may be down."""
    instance = ports.compute.instance(row.instance_id)
    return instance.state == "running" and instance.launched_at <= row.changed_at


def _bring_back(
    ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str, times: int
) -> None:
    if not _start_commands(ports, step, times):
        _leave_endpoint(ports, step, settings, instance_id)
    state = ports.compute.instance(instance_id).state
    if state == "stopped":
        ports.ledger.require_lease(step.holder)
        start_instance(ports, instance_id, settings.capacity_reservation_group_arn)
    if state != "running" or not ports.commands.agent(instance_id).is_online:
        raise InstanceNotOnline(f"{instance_id} is {state}, it is being started again")
    _await_running_stop(ports, step, instance_id)
    try:
        bring_database_back(ports, step, settings, instance_id, times)
    except HostCommandFailed:
        # A command's answer is kept. The host may have booted anew since an earlier one: the next try asks all again.
        _note_times(ports, step, instance_id, times + 1)
        raise


def _note_times(ports: Ports, step: StepInput, instance_id: str, times: int) -> None:
    """Note the number of the next try; a call that lands late takes none back."""
    known = ports.ledger.run(step.run_id).part(Waking)
    before = {} if known is None else known.times
    newest = max(times, before.get(instance_id, 0))
    ports.ledger.settle(step.holder, Waking(times={**before, instance_id: newest}))


def _leave_endpoint(ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str) -> None:
    """A database that has to catch up gets no reads meanwhile (I5)."""
    health = ports.endpoint.health(settings).get(instance_id)
    if health is not None and health.state is not TargetState.DRAINING:
        ports.ledger.require_lease(step.holder)
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
        ports.ledger.mark(step.holder, step.run_id, row, ResourceState.UNDONE)
