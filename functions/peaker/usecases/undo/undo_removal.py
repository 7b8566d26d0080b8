"""UndoScaleIn: each replica that a failed run was taking away serves again, or is gone; none is in between (I7, I9)."""

from __future__ import annotations

from typing import Literal

from peaker.domain.runs.batch import Batch, Member, outcome_of_removal
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import FailedStep, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.leave.restore_replica import restore_replica
from peaker.usecases.leave.retire_replica import retire_replica
from peaker.usecases.run.batch_members import members_of
from peaker.usecases.undo.undo_members import undo_members

_ENDED = frozenset({"gone", "in_service", "refused", "called_off"})


class RemovalUndone(Summary):
    """The failure travels on to the record and to the end state.

    `outcome` is rolled_back where the replica serves again, rolled_forward where it stood parked, or its instance had
    begun to terminate, which cannot be taken back: then its retirement is finished; called_off where it serves
    because it is needed again. A batch of which some are gone and
    others serve is partly.
    """

    failure: Failure
    outcome: Literal["rolled_back", "rolled_forward", "called_off", "partly"]


def undo_removal(ports: Ports, step: FailedStep) -> RemovalUndone:
    """Raises a NotYet error until the replica serves again or is gone; of a batch UndoInProgress, naming what is left.

    A member that has ended stays as it is; the undo of one member leaves the others alone.
    """
    failure = step.failure.innermost()
    batch = None if step.batch is not None else ports.ledger.run(step.run_id).part(Batch)
    if batch is None:
        return _one_undone(ports, step, failure)
    return _batch_undone(ports, step, batch, failure)


def _one_undone(ports: Ports, step: FailedStep, failure: Failure) -> RemovalUndone:
    restored = restore_replica(ports, step)
    if not restored.restored:
        retire_replica(ports, step)
    return RemovalUndone(text=restored.text, failure=failure, outcome=restored.outcome)


def _batch_undone(ports: Ports, step: FailedStep, batch: Batch, failure: Failure) -> RemovalUndone:
    undo_members(ports, step, batch, _ENDED, lambda own, _: _one_undone(ports, own, failure))
    members = list(members_of(ports, batch).values())
    gone = sum(one.state == "gone" for one in members)
    return RemovalUndone(
        text=f"{gone} of {batch.wanted} are gone, the others serve",
        failure=failure,
        outcome=_outcome(members),
    )


def _outcome(members: list[Member]) -> Literal["rolled_back", "rolled_forward", "partly"]:
    """Returns the outcome of a run at which a step failed: never a success or a refusal."""
    match outcome_of_removal(members):
        case "partly":
            return "partly"
        case "succeeded" | "rolled_forward":
            return "rolled_forward"
        case _:
            return "rolled_back"
