"""What a backtest found: policies side by side, accuracy by horizon, and the course over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker.domain.forecasting.record import pinball

from peaker_cli.backtest_simulation import (
    Event,
    Outcome,
    Scenario,
    oracle_forecasts,
    short_at_equal_cost,
    simulate_forecasts,
    simulate_reactive,
    simulate_static,
)

Floats = NDArray[np.float64]
REACTIVE_TARGETS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)
SHOWN_REACTIVE_TARGET = 0.7
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
    """Everything that the table, the JSON and the page show."""

    source: str
    scenario: Scenario
    dollars_per_replica_hour: float | None
    policies: tuple[Outcome, ...]
    reactive_short_at_equal_cost: float
    accuracy: tuple[HorizonAccuracy, ...]
    lead_p50: Floats
    lead_p95: Floats
    standing_shares: dict[str, float]
    warnings: tuple[str, ...]

    @property
    def peaker(self) -> Outcome:
        return self.policies[0]

    @property
    def reactive_minutes_at_equal_cost(self) -> float:
        """Minutes short of reactive scaling that costs what Peaker costs."""
        seen = int(np.isfinite(self.scenario.load()).sum())
        return self.reactive_short_at_equal_cost * seen * self.scenario.step_seconds / 60

    def dollars(self, outcome: Outcome) -> float | None:
        """USD for the replica-hours; None when the price is not known."""
        price = self.dollars_per_replica_hour
        return None if price is None else outcome.replica_hours * price


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
            if at < len(self.lead_p50) and ahead < len(p50):
                self.lead_p50[at], self.lead_p95[at] = p50[ahead], p95[ahead]
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
    scenario: Scenario,
    dollars_per_replica_hour: float | None,
    tick: Callable[[], None] = lambda: None,
) -> BacktestReport:
    """Run every policy; `tick` is called once per decision of Peaker."""
    tap = _Tap(scenario, tick)
    day = scenario.series.steps_per_day
    rolling = rolling_forecasts(
        scenario.series, list(scenario.decision_steps()), [scenario.lead_seconds], day
    )
    peaker = simulate_forecasts("Peaker", scenario, tap.listen(rolling))
    oracle = simulate_forecasts("oracle", scenario, oracle_forecasts(scenario, day))
    reactive = {target: simulate_reactive(scenario, target) for target in REACTIVE_TARGETS}
    total = max(1, sum(tap.standings.values()))
    return BacktestReport(
        source=source,
        scenario=scenario,
        dollars_per_replica_hour=dollars_per_replica_hour,
        policies=(
            peaker,
            reactive[SHOWN_REACTIVE_TARGET],
            reactive[1.0],
            simulate_static(scenario),
            oracle,
        ),
        reactive_short_at_equal_cost=short_at_equal_cost(peaker, list(reactive.values())),
        accuracy=tuple(_accuracy(scenario, tap)),
        lead_p50=tap.lead_p50,
        lead_p95=tap.lead_p95,
        standing_shares={name: count / total for name, count in sorted(tap.standings.items())},
        warnings=tuple(tap.warnings),
    )


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


def as_document(report: BacktestReport) -> dict[str, Any]:
    """The report as JSON values; times are ISO 8601, shares 0 to 1, loads in load-metric units."""
    scenario = report.scenario
    return {
        "source": report.source,
        "from": iso_at(scenario, scenario.first),
        "to": iso_at(scenario, scenario.last),
        "step_seconds": scenario.step_seconds,
        "lead_time_minutes": scenario.lead_seconds / 60,
        "capacity_per_replica": scenario.capacity_per_replica,
        "quantile": scenario.quantile,
        "min_replicas": scenario.min_replicas,
        "max_replicas": scenario.max_replicas,
        "policies": [_policy(report, outcome) for outcome in report.policies],
        "reactive_short_share_at_equal_cost": report.reactive_short_at_equal_cost,
        "accuracy": [
            {
                "horizon_minutes": one.minutes,
                "scored": one.scored,
                "p50_error": round(one.error50, 4),
                "p90_coverage": round(one.coverage90, 4),
                "p95_coverage": round(one.coverage95, 4),
                "p95_pinball_to_last_week": one.pinball95_to_last_week,
            }
            for one in report.accuracy
        ],
        "forecast_standing": report.standing_shares,
        "warnings": list(report.warnings),
        "decisions": [_event(scenario, event) for event in report.peaker.events],
    }


def _policy(report: BacktestReport, outcome: Outcome) -> dict[str, Any]:
    dollars = report.dollars(outcome)
    return {
        "name": outcome.name,
        "short_minutes": outcome.short_minutes,
        "short_share": round(outcome.short_share, 6),
        "replica_hours": round(outcome.replica_hours, 2),
        "dollars": None if dollars is None else round(dollars, 2),
        "scale_outs": sum(event.action == "scale_out" for event in outcome.events),
        "scale_ins": sum(event.action == "scale_in" for event in outcome.events),
    }


def _event(scenario: Scenario, event: Event) -> dict[str, Any]:
    return {
        "at": iso_at(scenario, event.step + 1),
        "action": event.action,
        "replicas": event.replicas,
        "reason": event.reason,
    }


def iso_at(scenario: Scenario, step: int) -> str:
    """The beginning of a step, UTC."""
    seconds = scenario.series.start_seconds + step * scenario.step_seconds
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def verdict(report: BacktestReport) -> str:
    """One sentence for a person."""
    peaker, static = report.peaker, report.policies[3]
    saved = 1 - peaker.replica_hours / static.replica_hours if static.replica_hours else 0.0
    against = f"{abs(saved):.0%} {'fewer' if saved >= 0 else 'more'} replica-hours"
    return (
        f"Short of capacity for {peaker.short_minutes:,.0f} min, where reactive scaling at the same cost is short "
        f"for {report.reactive_minutes_at_equal_cost:,.0f} min; {against} than a fleet sized for the peak."
    )
