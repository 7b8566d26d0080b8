"""What a backtest found: policies side by side, accuracy by horizon, and the course over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker.domain.forecasting.record import pinball

from peaker_backtest.capacity.effect import CapacityEffect, CapacityFinding, effect_of, with_proposed
from peaker_backtest.replay.rivals import simulate_aws_predictive, simulate_reactive, simulate_static_peak
from peaker_backtest.replay.simulation import (
    Outcome,
    Scenario,
    oracle_forecasts,
    simulate_forecasts,
    simulate_policies,
)
from peaker_backtest.replay.trials import Trials, judged, other_choices, policy_of, reach_seconds, remembered
from peaker_backtest.replay.worth import Course, Worth, judge_worth, short_weight
from peaker_backtest.scenario import Options
from peaker_backtest.times_in_text import time_zone

Floats = NDArray[np.float64]
REACTIVE_TARGETS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)
HORIZON_MINUTES = (30, 60, 180, 360, 720, 1440)
_SCORED_EVERY_SECONDS = 3600


@dataclass(frozen=True)
class HorizonAccuracy:
    """How the forecast did so far ahead; error50 is the mean error of p50 relative to the mean load."""

    minutes: int
    scored: int
    error50: float
    coverage90: float
    coverage95: float
    pinball95_to_last_week: float | None


@dataclass(frozen=True)
class BacktestReport:
    """Everything that the table, the JSON and the page show.

    worth is None where the load is too short to judge; the figures of the policies are then those of the whole replay,
    and no other settings are tried.
    """

    source: str
    read: tuple[str, ...]
    load_unit: str
    scenario: Scenario
    options: Options
    peaker: Outcome
    reactive: tuple[Outcome, ...]
    static_peak: Outcome
    aws: Outcome
    oracle: Outcome
    worth: Worth | None
    trials: Trials | None
    accuracy: tuple[HorizonAccuracy, ...]
    lead_p50: Floats
    lead_p95: Floats
    standing_shares: dict[str, float]
    warnings: tuple[str, ...]
    capacity: CapacityFinding | None = None

    @property
    def policies(self) -> tuple[Outcome, ...]:
        """All of them, in the order of the tables."""
        return (self.peaker, self.static_peak, self.aws, *self.reactive, self.oracle)

    @property
    def best_reactive(self) -> Outcome:
        """The reactive run whose cost and shortage come to the least; known only afterwards."""
        weight = short_weight(self.scenario.quantile)
        return min(
            self.reactive,
            key=lambda each: each.compared.replica_hours + weight * each.compared.short_replica_hours,
        )

    def dollars(self, replica_hours: float) -> float | None:
        """USD for the replica-hours; None when the price is not known."""
        price = self.options.replica_hour_usd
        return None if price is None else replica_hours * price


@dataclass
class _Tap:
    """Listens to the forecasts as the simulation reads them."""

    scenario: Scenario
    tick: Callable[[], None]
    lead_p50: Floats = field(init=False)
    lead_p95: Floats = field(init=False)
    scored: dict[int, list[tuple[float, float, float, float]]] = field(default_factory=dict)
    standings: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = self.scenario.last - self.scenario.first
        self.lead_p50, self.lead_p95 = np.full(count, np.nan), np.full(count, np.nan)

    def listen(self, forecasts: Iterator[tuple[int, tuple[Forecast, ...]]]) -> Iterator[tuple[int, Forecast]]:
        for step, (forecast,) in forecasts:
            self._note(step, forecast)
            self.tick()
            yield step, forecast

    def _note(self, step: int, forecast: Forecast) -> None:
        if step + 1 >= self.scenario.compared_from:
            self.standings[forecast.standing] = self.standings.get(forecast.standing, 0) + 1
        for reason in forecast.reasons:
            if "utilisation" in reason and reason not in self.warnings:
                self.warnings.append(reason)
        if forecast.quantiles is None:
            return
        scenario = self.scenario
        p50, p90, p95 = (forecast.quantile(level) for level in (0.5, 0.9, 0.95))
        for ahead in range(scenario.lead_steps, scenario.lead_steps + scenario.decide_every_steps):
            at = step + 1 + ahead - scenario.first
            seconds = (ahead + 0.5) * scenario.step_seconds
            if at < len(self.lead_p50) and seconds < forecast.reach_seconds:
                self.lead_p50[at] = forecast.highest(0.5, seconds, seconds)
                self.lead_p95[at] = forecast.highest(0.95, seconds, seconds)
        if (step + 1) % max(1, _SCORED_EVERY_SECONDS // scenario.step_seconds):
            return
        for minutes in HORIZON_MINUTES:
            ahead = max(1, round(minutes * 60 / scenario.step_seconds))
            target = step + ahead
            if target < scenario.last and ahead <= len(p50):
                row = (float(target), p50[ahead - 1], p90[ahead - 1], p95[ahead - 1])
                self.scored.setdefault(minutes, []).append(row)


def run_backtest(
    source: str,
    read: tuple[str, ...],
    load_unit: str,
    scenario: Scenario,
    options: Options,
    tick: Callable[[], None] = lambda: None,
    capacity: CapacityFinding | None = None,
) -> BacktestReport:
    """Run every policy; `tick` is called once per decision of Peaker. `capacity` is replayed where one is proposed."""
    tap = _Tap(scenario, tick)
    day = scenario.series.steps_per_day
    reach = reach_seconds(scenario)
    steps = list(scenario.decision_steps())
    zone = time_zone(options.time_zone)
    rolling = rolling_forecasts(scenario.series, steps, [scenario.lead_seconds], day, reach, zone)
    choices = [] if scenario.compare_from is None else other_choices(scenario)
    policies = [("Peaker", scenario.policy()), *((str(one), policy_of(scenario, one)) for one in choices)]
    proposed = with_proposed(scenario, capacity.proposal if capacity else None)
    if proposed is not None:
        policies.append(("Peaker with the proposed capacity", proposed.policy()))
    peaker, *others = simulate_policies(scenario, remembered(tap.listen(rolling)), policies)
    effect: CapacityEffect | None = None
    if proposed is not None:
        effect = effect_of(proposed, peaker, others.pop())
    reactive = tuple(simulate_reactive(scenario, target) for target in REACTIVE_TARGETS)
    static, aws = simulate_static_peak(scenario), simulate_aws_predictive(scenario)
    worth, trials = None, None
    if scenario.compare_from is not None:
        rivals = [_course(scenario, one) for one in (static, *reactive)]
        border = scenario.compared_from - scenario.first
        worth = judge_worth(_course(scenario, peaker), rivals, scenario.quantile, border)
        tried = list(zip(choices, others, strict=True))
        trials = judged(scenario, peaker, tried, options.accepted_short_minutes, options.replica_hour_usd)
    total = max(1, sum(tap.standings.values()))
    return BacktestReport(
        source=source,
        read=read,
        load_unit=load_unit,
        scenario=scenario,
        options=options,
        peaker=peaker,
        reactive=reactive,
        static_peak=static,
        aws=aws,
        oracle=simulate_forecasts(
            "oracle", scenario, oracle_forecasts(scenario, max(day, math.ceil(reach / scenario.step_seconds)))
        ),
        worth=worth,
        trials=trials,
        accuracy=tuple(_accuracy(scenario, tap)),
        lead_p50=tap.lead_p50,
        lead_p95=tap.lead_p95,
        standing_shares={name: count / total for name, count in sorted(tap.standings.items())},
        warnings=tuple(tap.warnings),
        capacity=None if capacity is None else replace(capacity, effect=effect),
    )


def _course(scenario: Scenario, outcome: Outcome) -> Course:
    required = scenario.required()
    missing = np.where(required >= 0, np.maximum(0, required - outcome.serving), 0)
    hours = scenario.step_seconds / 3600
    paid = outcome.paid.astype(np.float64)
    return Course(outcome.name, paid * hours, missing.astype(np.float64) * hours)


def _accuracy(scenario: Scenario, tap: _Tap) -> Iterator[HorizonAccuracy]:
    values, week = scenario.series.values, 7 * scenario.series.steps_per_day
    margin = _last_week_margin(values, week, scenario.first)
    for minutes in HORIZON_MINUTES:
        rows = np.array(tap.scored.get(minutes, []), dtype=float).reshape(-1, 4)
        target = rows[:, 0].astype(np.int64)
        actual = values[target]
        good = np.isfinite(actual)
        rows, target, actual = rows[good], target[good], actual[good]
        if not len(rows):
            continue
        mean = float(actual.mean())
        yield HorizonAccuracy(
            minutes=minutes,
            scored=len(rows),
            error50=float(np.abs(actual - rows[:, 1]).mean()) / mean if mean > 0 else 0.0,
            coverage90=float((actual <= rows[:, 2] * (1 + 1e-9)).mean()),
            coverage95=float((actual <= rows[:, 3] * (1 + 1e-9)).mean()),
            pinball95_to_last_week=_against_last_week(actual, rows[:, 3], values, target - week, margin),
        )


def _against_last_week(
    actual: Floats, p95: Floats, values: Floats, week_ago: NDArray[np.int64], margin: float | None
) -> float | None:
    """p95 pinball against last week's value plus the margin that covered 95 % before the replay began."""
    before = np.where(week_ago >= 0, values[np.maximum(week_ago, 0)], np.nan)
    good = np.isfinite(before)
    if margin is None or good.sum() < 24:
        return None
    theirs = float(pinball(actual[good], before[good] + margin, 0.95).mean())
    return float(pinball(actual[good], p95[good], 0.95).mean()) / theirs if theirs > 0 else None


def _last_week_margin(values: Floats, week: int, first: int) -> float | None:
    """The 95th percentile of the change from week to week before step `first`; None below a day of such pairs."""
    change = values[week:first] - values[: max(0, first - week)]
    change = change[np.isfinite(change)]
    return float(np.quantile(change, 0.95)) if len(change) >= week // 7 else None


def iso_at(scenario: Scenario, step: int) -> str:
    """The beginning of a step, UTC."""
    seconds = scenario.series.start_seconds + step * scenario.step_seconds
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def days_of(scenario: Scenario, steps: int) -> float:
    """Days that so many steps are."""
    return steps / scenario.series.steps_per_day
