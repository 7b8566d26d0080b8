"""Which plan waits for a person's yes, what is asked, and whether a later plan still is what was approved. Pure."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.planning.plan import ApprovalNeed, LeadTimeEstimate, Refusal, ScaleOutPlan
from peaker.domain.runs.approval import ApprovalAsked
from peaker_contract.limit_settings import LimitSettings

# The ceilings that a person may lift for one run (I12). What is unknown or impossible nobody can approve.
LIFTED = frozenset({"ceiling", "budget"})
# Prices of the same plan differ from one look to the next by what the volumes and the kept snapshots have grown.
PRICE_TOLERANCE_SHARE = 0.05


def with_approval(plan: ScaleOutPlan, limits: LimitSettings) -> ScaleOutPlan:
    """The plan with why it needs a person's yes, in place of the refusals that a person may lift.

    A plan that is refused for anything else stays refused with all its reasons: nobody is asked in vain.
    """
    lifted = [one for one in plan.refusals if one.code in LIFTED]
    if limits.approval == "never" or len(lifted) < len(plan.refusals):
        return plan
    reasons = [f"{one.code}: {one.reason}" for one in lifted]
    if not reasons and limits.approval == "always":
        reasons = ["limits.approval is always"]
    if not reasons:
        return plan
    need = ApprovalNeed(reasons=tuple(reasons), above_limits=bool(lifted))
    return plan.model_copy(update={"refusals": (), "approval": need})


def held_against(plan: ScaleOutPlan, approved: ApprovalAsked | None) -> ScaleOutPlan:
    """The plan with a refusal where it needs a yes that nobody gave, or goes beyond the one that was given.

    A plan that needs none goes on, whatever was approved.
    """
    if plan.approval is None:
        return plan
    if approved is None:
        reason = f"{'; '.join(plan.approval.reasons)}; nobody has approved it"
    elif beyond := beyond_approval(plan, approved):
        reason = f"what was approved has changed meanwhile: {'; '.join(beyond)}"
    else:
        return plan
    return plan.model_copy(update={"refusals": (*plan.refusals, Refusal(code="approval", reason=reason))})


def asked(plan: ScaleOutPlan, need: ApprovalNeed, what: str, limits: LimitSettings) -> ApprovalAsked:
    """What is asked; `what` says in a line what would be done."""
    batch = plan.batch_price
    return ApprovalAsked(
        reasons=need.reasons,
        above_limits=need.above_limits,
        count=plan.count,
        what=what,
        replicas_after=plan.replicas_after,
        hourly_usd=None if batch is None else batch.hourly,
        once_usd=None if batch is None else batch.once,
        peak_hourly_usd=plan.peak_hourly_usd,
        lead_p50_seconds=_longest([one.seconds if one is not None else None for one in _leads(plan)]),
        lead_p90_seconds=_longest([one.p90_seconds if one is not None else None for one in _leads(plan)]),
        steps={} if plan.lead_time is None else plan.lead_time.parts,
        asked_at=plan.planned_at,
        waits_until=plan.planned_at + timedelta(minutes=limits.approval_minutes),
        wait_seconds=limits.approval_minutes * 60,
    )


def beyond_approval(plan: ScaleOutPlan, approved: ApprovalAsked) -> tuple[str, ...]:
    """In what the plan goes beyond what was approved, each with both numbers; empty where it is covered.

    More replicas than approved, a price above the approved one by more than PRICE_TOLERANCE_SHARE, and a lead time
    above the approved 9-of-10 one. What was known when it was approved must be known now (I4).
    """
    batch = plan.batch_price
    found = [
        _more("replicas of the run", plan.count, approved.count),
        _more("replicas in all", plan.replicas_after, approved.replicas_after),
        _dearer("USD an hour for the batch", None if batch is None else batch.hourly, approved.hourly_usd),
        _dearer("USD once", None if batch is None else batch.once, approved.once_usd),
        _dearer("USD an hour for all peak replicas", plan.peak_hourly_usd, approved.peak_hourly_usd),
        _slower(plan, approved),
    ]
    return tuple(one for one in found if one is not None)


def _more(what: str, now: int | None, then: int | None) -> str | None:
    if then is None or (now is not None and now <= then):
        return None
    return f"{_shown(now)} {what}, {then} were approved"


def _dearer(what: str, now: float | None, then: float | None) -> str | None:
    if then is None or (now is not None and now <= then * (1 + PRICE_TOLERANCE_SHARE)):
        return None
    shown = "an unknown number of" if now is None else f"{now:.4f}"
    return f"{shown} {what}, {then:.4f} were approved ({PRICE_TOLERANCE_SHARE:.0%} more is let pass)"


def _slower(plan: ScaleOutPlan, approved: ApprovalAsked) -> str | None:
    now = _longest([one.seconds if one is not None else None for one in _leads(plan)])
    then = approved.lead_p90_seconds
    if then is None or (now is not None and now <= then):
        return None
    shown = "an unknown time" if now is None else f"{now / 60:.0f} min"
    return f"{shown} to service, at most {then / 60:.0f} min in 9 of 10 cases were approved"


def _shown(number: int | None) -> str:
    return "an unknown number of" if number is None else str(number)


def _leads(plan: ScaleOutPlan) -> list[LeadTimeEstimate | None]:
    return [one.lead_time for one in plan.members]


def _longest(seconds: list[float | None]) -> float | None:
    known = [one for one in seconds if one is not None]
    return max(known) if known and len(known) == len(seconds) else None
