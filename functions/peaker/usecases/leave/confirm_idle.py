"""ConfirmIdle: nobody uses the drained replica for a while, or it goes back into service."""

from __future__ import annotations

from datetime import datetime

from peaker.domain.host_results import DrainReport, typed
from peaker.domain.instants import seconds_between
from peaker.domain.runs.ledger import ResourceKind, StepRow, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.retirement import activity_since
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import DRAIN_STEP, require_not_needed
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import host_id
from peaker_contract.errors import ActivityWhileDrained, IdleNotConfirmed, LedgerInconsistent


def confirm_idle(ports: Ports, step: StepInput) -> Summary:
    """Raises IdleNotConfirmed until a sample from after the window has shown nothing.

    Raises ActivityWhileDrained for a client, a statement, or a counter that nobody can read (I4), and ReplicaNeeded
    once it is needed again. A forced drain leaves clients behind that are known and will be cut: there is nothing to
    wait for.
    """
    steps = {row.step: row for row in ports.ledger.steps(step.run_id)}
    drained = _drained(steps)
    instance_id = host_id(ports, step, "replica")
    settings = ports.clusters.settings(step.cluster)
    require_not_needed(ports, step, settings, instance_id)
    if drained.numbers.get("forced") is True:
        cut = drained.numbers.get("cut_connections")
        return Summary(
            text=f"{instance_id} is not given time: {cut} connections are to be cut",
            numbers={"idle_seconds": 0.0},
        )
    numbers = run_host_command(ports, step, "drain_replica", instance_id, {"RunId": step.run_id}, repeat=True)
    sample = typed("drain_replica", DrainReport, numbers)
    activity = activity_since(drained.numbers.get("client_statements"), sample)
    if activity is not None:
        raise ActivityWhileDrained(f"{instance_id}: {activity}")
    wanted = settings.retirement.idle_seconds
    idle = seconds_between(steps[step.step].started_at, _sampled_at(ports, step))
    if idle < wanted:
        raise IdleNotConfirmed(f"{instance_id}: nothing in {idle:.0f} s of {wanted} s")
    return Summary(
        text=f"{instance_id}: no client and no statement in {idle:.0f} s",
        numbers={"idle_seconds": round(idle, 3), "client_statements": sample.client_statements},
    )


def _drained(steps: dict[str, StepRow]) -> StepRow:
    row = steps.get(DRAIN_STEP)
    if row is None or row.finished_at is None:
        raise LedgerInconsistent(f"the ledger has no end of {DRAIN_STEP}; an earlier step must write it")
    return row


def _sampled_at(ports: Ports, step: StepInput) -> datetime:
    """When the newest sample was asked for: it shows what happened up to then at least."""
    asked = [
        one
        for one in of_kind(ports.ledger.resources(step.run_id), ResourceKind.COMMAND)
        if one.step == step.step
    ]
    return asked[-1].intended_at
