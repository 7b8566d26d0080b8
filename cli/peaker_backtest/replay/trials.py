"""Other settings, and other rules (reactive scaling, a schedule by the hour, static fleets), replayed on the same
forecasts, the cheapest of them, and whether scaling ahead was worth it: by cost and shortage together.

A replica-hour short weighs as many spare ones as the served quantile stands for (`short_weight`). Without that weight a
fleet of nothing would be the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

import numpy as np
from peaker.domain.forecasting import Forecast
from peaker.domain.forecasting.forecaster import SCALE_OUT_ONLY_BELOW_DAYS
from peaker.domain.planning.scaling_policy import (
    Capacity,
    ScalingPolicy,
    horizon_needed_seconds,
    replicas_for,
    with_headroom,
)

from peaker_backtest.replay.simulation import (
    Event,
    Figures,
    FleetInTime,
    Floats,
    Outcome,
    Scenario,
    outcome_of,
    simulate_decisions,
)

# The values of the setting `forecast.rule`.
FORECAST, REACTIVE = "forecast", "reactive"
QUANTILES = (0.9, 0.925, 0.95, 0.975, 0.99)
HEADROOMS = (0.0, 0.1)
# Reactive scaling at a target of 100 to 50 % of a replica.
REACTIVE_HEADROOMS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Choice:
    """The settings of `forecast` that trade cost against shortage."""

    quantile: float
    headroom: float
    rule: str = FORECAST

    def __str__(self) -> str:
        if self.rule == REACTIVE:
            return f"rule reactive, headroom {self.headroom:g}"
        return f"quantile {self.quantile:g}, headroom {self.headroom:g}"


@dataclass(frozen=True)
class Trial:
    """One choice with its figures over the compared steps."""

    choice: Choice
    figures: Figures


@dataclass(frozen=True)
class Trials:
    """Every choice that was replayed, the present one first; `short_weight` weighs a replica-hour short."""

    every: tuple[Trial, ...]
    short_weight: float

    @property
    def now(self) -> Trial:
        return self.every[0]

    @property
    def cheapest(self) -> Trial:
        """Returns the trial of the least weighted replica-hours; of equal ones the present one."""
        return min(self.every, key=self.weighted)

    @property
    def best_of_each_rule(self) -> tuple[Trial, ...]:
        """Returns the cheapest trial of either rule, the cheaper rule first."""
        rules = {one.choice.rule for one in self.every}
        best = [
            min((one for one in self.every if one.choice.rule == rule), key=self.weighted) for rule in rules
        ]
        return tuple(sorted(best, key=self.weighted))

    def weighted(self, trial: Trial) -> float:
        return trial.figures.weighted(self.short_weight)


def choice_of(scenario: Scenario) -> Choice:
    rule = REACTIVE if scenario.is_reactive else FORECAST
    return Choice(scenario.quantile, scenario.headroom, rule)


def other_choices(scenario: Scenario) -> list[Choice]:
    now = choice_of(scenario)
    every = [Choice(quantile, headroom) for quantile in QUANTILES for headroom in HEADROOMS]
    # The measured load alone decides there: the quantile has no say.
    every += [Choice(now.quantile, headroom, REACTIVE) for headroom in REACTIVE_HEADROOMS]
    return [choice for choice in every if choice != now]


def reach_seconds(scenario: Scenario) -> float:
    return horizon_needed_seconds(scenario.lead_time(), scenario.policy().period_seconds)


def policy_of(scenario: Scenario, choice: Choice) -> ScalingPolicy:
    capacity = Capacity(scenario.capacity_per_replica, "given")
    return replace(
        scenario.policy(),
        quantile=choice.quantile,
        capacity=with_headroom(capacity, choice.headroom),
        is_reactive=choice.rule == REACTIVE,
    )


@dataclass(frozen=True)
class _Remembered(Forecast):
    """A forecast that many policies ask the same of, and that looks it up once."""

    found: dict[tuple[float, float, float], float] = field(default_factory=dict)

    def highest(self, level: float, from_seconds: float, until_seconds: float) -> float:
        asked = (level, from_seconds, until_seconds)
        if asked not in self.found:
            self.found[asked] = super().highest(*asked)
        return self.found[asked]


def remembered(forecasts: Iterable[tuple[int, Forecast]]) -> Iterator[tuple[int, Forecast]]:
    names = [one.name for one in fields(Forecast)]
    for step, forecast in forecasts:
        yield step, _Remembered(**{name: getattr(forecast, name) for name in names})


def trials_of(
    scenario: Scenario, now: Figures, others: Sequence[tuple[Choice, Figures]], weight: float
) -> Trials:
    return Trials((Trial(choice_of(scenario), now), *(Trial(*one) for one in others)), weight)


# Until then nothing may be removed, so it says nothing about the time after it.
WARM_UP_DAYS = SCALE_OUT_ONLY_BELOW_DAYS
# A whole week, so that every weekday counts once.
LEAST_COMPARED_DAYS = 7.0
# Totals closer than this are no difference: one replica for a quarter of an hour a day, of ten.
EVEN_WITHIN = 0.01


class Answer(StrEnum):
    PAYS = "pays"
    EVEN = "even"
    DOES_NOT_PAY = "does_not_pay"
    TOO_SHORT = "too_short"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True)
class Worth:
    """The answer over the compared steps, and weighted replica-hours by policy, ours first."""

    answer: Answer
    totals: dict[str, float]
    best_rival: str


def short_weight(quantile: float) -> float:
    """Returns the spare replica-hours that one missing replica-hour weighs, when `quantile` is worth serving.

    The newsvendor's ratio, solved for the costs: q = Cu / (Cu + Co), so Cu / Co = q / (1 - q). 0.95 gives 19.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile lies between 0 and 1, got {quantile}")
    return round(quantile / (1 - quantile), 6)


