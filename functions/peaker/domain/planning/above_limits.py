"""A person's start may pass max_replicas and the budget (I12); an automatic start that they refuse pages how. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from peaker.domain.document.plan import ScaleOutPlan

# The two limits that a person's start may pass. What is unknown or impossible stays refused.
LIMITS = frozenset({"ceiling", "budget"})
# SNS takes 100 characters.
_LONGEST_SUBJECT = 100


@dataclass(frozen=True)
class AboveLimitsPage:
    """The page about a start that only a limit refused; `input` is what a person starts scale_out with."""

    subject: str
    text: str
    input: str


def passing_limits(plan: ScaleOutPlan, reason: str) -> ScaleOutPlan:
    """The plan with `lifted` limits in place of the refusals that a person's start passes, and the person's reason."""
    lifted = tuple(
        f"{one.code} ({one.reason}), because a person's start says: {reason}"
        for one in plan.refusals
        if one.code in LIMITS
    )
    left = tuple(one for one in plan.refusals if one.code not in LIMITS)
    return plan.model_copy(update={"refusals": left, "lifted": lifted})


def refused_by_limits_alone(plan: ScaleOutPlan) -> bool:
    """Whether the same start with above_limits would be carried out."""
    return bool(plan.refusals) and all(one.code in LIMITS for one in plan.refusals)


def above_limits_page(plan: ScaleOutPlan, missing: int, environment: str) -> AboveLimitsPage:
    """The page that says which limit refused an automatic start, and the input by which a person starts it."""
    start = json.dumps({"cluster": plan.cluster, "count": missing, "above_limits": True, "reason": "say why"})
    hourly = plan.price.hourly
    lines = [
        f"{plan.cluster} is short of replicas, and an automatic scale_out was refused: {plan.refusal_text}",
        "",
        f"{missing} missing; each costs {'an unknown price' if hourly is None else f'${hourly:.4f} an hour'}.",
        f"To build them all the same, start scale_out of environment {environment} with this input:",
        "",
        start,
    ]
    subject = f"{plan.cluster} ({environment}): scale_out is refused by a limit"
    return AboveLimitsPage(subject[:_LONGEST_SUBJECT], "\n".join(lines), start)
