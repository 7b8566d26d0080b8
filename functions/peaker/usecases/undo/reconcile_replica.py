"""A remedy puts a replica or a resource where the ledger has it, after its run has ended (I1, I5, I7)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import assert_never

from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import Holder, ResourceKind, RunReplica, of_kind
from peaker.domain.runs.run import FailedStep
from peaker.domain.service.leftovers import Leftover, Remedy, attempt_of
from peaker.domain.service.retirement import why_needed
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import load_evidence, require_removable
from peaker.usecases.leave.restore_replica import restore_replica
from peaker.usecases.leave.retire_replica import is_leaving, lost_volumes
from peaker.usecases.leave.stop_replica import stop_owned_instance
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.run_memory import instance_state
from peaker.usecases.run.tear_down import (
    TearDown,
    delete_snapshots,
    require_not_source,
    require_owned,
    tear_down,
)
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NotOwned, ResourceNotFound, RetirementRefused, UndoInProgress


def reconcile_replica(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    """Does one step of the leftover's remedy.

    Raises UndoInProgress or another NotYet error until it is done, NotOwned where I1 forbids it.
    """
    match leftover.remedy:
        case Remedy.REJOIN:
            return _rejoin(ports, holder, leftover)
        case Remedy.PARK:
            return _park(ports, holder, leftover)
        case Remedy.CLEAR:
            return _clear(ports, holder, leftover)
        case Remedy.REMOVE_DOUBLE:
            return _remove_double(ports, holder, leftover)
        case Remedy.DOUBT | Remedy.TRUST:
            return _noted(ports, holder, leftover)
        case Remedy.WRITE_OFF:
            return _write_off(ports, holder, leftover)
        case Remedy.RETIRE:
            return _retire(ports, holder, leftover)
        case Remedy.END_RUN:
            raise ValueError("a run is ended by end_run")
        case _:
            assert_never(leftover.remedy)


def _row(ports: Ports, holder: Holder, leftover: Leftover) -> ReplicaRow:
    return ports.ledger.replicas(holder.cluster)[str(leftover.instance_id)]


def _rejoin(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    """Rejoins the replica as a failed retirement does: its database is started where it was stopped, then it
    is registered.
    """
    row = _row(ports, holder, leftover)
    instance = ports.compute.instance(row.instance_id)
    require_not_source(row.instance_id, instance.tags)
    ports.ledger.settle(
        holder,
        RunReplica(instance_id=row.instance_id, builder=row.run_id, running_since=instance.launched_at),
    )
    if row.state is not ReplicaState.DRAINING:
        now = ports.clock.now()
        row = replace(row, state=ReplicaState.DRAINING, changed_at=now, unhealthy_since=None)
        ports.ledger.set_replica(holder, row)
    failure = Failure(failed_step="SweepOrphans", error="ReplicaNotRegistered", cause=leftover.reason)
    step = FailedStep(
        run_id=holder.run_id,
        cluster=holder.cluster,
        operation="scale_in",
        # A run of the sweep may bring several back: each has its own commands and answers.
        step=f"RestoreReplica/{row.instance_id}",
        fencing_token=holder.fencing_token,
        failure=failure,
    )
    restored = restore_replica(ports, step)
    if not restored.restored:
        raise UndoInProgress(restored.text)
    return restored.text


def _park(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    """Takes the replica out of the endpoint; then EC2 stops the system, and with it the database.

    Raises RetirementRefused where a person put it back into service and it is needed there (I3, I4).
    """
    row, settings = _row(ports, holder, leftover), ports.clusters.settings(holder.cluster)
    _require_not_needed(ports, settings, row.instance_id)
    _leave_endpoint(ports, holder, settings, row)
    state = ports.compute.instance(row.instance_id).state
    if state != "stopped":
        if state != "stopping":
            stop_owned_instance(ports, holder, row.instance_id, row.run_id)
        raise UndoInProgress(f"{row.instance_id} stops")
    now = ports.clock.now()
    parking = row.parking or Parking(now, None, None, now, "nothing is known of its first parking")
    whole = replace(parking, incomplete_since=None)
    parked = replace(row, state=ReplicaState.PARKED, changed_at=now, parking=whole)
    ports.ledger.set_replica(holder, parked)
    return f"{row.instance_id} stands parked"


def _clear(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    """Takes away a replica with all that its run made; only the snapshots, or that instance, where the run has
    another replica that stands.

    Raises RetirementRefused where the replica gets reads and the guard forbids that it goes (I2, I3, I4).
    """
    settings, rows = ports.clusters.settings(holder.cluster), ports.ledger.resources(leftover.run_id)
    job = TearDown(ports, holder, settings, leftover.run_id)
    others = [
        row
        for row in ports.ledger.replicas(holder.cluster).values()
        if row.run_id == leftover.run_id
        and row.instance_id != leftover.instance_id
        and row.state is not ReplicaState.RETIRED
    ]
    if leftover.instance_id is not None:
        _require_not_needed(ports, settings, leftover.instance_id)
        _leave_endpoint(ports, holder, settings, _row(ports, holder, leftover))
    if not others:
        waiting = tear_down(job)
    elif leftover.instance_id is None:
        waiting = delete_snapshots(job, rows)
    else:
        waiting = _end_instance(ports, holder, leftover)
    if waiting:
        raise UndoInProgress(f"{leftover.run_id}: waiting for {', '.join(waiting)}")
    if leftover.instance_id is not None:
        row, now = _row(ports, holder, leftover), ports.clock.now()
        ports.ledger.set_replica(holder, replace(row, state=ReplicaState.RETIRED, changed_at=now))
    return f"what {leftover.run_id} left is gone: {leftover.reason}"


def _require_not_needed(ports: Ports, settings: ClusterSettings, instance_id: str) -> None:
    """Raises RetirementRefused where it serves and the others do not suffice without it, or nobody knows (I3, I4)."""
    fleet = gather_fleet(ports, settings)
    replica = fleet.replica(instance_id)
    if replica is None or not replica.is_serving:
        return
    if reasons := why_needed(load_evidence(ports, settings), fleet, settings, instance_id):
        raise RetirementRefused(f"{instance_id}: {'; '.join(reasons)}")


def _end_instance(ports: Ports, holder: Holder, leftover: Leftover) -> list[str]:
    """Terminates the leftover's instance alone; returns its id until it has ended."""
    instance_id = str(leftover.instance_id)
    state = instance_state(ports, instance_id)
    if state == "terminated":
        return []
    if state != "shutting-down":
        _terminate_launched(ports, holder, leftover)
    return [instance_id]


