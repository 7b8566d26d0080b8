"""Bands and decisions on loads of several kinds: none of them is what the settings of the models were found on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from peaker.domain.forecasting import Forecast, LoadSeries
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker_backtest.replay.simulation import Scenario, oracle_forecasts, simulate_forecasts
from peaker_backtest.replay.trials import simulate_reactive

from bench.forecast.operations import short_at_equal_cost
from bench.forecast.traces import has_rhythm
from tests.support.rhythms import DAYS, KINDS, STEP_SECONDS, load_of
from tests.unit.domain.forecasting.loads import START

LEAD_SECONDS = 5400.0
DAY = 86_400 // STEP_SECONDS
Issued = dict[str, tuple[LoadSeries, list[tuple[int, Forecast]]]]


@pytest.fixture(scope="module")
def issued() -> Issued:
    """Every kind with the forecasts of its last week, one an hour."""
    found: Issued = {}
    for kind in KINDS:
        series = LoadSeries(START, STEP_SECONDS, load_of(kind))
        origins = list(range((DAYS - 7) * DAY - 1, DAYS * DAY, 2))
        forecasts = rolling_forecasts(series, origins, [LEAD_SECONDS], DAY)
        found[kind] = (series, [(at, each[0]) for at, each in forecasts])
    return found


def coverage(series: LoadSeries, forecasts: Sequence[tuple[int, Forecast]], level: float) -> float:
    """Share of the loads of the day ahead that stayed under the band, over every fifth forecast."""
    hits = []
    for at, forecast in forecasts[::5]:
        actual = series.values[at + 1 : at + 1 + DAY]
        hits += list(actual <= forecast.quantile(level)[: len(actual)])
    return float(np.mean(hits))


@pytest.mark.parametrize(("level", "least", "most"), [(0.95, 0.93, 0.975), (0.9, 0.88, 0.94)])
def test_bands_cover_what_they_promise_over_all_kinds(
    issued: Issued, level: float, least: float, most: float
) -> None:
    each = {kind: coverage(*found, level) for kind, found in issued.items()}
    assert least <= float(np.mean(list(each.values()))) <= most, each
    assert min(each.values()) >= least - 0.06, each


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_short_for_a_fraction_of_reactive_scaling_on_every_kind(issued: Issued, kind: str) -> None:
    series, forecasts = issued[kind]
    scenario = Scenario(
        series=series,
        first=(DAYS - 7) * DAY,
        last=DAYS * DAY,
        lead_steps=round(LEAD_SECONDS / STEP_SECONDS),
        capacity_per_replica=float(np.quantile(series.values, 0.999)) / 10,
        decide_every_steps=2,
        low_checks_needed=1,
        minimum_lifetime_seconds=0.0,
    )
    ours = simulate_forecasts("peaker", scenario, forecasts)
    reactive = [simulate_reactive(scenario, target) for target in (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)]
    oracle = simulate_forecasts("oracle", scenario, oracle_forecasts(scenario, DAY))
    assert ours.short_share <= 0.5 * short_at_equal_cost(ours, reactive)
    assert ours.replica_hours <= 1.4 * oracle.replica_hours


def test_noise_and_saturated_percentages_have_no_rhythm() -> None:
    assert has_rhythm(LoadSeries(START, STEP_SECONDS, load_of("office")))
    noise = np.random.default_rng(3).lognormal(0, 0.5, DAYS * DAY)
    assert not has_rhythm(LoadSeries(START, STEP_SECONDS, noise))
    assert not has_rhythm(LoadSeries(START, STEP_SECONDS, np.full(DAYS * DAY, 5.0)))
    saturated = np.minimum(100.0, 2 * load_of("office"))
    assert not has_rhythm(LoadSeries(START, STEP_SECONDS, saturated))
