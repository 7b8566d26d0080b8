"""Histories and forecasts on the clock of Berlin: forward on 29 March 2026, back on 25 October, both at 01:00 UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast, LoadSeries, Standing
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker.domain.forecasting.local_clock import in_real_time, on_local_clock, utc_offsets

from tests.unit.domain.forecasting.loads import forecast_demand

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()
AUTUMN = datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()
STEP = 1800
DAY = 48
HOUR = 3600.0


def counted(change: float, before: int, after: int) -> LoadSeries:
    """Loads 0, 1, 2 and so on, so many half hours before and after the change."""
    return LoadSeries(change - before * STEP, STEP, np.arange(before + after, dtype=float))


def by_local_hour(change: float, days_before: float, days_after: float, zone: str) -> LoadSeries:
    """A load that is a function of the zone's hour alone."""
    start = change - days_before * 86_400
    at = start + STEP * np.arange(round((days_before + days_after) * DAY), dtype=float)
    hour = (at + utc_offsets(ZoneInfo(zone), at)) % 86_400 / 3600
    return LoadSeries(start, STEP, 100 + 60 * np.sin((hour - 9) / 24 * 2 * np.pi))


def test_the_hour_that_the_clock_skips_is_unknown() -> None:
    local = on_local_clock(counted(SPRING, 4, 2), BERLIN)
    assert local.end_seconds == SPRING + 2 * STEP
    np.testing.assert_array_equal(local.values, [0, 1, 2, 3, np.nan, np.nan, 4, 5])


def test_of_the_hour_that_the_clock_repeats_the_later_pass_counts() -> None:
    local = on_local_clock(counted(AUTUMN, 4, 4), BERLIN)
    assert local.end_seconds == AUTUMN + 4 * STEP
    np.testing.assert_array_equal(local.values, [0, 1, 4, 5, 6, 7])


def test_within_the_repeated_hour_nothing_of_the_first_pass_is_newer_than_now() -> None:
    local = on_local_clock(counted(AUTUMN, 4, 1), BERLIN)
    np.testing.assert_array_equal(local.values, [0, 1, 4])


def test_a_point_that_is_missing_in_the_later_pass_is_that_of_the_earlier_one() -> None:
    series = counted(AUTUMN, 4, 4)
    series.values[5] = np.nan
    np.testing.assert_array_equal(on_local_clock(series, BERLIN).values, [0, 1, 4, 3, 6, 7])


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("UTC"), ZoneInfo("Asia/Kolkata"), BERLIN])
def test_without_a_change_in_the_history_it_stays_as_it_is(zone: ZoneInfo) -> None:
    series = counted(SPRING + 86_400, 4, 4)
    assert on_local_clock(series, zone) is series


@pytest.mark.parametrize(
    ("change", "near", "later"),
    [
        # An hour is left out: what was the fourth half hour is now the second.
        pytest.param(SPRING, [0, 3, 5, 5], [7, 9, 9], id="spring"),
        # An hour comes twice; the first of it is over, so its nearest is the first step.
        pytest.param(AUTUMN, [0, 0, 0, 1], [3, 5, 7], id="autumn"),
    ],
)
def test_a_forecast_across_a_change(change: float, near: list[int], later: list[int]) -> None:
    steps = np.arange(4.0)[:, None]
    hours = np.array([5.0, 7.0, 9.0])[:, None]
    local = Forecast(
        change - STEP,
        STEP,
        (0.5,),
        steps,
        Standing.NORMAL,
        (),
        later_quantiles=hours,
        later_step_seconds=2 * STEP,
    )
    real = in_real_time(local, BERLIN)
    assert real.quantile(0.5).tolist() == near
    assert real.later_quantiles is not None
    assert real.later_quantiles[:, 0].tolist() == later


@pytest.mark.parametrize("change", [SPRING, AUTUMN])
@pytest.mark.parametrize("hours_after", [-1, 0.5, 12])
def test_a_load_by_the_local_hour_is_forecast_by_the_local_hour(change: float, hours_after: float) -> None:
    whole = by_local_hour(change, 30, 8, "Europe/Berlin")
    known = whole.until(change + hours_after * HOUR)
    forecast = forecast_demand(known, HOUR, zone=BERLIN)
    actual = whole.values[len(known.values) :][: DAY - 4]
    assert np.abs(forecast.quantile(0.5)[: len(actual)] / actual - 1).max() < 0.06
    assert forecast.last_load == known.values[-1]
    assert forecast.age_seconds == 0


def test_a_replay_issues_what_a_check_would_have_issued() -> None:
    series = by_local_hour(AUTUMN, 28, 1, "Europe/Berlin")
    for origin in (28 * DAY - 1, 28 * DAY, 28 * DAY + 1, len(series.values) - 1):
        ((_, (rolled,)),) = rolling_forecasts(series, [origin], [HOUR], DAY, 7 * 86_400, BERLIN)
        until = LoadSeries(series.start_seconds, STEP, series.values[: origin + 1])
        issued = forecast_demand(until, HOUR, reach_seconds=7 * 86_400, zone=BERLIN)
        for one, other in (
            (rolled.quantiles, issued.quantiles),
            (rolled.later_quantiles, issued.later_quantiles),
        ):
            assert one is not None
            assert other is not None
            np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_replay_across_a_change_knows_nothing_of_the_second_pass_during_the_first() -> None:
    series = by_local_hour(AUTUMN, 28, 1, "Europe/Berlin")
    other = LoadSeries(series.start_seconds, STEP, series.values.copy())
    other.values[28 * DAY :] *= 3
    origins = list(range(28 * DAY - 2, 28 * DAY + 2))
    ours, theirs = (
        list(rolling_forecasts(one, origins, [HOUR], DAY, 0.0, BERLIN)) for one in (series, other)
    )

    def of(rows: list[tuple[int, tuple[object, ...]]]) -> list[NDArray[np.float64]]:
        return [forecast.quantiles for _, (forecast,) in rows]  # type: ignore[attr-defined]

    for before in (0, 1):
        np.testing.assert_array_equal(of(ours)[before], of(theirs)[before])
    assert not np.array_equal(of(ours)[2], of(theirs)[2])
