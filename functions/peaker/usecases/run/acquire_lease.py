"""AcquireLease: one operation per cluster (I6); opens the run in the ledger."""

from __future__ import annotations

from peaker.domain.runs.ledger import UNFINISHED_OUTCOMES, RunRow
from peaker.domain.runs.run import RequestedStep, Summary
from peaker.ports import Ports
from peaker.usecases.run.held_lease import give_back, lease_end
from peaker_contract.errors import LeaseHeld


class LeaseAcquired(Summary):
    """What every later step is given."""

    run_id: str
    cluster: str
    operation: str
    fencing_token: int


def acquire_lease(ports: Ports, step: RequestedStep) -> LeaseAcquired:
    """Raises LeaseHeld with the holder and the end of its lease, and for a run that has ended with `unfinished_only`;
    LeaseSettling while a call of the run before may be under way.

    With `fence` a run that holds the lease gets a new token: what is still under way with the old one (a function
    of a branch that was stopped) cannot write its next intent, and so makes nothing that the undo does not see.
    """
    now = ports.clock.now()
    holder = ports.lease.acquire(
        step.cluster, step.run_id, step.operation, now, lease_end(now), fence=step.fence
    )
    run = RunRow(
        run_id=step.run_id,
        cluster=step.cluster,
        operation=step.operation,
        started_at=now,
        request=step.request,
    )
    ports.ledger.open_run(holder, run)
    outcome = ports.ledger.run(step.run_id).outcome
    if step.unfinished_only and outcome not in UNFINISHED_OUTCOMES:
        give_back(ports, holder)
        raise LeaseHeld(f"{step.run_id} has ended meanwhile as {outcome}; there is nothing to undo")
    return LeaseAcquired(
        text=f"{step.run_id} holds the lease of {step.cluster} (token {holder.fencing_token})",
        run_id=step.run_id,
        cluster=step.cluster,
        operation=step.operation,
        fencing_token=holder.fencing_token,
    )
