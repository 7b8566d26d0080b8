"""ReleaseLease: the cluster is free for the next run."""

from __future__ import annotations

from peaker.domain.runs.ledger import Holder
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.run.held_lease import give_back


def release_lease(ports: Ports, step: StepInput) -> Summary:
    """Giving back a lease that is not held any more is no error. Another run gets it LATE_CALL_TIME later (I6).

    Without a fencing token (the answer of AcquireLease was lost) the lease goes back if this run holds it.
    """
    holder = _holder(ports, step)
    if holder is None:
        return Summary(text=f"{step.run_id} holds no lease of {step.cluster}")
    give_back(ports, holder)
    return Summary(text=f"{step.run_id} released the lease of {step.cluster}")


def _holder(ports: Ports, step: StepInput) -> Holder | None:
    if step.fencing_token is not None:
        return Holder(step.cluster, step.run_id, step.fencing_token)
    held = ports.lease.current(step.cluster, ports.clock.now())
    if held is None or held.run_id != step.run_id:
        return None
    return Holder(step.cluster, step.run_id, held.fencing_token)
