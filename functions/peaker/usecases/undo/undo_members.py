"""The undo of a batch: each member's next step, whatever another one resists."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.run import FailedStep, Outcome, RecordStep
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import member_rows
from peaker.usecases.run.record_receipt import record_receipt
from peaker_contract.errors import LeaseLost, NotYet, PeakerError, Retryable, UndoInProgress


class MemberUndone(Protocol):
    """The result of one member's undo."""

    @property
    def outcome(self) -> Outcome:
        """Returns the outcome for its receipt."""

    @property
    def failure(self) -> Failure:
        """Returns the first failure."""


def undo_members(
    ports: Ports,
    step: FailedStep,
    batch: Batch,
    ended: Collection[str],
    undo: Callable[[FailedStep, RunRow], MemberUndone],
) -> None:
    """Undo and record all but those in a state of `ended`.

    Raises UndoInProgress with what is left of any of them; else what one of them was refused.
    """
    waiting: list[str] = []
    refusals: list[PeakerError] = []
    for run_id, row in member_rows(ports, batch).items():
        member = row.part(Member)
        if member is None or member.state in ended:
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
            if member.state != "in_service" or undone.outcome != "rolled_forward":
                _record(ports, own, undone)
    if waiting:
        raise UndoInProgress("; ".join(waiting))
    if refusals:
        raise refusals[0]


def _record(ports: Ports, step: FailedStep, undone: MemberUndone) -> None:
    given = step.model_dump(exclude={"failure"})
    record_receipt(ports, RecordStep(**given, outcome=undone.outcome, failure=undone.failure))