def _noted(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    since = ports.clock.now() if leftover.remedy is Remedy.DOUBT else None
    ports.ledger.set_replica(holder, replace(_row(ports, holder, leftover), unhealthy_since=since))
    return f"{leftover.instance_id}: {leftover.reason}"


def _write_off(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    """A parked one is not returned, one in service is on its way out: until the volume is back, or it is retired."""
    row, now = _row(ports, holder, leftover), ports.clock.now()
    if row.state is ReplicaState.PARKED and row.parking is not None:
        noted = replace(row, parking=replace(row.parking, incomplete_since=now))
    else:
        noted = replace(row, state=ReplicaState.DRAINING)
    ports.ledger.set_replica(holder, replace(noted, changed_at=now))
    return f"{row.instance_id} is written off: {leftover.reason}"


def _retire(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    """Raises RetirementRefused where the replica is the source by now, is not known to get no reads, or has its
    volumes again.
    """
    row, settings = _row(ports, holder, leftover), ports.clusters.settings(holder.cluster)
    if not is_leaving(ports, row.instance_id):
        lost = lost_volumes(ports, row.instance_id, row.run_id)
        if not lost:
            raise RetirementRefused(f"{row.instance_id} has all its volumes again")
        require_removable(ports, settings, row.instance_id, lost)
    return _clear(ports, holder, leftover)


def _remove_double(ports: Ports, holder: Holder, leftover: Leftover) -> str:
    """Ends an instance of a run that has another one as its replica."""
    _terminate_launched(ports, holder, leftover)
    return f"{leftover.instance_id} ends: {leftover.reason}"


def _terminate_launched(ports: Ports, holder: Holder, leftover: Leftover) -> None:
    """Terminates an instance whose launch the leftover's run recorded. Raises NotOwned (I1)."""
    instance_id = str(leftover.instance_id)
    launches = of_kind(ports.ledger.resources(leftover.run_id), ResourceKind.INSTANCE)
    if attempt_of(launches, ports.compute.instance(instance_id)) is None:
        raise NotOwned(f"{instance_id} is left alone: {leftover.run_id} recorded no launch of it (I1)")
    require_owned(ports, instance_id, leftover.run_id)
    ports.ledger.require_lease(holder)
    ports.compute.terminate(instance_id)


def _leave_endpoint(ports: Ports, holder: Holder, settings: ClusterSettings, row: ReplicaRow) -> None:
    """Raises UndoInProgress while either group has it. An id that EC2 has forgotten is never given again."""
    groups = (ports.endpoint.health(settings), ports.endpoint.warming_health(settings))
    states = {group[row.instance_id].state for group in groups if row.instance_id in group}
    if not states:
        return
    if states != {TargetState.DRAINING}:
        with suppress(ResourceNotFound):
            require_owned(ports, row.instance_id, row.run_id)
        ports.ledger.require_lease(holder)
        ports.endpoint.deregister(settings, row.instance_id)
    raise UndoInProgress(f"{row.instance_id} leaves the endpoint")
