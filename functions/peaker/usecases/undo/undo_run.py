"""UndoScaleOut: nothing of a failed run is left, and the serving fleet is as it was (I9)."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import FailedStep, Summary
from peaker.ports import Ports
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.run_memory import builder_of
from peaker.usecases.run.tear_down import TearDown, tear_down
from peaker.usecases.undo.park_again import park_again
from peaker_contract.errors import LedgerInconsistent, UndoInProgress


class Undone(Summary):
    """The failure travels on to the record and to the end state."""

    failure: Failure


def undo_run(ports: Ports, step: FailedStep) -> Undone:
    """Raises UndoInProgress, naming what is left, until EC2 and the endpoint show nothing of the run.

    A run that returned a parked replica made nothing: it parks the replica again.
    """
    builder = builder_of(ports.ledger.run(step.run_id)) if _was_opened(ports, step.run_id) else step.run_id
    if builder != step.run_id:
        return _undo_return(ports, step, builder)
    holder = holder_of(step)
    settings = ports.clusters.settings(step.cluster)
    for kept in ports.ledger.snapshot_sets(step.cluster):
        if kept.run_id == step.run_id:
            ports.ledger.forget_snapshots(holder, kept, ports.clock.now())
    waiting = tear_down(TearDown(ports, holder, settings, step.run_id))
    if waiting:
        raise UndoInProgress(f"{step.run_id}: waiting for {', '.join(waiting)}")
    for row in ports.ledger.replicas(step.cluster).values():
        if row.run_id == step.run_id and row.state is not ReplicaState.RETIRED:
            retired = replace(row, state=ReplicaState.RETIRED, changed_at=ports.clock.now())
            ports.ledger.set_replica(holder, retired)
    return Undone(text=f"nothing of {step.run_id} is left", failure=step.failure.innermost())


def _was_opened(ports: Ports, run_id: str) -> bool:
    try:
        ports.ledger.run(run_id)
    except LedgerInconsistent:
        return False
    return True


def _undo_return(ports: Ports, step: FailedStep, builder: str) -> Undone:
    failure = step.failure.innermost()
    text = park_again(ports, step, builder, failure)
    return Undone(text=text, failure=failure)
