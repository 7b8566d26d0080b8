"""ReleaseLease: the cluster is free for the next run."""

from __future__ import annotations

from peaker.domain.runs.ledger import Holder
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.held_lease import give_back
from peaker.usecases.run.run_memory import opened_run
from peaker_contract.errors import AwsCallRejected

# The name of the execution that a release starts ends so.
THEN = "-then"
_BROUGHT = frozenset({"succeeded", "partly", "rolled_forward"})


def release_lease(ports: Ports, step: StepInput) -> Summary:
    """Giving back a lease that is not held any more is no error. Another run gets it LATE_CALL_TIME later (I6).

    Without a fencing token (the answer of AcquireLease was lost) the lease goes back if this run holds it. Then
    scale_out looks once whether a replica is missing: it was refused while the lease was held.
    """
    holder = _holder(ports, step)
    if holder is None:
        return Summary(text=f"{step.run_id} holds no lease of {step.cluster}")
    give_back(ports, holder)
    text = f"{step.run_id} released the lease of {step.cluster}"
    if _may_have_kept_waiting(ports, step):
        try:
            _let_scale_out_look(ports, step)
        except AwsCallRejected as refused:
            text += f"; scale_out was not started: {refused}"  # the schedule starts one within the hour
    return Summary(text=text)


def _may_have_kept_waiting(ports: Ports, step: StepInput) -> bool:
    """A removal, and a scale_out that brought a replica. What brought none starts nothing, so that no failure repeats
    itself by it: each of these starts brings a replica, or ends without a lease."""
    if step.operation == "scale_in":
        return True
    run = opened_run(ports, step.run_id)
    return run is not None and run.outcome in _BROUGHT


def _let_scale_out_look(ports: Ports, step: StepInput) -> None:
    """CheckShortage of that start finds what the alarm could not begin meanwhile, or ends it with nothing to do.

    A call that is made twice starts once, by the name.
    """
    trigger = {"kind": "schedule", "reason": f"{step.run_id} gave the lease back"}
    ports.executions.start_scale_out(f"{step.run_id}{THEN}", {"cluster": step.cluster, "trigger": trigger})


def _holder(ports: Ports, step: StepInput) -> Holder | None:
    if step.fencing_token is not None:
        return Holder(step.cluster, step.run_id, step.fencing_token)
    held = ports.lease.current(step.cluster, ports.clock.now())
    if held is None or held.run_id != step.run_id:
        return None
    return Holder(step.cluster, step.run_id, held.fencing_token)
