"""The scaling decision: how many replicas the cluster needs in time, and whether to add, remove, hold or
alarm.

A pure function of what is known now, a forecast, a lead time, a policy and the state of earlier checks.
Invariants: I3 (never below min_replicas), I4 (unknown means hold), I8 (a forecast adds, never removes; removal needs
measured low load and a forecast that stays below; where nothing can be forecast, low load in every check of a lead
time, and the forecast has no say), I12 (max_replicas is a ceiling).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from peaker.domain.forecasting import Forecast, Standing
from peaker.domain.forecasting.forecaster import LATE_SECONDS
from peaker.domain.issued import CheckState
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.needed_replicas import (
    DecisionInputs,
    Need,
    active_overrides,
    calendar_factor,
    is_beyond,
    need_of,
    passed_seconds,
    with_factor,
)
from peaker.domain.planning.reaction import load_text, patient_checks
from peaker.domain.planning.scaling_policy import KEEP_LEAD_TIMES, ScalingPolicy, keep_seconds, replicas_for
from peaker.domain.planning.taken_reads import Uncovered, kept_for_reads, uncovered_load


class Action(StrEnum):
    SCALE_OUT = "scale_out"
    SCALE_IN = "scale_in"
    NONE = "none"


class Outcome(StrEnum):
    """act.

    Do it. hold: leave the fleet as it is. alarm: a person must look, because the rules cannot be met.
    """

    ACT = "act"
    HOLD = "hold"
    ALARM = "alarm"


@dataclass(frozen=True)
class ScalingDecision:
    """What to do and why. shortage and surplus are replica counts; both are 0 unless the outcome is act."""

    action: Action
    outcome: Outcome
    reason: str
    required: int
    shortage: int
    surplus: int
    numbers: Mapping[str, float]
    state: CheckState


def decide(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    state: CheckState,
) -> ScalingDecision:
    """One check. Scale-out first; scale-in only when nothing at all speaks against it.

    With `forecast.rule: reactive` each forecast counts as one of a load that cannot be forecast.
    """
    if policy.is_reactive and forecast.standing is not Standing.REACTIVE_ONLY:
        forecast = replace(forecast, standing=Standing.DEGRADED)
    decision = _decide(inputs, forecast, lead_time, policy, state)
    if not state.counted_already(inputs.now_seconds, policy.period_seconds):
        decision = replace(decision, state=replace(decision.state, checked_seconds=inputs.now_seconds))
    said = f"{decision.reason}; forecast.rule is reactive" if policy.is_reactive else decision.reason
    return replace(decision, reason=said)


def _decide(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    state: CheckState,
) -> ScalingDecision:
    shift_seen = inputs.now_seconds if forecast.shifted else state.shift_seen_seconds
    state = replace(state, shift_seen_seconds=shift_seen)
    need = need_of(inputs, forecast, lead_time, policy)
    fleet = inputs.fleet
    if fleet.serving is None:
        return _decision(
            Action.NONE,
            Outcome.ALARM,
            "it is not known how many replicas serve: nothing is done",
            need,
            0,
            0,
            state,
        )
    if inputs.load_now is None and forecast.quantiles is None:
        return _decision(
            Action.NONE, Outcome.ALARM, "neither the load nor a forecast is known: nothing is done",
            need, 0, 0, replace(state, low_checks=0),
        )  # fmt: skip
    coming = fleet.serving + fleet.building
    missing = max(0, need.wanted - coming)
    uncovered = uncovered_load(inputs, need, missing, policy)
    if uncovered is not None:
        return _uncovered(need, missing, coming, uncovered, policy, replace(state, low_checks=0))
    if missing > 0:
        reason = _shortage_text(need, coming, policy)
        return _decision(
            Action.SCALE_OUT, Outcome.ACT, reason, need, missing, 0, replace(state, low_checks=0)
        )
    return _scale_in(inputs, forecast, lead_time, policy, state, need)


def _shortage_text(need: Need, coming: int, policy: ScalingPolicy) -> str:
    reason = f"{need.by}, takes {need.unlimited} replicas; {coming} serve or are being built"
    if need.unlimited > policy.max_replicas:
        short = need.unlimited - policy.max_replicas
        reason += f"; max_replicas {policy.max_replicas} is the ceiling (I12), {short} short"
    return reason


def _uncovered(
    need: Need, missing: int, coming: int, uncovered: Uncovered, policy: ScalingPolicy, state: CheckState
) -> ScalingDecision:
    """What is missing by number is added all the same; what is missing by the reads that come, where it would help."""
    reason = f"{_shortage_text(need, coming, policy)}; {uncovered.reason}"
    added = missing + uncovered.added
    numbers = {**need.numbers, **uncovered.numbers}
    need = replace(need, wanted=max(need.wanted, coming + added), numbers=numbers)
    if added:
        return _decision(Action.SCALE_OUT, Outcome.ACT, reason, need, added, 0, state)
    outcome = Outcome.ALARM if uncovered.is_alarm else Outcome.HOLD
    return _decision(Action.NONE, outcome, reason, need, 0, 0, state)


def _scale_in(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    state: CheckState,
    need: Need,
) -> ScalingDecision:
    serving = inputs.fleet.serving or 0
    if "horizon_seconds" in need.numbers:
        reason = (
            f"the lead time of {lead_time.p90_seconds / 3600:.1f} h is beyond the forecast, which reaches "
            f"{forecast.reach_seconds / 3600:.1f} h ahead: nothing is removed, and only the load of now adds"
        )
        return _decision(Action.NONE, Outcome.ALARM, reason, need, 0, 0, replace(state, low_checks=0))
    if need.unlimited > policy.max_replicas:
        reason = f"{need.by}, takes {need.unlimited} replicas, above max_replicas {policy.max_replicas} (I12)"
        return _decision(Action.NONE, Outcome.ALARM, reason, need, 0, 0, replace(state, low_checks=0))
    if serving <= policy.min_replicas:
        return _decision(
            Action.NONE, Outcome.HOLD, f"{serving} replicas serve, as needed by {need.by}", need, 0, 0,
            replace(state, low_checks=0),
        )  # fmt: skip
    objection = _objection(inputs, forecast, lead_time, policy, state)
    if objection:
        return _decision(
            Action.NONE, Outcome.HOLD, f"no scale-in: {objection}", need, 0, 0, replace(state, low_checks=0)
        )
    keep, why = _keep(inputs, forecast, lead_time, policy, need)
    by_reads, why_reads = kept_for_reads(inputs.fleet, need)
    if by_reads > keep:
        keep, why = by_reads, why_reads
    # Replicas in flight count as coming, never as serving: only what serves may leave (I8).
    surplus = min(serving - keep, _old_enough(inputs, policy), serving - policy.min_replicas)
    if serving - keep <= 0:
        return _decision(
            Action.NONE, Outcome.HOLD, f"{serving} replicas serve, as needed by {why}", need, 0, 0,
            replace(state, low_checks=0),
        )  # fmt: skip
    again = state.counted_already(inputs.now_seconds, policy.period_seconds)
    checks = max(1, state.low_checks + (0 if again else 1))
    state = replace(state, low_checks=checks)
    checks_needed = policy.low_checks_needed
    if forecast.standing is Standing.DEGRADED:
        checks_needed = patient_checks(lead_time.p90_seconds, policy.period_seconds, checks_needed)
    if checks < checks_needed:
        reason = f"{keep} replicas would do ({why}), seen {checks} of {checks_needed} times in a row"
        return _decision(Action.NONE, Outcome.HOLD, reason, need, 0, 0, state)
    if surplus <= 0:
        lifetime = policy.minimum_lifetime_seconds / 60
        reason = f"{keep} replicas would do, but no peak replica has lived {lifetime:.0f} min"
        return _decision(Action.NONE, Outcome.HOLD, reason, need, 0, 0, state)
    reason = f"{keep} replicas do ({why}) in {checks} checks in a row; {serving} serve"
    if forecast.standing is Standing.DEGRADED and surplus == serving - keep:
        # As reactive scaling does: a fleet that has just become as small as the load waits for its patience again.
        state = replace(state, low_checks=0)
    return _decision(Action.SCALE_IN, Outcome.ACT, reason, need, 0, surplus, state)


def _objection(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    state: CheckState,
) -> str | None:
    """The first thing that forbids scale-in, or None."""
    if inputs.load_now is None or forecast.stale:
        return "the load metric is missing or stale (I4)"
    if forecast.utilisation:
        return "the metric is a utilisation: a low one does not say how many replicas would do"
    late = forecast.age_seconds or 0.0
    if forecast.standing is Standing.DEGRADED and late > LATE_SECONDS:
        return f"nothing can be forecast, and the newest load is {late / 60:.0f} min late: only a measured one is low"
    if inputs.fleet.draining:
        count = inputs.fleet.draining
        return "1 replica is leaving" if count == 1 else f"{count} replicas are leaving"
    if forecast.standing in {Standing.REACTIVE_ONLY, Standing.SCALE_OUT_ONLY}:
        return f"the forecast is {forecast.standing}"
    if is_beyond(forecast, _keep_until(inputs, forecast, lead_time, policy)):
        hours = KEEP_LEAD_TIMES * lead_time.p90_seconds / 3600
        return f"the next {hours:.1f} h count, and the forecast reaches {forecast.reach_seconds / 3600:.1f} h"
    shift = state.shift_seen_seconds
    foreseen = forecast.standing is not Standing.DEGRADED
    if foreseen and shift is not None and inputs.now_seconds - shift < policy.hold_after_shift_seconds:
        return f"a level shift was seen {(inputs.now_seconds - shift) / 3600:.1f} h ago"
    for trouble in inputs.troubles:
        age = inputs.now_seconds - trouble.at_seconds
        if 0 <= age < policy.hold_after_trouble_seconds:
            return f"{trouble.kind} {age / 60:.0f} min ago: low load proves nothing"
    return None


def _keep_until(
    inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy
) -> float:
    """Seconds from the issue to the end of what a replica is kept for."""
    return passed_seconds(inputs, forecast) + keep_seconds(lead_time)


def _keep(
    inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy, need: Need
) -> tuple[int, str]:
    """Replicas to keep.

    For the load now and for the forecast until a replica given up could be rebuilt twice.
    """
    if forecast.standing is Standing.DEGRADED or forecast.quantiles is None:
        return need.wanted, need.by
    start = passed_seconds(inputs, forecast)
    look_seconds = keep_seconds(lead_time)
    soon_seconds = min(look_seconds, lead_time.p90_seconds + policy.period_seconds)
    factor = calendar_factor(inputs, 0.0, look_seconds)
    soon = with_factor(forecast, policy.quantile, start, start + soon_seconds, factor)
    later = with_factor(forecast, policy.keep_quantile, start, start + look_seconds, factor)
    capacity = policy.capacity.per_replica
    by_load = replicas_for(inputs.load_now or 0.0, capacity)
    by_soon = replicas_for(soon, capacity)
    by_later = replicas_for(later, capacity)
    by_calendar = max((o.asked(capacity) for o in active_overrides(inputs, 0.0, look_seconds)), default=0)
    choices = [
        (
            by_soon,
            f"p{policy.quantile * 100:g} of the next {soon_seconds / 60:.0f} min is {load_text(soon)}",
        ),
        (
            by_later,
            f"p{policy.keep_quantile * 100:g} of the next {look_seconds / 60:.0f} min is {load_text(later)}",
        ),
        (by_load, f"the load is {load_text(inputs.load_now or 0.0)}"),
        (by_calendar, "the calendar"),
        (need.wanted, need.by),
    ]
    return max(choices, key=lambda each: each[0])


def _old_enough(inputs: DecisionInputs, policy: ScalingPolicy) -> int:
    return sum(
        inputs.now_seconds - since >= policy.minimum_lifetime_seconds
        for since in inputs.fleet.peak_in_service_since.values()
    )


def _decision(
    action: Action, outcome: Outcome, reason: str, need: Need, shortage: int, surplus: int, state: CheckState
) -> ScalingDecision:
    numbers = {**need.numbers, "low_checks": float(state.low_checks)}
    return ScalingDecision(action, outcome, reason, need.wanted, shortage, surplus, numbers, state)
