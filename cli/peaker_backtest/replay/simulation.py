"""A closed loop over a past load: Peaker's own decisions on forecasts, replicas that take their time, minutes short."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LEVELS, Forecast, LoadSeries, Standing
from peaker.domain.issued import CheckState
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.needed_replicas import DecisionInputs, FleetCounts
from peaker.domain.planning.scaling import Action, decide
from peaker.domain.planning.scaling_policy import (
    Capacity,
    ScalingPolicy,
    replicas_for,
    with_headroom,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# A load balancer takes so long for a replica that is called back from its drain.
RETURN_SECONDS = 300.0
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
    # As in the policy: whether a batch begins before another serves.
    batches_overlap: bool = False
    # A replica that leaves costs for so long without serving; needed again meanwhile, it is called back.
    drain_steps: int = 0
    headroom: float = 0.0
    is_reactive: bool = False
    # p90 over median of the lead times: 1 is a lead time that never differs. Each build draws its own.
    lead_spread: float = 1.0
    # Replicas that every policy but the static one starts with; None: what the hour before took, and a tenth more.
    start_with: int | None = None
    # Steps before this one are warm-up: replayed, told apart, left out of every comparison. None: no warm-up.
    compare_from: int | None = None

    @property
    def compared_from(self) -> int:
        return self.first if self.compare_from is None else self.compare_from

    @property
    def step_seconds(self) -> int:
        return self.series.step_seconds

    @property
    def lead_seconds(self) -> float:
        """Returns the lead time that is planned with: the p90 of those that come."""
        return float(self.lead_steps * self.step_seconds) * self.lead_spread

    def lead_time(self) -> LeadTime:
        return LeadTime(self.lead_seconds, self.lead_seconds, (), "given")

    def drawn_lead_steps(self) -> Iterator[int]:
        """Returns lead times in whole steps, lognormal around the median; the same ones for every policy."""
        random = np.random.default_rng(_DRAWN_FROM)
        deviation = math.log(self.lead_spread) / _NORMAL_P90
        while True:
            drawn = self.lead_steps * math.exp(deviation * float(random.normal()))
            yield max(1, math.ceil(drawn - 1e-9))

    def policy(self) -> ScalingPolicy:
        return ScalingPolicy(
            min_replicas=self.min_replicas,
            max_replicas=self.max_replicas,
            capacity=with_headroom(Capacity(self.capacity_per_replica, "given"), self.headroom),
            quantile=self.quantile,
            period_seconds=float(self.decide_every_steps * self.step_seconds),
            minimum_lifetime_seconds=self.minimum_lifetime_seconds,
            low_checks_needed=self.low_checks_needed,
            is_reactive=self.is_reactive,
            batches_overlap=self.batches_overlap,
        )

    def decision_steps(self) -> range:
        return range(self.first - 1, self.last, self.decide_every_steps)

    def load(self) -> Floats:
        """Returns the load of the stretch; NaN where it was not seen."""
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
    """What a policy's course comes to over a stretch of steps; two replicas short for half an hour are one hour."""

    short_minutes: float
    short_share: float
    short_replica_hours: float
    replica_hours: float
    scale_outs: int
    scale_ins: int

    def weighted(self, short_weight: float) -> float:
        return self.replica_hours + short_weight * self.short_replica_hours


@dataclass(frozen=True)
class Outcome:
    """One policy's course per step: replicas serving and, with those being built or draining, paid for."""

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
class FleetInTime:
    """Replicas that serve, come (the step of their arrival) or drain (the step of their end); births of peak ones."""

    scenario: Scenario
    serving: int
    arrivals: list[int] = field(default_factory=list)
    draining: list[int] = field(default_factory=list)
    births: list[float] = field(default_factory=list)
    leads: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.leads = self.scenario.drawn_lead_steps()

    @property
    def paid(self) -> int:
        return self.serving + len(self.arrivals) + len(self.draining)

    def arrive(self, step: int) -> None:
        """Puts into service the replicas that are ready at the beginning of `step`; ends those that have drained."""
        self.draining = [at for at in self.draining if at > step]
        ready = [at for at in self.arrivals if at <= step]
        self.arrivals = [at for at in self.arrivals if at > step]
        for at in ready:
            self.serving += 1
            self.births.append(self.scenario.at_end_of(at - 1))

    def launch(self, step: int, count: int) -> int:
        """Calls back draining replicas and starts building the rest at the end of `step`; returns their number."""
        back = min(count, len(self.draining))
        self.draining = self.draining[back:]
        built = self._build(step, count - back)
        self.arrivals += [step + 1 + math.ceil(RETURN_SECONDS / self.scenario.step_seconds)] * back
        return back + built

    def _build(self, step: int, count: int) -> int:
        waits = self.arrivals and not self.scenario.batches_overlap
        allowed = 0 if waits else count
        self.arrivals += [step + 1 + next(self.leads) for _ in range(allowed)]
        return allowed

    def retire(self, step: int, count: int) -> None:
        """Takes the oldest peak replicas out of service at the end of `step`."""
        self.serving -= count
        if self.scenario.drain_steps:
            self.draining += [step + 1 + self.scenario.drain_steps] * count
        self.births = sorted(self.births)[count:]


