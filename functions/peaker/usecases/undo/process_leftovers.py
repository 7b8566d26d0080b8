"""Reconcile each leftover by one step under the cluster's lease: the undo of its run, or a remedy.

Nothing waits here: the next look finds how far a draining target or an ending instance has come. The failure of one
leftover's step keeps no other from its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import ValidationError

from peaker.domain.runs.execution_input import ExecutionInput, Trigger
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import SWEEP, UNFINISHED_OUTCOMES, Holder, RunRow
from peaker.domain.runs.run import FailedStep, Outcome, RecordStep
from peaker.domain.service.leftovers import Leftover, LeftoverDecision, Remedy, UndoAttempts
from peaker.ports.bundle import Ports
from peaker.usecases.run.held_lease import ShortLeases
from peaker.usecases.run.record_receipt import close_scheduled_run, record_receipt
from peaker.usecases.run.run_memory import opened_run
from peaker.usecases.undo.reconcile_replica import reconcile_replica
from peaker.usecases.undo.undo_removal import undo_removal
from peaker.usecases.undo.undo_run import undo_run
from peaker_contract.errors import LeaseHeld, LeaseLost, NotYet, PeakerError, Retryable


@dataclass(frozen=True)
class LeftoverStep:
    """The result of one step: its message, whether the leftover has ended, whether the step failed, and the run that
    it ended.
    """

    text: str
    ended: bool = False
    failed: bool = False
    ended_run: str | None = None


def process_leftovers(ports: Ports, cluster: str, decision: LeftoverDecision) -> list[LeftoverStep]:
    """Does one step of each leftover. One that fails raises nothing: its step says so, and a later look tries again."""
    leases, leftovers = ShortLeases(ports, cluster), decision.leftovers
    others = [one for one in leftovers if one.remedy is not Remedy.END_RUN]
    steps = [_end_run(ports, leases, one) for one in leftovers if one.remedy is Remedy.END_RUN]
    if others or (decision.is_clear and _open_sweep(ports, cluster)):
        steps += _reconcile_replicas(ports, cluster, leases, others)
    return steps


def _end_run(ports: Ports, leases: ShortLeases, leftover: Leftover) -> LeftoverStep:
    run_id = leftover.run_id
    try:
        with leases.held(run_id, SWEEP) as holder:
            run = opened_run(ports, run_id)
            if run is None:
                text = f"{run_id} had only its lease, which is free now"
                return LeftoverStep(text, ended=True, ended_run=run_id)
            step = _one_step(run_id, partial(end_run, ports, holder, run, leftover.reason, _failures(run)))
            if step.ended:
                return replace(step, ended_run=run_id)
            _note(ports, holder, run, step)
            return step
    except (LeaseHeld, LeaseLost) as busy:
        return LeftoverStep(f"{run_id}: {busy}")


def _reconcile_replicas(
    ports: Ports, cluster: str, leases: ShortLeases, leftovers: Sequence[Leftover]
) -> list[LeftoverStep]:
    """Under a run of the sweep's own, which stays open until a look finds nothing more to do."""
    now = ports.clock.now()
    run = _open_sweep(ports, cluster)
    run_id = run.run_id if run is not None else f"{SWEEP}-{cluster[:24]}-{now:%Y%m%dT%H%M%S}"
    try:
        with leases.held(run_id, SWEEP) as holder:
            request = ExecutionInput(cluster=cluster, trigger=Trigger(kind="schedule"))
            ports.ledger.open_run(holder, RunRow(run_id, cluster, SWEEP, now, request))
            if not leftovers:
                return [_close(ports, holder)]
            steps = [
                _one_step(one.instance_id or one.run_id, partial(reconcile_replica, ports, holder, one))
                for one in leftovers
            ]
            failed, waiting = any(step.failed for step in steps), "; ".join(step.text for step in steps)
            _note(ports, holder, ports.ledger.run(run_id), LeftoverStep(waiting, failed=failed))
            return steps
    except (LeaseHeld, LeaseLost) as busy:
        return [LeftoverStep(f"{run_id}: {busy}")]


def _one_step(of: str, act: Callable[[], str]) -> LeftoverStep:
    try:
        text = act()
    except (NotYet, Retryable) as waiting:
        return LeftoverStep(str(waiting))
    except LeaseLost:
        raise
    except PeakerError as error:
        return LeftoverStep(f"{of}: {type(error).__name__}: {error.sentence}", failed=True)
    return LeftoverStep(text, ended=True)


def _note(ports: Ports, holder: Holder, run: RunRow, step: LeftoverStep) -> None:
    now, before = ports.clock.now(), run.part(UndoAttempts)
    noted = UndoAttempts(first_at=now, last_at=now, failed=int(step.failed), waiting=step.text[:1000])
    if before is not None:
        alike = before.alike + 1 if step.failed and before.waiting == noted.waiting else 1
        looks, failed = before.looks + 1, before.failed + int(step.failed)
        changed = {"first_at": before.first_at, "looks": looks, "failed": failed, "alike": alike}
        noted = noted.model_copy(update=changed)
    ports.ledger.settle(holder, noted)


def _failures(run: RunRow) -> int:
    taken = run.part(UndoAttempts)
    return 0 if taken is None else taken.failed


def _open_sweep(ports: Ports, cluster: str) -> RunRow | None:
    found = [run for run in ports.ledger.unfinished_runs(cluster) if run.operation == SWEEP]
    return found[-1] if found else None


def _close(ports: Ports, holder: Holder) -> LeftoverStep:
    taken = ports.ledger.run(holder.run_id).part(UndoAttempts)
    close_scheduled_run(ports, holder, "succeeded", [] if taken is None else [taken.waiting])
    return LeftoverStep(f"{holder.run_id}: nothing is left over", ended=True)


def end_run(ports: Ports, holder: Holder, run: RunRow, reason: str, failures: int) -> str:
    """Undoes the run and records it, with the reason why it was left. Raises a NotYet error until that is done.

    A run whose receipt is written has only its lease left. After each failed try the host is asked again, by a step of
    a new name: the answer of a command that failed is kept under the name of the step that asked.
    """
    if run.outcome not in UNFINISHED_OUTCOMES:
        return f"{run.run_id} had ended as {run.outcome}, and has given back its lease"
    outcome = _undone(ports, _undo_step(ports, holder, run, reason, failures))
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


def _undo_step(ports: Ports, holder: Holder, run: RunRow, reason: str, failures: int) -> FailedStep:
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
    known = (ports.ledger.receipt(run.run_id) or {}).get("failure")
    fields = {key: known.get(key) for key in Failure.model_fields} if isinstance(known, dict) else {}
    try:
        return Failure.model_validate(fields)
    except ValidationError:
        return Failure(failed_step="Execution", error="ExecutionEnded", cause=reason)
