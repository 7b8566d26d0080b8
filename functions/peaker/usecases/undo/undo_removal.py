"""UndoScaleIn: each replica that a failed run was taking away serves again, or is gone; none is in between (I7, I9)."""

from __future__ import annotations

from peaker.domain.runs.batch import Batch, outcome_of_removal
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import FailedStep, Outcome
from peaker.ports.bundle import Ports
from peaker.usecases.leave.restore_replica import restore_replica
from peaker.usecases.leave.retire_replica import retire_replica
from peaker.usecases.run.batch_members import members_of
from peaker.usecases.undo.undo_members import Undone, undo_members


def undo_removal(ports: Ports, step: FailedStep) -> Undone:
    """Raises a NotYet error until the replica serves again or is gone; of a batch UndoInProgress, naming what is left.

    A member that has ended stays as it is; the undo of one member leaves the others alone.
    """
    failure = step.failure.innermost()
    batch = None if step.batch is not None else ports.ledger.run(step.run_id).part(Batch)
    if batch is None:
        return _one_undone(ports, step, failure)
    undo_members(ports, step, batch, lambda own, _: _one_undone(ports, own, failure))
    members = list(members_of(ports, batch).values())
    gone = sum(one.state == "gone" for one in members)
    # A run at which a step failed is never a success or a refusal.
    ended = outcome_of_removal(members)
    outcome: Outcome = "rolled_forward" if ended == "succeeded" else "rolled_back"
    return Undone(
        text=f"{gone} of {batch.wanted} are gone, the others serve",
        failure=failure,
        outcome=ended if ended in ("partly", "rolled_forward") else outcome,
    )


def _one_undone(ports: Ports, step: FailedStep, failure: Failure) -> Undone:
    restored = restore_replica(ports, step)
    if not restored.restored:
        retire_replica(ports, step)
    return Undone(text=restored.text, failure=failure, outcome=restored.outcome)
