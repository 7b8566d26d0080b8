"""Events that repeat: what their earlier days teach, when that counts, and what a forecast makes of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast, LoadSeries, forecast_demand
from peaker.domain.known_events import (
    RepeatingEvent,
    forecast_with_events,
    learn_events,
    rolling_with_events,
)

from tests.unit.domain.forecasting.loads import START, daily, series

DAY, HOUR = 96, 3600.0
LEAD = HOUR
MATCH_HOURS = 3.0
MATCH_DAYS = (9, 16.0 + 2, 30, 41, 50)


def match(days: Sequence[float] = MATCH_DAYS, name: str = "cup match") -> RepeatingEvent:
    """From 18:00 on, three hours, on these days of the history."""
    return RepeatingEvent(name, tuple(START + (day * 24 + 18) * HOUR for day in days), MATCH_HOURS * HOUR)


def with_matches(
    days: float, factor: float = 2.0, on: Sequence[float] = MATCH_DAYS, noise: float = 0.05
) -> NDArray[np.float64]:
    """A daily wave that is `factor` times as high during each match."""
    values = daily(days, noise=noise)
    for first, end in match(on).steps(series(values)):
        values[max(0, first) : end] *= factor
    return values


def before_the_last(factor: float = 2.0) -> LoadSeries:
    """Four matches are over; the fifth begins in an hour."""
    return series(with_matches(60, factor)[: 50 * DAY + 17 * 4])


def during(forecast: Forecast, level: float) -> NDArray[np.float64]:
    """The quantiles of the steps of the match that begins in an hour."""
    return forecast.quantile(level)[4:16]


def test_earlier_days_become_a_shape_that_the_next_one_is_expected_to_have() -> None:
    (learned,) = learn_events(before_the_last(), [match()])
    assert learned.used
    assert learned.days == 4
    assert np.exp(learned.shape) == pytest.approx(2.0, rel=0.15)
    assert learned.reason == "4 earlier days, each foretold from the others with 6% of the error"


def test_the_forecast_has_the_event_and_without_it_none() -> None:
    history = before_the_last()
    usual = daily(60, noise=0.0)[50 * DAY + 18 * 4 : 50 * DAY + 21 * 4]
    aware = forecast_with_events(history, [match()], LEAD)
    unaware = forecast_demand(history, LEAD)
    assert during(aware, 0.5) == pytest.approx(2 * usual, rel=0.2)
    assert (during(aware, 0.95) > 2 * usual).all()
    assert (during(unaware, 0.5) < 1.4 * usual).all()


def test_steps_outside_of_the_event_are_not_raised() -> None:
    history = before_the_last()
    aware, calm = (
        forecast_with_events(one, [match()], LEAD).quantile(0.95)
        for one in (history, series(daily(60)[: len(history.values)]))
    )
    assert aware[20:60] == pytest.approx(calm[20:60], rel=0.1)


def test_an_event_of_last_week_is_not_expected_again_where_none_is_named() -> None:
    days = (20, 27 + 3, 43)
    history = series(with_matches(60, 3.0, days)[: 50 * DAY])
    again = forecast_with_events(history, [match(days)], LEAD).quantile(0.95)[18 * 4 : 21 * 4]
    usual = daily(60, noise=0.0)[50 * DAY + 18 * 4 : 50 * DAY + 21 * 4]
    assert (again < 1.3 * usual).all()


def test_the_decision_is_told_of_the_event_that_comes() -> None:
    (event,) = forecast_with_events(before_the_last(), [match()], LEAD).events
    assert (event.name, event.earlier_days) == ("cup match", 4)
    assert event.factor == pytest.approx(2.1, rel=0.1)
    assert event.text.startswith("with cup match as on 4 earlier days (as far as x2.")


def test_days_that_differ_widen_the_band_within_the_event() -> None:
    alike, apart = before_the_last().values.copy(), before_the_last().values.copy()
    for (first, end), factor in zip(match().steps(before_the_last()), (0.8, 1.3, 0.85, 1.2), strict=False):
        apart[first:end] *= factor
    bands = [forecast_with_events(series(one), [match()], LEAD) for one in (alike, apart)]
    ratios = [float((during(one, 0.95) / during(one, 0.5)).mean()) for one in bands]
    assert [len(one.events) for one in bands] == [1, 1]
    assert ratios[1] > 1.2 * ratios[0]


def test_an_event_that_lowers_the_load_is_learned_as_well() -> None:
    (learned,) = learn_events(before_the_last(0.4), [match()])
    assert learned.used
    assert learned.factor == pytest.approx(0.4, rel=0.2)


@pytest.mark.parametrize("seed", range(8))
def test_an_event_without_an_effect_changes_nothing(seed: int) -> None:
    history = series(daily(50, seed=seed))
    (learned,) = learn_events(history, [match()])
    assert not learned.used
    assert "foretell each other no better" in learned.reason or "no more alike" in learned.reason
    aware, unaware = forecast_with_events(history, [match()], LEAD), forecast_demand(history, LEAD)
    assert np.array_equal(aware.quantile(0.95), unaware.quantile(0.95))
    assert aware.events == ()
    assert aware.reasons[-1] == f"known event cup match: {learned.reason}"


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_earlier_days_teach_nothing(count: int) -> None:
    days = (30.0, 50.0)[2 - count - 1 :] if count else (50.0,)
    (learned,) = learn_events(series(with_matches(60, on=days)[: 45 * DAY]), [match(days)])
    assert not learned.used
    assert learned.reason == f"{count} earlier days can be compared with other weeks, 2 are needed"


def test_an_event_that_comes_every_week_is_left_to_the_weekly_shape() -> None:
    days = tuple(range(3, 60, 7))
    (learned,) = learn_events(series(with_matches(58, on=days)), [match(days)])
    assert (learned.days, learned.used) == (0, False)


def test_an_event_that_runs_now_teaches_nothing_yet_and_is_still_expected() -> None:
    history = series(with_matches(60)[: 50 * DAY + 19 * 4])
    (learned,) = learn_events(history, [match()])
    assert learned.days == 4
    forecast = forecast_with_events(history, [match()], LEAD)
    assert [event.name for event in forecast.events] == ["cup match"]
    assert forecast.quantile(0.5)[3] > 1.6 * daily(60, noise=0.0)[50 * DAY + 19 * 4 + 3]
    assert forecast.quantile(0.5)[12] < 1.4 * daily(60, noise=0.0)[50 * DAY + 19 * 4 + 12]


def test_the_load_of_now_is_what_was_seen() -> None:
    history = series(with_matches(60)[: 50 * DAY + 19 * 4])
    assert forecast_with_events(history, [match()], LEAD).last_load == history.values[-1]


def test_days_ahead_have_the_event_as_well() -> None:
    history = series(with_matches(60)[: 47 * DAY])
    aware = forecast_with_events(history, [match()], LEAD, reach_seconds=7 * 24 * HOUR)
    unaware = forecast_demand(history, LEAD, reach_seconds=7 * 24 * HOUR)
    begins = (3 * 24 + 18) * HOUR
    wanted = (0.5, begins + HOUR, begins + 2 * HOUR)
    assert aware.highest(*wanted) > 1.7 * unaware.highest(*wanted)
    calm = (0.5, begins + 24 * HOUR, begins + 26 * HOUR)
    assert aware.highest(*calm) == pytest.approx(unaware.highest(*calm), rel=0.1)


def test_gaps_and_loads_of_nothing_are_learned_around() -> None:
    values = with_matches(60)[: 50 * DAY + 17 * 4]
    values[9 * DAY + 18 * 4 : 9 * DAY + 21 * 4] = np.nan
    values[30 * DAY : 30 * DAY + 40] = 0.0
    (learned,) = learn_events(series(values), [match()])
    assert learned.days == 3
    assert learned.used


def test_nothing_of_the_days_to_come_is_known() -> None:
    values = with_matches(60)
    changed = values.copy()
    changed[50 * DAY + 17 * 4 :] *= 5
    origins = range(48 * DAY, 50 * DAY + 17 * 4, 8)
    issued = [
        list(rolling_with_events(series(one), [match()], origins, [LEAD], DAY)) for one in (values, changed)
    ]
    for (_, (ours,)), (_, (theirs,)) in zip(*issued, strict=True):
        assert np.array_equal(ours.quantile(0.95), theirs.quantile(0.95))


def test_replayed_day_by_day_it_says_what_it_says_now() -> None:
    history = before_the_last()
    ((_, (rolled,)),) = rolling_with_events(history, [match()], [len(history.values) - 1], [LEAD], DAY)
    now = forecast_with_events(
        LoadSeries(history.start_seconds, history.step_seconds, history.values), [match()], LEAD
    )
    assert rolled.quantile(0.95) == pytest.approx(now.quantile(0.95))
    assert rolled.events == now.events
