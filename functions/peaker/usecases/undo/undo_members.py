"""The undo of a batch does the next step of each member, also where the undo of another one fails."""

from __future__ import annotations

from collections.abc import Callable

from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.run import FailedStep, Outcome, RecordStep, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import member_rows
from peaker.usecases.run.record_receipt import write_receipt
from peaker_contract.errors import LeaseLost, NotYet, PeakerError, Retryable, UndoInProgress

_ENDED = frozenset({"gone", "refused", "called_off"})


class Undone(Summary):
    """The result of an undo: its outcome, and the failure that the record and the end state name.

    `rolled_back`: nothing of a scale_out is left, or the replica of a scale_in serves again. `rolled_forward`: the
    replica of a scale_out was in service and stays; that of a scale_in stood parked or had begun to terminate, and its
    retirement is finished. `called_off`: it serves because it is needed again. `partly`: some of a batch, not all.
    """

    failure: Failure
    outcome: Outcome = "rolled_back"


def undo_members(
    ports: Ports, step: FailedStep, batch: Batch, undo: Callable[[FailedStep, RunRow], Undone]
) -> None:
    """Undoes and records each member that has not ended. Of a removal one that serves again has ended, too.

    Raises UndoInProgress with what is left of any of them; else what one of them was refused.
    """
    waiting: list[str] = []
    refusals: list[PeakerError] = []
    for run_id, row in member_rows(ports, batch).items():
        member = row.part(Member)
        if member is None or member.state in _ENDED:
            continue
        if member.state == "in_service" and step.operation == "scale_in":
            continue
        own = step.model_copy(update={"run_id": run_id, "batch": step.run_id, "member_token": None})
        try:
            undone = undo(own, row)
        except NotYet as in_progress:
            waiting.append(str(in_progress))
        except (Retryable, LeaseLost):
            raise
        except PeakerError as refusal:
            refusals.append(refusal)
        else:
            if (member.state, undone.outcome) == ("in_service", "rolled_forward"):
                continue
            given = own.model_dump(exclude={"failure"})
            write_receipt(ports, RecordStep(**given, outcome=undone.outcome, failure=undone.failure))
    if waiting:
        raise UndoInProgress("; ".join(waiting))
    if refusals:
        raise refusals[0]
