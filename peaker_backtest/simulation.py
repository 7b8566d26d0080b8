"""A closed loop over a past load: decisions, replicas that take their time, minutes short, replica-hours.

Peaker's own decision function runs here, on the forecasts that it would have had. The others are reactive scaling
with the same lead time, static fleets, and an oracle: Peaker's rules with a forecast that knows the future.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LEVELS, Forecast, LoadSeries, Standing
from peaker.domain.issued import CheckState
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.needed_replicas import DecisionInputs, FleetCounts, replicas_for
from peaker.domain.planning.scaling import Action, decide
from peaker.domain.planning.scaling_policy import Capacity, ScalingPolicy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STATIC_LOOK_BACK_DAYS = 28
_DRAWN_FROM = 20_260_101
# Standard deviations from the median to the 90th percentile of a normal distribution.
_NORMAL_P90 = 1.2816


@dataclass(frozen=True)
class Scenario:
    """One cluster over one stretch of its past. Steps are the load's own; loads are in load-metric units."""

    series: LoadSeries
    first: int
    last: int
    lead_steps: int
    capacity_per_replica: float
    decide_every_steps: int = 1
    min_replicas: int = 1
    max_replicas: int = 1_000
    quantile: float = 0.95
    low_checks_needed: int = 3
    minimum_lifetime_seconds: float = 3600.0
    builds_at_once: int | None = None
    # p90 over median of the lead times: 1 is a lead time that never differs. Each build draws its own.
    lead_spread: float = 1.0
    # Replicas that every policy but the static one starts with; None: what the hour before took, and a tenth more.
    start_with: int | None = None
    # Steps before this one are warm-up: replayed, told apart, left out of every comparison. None: no warm-up.
    compare_from: int | None = None

    @property
    def compared_from(self) -> int:
        """First step that is compared."""
        return self.first if self.compare_from is None else self.compare_from

    @property
    def step_seconds(self) -> int:
        return self.series.step_seconds

    @property
    def lead_seconds(self) -> float:
        """The lead time that is planned with: the p90 of those that come."""
        return float(self.lead_steps * self.step_seconds) * self.lead_spread

    def lead_time(self) -> LeadTime:
        return LeadTime(self.lead_seconds, self.lead_seconds, (), "given")

    def drawn_lead_steps(self) -> Iterator[int]:
        """Lead times in whole steps, lognormal around the median; the same ones for every policy."""
        random = np.random.default_rng(_DRAWN_FROM)
        deviation = math.log(self.lead_spread) / _NORMAL_P90
        while True:
            drawn = self.lead_steps * math.exp(deviation * float(random.normal()))
            yield max(1, math.ceil(drawn - 1e-9))

    def policy(self) -> ScalingPolicy:
        """Peaker's rules with the scenario's figures."""
        return ScalingPolicy(
            min_replicas=self.min_replicas,
            max_replicas=self.max_replicas,
            capacity=Capacity(self.capacity_per_replica, "given"),
            quantile=self.quantile,
            period_seconds=float(self.decide_every_steps * self.step_seconds),
            minimum_lifetime_seconds=self.minimum_lifetime_seconds,
            low_checks_needed=self.low_checks_needed,
            builds_at_once=self.builds_at_once,
        )

    def decision_steps(self) -> range:
        """Steps at whose end a decision is made."""
        return range(self.first - 1, self.last, self.decide_every_steps)

    def load(self) -> Floats:
        """The load of the stretch; NaN where it was not seen."""
        return self.series.values[self.first : self.last]

    def required(self) -> Ints:
        """Replicas that the load of each step takes, without limits; -1 where the load was not seen."""
        return np.array(
            [
                replicas_for(float(load), self.capacity_per_replica) if np.isfinite(load) else -1
                for load in self.load()
            ],
            dtype=np.int64,
        )

    def at_end_of(self, step: int) -> float:
        return self.series.start_seconds + (step + 1) * self.step_seconds


@dataclass(frozen=True)
class Event:
    """Something that a policy did: at which step of the series, how many replicas, and why."""

    step: int
    action: str
    replicas: int
    reason: str


@dataclass(frozen=True)
class Figures:
    """What a policy's course comes to over a stretch of steps.

    short_replica_hours counts each missing replica: two replicas short for half an hour are one.
    """

    short_minutes: float
    short_share: float
    short_replica_hours: float
    replica_hours: float
    scale_outs: int
    scale_ins: int


@dataclass(frozen=True)
class Outcome:
    """One policy's course: replicas serving and paid for per step, and what that comes to.

    `paid` is what serves and what is being built.
    """

    name: str
    serving: Ints
    paid: Ints
    compared: Figures
    warm_up: Figures
    events: tuple[Event, ...] = ()

    @property
    def short_share(self) -> float:
        return self.compared.short_share

    @property
    def short_minutes(self) -> float:
        return self.compared.short_minutes

    @property
    def replica_hours(self) -> float:
        return self.compared.replica_hours


