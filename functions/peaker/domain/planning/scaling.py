"""The scaling decision: how many replicas the cluster needs in time, and whether to add, remove, hold or
alarm.

A pure function of what is known now, a forecast, a lead time, a policy and the state of earlier checks.
Invariants: I3 (never below min_replicas), I4 (unknown means hold), I8 (a forecast adds, never removes; removal needs
measured low load and a forecast that stays below, or, where nothing can be forecast, low load for a lead time), I12
(max_replicas is a ceiling).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from peaker.domain.forecasting import Forecast, Standing
from peaker.domain.issued import CheckState
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.reaction import patient_checks, react
from peaker_contract.load_settings import ForecastSettings


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


DEFAULT_QUANTILE = 0.95
KEEP_LEAD_TIMES = 2.0


@dataclass(frozen=True)
class ServedQuantile:
    """The quantile of the forecast that the fleet must serve, and where it comes from."""

    value: float
    basis: str


def newsvendor_quantile(short_cost: float, spare_cost: float) -> float:
    """The quantile to serve: cost of a replica-hour short against the cost of one spare, Cu / (Cu + Co).

    Nine times as costly gives 0.90, 19 times 0.95, 99 times 0.99. Limited to 0.5 to 0.99.
    """
    if short_cost <= 0 or spare_cost <= 0:
        raise ValueError(f"costs must be positive, got {short_cost} short and {spare_cost} spare")
    return min(0.99, max(0.5, short_cost / (short_cost + spare_cost)))


def served_quantile(wanted: ForecastSettings | None) -> ServedQuantile:
    """The one that was asked for; else the one that the costs of an hour short and an hour spare give; else 0.95."""
    if wanted is not None and wanted.quantile is not None:
        return ServedQuantile(wanted.quantile, "from the settings")
    if wanted is None or wanted.cost_short_usd_per_hour is None or wanted.cost_spare_usd_per_hour is None:
        return ServedQuantile(DEFAULT_QUANTILE, "the default")
    short, spare = wanted.cost_short_usd_per_hour, wanted.cost_spare_usd_per_hour
    value = newsvendor_quantile(short, spare)
    return ServedQuantile(value, f"an hour short costs {short:g} USD, an hour spare {spare:g} USD")


def minimum_lifetime_minutes(
    hydration_cost_usd: float | None, replica_hour_usd: float | None, configured_minutes: float
) -> float:
    """A replica is kept at least as long as its hydration is worth in replica-hours, and as the settings say.

    1 TiB on an r7g.4xlarge: 3.69 USD against 1.11 USD per hour, about 3.3 hours. None is an unknown price.
    """
    if hydration_cost_usd is None or not replica_hour_usd:
        return configured_minutes
    return max(configured_minutes, 60 * hydration_cost_usd / replica_hour_usd)


@dataclass(frozen=True)
class Capacity:
    """Load units that one warm replica serves safely, and where the figure comes from."""

    per_replica: float
    basis: str


def measured_capacity(
    configured: float, *, knee_share: float | None = None, safe_rate: float | None = None
) -> Capacity:
    """The capacity from the settings, as far as measurement bears it out.

    configured: what the settings say; the start value, and the ceiling: measurement never plans with more than a
    person has answered for. knee_share: the IOPS that the storage proofs reached at the volumes' knee, over the
    IOPS promised; a replica whose volumes give less serves that much less. safe_rate: the highest load per replica
    that was served without trouble; shown capacity counts against a knee that looks lower.
    """
    if knee_share is None or knee_share >= 1:
        reason = "nothing was measured yet" if knee_share is None else "its volumes reach what they promise"
        return Capacity(configured, f"from the settings; {reason}")
    by_knee = configured * max(0.0, knee_share)
    knee = f"the volumes reached {knee_share:.0%} of their IOPS at the knee"
    if safe_rate is not None and safe_rate > by_knee:
        return Capacity(
            min(configured, safe_rate), f"{knee}, but {safe_rate:g} per replica was served safely"
        )
    return Capacity(by_knee, f"{knee}, so that much of the settings' {configured:g}")


@dataclass(frozen=True)
class ScalingPolicy:
    """The rules of one cluster. Times in seconds unless the name says otherwise."""

    min_replicas: int
    max_replicas: int
    capacity: Capacity
    quantile: float = DEFAULT_QUANTILE
    period_seconds: float = 300.0
    minimum_lifetime_seconds: float = 3600.0
    low_checks_needed: int = 3
    hysteresis: float = 0.05
    # A replica given up and needed again within twice the lead time was not worth giving up.
    keep_lead_times: float = KEEP_LEAD_TIMES
    keep_quantile: float = 0.75
    # How many replicas can be built side by side; None: any number. A cluster's lease lets one run build at a time.
    builds_at_once: int | None = None
    hold_after_trouble_seconds: float = 1800.0
    # A day's hold costs 8 to 24 % more replica-hours on real traces and saves nothing at equal cost; an hour does.
    hold_after_shift_seconds: float = 3600.0


@dataclass(frozen=True)
class FleetCounts:
    """Replicas now. `serving` includes the base replicas; None means that it is not known (I4)."""

    serving: int | None
    building: int = 0
    draining: int = 0
    peak_in_service_since: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trouble:
    """Something after which low load proves nothing: an error spike, a failover, a deploy."""

    kind: str
    at_seconds: float


@dataclass(frozen=True)
class CalendarOverride:
    """A known event: the forecast is multiplied, or a load or a number of replicas is foreseen, from start to end."""

    start_seconds: float
    end_seconds: float
    reason: str
    factor: float = 1.0
    replicas: int = 0
    load: float = 0.0

    def asked(self, capacity_per_replica: float) -> int:
        """Replicas that the event takes, 0 when it only multiplies the forecast."""
        return max(self.replicas, replicas_for(self.load, capacity_per_replica))


@dataclass(frozen=True)
class DecisionInputs:
    """What is known now, beside the forecast. load_now None means that the metric is missing or stale."""

    now_seconds: float
    load_now: float | None
    fleet: FleetCounts
    troubles: Sequence[Trouble] = ()
    overrides: Sequence[CalendarOverride] = ()


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


def replicas_for(load: float, capacity_per_replica: float) -> int:
    """Whole replicas that serve `load`; a hair above a whole number is that number."""
    if capacity_per_replica <= 0:
        raise ValueError(f"capacity per replica must be positive, got {capacity_per_replica}")
    return max(0, math.ceil(load / capacity_per_replica - 1e-9))


def decide(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    state: CheckState,
) -> ScalingDecision:
    """One check. Scale-out first; scale-in only when nothing at all speaks against it."""
    shift_seen = inputs.now_seconds if forecast.shifted else state.shift_seen_seconds
    state = replace(state, shift_seen_seconds=shift_seen)
    need = _need(inputs, forecast, lead_time, policy)
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
    missing = need.wanted - coming
    if missing > 0:
        return _scale_out(need, missing, coming, policy, replace(state, low_checks=0))
    return _scale_in(inputs, forecast, lead_time, policy, state, need)


@dataclass(frozen=True)
class _Need:
    """Replicas wanted in time, before and after the limits, and the loads behind them."""

    wanted: int
    unlimited: int
    by: str
    numbers: dict[str, float]


def _need(inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy) -> _Need:
    lead = lead_time.p90_seconds
    capacity = policy.capacity.per_replica
    numbers = {
        "lead_time_p90_seconds": lead,
        "capacity_per_replica": capacity,
        "quantile": policy.quantile,
        "serving": float(inputs.fleet.serving if inputs.fleet.serving is not None else -1),
        "building": float(inputs.fleet.building),
    }
    wanted: list[tuple[int, str]] = [(policy.min_replicas, "the floor min_replicas")]
    if inputs.load_now is not None:
        numbers["load_now"] = inputs.load_now
        reaction = react(inputs.load_now, forecast, lead)
        if reaction.is_burst:
            numbers["burst_load"] = reaction.load
        wanted.append((replicas_for(reaction.load, capacity), reaction.text))
    # The forecast is issued at the end of the last full step; the decision may come later.
    start = lead + _passed(inputs, forecast)
    if _is_beyond(forecast, start + policy.period_seconds):
        numbers["horizon_seconds"] = forecast.reach_seconds
    elif forecast.quantiles is not None:
        upper = forecast.highest(policy.quantile, start, start + policy.period_seconds)
        middle = forecast.highest(0.5, start, start + policy.period_seconds)
        factor = _factor(inputs, lead, lead + policy.period_seconds)
        p95 = forecast.highest(0.95, start, start + policy.period_seconds)
        numbers |= {
            "forecast_p50": middle * factor,
            "forecast_p95": p95 * factor,
            "forecast_upper": upper * factor,
        }
        name = f"p{policy.quantile * 100:g} of the load in {lead / 60:.0f} min, {upper * factor:.4g}"
        if factor > 1:
            numbers["calendar_factor"] = factor
            name += f" with the calendar's factor {factor:g}"
        if forecast.standing is not Standing.DEGRADED:
            wanted.append((replicas_for(upper * factor, capacity), name))
    coming = (inputs.fleet.serving or 0) + inputs.fleet.building
    for later in _needed_later(inputs, forecast, lead_time, policy):
        if (due := min(later.replicas - later.built_before - coming, policy.builds_at_once or 0)) > 0:
            numbers["needed_later"] = max(numbers.get("needed_later", 0.0), float(later.replicas))
            wanted.append((coming + due, later.text))
    for override in _active(inputs, 0.0, lead + policy.period_seconds):
        if asked := override.asked(capacity):
            wanted.append((asked, f"the calendar: {override.reason}"))
            numbers["calendar"] = max(numbers.get("calendar", 0.0), float(asked))
    unlimited, by = max(wanted, key=lambda each: each[0])
    numbers["unlimited"] = float(unlimited)
    return _Need(min(unlimited, policy.max_replicas), unlimited, by, numbers)


def _is_beyond(forecast: Forecast, until_seconds: float) -> bool:
    return forecast.quantiles is not None and until_seconds > forecast.reach_seconds


@dataclass(frozen=True)
class _Later:
    """Replicas needed in several lead times, and how many can be built before the last of them must be begun."""

    replicas: int
    built_before: int
    text: str


def _needed_later(
    inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy
) -> list[_Later]:
    """What is needed in 2, 3, ... lead times, as far as the forecast reaches.

    Where replicas are built one after the other, the k-th one is ready in k lead times: a steep rise must be begun
    before its foot is a lead time away.
    """
    lead = lead_time.p90_seconds
    if policy.builds_at_once is None or forecast.quantiles is None or lead <= 0:
        return []
    if forecast.standing is Standing.DEGRADED:
        return []
    passed = _passed(inputs, forecast)
    reach = forecast.reach_seconds - passed - policy.period_seconds
    most = min(int(reach // lead), policy.max_replicas)
    found = []
    for number in range(2, most + 1):
        ahead = number * lead
        # From one lead time earlier: what could not be begun while another was being built is begun now.
        since, until = ahead - lead, ahead + policy.period_seconds
        upper = forecast.highest(policy.quantile, passed + since, passed + until)
        upper *= _factor(inputs, since, until)
        replicas = min(policy.max_replicas, replicas_for(upper, policy.capacity.per_replica))
        text = (
            f"p{policy.quantile * 100:g} of the load until {ahead / 60:.0f} min from now, {upper:.4g}, "
            f"with {policy.builds_at_once} build at a time"
        )
        found.append(_Later(replicas, (number - 1) * policy.builds_at_once, text))
    return found


def _scale_out(
    need: _Need, missing: int, coming: int, policy: ScalingPolicy, state: CheckState
) -> ScalingDecision:
    reason = f"{need.by}, takes {need.unlimited} replicas; {coming} serve or are being built"
    if need.unlimited > policy.max_replicas:
        short = need.unlimited - policy.max_replicas
        reason += f"; max_replicas {policy.max_replicas} is the ceiling (I12), {short} short"
    return _decision(Action.SCALE_OUT, Outcome.ACT, reason, need, missing, 0, state)


def _scale_in(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    state: CheckState,
    need: _Need,
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
    # Replicas in flight count as coming, never as serving: only what serves may leave (I8).
    surplus = min(serving - keep, _old_enough(inputs, policy), serving - policy.min_replicas)
    if serving - keep <= 0:
        return _decision(
            Action.NONE, Outcome.HOLD, f"{serving} replicas serve, as needed by {why}", need, 0, 0,
            replace(state, low_checks=0),
        )  # fmt: skip
    checks = state.low_checks + 1
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
    if inputs.fleet.draining:
        return f"{inputs.fleet.draining} replicas are draining"
    if forecast.standing in {Standing.REACTIVE_ONLY, Standing.SCALE_OUT_ONLY}:
        return f"the forecast is {forecast.standing}"
    if _is_beyond(forecast, _keep_until(inputs, forecast, lead_time, policy)):
        hours = policy.keep_lead_times * lead_time.p90_seconds / 3600
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


def _passed(inputs: DecisionInputs, forecast: Forecast) -> float:
    """Seconds since the forecast was issued."""
    return max(0.0, inputs.now_seconds - forecast.issued_at_seconds)


def _keep_seconds(lead_time: LeadTime, policy: ScalingPolicy) -> float:
    return max(policy.keep_lead_times * lead_time.p90_seconds, 3600.0)


def horizon_needed_seconds(lead_time: LeadTime, period_seconds: float) -> float:
    """How far a forecast must reach for decisions until a period after its issue: the lead time and the keep window.

    An hour more, for the step that has not ended at the time of issue.
    """
    keep = max(KEEP_LEAD_TIMES * lead_time.p90_seconds, 3600.0)
    return keep + 2 * period_seconds + 3600.0


def _keep_until(
    inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy
) -> float:
    """Seconds from the issue to the end of what a replica is kept for."""
    return _passed(inputs, forecast) + _keep_seconds(lead_time, policy)


def _keep(
    inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy, need: _Need
) -> tuple[int, str]:
    """Replicas to keep.

    For the load now and for the forecast until a replica given up could be rebuilt twice.
    """
    if forecast.standing is Standing.DEGRADED or forecast.quantiles is None:
        return need.wanted, need.by
    start = _passed(inputs, forecast)
    look_seconds = _keep_seconds(lead_time, policy)
    soon_seconds = min(look_seconds, lead_time.p90_seconds + policy.period_seconds)
    # Less trust in the bands keeps for less likely loads: by degrees, up to what is served.
    doubt = (1 - forecast.trust) * max(0.0, policy.quantile - policy.keep_quantile)
    keep_quantile = policy.keep_quantile + doubt
    factor = _factor(inputs, 0.0, look_seconds)
    soon = factor * forecast.highest(policy.quantile, start, start + soon_seconds)
    later = factor * forecast.highest(keep_quantile, start, start + look_seconds)
    slack = 1 + policy.hysteresis
    capacity = policy.capacity.per_replica
    by_load = replicas_for((inputs.load_now or 0.0) * slack, capacity)
    by_soon = replicas_for(soon * slack, capacity)
    by_later = replicas_for(later * slack, capacity)
    by_calendar = max((o.asked(capacity) for o in _active(inputs, 0.0, look_seconds)), default=0)
    in_turn = [
        (one.replicas - one.built_before, one.text)
        for one in _needed_later(inputs, forecast, lead_time, policy)
    ]
    choices = [
        *in_turn,
        (by_soon, f"p{policy.quantile * 100:g} of the next {soon_seconds / 60:.0f} min is {soon:.4g}"),
        (by_later, f"p{keep_quantile * 100:g} of the next {look_seconds / 60:.0f} min is {later:.4g}"),
        (by_load, f"the load is {inputs.load_now:g}"),
        (by_calendar, "the calendar"),
        (need.wanted, need.by),
    ]
    return max(choices, key=lambda each: each[0])


def _old_enough(inputs: DecisionInputs, policy: ScalingPolicy) -> int:
    return sum(
        inputs.now_seconds - since >= policy.minimum_lifetime_seconds
        for since in inputs.fleet.peak_in_service_since.values()
    )


def _active(inputs: DecisionInputs, from_seconds: float, until_seconds: float) -> list[CalendarOverride]:
    start, end = inputs.now_seconds + from_seconds, inputs.now_seconds + until_seconds
    return [each for each in inputs.overrides if each.start_seconds <= end and each.end_seconds >= start]


def _factor(inputs: DecisionInputs, from_seconds: float, until_seconds: float) -> float:
    """The highest calendar factor in the window; an override can only raise the need."""
    return max((1.0, *(each.factor for each in _active(inputs, from_seconds, until_seconds))))


def _decision(
    action: Action, outcome: Outcome, reason: str, need: _Need, shortage: int, surplus: int, state: CheckState
) -> ScalingDecision:
    numbers = {**need.numbers, "low_checks": float(state.low_checks)}
    return ScalingDecision(action, outcome, reason, need.wanted, shortage, surplus, numbers, state)