Decide = Callable[[int, FleetInTime], Event | None]


def _course(
    name: str, scenario: Scenario, start_serving: int, decide_at: Decide
) -> Generator[None, None, Outcome]:
    fleet = FleetInTime(scenario, start_serving)
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
        paid[step - scenario.first] = fleet.paid
        yield
    return outcome_of(name, scenario, serving, paid, tuple(events))


def _side_by_side(courses: Sequence[Generator[None, None, Outcome]]) -> list[Outcome]:
    """Advances all courses step by step, and returns the outcome of each: they are of one scenario."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(courses):
        for course in courses:
            try:
                next(course)
            except StopIteration as ended:
                outcomes.append(ended.value)
    return outcomes


def outcome_of(
    name: str, scenario: Scenario, serving: Ints, paid: Ints, events: tuple[Event, ...]
) -> Outcome:
    """Returns the figures of a course of replicas, before the first compared step and from it on."""
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


def simulate_decisions(name: str, scenario: Scenario, decide_at: Decide) -> Outcome:
    """Replays one policy that needs no forecast of ours; it decides at the end of each step, given its fleet."""
    (outcome,) = _side_by_side([_course(name, scenario, starting_replicas(scenario), decide_at)])
    return outcome


def simulate_forecasts(
    name: str,
    scenario: Scenario,
    forecasts: Iterable[tuple[int, Forecast]],
    policy: ScalingPolicy | None = None,
) -> Outcome:
    """Peaker's decisions on the given forecasts: (step, forecast issued at its end), ascending."""
    (outcome,) = simulate_policies(scenario, forecasts, [(name, policy or scenario.policy())])
    return outcome


def simulate_policies(
    scenario: Scenario,
    forecasts: Iterable[tuple[int, Forecast]],
    policies: Sequence[tuple[str, ScalingPolicy]],
) -> list[Outcome]:
    """Replays several named policies on the same forecasts, each of which is made once."""
    source: Iterator[tuple[int, Forecast]] = iter(forecasts)
    newest: tuple[int, Forecast] | None = None

    def forecast_at(step: int) -> Forecast:
        nonlocal newest
        if newest is None or newest[0] < step:
            newest = next(source)
        if newest[0] != step:
            raise ValueError(f"forecast of step {newest[0]} where that of {step} was expected")
        return newest[1]

    start = starting_replicas(scenario)
    return _side_by_side(
        [_course(name, scenario, start, _decider(scenario, policy, forecast_at)) for name, policy in policies]
    )


def _decider(scenario: Scenario, policy: ScalingPolicy, forecast_at: Callable[[int], Forecast]) -> Decide:
    lead = scenario.lead_time()
    state = CheckState()

    def decide_at(step: int, fleet: FleetInTime) -> Event | None:
        nonlocal state
        forecast = forecast_at(step)
        inputs = DecisionInputs(
            now_seconds=scenario.at_end_of(step),
            load_now=None if forecast.stale else forecast.last_load,
            fleet=FleetCounts(
                serving=fleet.serving,
                building=len(fleet.arrivals),
                draining=len(fleet.draining),
                peak_in_service_since={str(i): born for i, born in enumerate(fleet.births)},
            ),
        )
        decision = decide(inputs, forecast, lead, policy, state)
        state = decision.state
        if decision.action is Action.SCALE_OUT:
            started = fleet.launch(step, decision.shortage)
            return Event(step, "scale_out", started, decision.reason) if started else None
        if decision.action is Action.SCALE_IN:
            fleet.retire(step, decision.surplus)
            return Event(step, "scale_in", decision.surplus, decision.reason)
        return None

    return decide_at


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
                reasons=(),
                last_load=float(filled[step]),
                age_seconds=0.0,
                stale=False,
            ),
        )
