"""Drawn loads: what a service goes through in a few weeks, and whether Peaker then costs more than simple choices do.

Each case draws a kind, its parameters, a lead time and a fleet from its number alone, so any case can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast, LoadSeries, Standing
from peaker.domain.forecasting.forecaster import STALE_SECONDS, newest_load
from peaker.domain.forecasting.panel import believable
from peaker_backtest.replay.simulation import Outcome, Scenario, simulate_forecasts
from peaker_backtest.replay.trials import simulate_reactive, static_replicas

Floats = NDArray[np.float64]
Change = Callable[[np.random.Generator, Floats, Floats], Floats]

STEP_SECONDS = 1800
START_SECONDS = 1_767_225_600.0
_DAY = 86_400 // STEP_SECONDS
TARGETS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)


def _base(random: np.random.Generator, hours: Floats) -> Floats:
    """A day, a week and noise that remembers."""
    sharpness, peak = random.uniform(0.0, 1.2), random.uniform(0, 24)
    load = np.exp(sharpness * np.cos((hours - peak) / 24 * 2 * np.pi))
    weekend = np.where((hours // 24).astype(np.int64) % 7 >= 5, random.uniform(0.4, 1.1), 1.0)
    return np.asarray(
        load * weekend * np.exp(_slow(random, len(hours), random.uniform(0.01, 0.2))), dtype=float
    )


def _slow(random: np.random.Generator, count: int, deviation: float) -> Floats:
    keep = float(np.exp(-1 / random.uniform(1, 24)))
    noise = np.zeros(count)
    fresh = random.normal(0, deviation * np.sqrt(1 - keep**2), count)
    for at in range(1, count):
        noise[at] = keep * noise[at - 1] + fresh[at]
    return noise


def _some_time(random: np.random.Generator, hours: Floats) -> float:
    return float(random.uniform(0.1, 0.95) * hours[-1])


def trend(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """A steady rise."""
    share = hours / hours[-1]
    factor = random.uniform(1.2, 6.0)
    rise = factor**share if random.random() < 0.5 else 1 + (factor - 1) * share
    return np.asarray(load * rise, dtype=float)


def level_shifts(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """One to four jumps, up or down."""
    for _ in range(random.integers(1, 5)):
        load = load * np.where(hours >= _some_time(random, hours), random.lognormal(0.1, 0.5), 1.0)
    return load


def growth(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """About ten percent a week."""
    return np.asarray(load * (1 + random.uniform(0.05, 0.15)) ** (hours / 168), dtype=float)


def changing_rhythm(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """From some day on another day: other hours, another depth."""
    other = _base(random, hours + random.uniform(3, 12))
    return np.where(hours >= _some_time(random, hours), other, load)


def dying_service(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """It loses its users, in minutes or in days."""
    over = random.choice([0.25, 3.0, 48.0])
    gone = np.clip((hours - _some_time(random, hours)) / over, 0, 1)
    return np.asarray(load * (1 - gone * random.uniform(0.7, 1.0)), dtype=float)


def flash_crowd(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """One to five crowds that come within minutes and leave within hours."""
    for _ in range(random.integers(1, 6)):
        since = hours - _some_time(random, hours)
        rise, fall = random.uniform(0.1, 2.0), random.uniform(0.5, 8.0)
        shape = np.where(
            since < 0, 0.0, np.minimum(since / rise, 1.0) * np.exp(-np.maximum(0, since - rise) / fall)
        )
        load = load + shape * random.uniform(1, 9) * float(np.nanmean(load))
    return load


def missing_days(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """Gaps of hours to days."""
    load = load.copy()
    for _ in range(random.integers(1, 5)):
        since = hours - _some_time(random, hours)
        load[(since >= 0) & (since < random.uniform(3, 72))] = np.nan
    return load


def clock_change(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """Everybody comes an hour earlier, or later."""
    by = _DAY // 24 * int(random.choice([-1, 1]))
    return np.where(hours >= _some_time(random, hours), np.roll(load, by), load)


def counter_resets(random: np.random.Generator, hours: Floats, load: Floats) -> Floats:
    """A rate of a counter that starts again: a point of nothing, none, or one far too high."""
    load = load.copy()
    for at in random.integers(0, len(load), random.integers(1, 8)):
        load[at] = random.choice([0.0, np.nan, float(np.nanmax(load)) * 8])
    return load


KINDS: Mapping[str, Change] = {
    made.__name__: made
    for made in (
        trend, level_shifts, growth, changing_rhythm, dying_service, flash_crowd, missing_days, clock_change,
        counter_resets,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One drawn load, and the cluster that it meets."""

    number: int
    kind: str
    scenario: Scenario


