"""What the operators are asked before a run begins: the plan, its price, and the two commands. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from peaker.domain.instants import to_iso
from peaker.domain.runs.approval import ApprovalAsked

# How the subject of each question ends, so that it is known for one wherever it is found.
ASKS = "waits for approval"
_MOST_STEPS = 5


@dataclass(frozen=True)
class Question:
    """A message: one line of ASCII that says what it is about, and the text."""

    subject: str
    text: str


def approval_question(asked: ApprovalAsked, run_id: str, cluster: str, environment: str) -> Question:
    """All that a person needs to answer, with the commands to type."""
    subject = f"Peaker {environment}: scale_out of {cluster} {ASKS}"
    lines = [
        f"scale_out of {cluster} would {asked.what}. It waits for a yes or a no.",
        "",
        *(f"why       {reason}" for reason in asked.reasons),
        f"replicas  {asked.count} more, {_number(asked.replicas_after)} in all",
        f"ready     in {_minutes(asked.lead_p50_seconds)}, in 9 of 10 cases within {_minutes(asked.lead_p90_seconds)}",
        f"steps     {_steps(asked.steps)}",
        f"price     {_usd(asked.hourly_usd)} an hour and {_usd(asked.once_usd)} once; all peak replicas of the cluster "
        f"then cost {_usd(asked.peak_hourly_usd)} an hour",
        f"until     {to_iso(asked.waits_until)}: without an answer it is refused. Nothing is made before.",
        "",
        f"peaker approve {run_id} --env {environment}",
        f"peaker refuse {run_id} --env {environment} --reason 'why not'",
        "",
        "Approved is what stands above: a plan that has become dearer, larger or slower by then is refused.",
    ]
    return Question(subject, "\n".join(lines))


def _steps(seconds: dict[str, float]) -> str:
    longest = sorted(seconds.items(), key=lambda part: -part[1])[:_MOST_STEPS]
    return ", ".join(f"{name} {_minutes(took)}" for name, took in longest) or "unknown"


def _minutes(seconds: float | None) -> str:
    return "an unknown time" if seconds is None else f"{seconds / 60:.0f} min"


def _usd(amount: float | None) -> str:
    return "an unknown price" if amount is None else f"${amount:.4f}"


def _number(count: int | None) -> str:
    return "an unknown number" if count is None else str(count)
