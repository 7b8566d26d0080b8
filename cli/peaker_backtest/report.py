"""What a backtest found: policies side by side, and the course over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast
from peaker.domain.forecasting.forecaster import rolling_forecasts

from peaker_backtest.replay.rivals import simulate_reactive, simulate_static_peak
from peaker_backtest.replay.simulation import (
    Outcome,
    Scenario,
    oracle_forecasts,
    simulate_forecasts,
    simulate_policies,
)
from peaker_backtest.replay.trials import Trials, judged, other_choices, policy_of, reach_seconds, remembered
from peaker_backtest.replay.worth import Worth, judge_worth, short_weight
from peaker_backtest.scenario import Options
from peaker_backtest.times import time_zone

Floats = NDArray[np.float64]
REACTIVE_TARGETS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)


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
    oracle: Outcome
    worth: Worth | None
    trials: Trials | None
    lead_p50: Floats
    lead_p95: Floats
    standing_shares: dict[str, float]
    warnings: tuple[str, ...]

    @property
    def policies(self) -> tuple[Outcome, ...]:
        """Returns all policies, in the order of the tables."""
        return (self.peaker, self.static_peak, *self.reactive, self.oracle)

    @property
    def best_reactive(self) -> Outcome:
        """Returns the reactive run whose cost and shortage come to the least; known only afterwards."""
        weight = short_weight(self.scenario.quantile)
        return min(self.reactive, key=lambda each: each.compared.weighted(weight))

    def dollars(self, replica_hours: float) -> float | None:
        """Returns USD for the replica-hours; None when the price is not known."""
        price = self.options.replica_hour_usd
        return None if price is None else replica_hours * price


@dataclass
class _Tap:
    """Listens to the forecasts as the simulation reads them."""

    scenario: Scenario
    tick: Callable[[], None]
    lead_p50: Floats = field(init=False)
    lead_p95: Floats = field(init=False)
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
        for ahead in range(scenario.lead_steps, scenario.lead_steps + scenario.decide_every_steps):
            at = step + 1 + ahead - scenario.first
            seconds = (ahead + 0.5) * scenario.step_seconds
            if at < len(self.lead_p50) and seconds < forecast.reach_seconds:
                self.lead_p50[at] = forecast.highest(0.5, seconds, seconds)
                self.lead_p95[at] = forecast.highest(0.95, seconds, seconds)


def run_backtest(
    source: str,
    read: tuple[str, ...],
    load_unit: str,
    scenario: Scenario,
    options: Options,
    tick: Callable[[], None] = lambda: None,
) -> BacktestReport:
    """Replays every policy; `tick` is called once per decision of Peaker."""
    tap = _Tap(scenario, tick)
    day = scenario.series.steps_per_day
    reach = reach_seconds(scenario)
    steps = list(scenario.decision_steps())
    zone = time_zone(options.time_zone)
    rolling = rolling_forecasts(scenario.series, steps, [scenario.lead_seconds], day, reach, zone)
    choices = [] if scenario.compare_from is None else other_choices(scenario)
    policies = [("Peaker", scenario.policy()), *((str(one), policy_of(scenario, one)) for one in choices)]
    peaker, *others = simulate_policies(scenario, remembered(tap.listen(rolling)), policies)
    reactive = tuple(simulate_reactive(scenario, target) for target in REACTIVE_TARGETS)
    static = simulate_static_peak(scenario)
    worth, trials = None, None
    if scenario.compare_from is not None:
        every = (peaker, static, *reactive)
        weighted = {one.name: one.compared.weighted(short_weight(scenario.quantile)) for one in every}
        worth = judge_worth(peaker.name, weighted)
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
        oracle=simulate_forecasts(
            "oracle", scenario, oracle_forecasts(scenario, max(day, math.ceil(reach / scenario.step_seconds)))
        ),
        worth=worth,
        trials=trials,
        lead_p50=tap.lead_p50,
        lead_p95=tap.lead_p95,
        standing_shares={name: count / total for name, count in sorted(tap.standings.items())},
        warnings=tuple(tap.warnings),
    )


def iso_at(scenario: Scenario, step: int) -> str:
    """Returns the beginning of a step, UTC."""
    seconds = scenario.series.start_seconds + step * scenario.step_seconds
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def days_of(scenario: Scenario, steps: int) -> float:
    """Days that so many steps are."""
    return steps / scenario.series.steps_per_day