def case_of(number: int, history_days: int = 2, days: int = 6) -> Case:
    """Case `number`: `history_days` before the replay, `days` of it; some cases are two kinds at once."""
    random = np.random.default_rng((20_261_123, number))
    names = list(KINDS)
    kind = names[number % len(names)]
    hours = np.arange((history_days + days) * _DAY) * STEP_SECONDS / 3600
    load = 1000 * KINDS[kind](random, hours, _base(random, hours))
    if random.random() < 0.3:
        other = names[int(random.integers(len(names)))]
        load, kind = KINDS[other](random, hours, load), f"{kind} and {other}"
    first = history_days * _DAY
    capacity = float(np.nanquantile(load, 0.99)) / random.uniform(1.5, 20)
    last_load = load[:first][np.isfinite(load[:first])][-1]
    scenario = Scenario(
        series=LoadSeries(START_SECONDS, STEP_SECONDS, load),
        first=first,
        last=len(load),
        lead_steps=int(random.integers(1, 13)),
        capacity_per_replica=max(capacity, 1e-6),
        lead_spread=float(random.choice([1.0, 1.3, 2.0])),
        start_with=max(1, int(np.ceil(last_load / max(capacity, 1e-6) - 1e-9))),
        max_replicas=100_000,
        # A minimum lifetime is the cluster's own wish, whoever removes; here it would bind Peaker alone.
        minimum_lifetime_seconds=0.0,
        # So is the lease: the decisions are compared, at the same pace of building.
        batches_overlap=True,
    )
    return Case(number, kind, scenario)


def unforecastable(scenario: Scenario) -> Iterator[tuple[int, Forecast]]:
    """What is issued for a load that cannot be forecast: `degraded`, with a band that is as wrong as can be."""
    series = scenario.series
    wrong = np.full((2 * _DAY, 6), 100 * float(np.nanmax(series.values)))
    believed = believable(series.values, scenario.first)
    for step in scenario.decision_steps():
        age, last = newest_load(series, believed, step)
        yield step, Forecast(
            scenario.at_end_of(step), STEP_SECONDS, (0.5, 0.75, 0.9, 0.95, 0.975, 0.99), wrong, Standing.DEGRADED,
            (), age_seconds=age, last_load=last, stale=age is None or age > STALE_SECONDS,
            shifted=step % 3 == 0,
        )  # fmt: skip


@dataclass(frozen=True)
class Price:
    """Replica-hours of one case, and of the simple choices: reactive scaling that is short as much, a static peak."""

    number: int
    kind: str
    hours: float
    short: float
    reactive_hours: float
    static_hours: float

    @property
    def over_the_bound(self) -> float:
        """Above 1: dearer than the cheaper of both."""
        return self.hours / min(self.reactive_hours, self.static_hours)


def degraded_price(case: Case) -> Price:
    """The case where nothing can be forecast."""
    return _price(case, simulate_forecasts("peaker", case.scenario, unforecastable(case.scenario)))


def _price(case: Case, ours: Outcome) -> Price:
    scenario = case.scenario
    reactive = [simulate_reactive(scenario, target) for target in TARGETS]
    same = [one.replica_hours for one in reactive if one.short_share == ours.short_share]
    # The fleet that is there at the beginning is part of the days that a static one is sized for.
    peak = max(scenario.start_with or 0, static_replicas(scenario, scenario.load()))
    return Price(
        number=case.number,
        kind=case.kind,
        hours=ours.replica_hours,
        short=ours.short_share,
        reactive_hours=min(same, default=_hours_between(ours, reactive)),
        static_hours=peak * (scenario.last - scenario.first) * scenario.step_seconds / 3600,
    )


def _hours_between(ours: Outcome, reactive: Sequence[Outcome]) -> float:
    """Of reactive scaling between the two targets whose shortage is around ours."""
    ordered = sorted(reactive, key=lambda each: (each.short_share, each.replica_hours))
    shares, hours = [each.short_share for each in ordered], [each.replica_hours for each in ordered]
    return float(np.interp(ours.short_share, shares, hours))
