"""The week after a clock change: a load that follows its readers' clock, against the same load without the change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker.domain.forecasting.local_clock import utc_offsets
from peaker_backtest.replay.simulation import Outcome, Scenario, simulate_forecasts

STEP = 1800
DAY = 86_400 // STEP
HISTORY_DAYS = 28
REACH_SECONDS = 7 * 86_400
CHANGES = [
    pytest.param("Europe/Berlin", datetime(2025, 10, 26, 1, tzinfo=UTC), id="Berlin in autumn"),
    pytest.param("Australia/Adelaide", datetime(2026, 10, 3, 16, 30, tzinfo=UTC), id="Adelaide in spring"),
]


def clocks(zone: tzinfo, change: datetime) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """(start, local seconds of each step, those of a clock that was not changed): four weeks before, one week after."""
    start = (change - timedelta(days=HISTORY_DAYS)).timestamp()
    at = start + STEP * np.arange((HISTORY_DAYS + 7) * DAY, dtype=np.float64)
    return start, at + utc_offsets(zone, at), at + utc_offsets(zone, at[:1])


def load_at(local: NDArray[np.float64]) -> NDArray[np.float64]:
    """Office hours with steep flanks: 20 at night, 160 by day, a third of that at weekends."""
    hour, day = local % 86_400 / 3600, local // 86_400
    course = 1 / (1 + np.exp(-4 * (hour - 8))) - 1 / (1 + np.exp(-4 * (hour - 18)))
    weekend = (day + 3) % 7 >= 5
    noise = np.exp(np.random.default_rng(7).normal(0, 0.03, len(local)))
    return np.asarray((20 + np.where(weekend, 47, 140) * course) * noise)


def replay(start: float, local: NDArray[np.float64], zone: tzinfo) -> Outcome:
    """The week after the change, by the forecasts of that zone."""
    series = LoadSeries(start, STEP, load_at(local))
    scene = Scenario(series, HISTORY_DAYS * DAY, len(series.values), lead_steps=2, capacity_per_replica=20.0)
    steps = list(scene.decision_steps())
    rolling = rolling_forecasts(series, steps, [scene.lead_seconds], DAY, REACH_SECONDS, zone)
    return simulate_forecasts("Peaker", scene, ((step, one) for step, (one,) in rolling), scene.policy())


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_the_week_after_a_clock_change_costs_what_a_week_without_one_costs(
    name: str, change: datetime
) -> None:
    zone = ZoneInfo(name)
    start, moved, steady = clocks(zone, change)
    unchanged = replay(start, steady, UTC)
    changed, by_utc = replay(start, moved, zone), replay(start, moved, UTC)
    hours, hours_by_utc = (one.replica_hours / unchanged.replica_hours for one in (changed, by_utc))
    print(
        f"{name}, {change:%Y-%m-%d}: {hours:.3f} of the replica-hours without the change, {hours_by_utc:.3f} by UTC; "
        f"{changed.short_minutes:g} min short, {unchanged.short_minutes:g} without, {by_utc.short_minutes:g} by UTC"
    )
    assert hours <= 1.05 < hours_by_utc
    assert changed.short_minutes <= unchanged.short_minutes + STEP / 60