@dataclass
class _FleetInTime:
    """Replicas that serve, replicas under way (step at which each begins to serve), births of peak replicas."""

    scenario: Scenario
    serving: int
    arrivals: list[int] = field(default_factory=list)
    births: list[float] = field(default_factory=list)
    leads: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.leads = self.scenario.drawn_lead_steps()

    def arrive(self, step: int) -> None:
        """Put into service what is ready at the beginning of `step`."""
        ready = [at for at in self.arrivals if at <= step]
        self.arrivals = [at for at in self.arrivals if at > step]
        for at in ready:
            self.serving += 1
            self.births.append(self.scenario.at_end_of(at - 1))

    def launch(self, step: int, count: int) -> int:
        """Start building at the end of `step`; returns how many builds the limit allows."""
        limit = self.scenario.builds_at_once
        allowed = count if limit is None else max(0, min(count, limit - len(self.arrivals)))
        self.arrivals += [step + 1 + next(self.leads) for _ in range(allowed)]
        return allowed

    def retire(self, count: int) -> None:
        """Take the oldest peak replicas out of service."""
        self.serving -= count
        self.births = sorted(self.births)[count:]


Decide = Callable[[int, _FleetInTime], Event | None]


def _run(name: str, scenario: Scenario, start_serving: int, decide_at: Decide) -> Outcome:
    fleet = _FleetInTime(scenario, start_serving)
    fleet.births = [-np.inf] * max(0, start_serving - scenario.min_replicas)
    decisions = set(scenario.decision_steps())
    count = scenario.last - scenario.first
    serving, paid = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    events = []
    for step in range(scenario.first, scenario.last):
        # What is ready by now serves already when it is decided: the next build waits for no other step.
        fleet.arrive(step)
        if step - 1 in decisions:
            event = decide_at(step - 1, fleet)
            if event is not None:
                events.append(event)
        serving[step - scenario.first] = fleet.serving
        paid[step - scenario.first] = fleet.serving + len(fleet.arrivals)
    return _outcome(name, scenario, serving, paid, tuple(events))


def _outcome(name: str, scenario: Scenario, serving: Ints, paid: Ints, events: tuple[Event, ...]) -> Outcome:
    border = scenario.compared_from - scenario.first
    required = scenario.required()

    def figures(since: int, until: int) -> Figures:
        seen = required[since:until] >= 0
        missing = np.where(seen, np.maximum(0, required[since:until] - serving[since:until]), 0)
        short = int((missing > 0).sum())
        hours = scenario.step_seconds / 3600
        inside = [event for event in events if since <= event.step + 1 - scenario.first < until]
        return Figures(
            short_minutes=60 * hours * short,
            short_share=short / max(1, int(seen.sum())),
            short_replica_hours=hours * float(missing.sum()),
            replica_hours=hours * float(paid[since:until].sum()),
            scale_outs=sum(event.action == "scale_out" for event in inside),
            scale_ins=sum(event.action == "scale_in" for event in inside),
        )

    return Outcome(name, serving, paid, figures(border, len(serving)), figures(0, border), events)


def starting_replicas(scenario: Scenario) -> int:
    """Every policy starts with what the load of the last hour takes, with room for a tenth more."""
    if scenario.start_with is not None:
        return scenario.start_with
    before = scenario.series.values[max(0, scenario.first - 12) : scenario.first]
    before = before[np.isfinite(before)]
    load = float(before.max()) if len(before) else 0.0
    wanted = replicas_for(1.1 * load, scenario.capacity_per_replica)
    return min(scenario.max_replicas, max(scenario.min_replicas, wanted))


def simulate_forecasts(
    name: str,
    scenario: Scenario,
    forecasts: Iterable[tuple[int, Forecast]],
    policy: ScalingPolicy | None = None,
) -> Outcome:
    """Peaker's decisions on the given forecasts: (step, forecast issued at its end), ascending."""
    policy = scenario.policy() if policy is None else policy
    lead = scenario.lead_time()
    source: Iterator[tuple[int, Forecast]] = iter(forecasts)
    state = CheckState()

    def decide_at(step: int, fleet: _FleetInTime) -> Event | None:
        nonlocal state
        at, forecast = next(source)
        if at != step:
            raise ValueError(f"forecast of step {at} where that of {step} was expected")
        inputs = DecisionInputs(
            now_seconds=scenario.at_end_of(step),
            load_now=None if forecast.stale else forecast.last_load,
            fleet=FleetCounts(
                serving=fleet.serving,
                building=len(fleet.arrivals),
                peak_in_service_since={str(i): born for i, born in enumerate(fleet.births)},
            ),
        )
        decision = decide(inputs, forecast, lead, policy, state)
        state = decision.state
        if decision.action is Action.SCALE_OUT:
            started = fleet.launch(step, decision.shortage)
            return Event(step, "scale_out", started, decision.reason) if started else None
        if decision.action is Action.SCALE_IN:
            fleet.retire(decision.surplus)
            return Event(step, "scale_in", decision.surplus, decision.reason)
        return None

    return _run(name, scenario, starting_replicas(scenario), decide_at)