def days_needed(history_days: float, compared_days: float) -> float:
    """Returns how many more days of load a judgement takes; 0 when it can be judged."""
    if compared_days >= LEAST_COMPARED_DAYS:
        return 0.0
    missing = WARM_UP_DAYS + LEAST_COMPARED_DAYS - history_days
    return max(0.0, math.ceil(10 * missing - 1e-6) / 10)


def judge_worth(ours: str, weighted: Mapping[str, float], *, capacity_is_known: bool = True) -> Worth:
    """Judges our policy against the best of the others by their weighted replica-hours.

    Of replicas whose capacity is assumed no answer says anything.
    """
    best = min((name for name in weighted if name != ours), key=lambda name: weighted[name])
    gain = weighted[best] - weighted[ours]
    answer = Answer.PAYS if gain > 0 else Answer.DOES_NOT_PAY
    if abs(gain) <= EVEN_WITHIN * weighted[best]:
        answer = Answer.EVEN
    if not capacity_is_known:
        answer = Answer.NO_CAPACITY
    return Worth(answer, dict(weighted), best)


SCHEDULED_FROM_DAYS = 14


def simulate_static_peak(scenario: Scenario) -> Outcome:
    """Returns the smallest constant fleet that is never short in the compared steps: nobody can know it before."""
    compared = scenario.series.values[scenario.compared_from : scenario.last]
    return _constant("static peak", scenario, static_replicas(scenario, compared))


def simulate_fleet(scenario: Scenario, replicas: int) -> Outcome:
    return _constant("today's fleet", scenario, replicas)


def simulate_schedule(scenario: Scenario) -> Outcome:
    """Returns what a schedule comes to that a cron job keeps: each hour what its load of the last two weeks took.

    That is the highest load of the same hour in the 14 days before the day. A replica is built a lead time before it
    serves and drains after it.
    """
    series = scenario.series
    day, hour = series.steps_per_day, max(1, 3600 // series.step_seconds)
    into_day = round(series.start_seconds % 86_400 / series.step_seconds)
    serving = np.empty(scenario.last - scenario.first, dtype=np.int64)
    for step in range(scenario.first, scenario.last):
        midnight = step - (step + into_day) % day
        slot = (step + into_day) % day // hour * hour
        starts = [midnight - days * day + slot for days in range(1, SCHEDULED_FROM_DAYS + 1)]
        known = [series.values[max(0, at) : max(0, at + hour)] for at in starts]
        serving[step - scenario.first] = static_replicas(scenario, np.concatenate(known))
    lead, drain = scenario.lead_steps, scenario.drain_steps
    around = np.pad(serving, (drain, lead), mode="edge")
    paid = np.lib.stride_tricks.sliding_window_view(around, lead + drain + 1).max(axis=1)
    return outcome_of("cron schedule", scenario, serving, paid.astype(np.int64), ())


def static_replicas(scenario: Scenario, loads: Floats) -> int:
    """Replicas that the highest of these loads takes, within the limits."""
    seen = loads[np.isfinite(loads)]
    wanted = replicas_for(float(seen.max()) if len(seen) else 0.0, scenario.capacity_per_replica)
    return min(scenario.max_replicas, max(scenario.min_replicas, wanted))


def _constant(name: str, scenario: Scenario, replicas: int) -> Outcome:
    course = np.full(scenario.last - scenario.first, replicas, dtype=np.int64)
    return outcome_of(name, scenario, course, course.copy(), ())


def simulate_reactive(scenario: Scenario, target: float) -> Outcome:
    """Replays reactive scaling: launches at `target` utilisation, retirements after max(60 min, L) below."""
    values = scenario.series.values
    patience = max(3600.0, scenario.lead_seconds)
    low_since: float | None = None

    def decide_at(step: int, fleet: FleetInTime) -> Event | None:
        nonlocal low_since
        load = values[step]
        if not np.isfinite(load):
            # An alarm without data is no alarm, and its low periods are counted from the beginning.
            low_since = None
            return None
        wanted = replicas_for(float(load) / target, scenario.capacity_per_replica)
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
        fleet.retire(step, count)
        low_since = None
        return Event(step, "scale_in", count, f"load {load:g} for {patience / 60:.0f} min")

    # Their launches wait for none before: no lease of a cluster is in their way.
    unlimited = replace(scenario, batches_overlap=True)
    return simulate_decisions(f"reactive at {target:.0%}", unlimited, decide_at)
