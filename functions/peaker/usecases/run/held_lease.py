"""The lease that a step works under."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from peaker.domain.runs.ledger import Holder
from peaker.domain.runs.run import StepInput
from peaker.ports import Ports
from peaker_contract.errors import LeaseHeld, LeaseLost

# Renewed by every call of every step; the longest pause between two calls is the prewarm poll of 10 minutes.
LEASE_TIME = timedelta(hours=6)
# Of a scheduled function, whose call ends after two minutes; one that was killed keeps nobody waiting for longer.
SHORT_LEASE_TIME = timedelta(minutes=5)


def holder_of(step: StepInput) -> Holder:
    """Proof of the lease. Raises LeaseLost for a step that was started without one."""
    if step.fencing_token is None:
        raise LeaseLost(f"{step.step} of {step.run_id} was called without a fencing token")
    return Holder(step.cluster, step.run_id, step.fencing_token)


def lease_end(now: datetime) -> datetime:
    """Until when a lease taken or renewed now is held."""
    return now + LEASE_TIME


@contextmanager
def short_lease(ports: Ports, cluster: str, run_id: str, operation: str) -> Iterator[Holder]:
    """The lease with a new token, for the seconds of one call. Raises LeaseHeld where another run has it (I6).

    `operation` is one of SHORT_OPERATIONS: a run that begins meanwhile waits instead of being refused.
    """
    now = ports.clock.now()
    held = ports.lease.current(cluster, now)
    if held is not None and held.run_id != run_id:
        raise LeaseHeld(f"{held.operation} {held.run_id} holds the lease; the next look does it (I6)")
    holder = ports.lease.acquire(cluster, run_id, operation, now, now + SHORT_LEASE_TIME, fence=True)
    try:
        yield holder
    finally:
        ports.lease.release(holder)
