"""Decisions in a closed loop over the traces: short time and replica-hours of Peaker and of what it competes with.

The rules are those that a cluster gets (builds at once, checks, lifetime, quantile, keep window; a decision every five
minutes, or every step of the trace), with lead times that are drawn anew for each build: their median is the lead time
of the row, their p90 a quarter more, and the p90 is what Peaker plans with. Reactive scaling builds any number at once.
About ten replicas at the peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from peaker.domain.forecasting import Forecast, LoadSeries, Standing
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker.domain.planning.scaling_policy import Capacity, ScalingPolicy
from peaker.domain.prices.price_table import US_EAST_1
from peaker.usecases.forecast.forecast_load import scaling_policy
from peaker_backtest.replay.simulation import Outcome, Scenario, oracle_forecasts, simulate_forecasts
from peaker_backtest.replay.trials import (
    simulate_reactive,
    simulate_static_peak,
)

from bench.forecast.traces import first_test_step, load_trace
from environments.schema import load_environment
from peaker_contract.cluster import ClusterSettings, deployed_document

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
    lead_minutes: int
    short: float
    reactive_short: float
    hours_to_oracle: float
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
    arns = dict.fromkeys(("target_group_arn", "warming_target_group_arn", "listener_arn"), "arn:aws:none")
    document = deployed_document(example.clusters[0], environment="dev", region=example.region, endpoint=arns)
    settings = ClusterSettings.model_validate(document)
    policy = scaling_policy(settings, US_EAST_1, None, Capacity(settings.capacity_per_replica, "settings"))
    return replace(policy, max_replicas=_MOST_REPLICAS)


def operations_of(task: tuple[Path, str]) -> list[Operation]:
    """The rows of one trace, one per lead time; none where the trace is too short to be tested."""
    folder, name = task
    series = load_trace(folder, name)
    first = first_test_step(series)
    if first is None:
        return []
    scenarios = [_scenario(series, first, minutes) for minutes in LEAD_MINUTES]
    horizon = _HORIZON_SECONDS // series.step_seconds
    leads = [scenario.lead_seconds for scenario in scenarios]
    issued = list(rolling_forecasts(series, list(scenarios[0].decision_steps()), leads, horizon))
    return [
        _row(name, minutes, scenario, [(step, each[number]) for step, each in issued])
        for number, (minutes, scenario) in enumerate(zip(LEAD_MINUTES, scenarios, strict=True))
    ]


def _scenario(series: LoadSeries, first: int, minutes: int) -> Scenario:
    policy = deployed_policy()
    return Scenario(
        series=series,
        first=first,
        last=len(series.values),
        lead_steps=max(1, -(-minutes * 60 // series.step_seconds)),
        capacity_per_replica=float(np.nanquantile(series.values, 0.999)) / REPLICAS_AT_PEAK,
        decide_every_steps=max(1, int(policy.period_seconds // series.step_seconds)),
        max_replicas=_MOST_REPLICAS,
        quantile=policy.quantile,
        low_checks_needed=policy.low_checks_needed,
        minimum_lifetime_seconds=policy.minimum_lifetime_seconds,
        batches_overlap=policy.batches_overlap,
        lead_spread=LEAD_SPREAD,
    )


def _row(name: str, minutes: int, scenario: Scenario, issued: list[tuple[int, Forecast]]) -> Operation:
    ours = replace(
        deployed_policy(), capacity=Capacity(scenario.capacity_per_replica, "bench"), min_replicas=1,
        period_seconds=float(scenario.decide_every_steps * scenario.step_seconds),
    )  # fmt: skip
    horizon = _HORIZON_SECONDS // scenario.step_seconds
    peaker = simulate_forecasts("Peaker", scenario, issued, ours)
    oracle = simulate_forecasts("oracle", scenario, oracle_forecasts(scenario, horizon), ours)
    reactive = [simulate_reactive(scenario, target) for target in REACTIVE_TARGETS]
    return Operation(
        trace=name,
        lead_minutes=minutes,
        short=peaker.short_share,
        reactive_short=short_at_equal_cost(peaker, reactive),
        hours_to_oracle=peaker.replica_hours / oracle.replica_hours,
        hours_to_static_peak=peaker.replica_hours / simulate_static_peak(scenario).replica_hours,
        oracle_short=oracle.short_share,
        degraded=sum(one.standing is Standing.DEGRADED for _, one in issued) / max(1, len(issued)),
    )


def short_at_equal_cost(outcome: Outcome, reactive: Sequence[Outcome]) -> float:
    """Returns the share of time short that reactive scaling would have had for the same replica-hours.

    Interpolated between the reactive runs (one per target utilisation), and flat beyond their ends.
    """
    ordered = sorted(reactive, key=lambda each: each.replica_hours)
    hours = [each.replica_hours for each in ordered]
    shares = [each.short_share for each in ordered]
    return float(np.interp(outcome.replica_hours, hours, shares))
