"""The lease that a step works under."""

from __future__ import annotations

from datetime import datetime, timedelta

from peaker.domain.runs.ledger import Holder
from peaker.domain.runs.run import StepInput
from peaker_contract.errors import LeaseLost

# Renewed by every call of every step; the longest pause between two calls is the prewarm poll of 10 minutes.
LEASE_TIME = timedelta(hours=6)


def holder_of(step: StepInput) -> Holder:
    """Proof of the lease. Raises LeaseLost for a step that was started without one."""
    if step.fencing_token is None:
        raise LeaseLost(f"{step.step} of {step.run_id} was called without a fencing token")
    return Holder(step.cluster, step.run_id, step.fencing_token)


def lease_end(now: datetime) -> datetime:
    """Until when a lease taken or renewed now is held."""
    return now + LEASE_TIME
