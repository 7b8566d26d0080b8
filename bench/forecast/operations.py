"""Decisions in a closed loop over the traces: short time and replica-hours of Peaker and of what it competes with.

The rules are those that a cluster gets (builds at once, checks, lifetime, quantile, keep window; a decision every five
minutes, or every step of the trace), with lead times that are drawn anew for each build: their median is the lead time
of the row, their p90 a quarter more, and the p90 is what Peaker plans with. Reactive scaling builds any number at once.
About ten replicas at the peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from peaker.domain.forecasting import Forecast, LoadSeries
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker.domain.planning.scaling_policy import Capacity, ScalingPolicy
from peaker.domain.prices.price_table import US_EAST_1
from peaker.usecases.forecast.forecast_load import scaling_policy
from peaker_backtest.replay.rivals import (
    short_at_equal_cost,
    simulate_reactive,
    simulate_static,
    simulate_static_peak,
)
from peaker_backtest.replay.simulation import Outcome, Scenario, oracle_forecasts, simulate_forecasts

from bench.forecast.rhythms import series_of
from bench.forecast.traces import first_test_step, kind_of, load_trace
from environments.schema import load_environment
from peaker_contract.cluster import ClusterSettings

LEAD_MINUTES = (30, 70, 180)
REACTIVE_TARGETS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)
REPLICAS_AT_PEAK = 10
LEAD_SPREAD = 1.25
_MOST_REPLICAS = 30
_HORIZON_SECONDS = 86_400


@dataclass(frozen=True)
class Operation:
    """One trace at one lead time: share of time short, and hours against the others."""

    trace: str
    kind: str
    lead_minutes: int
    short: float
    reactive_short: float
    hours_to_oracle: float
    hours_to_static: float
    hours_to_static_peak: float
    oracle_short: float
    degraded: float

    @property
    def ratio(self) -> float:
        """Short time against reactive scaling that costs the same; both at zero counts as equal."""
        if self.reactive_short <= 0:
            return 1.0 if self.short <= 0 else 9.99
        return self.short / self.reactive_short


@cache
def deployed_policy() -> ScalingPolicy:
    """The rules of the example environment's first cluster, as its forecast function makes them."""
    example = load_environment("dev")
    given = {**example.clusters[0].model_dump(), "environment": "dev", "region": example.region}
    settings = ClusterSettings.model_validate(given)
    policy = scaling_policy(settings, US_EAST_1, None, Capacity(settings.capacity_per_replica, "settings"))
    return replace(policy, max_replicas=_MOST_REPLICAS)


def operation_of(task: tuple[Path, str, int]) -> Operation | None:
    """One row; None where the trace is too short to be tested."""
    folder, name, minutes = task
    series = load_trace(folder, name)
    first = first_test_step(series)
    if first is None:
        return None
    return operate(name, series, first, minutes)


def operate(name: str, series: LoadSeries, first: int, minutes: int) -> Operation:
    """One row of any load, tested from step `first` on."""
    capacity = float(np.nanquantile(series.values, 0.999)) / REPLICAS_AT_PEAK
    policy = deployed_policy()
    scenario = Scenario(
        series=series,
        first=first,
        last=len(series.values),
        lead_steps=max(1, -(-minutes * 60 // series.step_seconds)),
        capacity_per_replica=capacity,
        decide_every_steps=max(1, int(policy.period_seconds // series.step_seconds)),
        max_replicas=_MOST_REPLICAS,
        quantile=policy.quantile,
        low_checks_needed=policy.low_checks_needed,
        minimum_lifetime_seconds=policy.minimum_lifetime_seconds,
        builds_at_once=policy.builds_at_once,
        batches_overlap=policy.batches_overlap,
        lead_spread=LEAD_SPREAD,
    )
    ours = replace(
        policy, capacity=Capacity(capacity, "bench"), min_replicas=1,
        period_seconds=float(scenario.decide_every_steps * scenario.step_seconds),
    )  # fmt: skip
    seen = _Seen()
    steps = list(scenario.decision_steps())
    horizon = _HORIZON_SECONDS // series.step_seconds
    rolling = rolling_forecasts(series, steps, [scenario.lead_seconds], horizon)
    peaker = simulate_forecasts("Peaker", scenario, seen.listen(rolling), ours)
    oracle = simulate_forecasts("oracle", scenario, oracle_forecasts(scenario, horizon), ours)
    return _row(name, minutes, scenario, peaker, oracle, seen.share)


@dataclass
class _Seen:
    """Counts the forecasts that nothing could be forecast by."""

    all: int = 0
    degraded: int = 0

    def listen(self, forecasts: Iterator[tuple[int, tuple[Forecast, ...]]]) -> Iterator[tuple[int, Forecast]]:
        for step, (forecast,) in forecasts:
            self.all += 1
            self.degraded += forecast.standing == "degraded"
            yield step, forecast

    @property
    def share(self) -> float:
        return self.degraded / max(1, self.all)


def _row(
    name: str, minutes: int, scenario: Scenario, peaker: Outcome, oracle: Outcome, degraded: float
) -> Operation:
    reactive = [simulate_reactive(scenario, target) for target in REACTIVE_TARGETS]
    return Operation(
        trace=name,
        kind=kind_of(scenario.series),
        lead_minutes=minutes,
        short=peaker.short_share,
        reactive_short=short_at_equal_cost(peaker, reactive),
        hours_to_oracle=peaker.replica_hours / oracle.replica_hours,
        hours_to_static=peaker.replica_hours / simulate_static(scenario).replica_hours,
        hours_to_static_peak=peaker.replica_hours / simulate_static_peak(scenario).replica_hours,
        oracle_short=oracle.short_share,
        degraded=degraded,
    )


def drawn_operation_of(task: tuple[str, int, int]) -> Operation:
    """One row of a drawn load with a rhythm, in its last three weeks."""
    kind, seed, minutes = task
    series = series_of(kind, seed)
    first = len(series.values) - 21 * series.steps_per_day
    return operate(f"{kind} {seed}", series, first, minutes)
