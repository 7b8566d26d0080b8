"""The undo of a run whose execution is gone, one step at a time, by the same use cases that roll_back calls (I9)."""

from __future__ import annotations

from pydantic import ValidationError

from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import UNFINISHED_OUTCOMES, Holder, RunRow
from peaker.domain.runs.run import FailedStep, Outcome, RecordStep
from peaker.ports.bundle import Ports
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.undo.undo_removal import undo_removal
from peaker.usecases.undo.undo_run import undo_run


def end_run(ports: Ports, holder: Holder, run: RunRow, reason: str, failures: int) -> str:
    """Raises a NotYet error until the run is at its end; then its receipt says so, and why it was taken up.

    A run whose receipt is written has only its lease left. After each failed try the host is told again, by a step of
    a new name: the answer of a command that failed is kept under the name of the step that asked.
    """
    if run.outcome not in UNFINISHED_OUTCOMES:
        return f"{run.run_id} had ended as {run.outcome}, and has given back its lease"
    outcome = _undone(ports, _step(ports, holder, run, reason, failures))
    failure = _failure(ports, run, reason)
    record_receipt(
        ports,
        RecordStep(**_identity(holder, run), step="RecordRollBack", outcome=outcome, failure=failure),
    )
    return f"{run.run_id}: {outcome}, taken up because {reason}"


def _undone(ports: Ports, step: FailedStep) -> Outcome:
    if step.operation == "scale_out":
        return undo_run(ports, step).outcome
    return undo_removal(ports, step).outcome


def _step(ports: Ports, holder: Holder, run: RunRow, reason: str, failures: int) -> FailedStep:
    name = "UndoStoppedRun" if run.operation == "scale_out" else "RestoreStoppedRun"
    again = f"#{failures + 1}" if failures else ""
    return FailedStep(**_identity(holder, run), step=f"{name}{again}", failure=_failure(ports, run, reason))


def _identity(holder: Holder, run: RunRow) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "cluster": run.cluster,
        "operation": run.operation,
        "fencing_token": holder.fencing_token,
    }


def _failure(ports: Ports, run: RunRow, reason: str) -> Failure:
    """The failure that the run's receipt has already, else the end of its execution."""
    told = (ports.ledger.receipt(run.run_id) or {}).get("failure")
    fields = {} if not isinstance(told, dict) else {key: told.get(key) for key in Failure.model_fields}
    try:
        return Failure.model_validate(fields)
    except ValidationError:
        return Failure(failed_step="Execution", error="ExecutionEnded", cause=reason)
