"""ReleaseLease: the cluster is free for the next run."""

from __future__ import annotations

from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.held_lease import holder_of


def release_lease(ports: Ports, step: StepInput) -> Summary:
    """Giving back a lease that is not held any more is no error."""
    ports.lease.release(holder_of(step))
    return Summary(text=f"{step.run_id} released the lease of {step.cluster}")
