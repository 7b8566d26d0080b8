"""How far a decision looks ahead that would start several replicas at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from peaker.domain.forecasting import Forecast
from peaker.domain.planning.lead_time import LeadTime, LeadTimeInputs, predict_lead_time
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.needed_replicas import FleetCounts
from peaker.domain.planning.scaling import ScalingDecision
from peaker.domain.planning.scaling_policy import ScalingPolicy


def batch_lead_time(
    decide_at: Callable[[LeadTime], tuple[Forecast, LeadTime, ScalingDecision]],
    alone: LeadTime,
    policy: ScalingPolicy,
    counts: FleetCounts,
    inputs: LeadTimeInputs,
    past: PastSteps,
) -> tuple[Forecast, LeadTime, ScalingDecision] | None:
    """The decision at the lead time of the batch that it would start; None where one replica is enough, or where
    several take no longer than one.

    Looked for by the largest batch that there is room for, then by the one that is missing then.
    """
    room = policy.max_replicas - (counts.serving or 0) - counts.building
    if counts.serving is None or room < 2:
        return None
    most = predict_lead_time(replace(inputs, members=room), past)
    if most.p90_seconds <= alone.p90_seconds:
        return None
    found = decide_at(most)
    if 1 < found[2].shortage < room:
        found = decide_at(predict_lead_time(replace(inputs, members=found[2].shortage), past))
    return found if found[2].shortage > 1 else None
