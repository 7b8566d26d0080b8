"""How many replicas are needed in time: for the load of now, the forecast at the lead time, and known events.

A forecast adds to the need, it never lowers it (I8); max_replicas is a ceiling (I12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peaker.domain.forecasting import Forecast, Standing
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.reaction import load_text, react
from peaker.domain.planning.scaling_policy import ScalingPolicy, replicas_for


@dataclass(frozen=True)
class FleetCounts:
    """Replicas now. `serving` includes the base replicas; None means that it is not known (I4).

    `few_reads` are those that count as less than a whole replica, with the share that they count as; `read_shares` are
    the shares of the newest look, of those that have one.
    """

    serving: int | None
    building: int = 0
    draining: int = 0
    peak_in_service_since: Mapping[str, float] = field(default_factory=dict)
    few_reads: Mapping[str, float] = field(default_factory=dict)
    read_shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def counted(self) -> float:
        """Whole replicas that those which serve are worth by the reads that come to them."""
        return (self.serving or 0) - sum(1.0 - share for share in self.few_reads.values())


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
class Need:
    """Replicas wanted in time, before and after the limits, and the loads behind them.

    `load_replicas` is what the greatest of the loads takes, before it is rounded up to whole replicas.
    """

    wanted: int
    unlimited: int
    by: str
    numbers: dict[str, float]
    load_replicas: float = 0.0


def need_of(inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy) -> Need:
    """The most that anything asks for, and what asks for it."""
    numbers = {
        "lead_time_p90_seconds": lead_time.p90_seconds,
        "capacity_per_replica": policy.capacity.per_replica,
        "quantile": policy.quantile,
        "serving": float(inputs.fleet.serving if inputs.fleet.serving is not None else -1),
        "building": float(inputs.fleet.building),
    }
    wanted: _Wanted = [
        _Asked(policy.min_replicas, "the floor min_replicas"),
        *_by_load(inputs, forecast, lead_time, policy, numbers),
        *_by_forecast(inputs, forecast, lead_time, policy, numbers),
        *_by_calendar(inputs, lead_time, policy, numbers),
    ]
    most = max(one.replicas for one in wanted)
    wanted += _by_turn(inputs, forecast, lead_time, policy, most, numbers)
    first = max(wanted, key=lambda each: each.replicas)
    numbers["unlimited"] = float(first.replicas)
    limited = min(first.replicas, policy.max_replicas)
    return Need(limited, first.replicas, first.by, numbers, max(one.exact for one in wanted))


@dataclass(frozen=True)
class _Asked:
    """Replicas that something asks for; `exact` is the load that asks, in replicas, 0 where it is no load."""

    replicas: int
    by: str
    exact: float = 0.0


_Wanted = list[_Asked]


def _asked_by_load(load: float, capacity: float, by: str) -> _Asked:
    return _Asked(replicas_for(load, capacity), by, load / capacity)


def _by_load(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    numbers: dict[str, float],
) -> _Wanted:
    """What the load of now takes; in a known event that multiplies a load that cannot be forecast, so many times it."""
    if inputs.load_now is None:
        return []
    capacity, lead = policy.capacity.per_replica, lead_time.p90_seconds
    numbers["load_now"] = inputs.load_now
    reaction = react(inputs.load_now, forecast)
    wanted = [_asked_by_load(reaction.load, capacity, reaction.text)]
    factor = calendar_factor(inputs, 0.0, lead + policy.period_seconds)
    if forecast.standing is Standing.DEGRADED and factor > 1:
        numbers["calendar_factor"] = factor
        load = factor * inputs.load_now
        text = f"the load of {load_text(inputs.load_now)} now with the calendar's factor {factor:g}, {load_text(load)}"
        wanted.append(_asked_by_load(load, capacity, text))
    return wanted


def _by_forecast(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    numbers: dict[str, float],
) -> _Wanted:
    """What the forecast says for the time when a replica begun now would serve."""
    if forecast.quantiles is None:
        return []
    lead = lead_time.p90_seconds
    # The forecast is issued at the end of the last full step; the decision may come later.
    start = lead + passed_seconds(inputs, forecast)
    until = start + policy.period_seconds
    if is_beyond(forecast, until):
        numbers["horizon_seconds"] = forecast.reach_seconds
        return []
    factor = calendar_factor(inputs, lead, lead + policy.period_seconds)
    upper = with_factor(forecast, policy.quantile, start, until, factor)
    numbers |= {
        "forecast_p50": with_factor(forecast, 0.5, start, until, factor),
        "forecast_p95": with_factor(forecast, 0.95, start, until, factor),
        "forecast_upper": upper,
    }
    name = f"p{policy.quantile * 100:g} of the load in {lead / 60:.0f} min, {load_text(upper)}"
    if factor > 1:
        numbers["calendar_factor"] = factor
        name += f" with the calendar's factor {factor:g}"
    if forecast.standing is Standing.DEGRADED:
        return []
    return [_asked_by_load(upper, policy.capacity.per_replica, name)]


def _by_turn(
    inputs: DecisionInputs,
    forecast: Forecast,
    lead_time: LeadTime,
    policy: ScalingPolicy,
    wanted_now: int,
    numbers: dict[str, float],
) -> _Wanted:
    """What must be begun now because later builds wait for those that are begun now."""
    coming = (inputs.fleet.serving or 0) + inputs.fleet.building
    later = needed_later(inputs, forecast, lead_time, policy)
    # The next batch begins when the one of now serves: only what is begun with this one is there before.
    if later is None or wanted_now <= coming or later.replicas <= coming:
        return []
    numbers["needed_later"] = float(later.replicas)
    return [_Asked(later.replicas, later.text)]


def _by_calendar(
    inputs: DecisionInputs, lead_time: LeadTime, policy: ScalingPolicy, numbers: dict[str, float]
) -> _Wanted:
    """What known events ask for by themselves until a replica begun now would serve."""
    wanted = []
    for override in active_overrides(inputs, 0.0, lead_time.p90_seconds + policy.period_seconds):
        if asked := override.asked(policy.capacity.per_replica):
            exact = override.load / policy.capacity.per_replica
            wanted.append(_Asked(asked, f"the calendar: {override.reason}", exact))
            numbers["calendar"] = max(numbers.get("calendar", 0.0), float(asked))
    return wanted


def is_beyond(forecast: Forecast, until_seconds: float) -> bool:
    """Whether there is a forecast, and it ends before `until_seconds` after its issue."""
    return forecast.quantiles is not None and until_seconds > forecast.reach_seconds


@dataclass(frozen=True)
class Later:
    """Replicas needed within two lead times, when the batch after the next one can have been built.

    load is the `quantile` of the load until `ahead_seconds` from now.
    """

    replicas: int
    load: float
    quantile: float
    ahead_seconds: float

    @property
    def text(self) -> str:
        """What it is, for the reason of a decision."""
        minutes = self.ahead_seconds / 60
        return (
            f"p{self.quantile * 100:g} of the load until {minutes:.0f} min from now, {load_text(self.load)}, "
            "as the next batch begins when this one serves"
        )


def needed_later(
    inputs: DecisionInputs, forecast: Forecast, lead_time: LeadTime, policy: ScalingPolicy
) -> Later | None:
    """What is needed in two lead times; None where the forecast does not reach so far.

    A cluster builds one batch at a time: what could not be begun while this one is built is begun with it.
    """
    lead = lead_time.p90_seconds
    if policy.batches_overlap or forecast.quantiles is None or lead <= 0:
        return None
    if forecast.standing is Standing.DEGRADED:
        return None
    passed = passed_seconds(inputs, forecast)
    if forecast.reach_seconds - passed - policy.period_seconds < 2 * lead:
        return None
    since, until = lead, 2 * lead + policy.period_seconds
    factor = calendar_factor(inputs, since, until)
    upper = with_factor(forecast, policy.quantile, passed + since, passed + until, factor)
    replicas = min(policy.max_replicas, replicas_for(upper, policy.capacity.per_replica))
    return Later(replicas, upper, policy.quantile, 2 * lead)


def passed_seconds(inputs: DecisionInputs, forecast: Forecast) -> float:
    """Seconds since the forecast was issued."""
    return max(0.0, inputs.now_seconds - forecast.issued_at_seconds)


def active_overrides(
    inputs: DecisionInputs, from_seconds: float, until_seconds: float
) -> list[CalendarOverride]:
    """Known events that touch this stretch of time from now."""
    start, end = inputs.now_seconds + from_seconds, inputs.now_seconds + until_seconds
    return [each for each in inputs.overrides if each.start_seconds <= end and each.end_seconds >= start]


def calendar_factor(inputs: DecisionInputs, from_seconds: float, until_seconds: float) -> float:
    """The highest calendar factor in the window; an override can only raise the need."""
    if not inputs.overrides:
        return 1.0
    return max((1.0, *(each.factor for each in active_overrides(inputs, from_seconds, until_seconds))))


def with_factor(
    forecast: Forecast, level: float, from_seconds: float, until_seconds: float, factor: float
) -> float:
    """The highest quantile of a stretch of time from the issue on, times a calendar's factor.

    The factor raises it no further than the highest load of the history times the factor, and never lowers it.
    """
    load = forecast.highest(level, from_seconds, until_seconds)
    return max(load, factor * min(load, forecast.highest_load))
