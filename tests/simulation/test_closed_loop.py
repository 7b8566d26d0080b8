"""Peaker's decisions in a loop with a fleet that takes its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker_backtest.replay.simulation import Scenario, simulate_forecasts

from tests.unit.domain.forecasting.loads import START, daily, series

DAY = 96


def scenario(values: np.ndarray, first_day: float, **changes: object) -> Scenario:
    """Quarter-hour steps, an hour's lead, a capacity of 40, one to ten replicas."""
    settings_: dict[str, object] = {
        "series": series(values),
        "first": round(first_day * DAY),
        "last": len(values),
        "lead_steps": 4,
        "capacity_per_replica": 40.0,
        "max_replicas": 10,
    }
    return Scenario(**{**settings_, **changes})  # type: ignore[arg-type]


def run(scene: Scenario):  # type: ignore[no-untyped-def]
    rolling = rolling_forecasts(scene.series, list(scene.decision_steps()), [scene.lead_seconds], DAY // 2)
    return simulate_forecasts("peaker", scene, ((step, one) for step, (one,) in rolling))


@pytest.fixture(scope="module")
def usual() -> Scenario:
    return scenario(daily(28), 18)


def test_replicas_are_ready_before_the_daily_rise(usual: Scenario) -> None:
    """At the steepest hour of every workday the capacity is there without a run under way being needed."""
    ours = run(usual)
    load = usual.load()
    for day in range(len(load) // DAY):
        noon = day * DAY + DAY // 2
        assert ours.serving[noon] * usual.capacity_per_replica >= 0.95 * load[noon]


def test_it_does_not_flap_on_a_flat_noisy_load() -> None:
    flat = 100 * np.exp(np.random.default_rng(3).normal(0, 0.05, 24 * DAY))
    ours = run(scenario(flat, 18))
    assert len(ours.events) <= 6


def test_an_outage_that_ends_in_a_storm_is_met_by_the_reactive_floor() -> None:
    values = daily(24)
    values[22 * DAY + 40 : 22 * DAY + 60] *= 2.5
    scene = scenario(values, 22)
    ours = run(scene)
    after = 22 * DAY + 40 + scene.lead_steps + 2 - scene.first
    assert ours.serving[after : after + 10].max() * 40.0 >= values[22 * DAY + 46]


def test_an_outage_of_an_hour_before_the_readers_takes_no_replica_away() -> None:
    values = daily(24)
    values[22 * DAY + 40 : 22 * DAY + 44] = 0.0
    scene = scenario(values, 22)
    at = 22 * DAY + 40 - scene.first
    assert run(scene).serving[at : at + 16].min() >= 4


def test_a_batch_begins_when_nothing_is_being_built() -> None:
    scene = scenario(daily(24), 20, capacity_per_replica=10.0, max_replicas=40)
    ours = run(scene)
    assert (ours.paid - ours.serving).max() > 1, "a batch of several"
    begins = [event.step for event in ours.events if event.action == "scale_out"]
    assert (np.diff(begins) >= scene.lead_steps).all(), "the one before serves"


def test_a_replica_is_kept_for_its_minimum_lifetime() -> None:
    ours = run(scenario(daily(24), 20, minimum_lifetime_seconds=30 * 86_400.0))
    born = [event for event in ours.events if event.action == "scale_out"]
    removed = sum(event.replicas for event in ours.events if event.action == "scale_in")
    assert born
    assert removed <= ours.serving[0] - 1


@settings(max_examples=6)
@given(seed=st.integers(0, 1000), missing=st.floats(0.0, 0.3), jump=st.floats(0.2, 4.0))
def test_whatever_the_load_the_fleet_stays_within_its_rules(seed: int, missing: float, jump: float) -> None:
    values = daily(19, 1800, noise=0.3, seed=seed)
    draw = np.random.default_rng(seed)
    values[17 * 48 + int(draw.integers(48)) :] *= jump
    values[draw.random(len(values)) < missing] = np.nan
    scene = Scenario(
        LoadSeries(START, 1800, values), 16 * 48, len(values), 3, 60.0, min_replicas=1, max_replicas=8
    )
    rolling = rolling_forecasts(scene.series, list(scene.decision_steps()), [scene.lead_seconds], 24)
    seen = []

    def listen():  # type: ignore[no-untyped-def]
        for step, (forecast,) in rolling:
            seen.append((step, forecast))
            yield step, forecast

    ours = simulate_forecasts("peaker", scene, listen())
    assert ours.serving.min() >= 1
    assert ours.paid.max() <= 8
    stale = {step for step, forecast in seen if forecast.stale}
    assert not [event for event in ours.events if event.action == "scale_in" and event.step in stale]
