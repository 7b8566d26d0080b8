"""What a scale_out asks a person to approve, the row by which it waits, and the answer as it comes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from peaker.domain.instants import to_iso
from peaker.domain.runs.ledger import RunPart

Answer = Literal["waiting", "approved", "refused", "expired", "stopped"]
ANSWERS: frozenset[str] = frozenset(get_args(Answer))
# What SendTaskFailure says when a person refuses, and Step Functions when nobody answered.
REFUSED_BY_A_PERSON, NOBODY_ANSWERED = "ApprovalRefused", "States.Timeout"


class ApprovalAsked(RunPart):
    """What a person is asked to approve. USD; seconds from the decision to serving, in half and in 9 of 10 cases.

    `hourly_usd` and `once_usd` are those of the batch, `peak_hourly_usd` and `replicas_after` all that is there once it
    serves. None where it is not known, which the question says. `steps` are the seconds of the lead time by its parts.
    """

    ledger_name = "approval"

    reasons: tuple[str, ...]
    above_limits: bool
    count: int
    what: str
    replicas_after: int | None
    hourly_usd: float | None
    once_usd: float | None
    peak_hourly_usd: float | None
    lead_p50_seconds: float | None
    lead_p90_seconds: float | None
    steps: dict[str, float]
    asked_at: datetime
    waits_until: datetime
    wait_seconds: int


@dataclass(frozen=True)
class ApprovalRow:
    """The newest approval of a cluster. `task_try` numbers the tries of its state, each with a token of its own.

    `told_at` is None until the operators were told. `said` is the reason of a refusal, or who answered.
    """

    cluster: str
    run_id: str
    operation: str
    answer: Answer
    asked_at: datetime
    waits_until: datetime
    what: str
    reasons: tuple[str, ...]
    task_token: str
    task_try: int
    told_at: datetime | None = None
    answered_at: datetime | None = None
    said: str = ""

    def waits(self, now: datetime) -> bool:
        """Whether an answer would still count."""
        return self.answer == "waiting" and now < self.waits_until

    def rests(self, now: datetime) -> bool:
        """Whether a person refused it so lately that no automatic start asks again."""
        return self.answer == "refused" and now < self.rests_until

    @property
    def rests_until(self) -> datetime:
        """Of one that was refused: as long after the answer as a run waits."""
        return (self.answered_at or self.asked_at) + (self.waits_until - self.asked_at)

    @property
    def text(self) -> str:
        """`scale-out-orders-... waits for approval until 2026-...`"""
        return f"{self.run_id} waits for approval until {to_iso(self.waits_until)}"


class Given(BaseModel):
    """The answer that was read: whether the run goes on, and what was said."""

    model_config = ConfigDict(frozen=True)

    answer: Answer
    said: str = ""


def read_answer(given: Any) -> Given:
    """Out of what ended the wait: the output that was sent with the token, or the failure that was caught.

    Whoever has the token may send any JSON. Only the one that `peaker approve` sends is a yes.
    """
    said = given if isinstance(given, dict) else {}
    if said.get("error") == NOBODY_ANSWERED:
        return Given(answer="expired")
    if said.get("error") == REFUSED_BY_A_PERSON:
        return Given(answer="refused", said=str(said.get("cause") or "without a reason"))
    if said.get("answer") == "approved" and "error" not in said:
        return Given(answer="approved", said=str(said.get("by") or ""))
    return Given(answer="refused", said="the answer is not one that `peaker approve` sends, so it is no yes")
