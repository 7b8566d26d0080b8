"""What the forecaster does with good and with hard histories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peaker.domain.forecasting import LEVELS, Standing
from peaker.domain.forecasting.forecaster import rolling_forecasts

from tests.unit.domain.forecasting.loads import daily, forecast_demand, series

HOUR = 3600.0
STEP = 900
DAY = 96


# --- good histories ----------------------------------------------------------------------------------------


def test_the_forecast_reaches_a_day_ahead_and_quantiles_rise() -> None:
    forecast = forecast_demand(series(daily(28)), HOUR)
    assert forecast.quantiles is not None
    assert forecast.quantiles.shape == (DAY, len(LEVELS))
    assert (np.diff(forecast.quantiles, axis=1) >= -1e-9).all()
    assert forecast.standing is Standing.NORMAL
    assert not forecast.stale


def test_the_highest_load_of_a_window_and_a_level_between_two() -> None:
    forecast = forecast_demand(series(daily(28)), HOUR)
    curve = forecast.quantile(0.95)
    assert forecast.highest(0.95, 2 * HOUR, 3 * HOUR) == pytest.approx(curve[8:12].max())
    between = forecast.quantile(0.93)
    assert (between >= forecast.quantile(0.9) - 1e-9).all()
    assert (between <= curve + 1e-9).all()


def test_the_week_ahead_keeps_its_weekend() -> None:
    """28 days from a Thursday: the weekend is two to four days ahead, at 70 % of a working day."""
    forecast = forecast_demand(series(daily(28)), HOUR)
    assert forecast.reach_seconds == 7 * 24 * HOUR
    days = [forecast.highest(0.5, day * 24 * HOUR, (day + 1) * 24 * HOUR) for day in range(7)]
    assert days[2] < 0.85 * days[0]
    assert days[3] < 0.85 * days[0]
    assert days[5] == pytest.approx(days[0], rel=0.1)


def test_the_days_ahead_are_covered_as_they_promise() -> None:
    values = daily(70, noise=0.1)
    inside = []
    for day in (42, 49, 58):
        forecast = forecast_demand(series(values[: day * DAY]), HOUR)
        assert forecast.later_quantiles is not None
        later = values[(day + 1) * DAY : (day + 7) * DAY].reshape(-1, 4)
        inside.append((later <= forecast.later_quantiles[:, LEVELS.index(0.95)][:, None]).mean())
    assert 0.92 <= np.mean(inside) <= 0.99


def test_beyond_its_end_a_forecast_says_nothing() -> None:
    forecast = forecast_demand(series(daily(28)), HOUR, reach_seconds=24 * HOUR)
    with pytest.raises(ValueError, match=r"reaches 24\.0 h ahead, not 30\.0 h"):
        forecast.highest(0.95, 29 * HOUR, 30 * HOUR)


def test_no_band_reaches_above_all_that_was_seen_where_nothing_grows() -> None:
    values = daily(42, noise=0.2)
    forecast = forecast_demand(series(values), HOUR)
    assert forecast.quantile(0.99).max() <= values[-28 * DAY :].max() * 1.001


def test_a_wild_point_is_not_the_load_of_now() -> None:
    values = daily(28, 300)
    calm = values[-2]
    values[-1] *= 50
    assert forecast_demand(series(values, 300), HOUR).last_load == calm
    ((_, (rolled,)),) = rolling_forecasts(series(values, 300), [len(values) - 1], [HOUR], DAY)
    assert rolled.last_load == calm


def test_a_level_that_was_not_issued_is_refused() -> None:
    with pytest.raises(ValueError, match=r"outside 0\.5 to 0\.99"):
        forecast_demand(series(daily(15)), HOUR).quantile(0.999)


# --- how much history --------------------------------------------------------------------------------------


def test_no_points_at_all_is_reactive_only_and_not_zero() -> None:
    forecast = forecast_demand(series(np.full(100, np.nan)), HOUR)
    assert forecast.standing is Standing.REACTIVE_ONLY
    assert forecast.quantiles is None
    assert forecast.last_load is None
    assert forecast.stale
    with pytest.raises(ValueError, match="there is no forecast"):
        forecast.quantile(0.5)


@pytest.mark.parametrize(
    ("days", "standing"),
    [
        (2.9, Standing.REACTIVE_ONLY),
        (6, Standing.SCALE_OUT_ONLY),
        (13.5, Standing.SCALE_OUT_ONLY),
        (15, Standing.NORMAL),
    ],
)
def test_how_far_it_is_trusted_grows_with_the_history(days: float, standing: Standing) -> None:
    assert forecast_demand(series(daily(days)), HOUR).standing is standing


def test_points_of_an_earlier_try_make_no_history_of_two_hours_an_old_one() -> None:
    values = np.full(40 * 48, np.nan)
    values[:2] = 90.0
    values[-4:] = 100.0
    forecast = forecast_demand(series(values, 1800), HOUR)
    assert (forecast.standing, forecast.is_young) == (Standing.REACTIVE_ONLY, False)
    young = forecast_demand(series(daily(8)), HOUR)
    assert young.is_young


# --- gaps and late metrics ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "stale", "word"), [(1, False, None), (3, False, "late"), (5, True, "stale")]
)
def test_a_late_metric_is_carried_on_then_stale(missing: int, stale: bool, word: str | None) -> None:
    values = daily(28)
    values[-missing:] = np.nan
    forecast = forecast_demand(series(values), HOUR)
    assert forecast.stale is stale
    assert forecast.age_seconds == missing * STEP
    assert forecast.quantiles is not None
    assert any(f"metric_{word}" in reason for reason in forecast.reasons) is (word is not None)


# --- outliers and level shifts -----------------------------------------------------------------------------


def test_one_wild_point_is_not_believed() -> None:
    values = daily(28)
    wild = values.copy()
    wild[-1] *= 30
    calm = forecast_demand(series(values), HOUR).quantile(0.95)
    forecast = forecast_demand(series(wild), HOUR)
    assert forecast.quantile(0.95)[:8].max() < 1.5 * calm[:8].max()
    assert forecast.highest_load == values.max()


def test_the_highest_load_is_that_outside_events_which_multiplied_it() -> None:
    """Else a sale at three times the load would be forecast at nine times it, once it has begun."""
    values = daily(28)
    highest = values[:-8].max()
    values[-8:] *= 3
    known = series(values)
    sale = (known.end_seconds - 8 * STEP, known.end_seconds + 10 * HOUR)
    assert forecast_demand(known, HOUR, events=[sale]).highest_load == highest
    ended = (known.start_seconds - HOUR, known.end_seconds - 8 * STEP)
    assert forecast_demand(known, HOUR, events=[ended]).highest_load == values[-8:].max()
    assert forecast_demand(known, HOUR, events=[sale, ended]).highest_load == values.max()


def test_a_spike_that_lasts_is_believed() -> None:
    values = daily(28)
    values[-4:] *= 8
    assert forecast_demand(series(values), HOUR).quantile(0.95)[0] > 3 * daily(28)[-1]


def test_after_a_level_shift_the_upper_band_keeps_what_is_seen() -> None:
    values = daily(28)
    values[-8:] *= 1.6
    forecast = forecast_demand(series(values), HOUR)
    usual = daily(29)[28 * DAY : 28 * DAY + 8]
    assert forecast.shifted
    assert any("level shift" in reason for reason in forecast.reasons)
    assert (forecast.quantile(0.95)[:8] > 1.45 * usual).all()


# --- odd series --------------------------------------------------------------------------------------------


def test_a_load_of_zero_is_forecast_as_zero() -> None:
    forecast = forecast_demand(series(np.zeros(28 * DAY)), HOUR)
    assert forecast.quantile(0.99).max() < 1e-3


@pytest.mark.parametrize("step", [300, 1800, 3600, 10_800])
def test_metrics_of_any_period(step: int) -> None:
    forecast = forecast_demand(series(daily(21, step), step), HOUR)
    assert forecast.quantiles is not None
    assert len(forecast.quantiles) == 86_400 // step
    assert np.isfinite(forecast.quantiles).all()


def test_a_utilisation_by_its_values_is_said_and_not_trusted() -> None:
    forecast = forecast_demand(series(np.minimum(100.0, daily(28))), HOUR)
    assert (forecast.standing, forecast.utilisation) == (Standing.DEGRADED, True)
    assert any("never exceeds 100" in reason for reason in forecast.reasons)


# --- honesty -----------------------------------------------------------------------------------------------


def test_the_future_does_not_change_a_past_forecast() -> None:
    values = daily(24)
    other = values.copy()
    other[20 * DAY + 40 :] *= 3.0
    origins = [20 * DAY, 20 * DAY + 20, 20 * DAY + 39]
    ours = list(rolling_forecasts(series(values), origins, [HOUR], DAY))
    theirs = list(rolling_forecasts(series(other), origins, [HOUR], DAY))
    for (_, (one,)), (_, (two,)) in zip(ours, theirs, strict=True):
        assert np.array_equal(one.quantiles, two.quantiles)  # type: ignore[arg-type]


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    days=st.floats(3.0, 20.0),
    missing=st.floats(0.0, 0.6),
    scale=st.sampled_from([1e-6, 1.0, 1e9]),
)
def test_whatever_comes_the_answer_is_finite_ordered_and_not_negative(
    seed: int, days: float, missing: float, scale: float
) -> None:
    draw = np.random.default_rng(seed)
    values = draw.gamma(0.5, 1.0, round(days * 24)) * scale
    values[draw.random(len(values)) < missing] = np.nan
    forecast = forecast_demand(series(values, 3600), HOUR)
    if forecast.quantiles is not None:
        assert np.isfinite(forecast.quantiles).all()
        assert (forecast.quantiles >= 0).all()
        assert (np.diff(forecast.quantiles, axis=1) >= -1e-9 * scale).all()


def test_the_band_follows_the_hour_of_the_day_whose_errors_it_has_seen() -> None:
    """Quiet nights, noisy evenings: the evening's errors say little about the night."""
    hour = np.arange(35 * 96) / 4 % 24
    noise = np.random.default_rng(5).normal(0, 1, len(hour)) * np.where((hour >= 17) & (hour < 23), 0.3, 0.02)
    issued = forecast_demand(series(100 * np.exp(noise)), 4200)
    width = np.log(issued.quantile(0.95) / issued.quantile(0.5))
    ahead = (np.arange(1, 97) / 4) % 24
    evening, night = width[(ahead > 18) & (ahead < 22)].mean(), width[(ahead > 1) & (ahead < 14)].mean()
    assert evening > 0.2
    assert night < 0.4 * evening
