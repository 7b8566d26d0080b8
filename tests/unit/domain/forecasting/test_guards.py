"""Where the bands' own past errors are no guide: what is seen, or what was usual, counts at least."""

from __future__ import annotations

import numpy as np
import pytest
from peaker.domain.forecasting import LoadSeries, Standing

from tests.unit.domain.forecasting.loads import daily, forecast_demand, series

HOUR = 3600.0
DAY = 96
DAYS = 28


def out_for_a_day(left: float, back_to: float, hours_back: float) -> LoadSeries:
    """Four weeks; in the last 20 hours the load fell to the share `left`, and rose to `back_to` in its last hours."""
    values = daily(DAYS)
    fell = round(20 * DAY / 24)
    values[-fell:] *= left
    if hours_back:
        back = round(hours_back * DAY / 24)
        values[-back:] *= np.geomspace(1.0, back_to / left, back)
    return series(values)


def missed(known: LoadSeries, level: float = 0.95) -> float:
    """Share of a usual day after it that lies above the band."""
    usual = daily(DAYS + 1)[DAYS * DAY :]
    return float((usual > forecast_demand(known, HOUR).quantile(level)).mean())


def shifted_load(noise: float, seed: int, hours: float = 1.0) -> np.ndarray:
    """A flat load with noise; in the last hours of its 28 days, and for six hours after them, 1.8 times as high."""
    values = 100 * np.exp(np.random.default_rng(seed).normal(0, noise, DAYS * DAY + DAY // 4))
    values[DAYS * DAY - round(hours * DAY / 24) :] *= 1.8
    return values


@pytest.mark.parametrize("noise", [0.03, 0.08])
def test_an_hour_after_a_level_shift_p95_says_most_of_the_loads_of_the_new_level(noise: float) -> None:
    """Not the level alone, of which half of the loads lie above."""
    under = []
    for seed in range(6):
        values = shifted_load(noise, seed)
        forecast = forecast_demand(series(values[: DAYS * DAY]), HOUR)
        assert forecast.shifted
        under.append(values[DAYS * DAY :] <= forecast.quantile(0.95)[: DAY // 4])
    assert np.mean(under) >= 0.9


def test_a_level_shift_is_seen_where_no_load_has_another_one_right_before_it() -> None:
    """An hourly metric of which every second point is missing."""
    values = 100 * np.exp(np.random.default_rng(1).normal(0, 0.03, DAYS * 24))
    values[-1] *= 1.8
    values[-2::-2] = np.nan
    forecast = forecast_demand(series(values, 3600), HOUR)
    assert forecast.shifted
    assert forecast.quantile(0.95)[0] >= 0.99 * values[-1]


def test_a_load_that_comes_back_from_an_outage_is_expected_back_in_full() -> None:
    coming_back = out_for_a_day(left=0.02, back_to=0.4, hours_back=3)
    assert missed(coming_back) <= 0.2
    reasons = forecast_demand(coming_back, HOUR).reasons
    assert any("comes back" in reason for reason in reasons)


@pytest.mark.parametrize(("steps", "fallen"), [(0, False), (1, True), (4, True)])
def test_a_load_that_is_gone_at_once_has_fallen(steps: int, fallen: bool) -> None:
    values = daily(DAYS)
    if steps:
        values[-steps:] = 0.0
    assert forecast_demand(series(values), HOUR).fallen is fallen


def test_a_load_that_stays_away_is_not_waited_for() -> None:
    away = out_for_a_day(left=0.02, back_to=0.02, hours_back=0)
    usual = daily(DAYS + 1)[DAYS * DAY :]
    forecast = forecast_demand(away, HOUR)
    assert not any("comes back" in reason for reason in forecast.reasons)
    assert forecast.quantile(0.9).mean() < 0.5 * usual.mean()


@pytest.mark.parametrize("seed", range(2))
def test_bands_of_what_cannot_be_forecast_are_those_of_the_last_week(seed: int) -> None:
    """Pulses that come when they like and stand at 100: of the loads ahead, the week's p95 says most."""
    random = np.random.default_rng(seed)
    values = 30 + random.normal(0, 1, (DAYS + 1) * DAY)
    starts = random.random(len(values)) < 0.02
    pulses = np.convolve(starts, np.ones(4), "full")[: len(values)] > 0
    values[pulses] = 100.0
    forecast = forecast_demand(series(values[: DAYS * DAY]), HOUR)
    assert forecast.standing is Standing.DEGRADED
    week = np.quantile(values[(DAYS - 7) * DAY : DAYS * DAY], 0.95)
    assert forecast.quantile(0.95)[:DAY].min() >= week - 1e-6
    assert (values[DAYS * DAY :] <= forecast.quantile(0.95) + 1e-6).mean() >= 0.9
