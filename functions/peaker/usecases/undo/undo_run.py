"""UndoScaleOut: nothing of a failed run is left, and the serving fleet is as it was (I9); or what serves stays."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import RunReplica, RunRow
from peaker.domain.runs.run import FailedStep
from peaker.domain.service.ramp import Ramp
from peaker.domain.service.registration import source_changes
from peaker.domain.service.standing import Standing, standing_of
from peaker.ports.bundle import Ports
from peaker.usecases.join.ramp_traffic import put_into_service
from peaker.usecases.leave.retire_replica import is_leaving
from peaker.usecases.plan.gather_fleet import source_of
from peaker.usecases.run.batch_members import members_of
from peaker.usecases.run.run_memory import builder_of, opened_run
from peaker.usecases.run.tear_down import TearDown, tear_down
from peaker.usecases.undo.park_again import park_again
from peaker.usecases.undo.undo_members import Undone, undo_members
from peaker_contract.errors import UndoInProgress


def undo_run(ports: Ports, step: FailedStep) -> Undone:
    """Raises UndoInProgress, naming what is left, until EC2 and the endpoint show nothing of the run.

    Once its replica has been in service the run only goes forward: whatever fails after that takes nothing away. A run
    that returned a parked replica made nothing: it parks the replica again. A batch is undone member by member, and its
    snapshot set when none of them serves; the undo of one member leaves the set and the others alone.
    """
    run = opened_run(ports, step.run_id)
    failure = step.failure.innermost()
    batch = None if run is None or step.batch is not None else run.part(Batch)
    if run is None or batch is None or not batch.members:
        return _one_undone(ports, step, run, failure)
    return _batch_undone(ports, step, batch, failure)


def _batch_undone(ports: Ports, step: FailedStep, batch: Batch, failure: Failure) -> Undone:
    """Each member's next step; then what they shared."""
    undo_members(ports, step, batch, lambda own, row: _one_undone(ports, own, row, failure))
    serving = sum(one.state == "in_service" for one in members_of(ports, batch).values())
    if serving == 0:
        return _taken_away(ports, step, failure)
    text = f"{serving} of {batch.wanted} serve and stay"
    return Undone(
        text=text, failure=failure, outcome="partly" if serving < batch.wanted else "rolled_forward"
    )


def _one_undone(ports: Ports, step: FailedStep, run: RunRow | None, failure: Failure) -> Undone:
    replica = None if run is None else run.part(RunReplica)
    if run is not None and replica is not None and not is_leaving(ports, replica.instance_id):
        member = run.part(Member)
        if member is not None and member.state == "in_service":
            # A later run may have parked its replica since.
            return Undone(text="it has come into service", failure=failure, outcome="rolled_forward")
        standing = _standing(ports, run, replica)
        if standing.stays:
            if not standing.admitted:
                _require_followed_source(ports, step, standing)
            if not standing.recorded:
                put_into_service(ports, step, replica.instance_id)
            return Undone(text=f"it stays: {standing.reason}", failure=failure, outcome="rolled_forward")
    if run is not None and builder_of(run) != step.run_id:
        return Undone(text=park_again(ports, step, builder_of(run), failure), failure=failure)
    return _taken_away(ports, step, failure)


def _require_followed_source(ports: Ports, step: FailedStep, standing: Standing) -> None:
    """Raises where a replica that gets reads because too few others serve (I3) follows a former source (I5)."""
    source = source_of(ports, ports.clusters.settings(step.cluster))
    changes = source_changes({row.step: row for row in ports.ledger.steps(step.run_id)}, source)
    if changes:
        raise UndoInProgress(f"{standing.reason}; it is not put into service: {'; '.join(changes)}")


def _standing(ports: Ports, run: RunRow, replica: RunReplica) -> Standing:
    settings = ports.clusters.settings(run.cluster)
    ramp = run.part(Ramp)
    return standing_of(
        replica.instance_id,
        ports.ledger.replicas(run.cluster).get(replica.instance_id),
        run_id=run.run_id,
        promoted=ramp is not None and ramp.promoted,
        serving=ports.endpoint.health(settings),
        warming=ports.endpoint.warming_health(settings),
        min_replicas=settings.min_replicas,
    )


def _taken_away(ports: Ports, step: FailedStep, failure: Failure) -> Undone:
    holder = step.holder
    settings = ports.clusters.settings(step.cluster)
    alone = step.batch is None
    for kept in ports.ledger.snapshot_sets(step.cluster):
        if kept.run_id == step.run_id and alone:
            ports.ledger.forget_snapshots(holder, kept, ports.clock.now())
    waiting = tear_down(TearDown(ports, holder, settings, step.run_id, shares_snapshots=not alone))
    if waiting:
        raise UndoInProgress(f"{step.run_id}: waiting for {', '.join(waiting)}")
    for row in ports.ledger.replicas(step.cluster).values():
        if row.run_id == step.run_id and row.state is not ReplicaState.RETIRED:
            retired = replace(row, state=ReplicaState.RETIRED, changed_at=ports.clock.now())
            ports.ledger.set_replica(holder, retired)
    return Undone(text=f"nothing of {step.run_id} is left", failure=failure)
