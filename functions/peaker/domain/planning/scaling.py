"""The scaling decision: how many replicas the cluster needs in time, and whether to add, remove, hold or alarm.

A pure function of the facts of now, a forecast, a lead time, a policy and the state of earlier checks.
Invariants: I3 (never below min_replicas), I4 (unknown means hold), I8 (a forecast adds, never removes; removal needs
measured low load and a forecast that stays below; after a rare fall, low load in every check of half a lead time;
where nothing can be forecast, of a lead time, and the forecast has no say), I12 (max_replicas is a ceiling).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from peaker.domain.forecasting import Forecast, Standing
from peaker.domain.forecasting.forecaster import LATE_SECONDS
from peaker.domain.issued import CheckState
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.needed_replicas import (
    DecisionInputs,
    FleetCounts,
    Need,
    Outlook,
    load_text,
    need_of,
    replicas_of_event,
)
from peaker.domain.planning.scaling_policy import (
    HOLD_AFTER_SHIFT_SECONDS,
    KEEP_LEAD_TIMES,
    KEEP_QUANTILE,
    ScalingPolicy,
    keep_seconds,
    replicas_for,
)
from peaker.domain.planning.taken_reads import Uncovered, kept_for_reads, uncovered_load

_SHORTEST_PATIENCE_SECONDS = 3600.0


class Action(StrEnum):
    SCALE_OUT = "scale_out"
    SCALE_IN = "scale_in"
    NONE = "none"


class Outcome(StrEnum):
    """act: do it. hold: leave the fleet as it is. alarm: a person must look, because the rules cannot be met."""

    ACT = "act"
    HOLD = "hold"
    ALARM = "alarm"


@dataclass(frozen=True)
class ScalingDecision:
    """The action and its reason. shortage and surplus are replica counts; both are 0 unless the outcome is act."""

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
    again = state.counted_already(inputs.now_seconds, policy.period_seconds)
    low_checks = max(1, state.low_checks + (0 if again else 1))
    if forecast.shifted:
        state = replace(state, shift_seen_seconds=inputs.now_seconds)
    if not again:
        state = replace(state, checked_seconds=inputs.now_seconds)
    decision = _decide(Outlook(inputs, forecast, lead_time, policy), state, low_checks)
    rule = "; forecast.rule is reactive" if policy.is_reactive else ""
    return replace(decision, reason=decision.reason + rule)


def _decide(outlook: Outlook, state: CheckState, low_checks: int) -> ScalingDecision:
    """`low_checks` are those in a row, if this is one."""
    inputs, policy, need = outlook.inputs, outlook.policy, need_of(outlook)
    if inputs.fleet.serving is None:
        reason = "it is not known how many replicas serve: nothing is done"
        return _none(Outcome.ALARM, reason, need, state, state.low_checks)
    if inputs.load_now is None and outlook.forecast.quantiles is None:
        return _none(Outcome.ALARM, "neither the load nor a forecast is known: nothing is done", need, state)
    missing = max(0, need.wanted - inputs.fleet.coming)
    uncovered = uncovered_load(inputs, need, missing, policy)
    if missing or uncovered is not None:
        return _scale_out(outlook, need, missing, uncovered, state)
    if why := _why_alarm(outlook, need):
        return _none(Outcome.ALARM, why, need, state)
    return _scale_in(outlook, need, state, low_checks)


def _none(
    outcome: Outcome, reason: str, need: Need, state: CheckState, low_checks: int = 0
) -> ScalingDecision:
    return _decision(Action.NONE, outcome, reason, need, replace(state, low_checks=low_checks))


def _decision(
    action: Action,
    outcome: Outcome,
    reason: str,
    need: Need,
    state: CheckState,
    shortage: int = 0,
    surplus: int = 0,
) -> ScalingDecision:
    numbers = {**need.numbers, "low_checks": float(state.low_checks)}
    return ScalingDecision(action, outcome, reason, need.wanted, shortage, surplus, numbers, state)


def _scale_out(
    outlook: Outlook, need: Need, missing: int, uncovered: Uncovered | None, state: CheckState
) -> ScalingDecision:
    """Adds the replicas that are missing by number, and by the reads that come where another would help."""
    coming, ceiling = outlook.inputs.fleet.coming, outlook.policy.max_replicas
    reason = f"{need.by}, takes {need.unlimited} replicas; {coming} serve or are being built"
    if need.unlimited > ceiling:
        reason += f"; max_replicas {ceiling} is the ceiling (I12), {need.unlimited - ceiling} short"
    added = missing
    if uncovered is not None:
        reason += f"; {uncovered.reason}"
        added += uncovered.added
        numbers = {**need.numbers, **uncovered.numbers}
        need = replace(need, wanted=max(need.wanted, coming + added), numbers=numbers)
    if not added and uncovered is not None:
        return _none(Outcome.ALARM if uncovered.is_alarm else Outcome.HOLD, reason, need, state)
    state = replace(state, low_checks=0)
    return _decision(Action.SCALE_OUT, Outcome.ACT, reason, need, state, shortage=added)


def _why_alarm(outlook: Outlook, need: Need) -> str | None:
    """Why a person must look where nothing is added."""
    if "horizon_seconds" in need.numbers:
        return (
            f"the lead time of {outlook.lead_time.p90_seconds / 3600:.1f} h is beyond the forecast, which reaches "
            f"{outlook.forecast.reach_seconds / 3600:.1f} h ahead: nothing is removed, and only the load of now adds"
        )
    if need.unlimited > outlook.policy.max_replicas:
        return f"{need.by}, takes {need.unlimited} replicas, above max_replicas {outlook.policy.max_replicas} (I12)"
    return None


def _scale_in(outlook: Outlook, need: Need, state: CheckState, low_checks: int) -> ScalingDecision:
    inputs, policy = outlook.inputs, outlook.policy
    serving = inputs.fleet.serving or 0
    if serving <= policy.min_replicas:
        return _none(Outcome.HOLD, f"{_serving_text(inputs.fleet)}, as needed by {need.by}", need, state)
    if objection := _objection(outlook, state):
        return _none(Outcome.HOLD, f"no scale-in: {objection}", need, state)
    keep, why = max(_keep(outlook, need), kept_for_reads(inputs.fleet, need), key=lambda one: one[0])
    if serving <= keep:
        needed = f"as needed by {why}" if keep == serving else f"and none may go: {keep} are kept ({why})"
        return _none(Outcome.HOLD, f"{_serving_text(inputs.fleet)}, {needed}", need, state)
    checks_needed = policy.low_checks_needed
    if outlook.is_reactive or outlook.forecast.fallen:
        checks_needed = _patient_checks(outlook)
    if low_checks < checks_needed:
        reason = f"{_replicas(keep)} would do ({why}), seen {low_checks} of {checks_needed} times in a row"
        return _none(Outcome.HOLD, reason, need, state, low_checks)
    # Replicas in flight count as coming, never as serving: only a serving one may leave (I8).
    surplus = min(serving - keep, _old_enough(inputs, policy), serving - policy.min_replicas)
    if surplus <= 0:
        lifetime = policy.minimum_lifetime_seconds / 60
        reason = f"{_replicas(keep)} would do, but no peak replica has lived {lifetime:.0f} min"
        return _none(Outcome.HOLD, reason, need, state, low_checks)
    reason = (
        f"{_replicas(keep)} {'does' if keep == 1 else 'do'} ({why}) in {low_checks} checks; {serving} serve"
    )
    # As reactive scaling does: a fleet that has just become as small as the load waits for its patience again.
    left = 0 if outlook.is_reactive and surplus == serving - keep else low_checks
    return _decision(
        Action.SCALE_IN, Outcome.ACT, reason, need, replace(state, low_checks=left), surplus=surplus
    )


def _serving_text(fleet: FleetCounts) -> str:
    """Says how many serve, and how many are on their way: a load may need both."""
    serve = "1 replica serves" if fleet.serving == 1 else f"{fleet.serving or 0} replicas serve"
    built = "1 is being built" if fleet.building == 1 else f"{fleet.building} are being built"
    return f"{serve} and {built}" if fleet.building else serve


def _patient_checks(outlook: Outlook) -> int:
    """Low checks in a row before what is low now is believed to last: an hour of low load at least.

    A lead time where nothing can be forecast; half of one after a rare fall, where the forecast has a say as well.
    """
    lead = outlook.lead_time.p90_seconds
    patience = max(_SHORTEST_PATIENCE_SECONDS, lead if outlook.is_reactive else lead / 2)
    return max(
        outlook.policy.low_checks_needed, math.ceil(patience / outlook.policy.period_seconds - 1e-9) + 1
    )


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


def _objection(outlook: Outlook, state: CheckState) -> str | None:
    """The first thing that forbids scale-in, or None."""
    inputs, forecast, policy = outlook.inputs, outlook.forecast, outlook.policy
    if inputs.load_now is None or forecast.stale:
        return "the load metric is missing or stale (I4)"
    if forecast.utilisation:
        return "the metric is a utilisation: a low one does not say how many replicas would do"
    late = forecast.age_seconds or 0.0
    if outlook.is_reactive and late > LATE_SECONDS:
        return f"nothing can be forecast, and the newest load is {late / 60:.0f} min late: only a measured one is low"
    if count := inputs.fleet.draining:
        return "1 replica is leaving" if count == 1 else f"{count} replicas are leaving"
    is_young = forecast.is_young and not policy.is_reactive
    if is_young or forecast.standing in {Standing.REACTIVE_ONLY, Standing.SCALE_OUT_ONLY}:
        only = (
            "nothing is forecast yet" if forecast.quantiles is None else "the forecast only adds replicas yet"
        )
        return f"{only}, as too few days of load are known"
    if outlook.is_beyond(keep_seconds(outlook.lead_time)):
        hours = KEEP_LEAD_TIMES * outlook.lead_time.p90_seconds / 3600
        return f"the next {hours:.1f} h count, and the forecast reaches {forecast.reach_seconds / 3600:.1f} h"
    shift = state.shift_seen_seconds
    if (
        not outlook.is_reactive
        and shift is not None
        and 0 <= inputs.now_seconds - shift < HOLD_AFTER_SHIFT_SECONDS
    ):
        return f"a level shift was seen {(inputs.now_seconds - shift) / 3600:.1f} h ago"
    for trouble in inputs.troubles:
        age = inputs.now_seconds - trouble.at_seconds
        if 0 <= age < policy.hold_after_trouble_seconds:
            return f"{trouble.kind} {age / 60:.0f} min ago: low load proves nothing"
    return None


def _keep(outlook: Outlook, need: Need) -> tuple[int, str]:
    """Replicas to keep for the load now, and for the forecast until a replica given up could be rebuilt twice."""
    inputs, policy = outlook.inputs, outlook.policy
    if outlook.is_reactive or outlook.forecast.quantiles is None:
        return need.wanted, need.by
    far = keep_seconds(outlook.lead_time)
    soon = min(far, outlook.lead_time.p90_seconds + policy.period_seconds)
    factor, capacity = outlook.factor(0.0, far), policy.capacity.per_replica
    choices = []
    for level, until in ((policy.quantile, soon), (KEEP_QUANTILE, far)):
        load = outlook.load(level, 0.0, until, factor)
        text = f"p{level * 100:g} of the next {until / 60:.0f} min is {load_text(load)}"
        choices.append((replicas_for(load, capacity), text))
    now = inputs.load_now or 0.0
    choices.append((replicas_for(now, capacity), f"the load is {load_text(now)}"))
    choices += [(replicas_of_event(one, capacity), "the calendar") for one in outlook.events(0.0, far)]
    return max((*choices, (need.wanted, need.by)), key=lambda one: one[0])


def _old_enough(inputs: DecisionInputs, policy: ScalingPolicy) -> int:
    return sum(
        inputs.now_seconds - since >= policy.minimum_lifetime_seconds
        for since in inputs.fleet.peak_in_service_since.values()
    )
