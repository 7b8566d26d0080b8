"""Drawn loads with bursts at random times: what a metric that shows them before is worth, and what useless ones cost.

Each burst lasts two to five hours and comes at any time; the metric shows it 90 to 180 minutes before. Useless metrics
are the load itself, noise, the bursts of another load, and a metric whose relation ends as the test begins. Two months
are history, three weeks are replayed at a lead time of an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.record import pinball
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.leading import LeadingMetric, rolling_with_leading

from bench.forecast.figures import Figure, figure, stated
from peaker_backtest.replay.simulation import Scenario, simulate_forecasts

Floats = NDArray[np.float64]
STEP_SECONDS = 1800
START_SECONDS = 1_767_225_600.0
_DAY = 86_400 // STEP_SECONDS
_TESTED_DAYS = 21
_LEAD_STEPS = 2
_REPLICAS_AT_PEAK = 10
KINDS = ("leads", "load", "noise", "other bursts", "ended")
LEADING_SEEDS = range(400, 403)


@dataclass(frozen=True)
class Leading:
    """One load: loss of p95 (of the mean load), time short and replica-hours, with and without the metric."""

    seed: int
    metric: str
    loss: float
    loss_without: float
    short: float
    short_without: float
    hours: float
    hours_without: float


def drawn(seed: int, kind: str) -> tuple[LoadSeries, LeadingMetric]:
    """The load, and the metric beside it."""
    random = np.random.default_rng((20_261_124, seed))
    count = (KEPT_HISTORY_DAYS + _TESTED_DAYS) * _DAY
    lag = int(random.integers(3, 7))
    hours = np.arange(count) * STEP_SECONDS / 3600
    wave = np.exp(random.uniform(0.3, 0.8) * np.cos((hours - 15) / 24 * 2 * np.pi))
    bursts = _bursts(random, count + lag)
    load = 1000 * wave * np.exp(bursts[:count] + random.normal(0, 0.05, count))
    shown = bursts[lag:].copy()
    if kind == "other bursts":
        shown = _bursts(random, count)
    if kind == "ended":
        tested = KEPT_HISTORY_DAYS * _DAY
        shown[tested:] = _bursts(random, count)[tested:]
    values = 50 * wave * np.exp(0.8 * shown + random.normal(0, 0.08, count))
    if kind == "load":
        values = load
    if kind == "noise":
        values = 50 * np.exp(random.normal(0, 0.3, count))
    return LoadSeries(START_SECONDS, STEP_SECONDS, load), LeadingMetric(kind, values)


def _bursts(random: np.random.Generator, count: int) -> Floats:
    found = np.zeros(count)
    at = float(random.exponential(24))
    while at * 3600 / STEP_SECONDS < count:
        lasts = float(random.uniform(2, 5))
        found[int(at * 3600 / STEP_SECONDS) : int((at + lasts) * 3600 / STEP_SECONDS)] = random.uniform(
            0.5, 1.0
        )
        at += lasts + float(random.exponential(24))
    return found


def leading_of(seed: int) -> list[Leading]:
    """A row for each kind of metric beside one load."""
    without = _replayed(drawn(seed, KINDS[0])[0], ())
    rows = []
    for kind in KINDS:
        series, metric = drawn(seed, kind)
        (loss, short, hours), (loss_without, short_without, hours_without) = (
            _replayed(series, (metric,)),
            without,
        )
        rows.append(Leading(seed, kind, loss, loss_without, short, short_without, hours, hours_without))
    return rows


def _replayed(series: LoadSeries, metrics: tuple[LeadingMetric, ...]) -> tuple[float, float, float]:
    """(loss of p95 a lead time ahead of the mean load, share of time short, replica-hours)."""
    first, last = KEPT_HISTORY_DAYS * _DAY, len(series.values)
    scenario = Scenario(
        series=series, first=first, last=last, lead_steps=_LEAD_STEPS,
        capacity_per_replica=float(np.quantile(series.values, 0.999)) / _REPLICAS_AT_PEAK,
    )  # fmt: skip
    steps = list(scenario.decision_steps())
    issued = [
        (step, one)
        for step, (one,) in rolling_with_leading(series, (), metrics, steps, [scenario.lead_seconds], _DAY)
    ]
    ahead = [(step + _LEAD_STEPS, float(one.quantile(0.95)[_LEAD_STEPS - 1])) for step, one in issued]
    at, p95 = (np.array(column) for column in zip(*(row for row in ahead if row[0] < last), strict=True))
    loss = float(pinball(series.values[at], p95, 0.95).mean() / series.values.mean())
    outcome = simulate_forecasts("Peaker", scenario, issued)
    return loss, outcome.short_share, outcome.replica_hours


def leading_figures(rows: list[Leading]) -> dict[str, Figure]:
    """What a metric that leads is worth, and what useless ones cost."""
    real, useless = (
        [one for one in rows if one.metric == "leads"],
        [one for one in rows if one.metric != "leads"],
    )
    if not real or not useless:
        return {}
    worth = float(np.mean([one.loss / one.loss_without for one in real]))
    short = float(sum(one.short for one in real) / max(1e-12, sum(one.short_without for one in real)))
    hours = float(np.mean([one.hours / one.hours_without for one in real]))
    worst = max(one.loss / one.loss_without for one in useless)
    dearest = max(one.hours / one.hours_without for one in useless)
    return {
        "leading_p95_loss_to_without": figure(worth, "<= 0.80", worth <= 0.8),
        "leading_short_to_without": figure(short, "<= 0.80", short <= 0.8),
        "leading_hours_to_without": stated(hours, "1.0"),
        "useless_leading_p95_loss_to_without_worst": figure(worst, "<= 1.02", worst <= 1.02),
        "useless_leading_hours_to_without_worst": figure(dearest, "<= 1.02", dearest <= 1.02),
    }
