"""CheckApproval: whether the plan waits for a person's yes, before anybody's lease is taken or anything is made."""

from __future__ import annotations

from peaker.domain.instants import to_iso
from peaker.domain.planning.approval import asked
from peaker.domain.reading import Unknown
from peaker.domain.runs.approval import ApprovalAsked, ApprovalRow
from peaker.domain.runs.run import PlanStep, Summary
from peaker.ports import Ports
from peaker.usecases.plan.gather_fleet import possible_donors
from peaker.usecases.plan.plan_scale_out import as_many_as_missing, plan_text
from peaker_contract.errors import ApprovalPending, ApprovalRefused


class ApprovalChecked(Summary):
    """`approval` is what is asked; None where nobody is, also because the plan is refused for other reasons."""

    needed: bool
    approval: ApprovalAsked | None = None


def check_approval(ports: Ports, step: PlanStep) -> ApprovalChecked:
    """Raises ApprovalPending where another run of the cluster waits, and ApprovalRefused where an automatic start comes
    soon after a person's no. PlanScaleOut plans again under the lease, and holds that against what was approved.
    """
    settings = ports.clusters.settings(step.cluster)
    plan = as_many_as_missing(ports, step, settings, possible_donors(ports, settings))
    if plan.approval is None:
        return ApprovalChecked(text=f"nobody needs to approve: {plan_text(plan)}", needed=False)
    _require_nobody_waits(ports, step)
    question = asked(plan, plan.approval, plan_text(plan), settings.limits)
    return ApprovalChecked(
        text=f"{step.run_id} waits for a yes until {to_iso(question.waits_until)}: {'; '.join(question.reasons)}",
        needed=True,
        approval=question,
    )


def _require_nobody_waits(ports: Ports, step: PlanStep) -> None:
    row, now = ports.approvals.newest(step.cluster), ports.clock.now()
    if row is None or row.run_id == step.run_id:
        return
    if row.rests(now) and step.trigger.kind != "manual":
        raise ApprovalRefused(
            f"{step.cluster}: {row.run_id} was refused ({row.said}); automatic starts ask again from "
            f"{to_iso(row.rests_until)} on"
        )
    if row.waits(now):
        _require_ended(ports, row)


def _require_ended(ports: Ports, row: ApprovalRow) -> None:
    """One whose execution has ended waits no more, whatever its row says. What is unknown may still wait (I4)."""
    execution = ports.executions.that_began(row)
    if isinstance(execution, Unknown) or not execution.ended:
        raise ApprovalPending(f"{row.cluster}: {row.text}")
    ports.approvals.close(row.cluster, row.run_id, "stopped", ports.clock.now(), execution.text)
