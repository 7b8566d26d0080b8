"""What a backtest found: policies side by side, and the course over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast
from peaker.domain.forecasting.forecaster import rolling_forecasts

from peaker_backtest.points import time_zone
from peaker_backtest.replay.simulation import (
    Outcome,
    Scenario,
    oracle_forecasts,
    simulate_forecasts,
    simulate_policies,
)
from peaker_backtest.replay.trials import (
    Trials,
    Worth,
    judge_worth,
    other_choices,
    policy_of,
    reach_seconds,
    remembered,
    short_weight,
    simulate_fleet,
    simulate_reactive,
    simulate_schedule,
    simulate_static_peak,
    trials_of,
)
from peaker_backtest.scenario import Options

Floats = NDArray[np.float64]
HOURS_A_MONTH = 730.0
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
    schedule: Outcome
    fleet_of_today: Outcome | None
    oracle: Outcome
    worth: Worth | None
    trials: Trials | None
    lead_p50: Floats
    lead_p95: Floats
    standing_shares: dict[str, float]
    warnings: tuple[str, ...]

    @property
    def policies(self) -> tuple[Outcome, ...]:
        return (*self._alone, *self.reactive, self.oracle)

    @property
    def compared(self) -> tuple[Outcome, ...]:
        """Returns Peaker and its rivals, of the reactive runs the best one."""
        return (*self._alone, self.best_reactive)

    @property
    def _alone(self) -> tuple[Outcome, ...]:
        today = () if self.fleet_of_today is None else (self.fleet_of_today,)
        return (self.peaker, self.static_peak, self.schedule, *today)

    @property
    def best_reactive(self) -> Outcome:
        """Returns the reactive run whose cost and shortage come to the least; known only afterwards."""
        weight = short_weight(self.scenario.quantile)
        return min(self.reactive, key=lambda each: each.compared.weighted(weight))

    def dollars_a_month(self, outcome: Outcome) -> float | None:
        """Returns USD a month of the replicas of the compared steps, Peaker's own bill in Peaker's."""
        scenario = self.scenario
        hours = (scenario.last - scenario.compared_from) * scenario.step_seconds / 3600
        dollars = self.dollars(outcome.compared.replica_hours)
        own = self.options.own_usd_a_month if outcome is self.peaker else 0.0
        return None if dollars is None else dollars * HOURS_A_MONTH / hours + own

    def weighted(self, outcome: Outcome) -> float:
        """Returns the compared replica-hours, each one short weighed, and what Peaker's own bill comes to in them."""
        total = outcome.compared.weighted(short_weight(self.scenario.quantile))
        price = self.options.replica_hour_usd
        if outcome is not self.peaker or not price:
            return total
        scenario = self.scenario
        months = (scenario.last - scenario.compared_from) * scenario.step_seconds / 3600 / HOURS_A_MONTH
        return total + self.options.own_usd_a_month * months / price

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
    today = options.fleet_of_today
    total = max(1, sum(tap.standings.values()))
    report = BacktestReport(
        source=source,
        read=read,
        load_unit=load_unit,
        scenario=scenario,
        options=options,
        peaker=peaker,
        reactive=reactive,
        static_peak=simulate_static_peak(scenario),
        schedule=simulate_schedule(scenario),
        fleet_of_today=None if today is None else simulate_fleet(scenario, today),
        oracle=simulate_forecasts(
            "oracle", scenario, oracle_forecasts(scenario, max(day, math.ceil(reach / scenario.step_seconds)))
        ),
        worth=None,
        trials=None,
        lead_p50=tap.lead_p50,
        lead_p95=tap.lead_p95,
        standing_shares={name: count / total for name, count in sorted(tap.standings.items())},
        warnings=tuple(tap.warnings),
    )
    if scenario.compare_from is None:
        return report
    weighted = {one.name: report.weighted(one) for one in report.policies if one is not report.oracle}
    known = options.capacity_per_replica is not None
    tried = [(choice, one.compared) for choice, one in zip(choices, others, strict=True)]
    return replace(
        report,
        worth=judge_worth(peaker.name, weighted, capacity_is_known=known),
        trials=trials_of(scenario, peaker.compared, tried, short_weight(scenario.quantile))
        if known
        else None,
    )


def iso_at(scenario: Scenario, step: int) -> str:
    seconds = scenario.series.start_seconds + step * scenario.step_seconds
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def days_of(scenario: Scenario, steps: int) -> float:
    return steps / scenario.series.steps_per_day
