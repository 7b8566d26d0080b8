"""How many replicas are needed in time: for the load of now, the forecast at the lead time, and known events.

A forecast adds to the need, it never lowers it (I8); max_replicas is a ceiling (I12). Where nothing can be forecast
(`degraded`), the load of now is all there is: reactive scaling at the stated capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from peaker.domain.forecasting import Forecast, Standing
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.scaling_policy import ScalingPolicy, replicas_for
from peaker_contract.load_settings import CalendarEvent

# A cluster with a young history keeps room; that lasts three days at most.
REACTIVE_ONLY_HEADROOM = 0.7


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

    @property
    def coming(self) -> int:
        return (self.serving or 0) + self.building


@dataclass(frozen=True)
class Trouble:
    """Something after which low load proves nothing: an error spike, a failover, a deploy."""

    kind: str
    at_seconds: float


@dataclass(frozen=True)
class DecisionInputs:
    """The facts of a check, the forecast apart. load_now None means that the metric is missing or stale."""

    now_seconds: float
    load_now: float | None
    fleet: FleetCounts
    troubles: Sequence[Trouble] = ()
    calendar: Sequence[CalendarEvent] = ()


@dataclass(frozen=True)
class Outlook:
    """The facts, forecast, lead time and policy of one check. `since` and `until` are seconds from now."""

    inputs: DecisionInputs
    forecast: Forecast
    lead_time: LeadTime
    policy: ScalingPolicy

    @property
    def is_reactive(self) -> bool:
        return self.forecast.standing is Standing.DEGRADED

    @property
    def passed_seconds(self) -> float:
        """Seconds since the forecast was issued, at the end of the last full step."""
        return max(0.0, self.inputs.now_seconds - self.forecast.issued_at_seconds)

    def is_beyond(self, until: float) -> bool:
        """Tells whether there is a forecast, and it ends before."""
        return (
            self.forecast.quantiles is not None and self.passed_seconds + until > self.forecast.reach_seconds
        )

    def events(self, since: float, until: float) -> list[CalendarEvent]:
        start, end = self.inputs.now_seconds + since, self.inputs.now_seconds + until
        known = self.inputs.calendar
        return [one for one in known if one.from_.timestamp() <= end and one.until.timestamp() >= start]

    def factor(self, since: float, until: float) -> float:
        """Returns the highest calendar factor of the stretch; an event can only raise the need."""
        return max((1.0, *(one.factor or 1.0 for one in self.events(since, until))))

    def load(self, level: float, since: float, until: float, factor: float) -> float:
        """Returns the highest quantile of the stretch, times a calendar's factor.

        The factor raises it no further than the highest load of the history times the factor, and never lowers it.
        """
        passed = self.passed_seconds
        return self.multiplied(self.forecast.highest(level, passed + since, passed + until), factor)

    def multiplied(self, load: float, factor: float) -> float:
        return max(load, factor * min(load, self.forecast.highest_load))


@dataclass(frozen=True)
class Need:
    """Replicas wanted in time, before and after the limits, and the loads behind them.

    `load_replicas` is the greatest of the loads in replicas, before it is rounded up to whole ones.
    """

    wanted: int
    unlimited: int
    by: str
    numbers: dict[str, float]
    load_replicas: float = 0.0


@dataclass(frozen=True)
class _Asked:
    """Replicas that something asks for; `exact` is the load that asks, in replicas, 0 where it is no load."""

    replicas: int
    by: str
    exact: float = 0.0


def replicas_of_event(event: CalendarEvent, capacity_per_replica: float) -> int:
    """Replicas that the event takes, 0 when it only multiplies the forecast."""
    return max(event.min_replicas or 0, replicas_for(event.load or 0.0, capacity_per_replica))


def need_of(outlook: Outlook) -> Need:
    """The most that anything asks for, and the reason that asks for it."""
    policy, fleet = outlook.policy, outlook.inputs.fleet
    numbers = {
        "lead_time_p90_seconds": outlook.lead_time.p90_seconds,
        "capacity_per_replica": policy.capacity.per_replica,
        "quantile": policy.quantile,
        "serving": float(fleet.serving if fleet.serving is not None else -1),
        "building": float(fleet.building),
    }
    asked = [
        _Asked(policy.min_replicas, "the floor min_replicas"),
        *_by_load(outlook, numbers),
        *_by_forecast(outlook, numbers),
        *_by_calendar(outlook, numbers),
    ]
    asked += _by_next_batch(outlook, max(one.replicas for one in asked), numbers)
    first = max(asked, key=lambda one: one.replicas)
    numbers["unlimited"] = float(first.replicas)
    wanted = min(first.replicas, policy.max_replicas)
    return Need(wanted, first.replicas, first.by, numbers, max(one.exact for one in asked))


def load_text(load: float) -> str:
    """A load with as many digits as a person reads."""
    return f"{load:,.0f}" if load >= 1000 else f"{load:.4g}"


def _asked(outlook: Outlook, load: float, by: str) -> _Asked:
    capacity = outlook.policy.capacity.per_replica
    return _Asked(replicas_for(load, capacity), by, load / capacity)


def _by_load(outlook: Outlook, numbers: dict[str, float]) -> Iterator[_Asked]:
    """The load of now; with room where the history is too short for a forecast, and times a known event's factor."""
    load = outlook.inputs.load_now
    if load is None:
        return
    numbers["load_now"] = load
    text = f"the load of {load_text(load)} now"
    if outlook.forecast.standing is Standing.REACTIVE_ONLY:
        yield _asked(
            outlook, load / REACTIVE_ONLY_HEADROOM, f"{text} at {REACTIVE_ONLY_HEADROOM:.0%} headroom"
        )
    else:
        yield _asked(outlook, load, text)
    factor = outlook.factor(0.0, outlook.lead_time.p90_seconds + outlook.policy.period_seconds)
    if outlook.is_reactive and factor > 1:
        numbers["calendar_factor"] = factor
        raised = outlook.multiplied(load, factor)
        by = f"{text} with the calendar's factor {factor:g}, {load_text(raised)}"
        yield _asked(outlook, raised, by)


