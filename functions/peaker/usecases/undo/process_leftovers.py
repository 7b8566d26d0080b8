"""The next step of a leftover, under the cluster's lease: the run's own undo, or what puts ledger and cloud in line.

Nothing waits here. What is on its way (a target that drains, an instance that ends) is found further on by the next
look. Each leftover is on its own: what one resists keeps no other from its step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from peaker.domain.report.receipt import assemble_receipt
from peaker.domain.runs.execution_input import ExecutionInput, Trigger
from peaker.domain.runs.ledger import SWEEP, Holder, RunRow
from peaker.domain.service.leftovers import Leftover, Remedy, UndoAttempts
from peaker.ports.bundle import Ports
from peaker.usecases.run.held_lease import ShortLeases
from peaker.usecases.undo.end_run import end_run
from peaker.usecases.undo.reconcile_replica import reconcile_replica
from peaker_contract.errors import LeaseHeld, LeaseLost, LedgerInconsistent, NotYet, PeakerError, Retryable


@dataclass(frozen=True)
class ProcessedLeftovers:
    """The result of taking leftovers up: a message for each, the number that are done, and the runs recorded
    as ended.
    """

    said: tuple[str, ...] = ()
    ended: int = 0
    ended_runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Step:
    said: str
    ended: bool = False
    failed: bool = False


def process_leftovers(ports: Ports, cluster: str, leftovers: Sequence[Leftover]) -> ProcessedLeftovers:
    """One step of each. Raises nothing for a leftover that resists: it is said, and tried again by a later look."""
    runs = [one for one in leftovers if one.remedy is Remedy.END_RUN]
    others = [one for one in leftovers if one.remedy is not Remedy.END_RUN]
    leases = ShortLeases(ports, cluster)
    steps = [_end_run(ports, leases, one) for one in runs]
    steps += _put_all_in_line(ports, cluster, leases, others) if others or _open_sweep(ports, cluster) else []
    return ProcessedLeftovers(
        said=tuple(step.said for step in steps),
        ended=sum(step.ended for step in steps),
        ended_runs=tuple(one.run_id for one, step in zip(runs, steps, strict=False) if step.ended),
    )


def _end_run(ports: Ports, leases: ShortLeases, leftover: Leftover) -> _Step:
    run_id = leftover.run_id
    try:
        with leases.held(run_id, SWEEP) as holder:
            run = _known(ports, run_id)
            if run is None:
                return _Step(f"{run_id} had only its lease, which is free now", ended=True)
            step = _one_step(run_id, partial(end_run, ports, holder, run, leftover.reason, _failures(run)))
            if not step.ended:
                _note(ports, holder, run, step)
            return step
    except (LeaseHeld, LeaseLost) as busy:
        return _Step(f"{run_id}: {busy}")


def _put_all_in_line(
    ports: Ports, cluster: str, leases: ShortLeases, leftovers: Sequence[Leftover]
) -> list[_Step]:
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
            failed, waiting = any(step.failed for step in steps), "; ".join(step.said for step in steps)
            _note(ports, holder, ports.ledger.run(run_id), _Step(waiting, failed=failed))
            return steps
    except (LeaseHeld, LeaseLost) as busy:
        return [_Step(f"{run_id}: {busy}")]


def _one_step(of: str, act: Callable[[], str]) -> _Step:
    try:
        said = act()
    except (NotYet, Retryable) as waiting:
        return _Step(str(waiting))
    except LeaseLost:
        raise
    except PeakerError as error:
        return _Step(f"{of}: {type(error).__name__}: {error.sentence}", failed=True)
    return _Step(said, ended=True)


def _note(ports: Ports, holder: Holder, run: RunRow, step: _Step) -> None:
    now, before = ports.clock.now(), run.part(UndoAttempts)
    noted = UndoAttempts(first_at=now, last_at=now, failed=int(step.failed), waiting=step.said[:1000])
    if before is not None:
        alike = before.alike + 1 if before.waiting == noted.waiting else 1
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


def _known(ports: Ports, run_id: str) -> RunRow | None:
    """A run that was stopped before it was opened in the ledger has made nothing."""
    try:
        return ports.ledger.run(run_id)
    except LedgerInconsistent:
        return None


def _close(ports: Ports, holder: Holder) -> _Step:
    now, run = ports.clock.now(), ports.ledger.run(holder.run_id)
    taken = run.part(UndoAttempts)
    receipt = assemble_receipt(
        replace(run, outcome="succeeded"),
        ports.ledger.steps(run.run_id),
        ports.ledger.resources(run.run_id),
        outcome="succeeded",
        failure=None,
        price=None,
        replica_since=None,
        load_crossed_at=None,
        notes=[] if taken is None else [taken.waiting],
        now=now,
    )
    ports.ledger.save_receipt(holder, receipt.model_dump(mode="json"))
    ports.ledger.close_run(holder, "succeeded", now)
    return _Step(f"{run.run_id}: nothing is left over", ended=True)
