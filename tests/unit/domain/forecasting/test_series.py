"""Points onto an even grid: nothing is invented, nothing is lost silently."""

from __future__ import annotations

import numpy as np
import pytest
from peaker.domain.forecasting.series import (
    LoadSeries,
    UnusableSeries,
    series_from_points,
    step_for_period,
    usual_period,
)

NOW = 1_800_000_000.0  # a whole number of half hours


def test_a_gap_stays_missing_and_is_not_zero() -> None:
    series = series_from_points([NOW - 1200, NOW - 300], [5.0, 7.0], now_seconds=NOW, period_seconds=300)
    assert series.values[0] == 5.0
    assert np.isnan(series.values[1:3]).all()
    assert series.values[3] == 7.0


def test_one_minute_points_are_averaged_into_five_minutes() -> None:
    times = [NOW - 300 + 60 * i for i in range(5)]
    series = series_from_points(times, [1.0, 2.0, 3.0, 4.0, 5.0], now_seconds=NOW, period_seconds=60)
    assert series.step_seconds == 300
    assert series.values.tolist() == [3.0]


def test_points_in_any_order_and_doubled_ones_give_the_same_grid() -> None:
    series = series_from_points(
        [NOW - 300, NOW - 600, NOW - 300], [4.0, 2.0, 4.0], now_seconds=NOW, period_seconds=300
    )
    assert series.values.tolist() == [2.0, 4.0]


def test_negative_infinite_and_future_points_are_dropped() -> None:
    times = [NOW - 900, NOW - 600, NOW - 300, NOW + 300]
    series = series_from_points(times, [1.0, -5.0, float("inf"), 9.0], now_seconds=NOW, period_seconds=300)
    assert series.values[0] == 1.0
    assert np.isnan(series.values[1:]).all()
    assert series.end_seconds == NOW


def test_the_step_that_has_not_ended_is_left_out() -> None:
    series = series_from_points([NOW - 300, NOW], [1.0, 2.0], now_seconds=NOW + 100, period_seconds=300)
    assert series.values.tolist() == [1.0]


@pytest.mark.parametrize(
    ("period", "step"), [(10, 300), (60, 300), (300, 300), (420, 450), (1800, 1800), (5000, 5400)]
)
def test_any_period_gets_a_step_that_divides_the_day(period: float, step: int) -> None:
    assert step_for_period(period) == step
    assert 86_400 % step == 0


def test_a_daily_metric_is_refused_with_the_remedy() -> None:
    with pytest.raises(UnusableSeries, match="publish it at least every 6 h"):
        step_for_period(86_400)


def test_the_usual_period_ignores_gaps() -> None:
    assert usual_period([0, 300, 600, 90_000, 90_300]) == 300


def test_history_as_it_was_known_at_a_time() -> None:
    series = LoadSeries(0.0, 300, np.array([1.0, 2.0, 3.0]))
    assert series.until(600.0).values.tolist() == [1.0, 2.0]
    assert series.until(599.0).values.tolist() == [1.0]


def test_no_usable_point_gives_an_empty_history() -> None:
    series = series_from_points([NOW - 300, NOW - 600], [-1.0, -1.0], now_seconds=NOW, period_seconds=300)
    assert len(series.values) == 0