def _by_forecast(outlook: Outlook, numbers: dict[str, float]) -> Iterator[_Asked]:
    """The forecast for the time when a replica begun now would serve."""
    policy, since = outlook.policy, outlook.lead_time.p90_seconds
    until = since + policy.period_seconds
    if outlook.forecast.quantiles is None:
        return
    if outlook.is_beyond(until):
        numbers["horizon_seconds"] = outlook.forecast.reach_seconds
        return
    factor = outlook.factor(since, until)
    upper = outlook.load(policy.quantile, since, until, factor)
    numbers |= {
        "forecast_p50": outlook.load(0.5, since, until, factor),
        "forecast_p95": outlook.load(0.95, since, until, factor),
        "forecast_upper": upper,
    }
    by = f"p{policy.quantile * 100:g} of the load in {since / 60:.0f} min, {load_text(upper)}"
    if factor > 1:
        numbers["calendar_factor"] = factor
        by += f" with the calendar's factor {factor:g}"
    if not outlook.is_reactive:
        yield _asked(outlook, upper, by)


def _by_calendar(outlook: Outlook, numbers: dict[str, float]) -> Iterator[_Asked]:
    """Known events that ask for replicas by themselves until a replica begun now would serve."""
    capacity = outlook.policy.capacity.per_replica
    for event in outlook.events(0.0, outlook.lead_time.p90_seconds + outlook.policy.period_seconds):
        if asked := replicas_of_event(event, capacity):
            numbers["calendar"] = max(numbers.get("calendar", 0.0), float(asked))
            yield _Asked(asked, f"the calendar: {event.reason}", (event.load or 0.0) / capacity)


def _by_next_batch(outlook: Outlook, wanted_now: int, numbers: dict[str, float]) -> Iterator[_Asked]:
    """The need in two lead times, as far as the forecast reaches.

    A cluster builds one batch at a time, and the next begins when the one of now serves: only a replica that is begun
    with this one is there before.
    """
    policy, lead, coming = outlook.policy, outlook.lead_time.p90_seconds, outlook.inputs.fleet.coming
    until = 2 * lead + policy.period_seconds
    if policy.batches_overlap or outlook.forecast.quantiles is None or outlook.is_reactive or lead <= 0:
        return
    if outlook.is_beyond(until) or wanted_now <= coming:
        return
    load = outlook.load(policy.quantile, lead, until, outlook.factor(lead, until))
    replicas = min(policy.max_replicas, replicas_for(load, policy.capacity.per_replica))
    if replicas > coming:
        numbers["needed_later"] = float(replicas)
        yield _Asked(
            replicas,
            f"p{policy.quantile * 100:g} of the load until {2 * lead / 60:.0f} min from now, {load_text(load)}, "
            "as the next batch begins when this one serves",
        )
