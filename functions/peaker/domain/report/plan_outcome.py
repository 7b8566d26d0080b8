"""The lead time that a replica's plan predicted against the measured one, part by part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from peaker.domain.decoding import Frozen
from peaker.domain.document.plan import LeadTimeEstimate, ScaleOutPlan
from peaker.domain.instants import seconds_between
from peaker.domain.runs.ledger import StepRow
from peaker_contract.catalogue import parts_of, states_of
from peaker_contract.steps import Method, Part


class PartOutcome(Frozen):
    """One part of the lead time, in seconds: the median and the p90 of the plan, and what its steps took together.

    None: the plan has no such figure, or a step of it has not ended.
    """

    part: str
    planned_seconds: float | None
    planned_p90_seconds: float | None
    took_seconds: float | None


class PlanOutcome(Frozen):
    """From the plan to the replica's full share of the reads, in seconds, and each part of that.

    `between_steps_seconds` is when no step was at work: the workflow's own time between two of them.
    """

    planned_seconds: float
    planned_p90_seconds: float | None
    took_seconds: float
    between_steps_seconds: float
    parts: tuple[PartOutcome, ...]


def plan_outcome(
    plan: ScaleOutPlan | None,
    method: Method,
    own: Sequence[StepRow],
    of_batch: Sequence[StepRow],
    serving_at: datetime | None,
) -> PlanOutcome | None:
    """Of one replica, by its own steps; what it has none of, the batch did for all members.

    None where nothing was planned, or where it never served. Donor and snapshots of a member that is tried again were
    there before its plan: they are left out.
    """
    if plan is None or plan.lead_time is None or serving_at is None:
        return None
    by_state = {one.step: one for one in (*of_batch, *own)}
    passed = [one for one in by_state.values() if one.started_at >= plan.planned_at]
    took = seconds_between(plan.planned_at, serving_at)
    at_work = _covered_seconds(passed, plan.planned_at, serving_at)
    found = (_part(one, plan.lead_time, method, passed) for one in parts_of(method))
    return PlanOutcome(
        planned_seconds=plan.lead_time.seconds,
        planned_p90_seconds=plan.lead_time.p90_seconds,
        took_seconds=round(took, 1),
        between_steps_seconds=round(took - at_work, 1),
        parts=tuple(one for one in found if one is not None),
    )


def _part(part: Part, lead: LeadTimeEstimate, method: Method, steps: Sequence[StepRow]) -> PartOutcome | None:
    states = states_of(part, method=method)
    mine = [one for one in steps if one.step in states]
    if not mine:
        return None
    ended = [seconds_between(one.started_at, one.finished_at) for one in mine if one.finished_at is not None]
    return PartOutcome(
        part=part.value,
        planned_seconds=lead.parts.get(part.value),
        planned_p90_seconds=lead.p90_parts.get(part.value),
        took_seconds=round(sum(ended), 1) if len(ended) == len(mine) else None,
    )


def _covered_seconds(steps: Sequence[StepRow], begin: datetime, end: datetime) -> float:
    """How much of the time at least one of the steps was at work."""
    covered, last = 0.0, begin
    for one in sorted(steps, key=lambda step: step.started_at):
        until = min(end, one.finished_at or end)
        since = max(last, one.started_at)
        if until > since:
            covered += seconds_between(since, until)
            last = until
    return covered
