"""AcquireLease: one operation per cluster (I6); opens the run in the ledger."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.report.event import lease_refusal_event, start_event
from peaker.domain.runs.ledger import UNFINISHED_OUTCOMES, Holder, RunRow
from peaker.domain.runs.run import RequestedStep, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.held_lease import give_back, lease_end
from peaker_contract.errors import LeaseHeld


class LeaseAcquired(Summary):
    """Every later step gets these fields; a batch's member gets the last two."""

    run_id: str
    cluster: str
    operation: str
    fencing_token: int
    batch: str | None = None
    member_token: int | None = None


def acquire_lease(ports: Ports, step: RequestedStep) -> LeaseAcquired:
    """Raises LeaseHeld with the holder and the end of its lease, and for a run that has ended with `unfinished_only`;
    LeaseSettling while a call of the run before may be under way.

    With `fence` a run that holds the lease gets a new token: what is still under way with the old one (a function
    of a branch that was stopped) cannot write its next intent, and so makes nothing that the undo does not see. A
    member of a batch has the batch's lease: it gets a token of its own, and the other members go on.
    """
    if step.batch is not None:
        return _fenced_member(ports, step)
    if step.fence:
        return _lease_of_run(ports, step)
    try:
        acquired = _lease_of_run(ports, step)
    except LeaseHeld as refusal:
        ports.events.put(
            lease_refusal_event(ports.environment, step, step.request, refusal, ports.clock.now())
        )
        raise
    ports.events.put(start_event(ports.environment, step, step.request, ports.clock.now()))
    return acquired


def _lease_of_run(ports: Ports, step: RequestedStep) -> LeaseAcquired:
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
        raise LeaseHeld(f"{step.run_id} has ended meanwhile as {outcome}; a new run is a new start")
    return _acquired(step, holder, f"holds the lease of {step.cluster} (token {holder.fencing_token})")


def _fenced_member(ports: Ports, step: RequestedStep) -> LeaseAcquired:
    holder = replace(step.holder, member_token=None)
    token = ports.ledger.fence_member(holder, ports.clock.now())
    return _acquired(step, replace(holder, member_token=token), f"goes on under its token {token}")


def _acquired(step: RequestedStep, holder: Holder, text: str) -> LeaseAcquired:
    return LeaseAcquired(
        text=f"{step.run_id} {text}",
        run_id=step.run_id,
        cluster=step.cluster,
        operation=step.operation,
        fencing_token=holder.fencing_token,
        batch=step.batch,
        member_token=holder.member_token,
    )