def oracle_forecasts(scenario: Scenario, horizon_steps: int) -> Iterator[tuple[int, Forecast]]:
    """Forecasts that are the future itself; where it was not seen, the last load before stands."""
    values = scenario.series.values
    known = np.where(np.isfinite(values), np.arange(len(values)), -1)
    filled = values[np.maximum(np.maximum.accumulate(known), 0)]
    for step in scenario.decision_steps():
        future = filled[step + 1 : step + 1 + horizon_steps]
        # Beyond the end of what is known the last load goes on.
        future = np.concatenate([future, np.full(horizon_steps - len(future), filled[-1])])
        yield (
            step,
            Forecast(
                issued_at_seconds=scenario.at_end_of(step),
                step_seconds=scenario.step_seconds,
                levels=LEVELS,
                quantiles=np.repeat(future[:, None], len(LEVELS), axis=1),
                standing=Standing.NORMAL,
                model="oracle",
                reasons=(),
                last_load=float(filled[step]),
                age_seconds=0.0,
                stale=False,
            ),
        )


def simulate_reactive(scenario: Scenario, target: float) -> Outcome:
    """Launch what the load of now takes at `target` utilisation; retire after max(60 min, L) below."""
    return react(f"reactive at {target:.0%}", scenario, target, lambda _: 0.0)


def react(name: str, scenario: Scenario, target: float, floor_at: Callable[[int], float]) -> Outcome:
    """Reactive scaling at `target`, never below what the load that `floor_at` a step foresees takes."""
    values = scenario.series.values
    patience = max(3600.0, scenario.lead_seconds)
    low_since: float | None = None

    def decide_at(step: int, fleet: _FleetInTime) -> Event | None:
        nonlocal low_since
        load = values[step]
        if not np.isfinite(load):
            # An alarm without data is no alarm, and its low periods are counted from the beginning.
            low_since = None
            return None
        least = replicas_for(floor_at(step), scenario.capacity_per_replica)
        wanted = max(least, replicas_for(float(load) / target, scenario.capacity_per_replica))
        wanted = min(scenario.max_replicas, max(scenario.min_replicas, wanted))
        now = scenario.at_end_of(step)
        coming = fleet.serving + len(fleet.arrivals)
        if wanted > coming:
            low_since = None
            started = fleet.launch(step, wanted - coming)
            return Event(step, "scale_out", started, f"load {load:g}") if started else None
        if wanted >= fleet.serving:
            low_since = None
            return None
        low_since = now if low_since is None else low_since
        if now - low_since < patience:
            return None
        count = fleet.serving - wanted
        fleet.retire(count)
        low_since = None
        return Event(step, "scale_in", count, f"load {load:g} for {patience / 60:.0f} min")

    return _run(name, scenario, starting_replicas(scenario), decide_at)


def simulate_static(scenario: Scenario) -> Outcome:
    """Always as many replicas as the highest load of the four weeks before took."""
    day = scenario.series.steps_per_day
    since = max(0, scenario.first - STATIC_LOOK_BACK_DAYS * day)
    before = scenario.series.values[since : scenario.first]
    return _constant("static, sized by the past", scenario, static_replicas(scenario, before))


def simulate_static_peak(scenario: Scenario) -> Outcome:
    """The smallest constant fleet that is never short in the compared steps: nobody can know it before."""
    compared = scenario.series.values[scenario.compared_from : scenario.last]
    return _constant("static peak", scenario, static_replicas(scenario, compared))


def static_replicas(scenario: Scenario, loads: Floats) -> int:
    """Replicas that the highest of these loads takes, within the limits."""
    seen = loads[np.isfinite(loads)]
    wanted = replicas_for(float(seen.max()) if len(seen) else 0.0, scenario.capacity_per_replica)
    return min(scenario.max_replicas, max(scenario.min_replicas, wanted))


def _constant(name: str, scenario: Scenario, replicas: int) -> Outcome:
    course = np.full(scenario.last - scenario.first, replicas, dtype=np.int64)
    return _outcome(name, scenario, course, course.copy(), ())


def short_at_equal_cost(outcome: Outcome, reactive: Sequence[Outcome]) -> float:
    """The share of time short that reactive scaling would have had for the same replica-hours.

    Interpolated between the reactive runs (one per target utilisation), and flat beyond their ends.
    """
    ordered = sorted(reactive, key=lambda each: each.replica_hours)
    hours = [each.replica_hours for each in ordered]
    shares = [each.short_share for each in ordered]
    return float(np.interp(outcome.replica_hours, hours, shares))
