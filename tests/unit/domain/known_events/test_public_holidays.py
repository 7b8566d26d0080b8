"""Public holidays: what the few in the kept history teach, when that counts, and what a forecast makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries, forecast_demand
from peaker.domain.known_events import (
    HolidayCalendar,
    LearnedEvent,
    PublicHoliday,
    RepeatingEvent,
    forecast_with_events,
    learn_holidays,
    likeness_by_day,
    rolling_with_events,
)

from tests.unit.domain.forecasting.loads import START, daily, series

DAY, SECONDS = 24, 86_400
SUNDAY = 6
# Days of the history, whose first is a Thursday: 40 is a Tuesday, 54 too, 61 a Tuesday, 31 a Sunday.
TUESDAY, NEXT, COMING = 40, 54, 61


def calendar(days: Sequence[int], until_day: int = 400) -> HolidayCalendar:
    found = tuple(PublicHoliday(f"Holiday {day}", (day + 3) % 7, START + day * SECONDS) for day in days)
    return HolidayCalendar(found, SUNDAY, START + until_day * SECONDS)


def load(days: int, holidays: Sequence[int] = (), factor: float = 0.7, seed: int = 1) -> NDArray[np.float64]:
    """A week with weekends at 0.7 times the load; on these days it is `factor` times as high."""
    values = daily(days, 3600, seed=seed)
    for day in holidays:
        values[day * DAY : (day + 1) * DAY] *= factor
    return values


def learned(days: Sequence[int], values: NDArray[np.float64]) -> tuple[LearnedEvent, ...]:
    return learn_holidays(series(values, 3600), calendar([*days, COMING]))


def history(values: NDArray[np.float64]) -> LoadSeries:
    return series(values, 3600)


def test_one_holiday_like_a_sunday_is_enough_for_the_next() -> None:
    *_, coming = learned([TUESDAY], load(60, [TUESDAY]))
    assert coming.used
    assert coming.event.name == "Holiday 61"
    # One day that was seen leaves some doubt: not yet as far as the 0.7 of a Sunday.
    assert np.exp(coming.shape.mean()) == pytest.approx(0.74, abs=0.02)
    assert coming.reason.startswith("1 earlier one, each foretold from days of rest with ")


def test_the_coming_holiday_is_forecast_like_a_sunday_and_named() -> None:
    values, known = load(60, [TUESDAY, NEXT]), calendar([TUESDAY, NEXT, COMING])
    aware = forecast_with_events(history(values), (), 3600.0, reach_seconds=7 * SECONDS, holidays=known)
    usual = daily(62, 3600, noise=0.0)[COMING * DAY :]
    expected = [aware.highest(0.5, (24.5 + at) * 3600.0, (24.5 + at) * 3600.0) for at in range(DAY)]
    assert np.mean(expected) == pytest.approx(0.72 * usual.mean(), rel=0.05)
    (event,) = aware.events
    assert event.text == "with Holiday 61 as on 2 earlier public holidays (as far as x0.69)"
    assert [one for one in aware.reasons if "public holidays: 2 earlier" in one] == [aware.reasons[-1]]


def test_one_earlier_holiday_is_told_in_the_singular() -> None:
    known = calendar([TUESDAY, COMING])
    aware = forecast_with_events(
        history(load(60, [TUESDAY])), (), 3600.0, reach_seconds=7 * SECONDS, holidays=known
    )
    assert aware.events[0].text.startswith("with Holiday 61 as on 1 earlier public holiday (")


def test_holidays_that_are_busier_than_usual_are_learned_from_two() -> None:
    assert not learned([TUESDAY], load(60, [TUESDAY], 1.6))[0].used
    *_, coming = learned([TUESDAY, NEXT], load(60, [TUESDAY, NEXT], 1.6))
    assert coming.used
    assert coming.factor == pytest.approx(1.6, rel=0.15)
    assert coming.event.name == "Holiday 61"


@pytest.mark.parametrize("seed", range(8))
def test_holidays_without_an_effect_change_nothing(seed: int) -> None:
    values, known = load(60, seed=seed), calendar([TUESDAY, NEXT, COMING])
    (found,) = learn_holidays(history(values), known)
    assert not found.used
    aware = forecast_with_events(history(values), (), 3600.0, holidays=known)
    unaware = forecast_demand(history(values), 3600.0)
    assert np.array_equal(aware.quantile(0.95), unaware.quantile(0.95))
    assert aware.reasons[-1] == f"known event public holidays: {found.reason}"


def test_a_holiday_on_a_day_of_rest_is_that_day() -> None:
    values = load(60, [TUESDAY])
    found = learned([TUESDAY, 66], values)
    assert [one.event.name for one in found if one.used] == ["Holiday 40", "Holiday 61"]
    assert "1 earlier one" in found[0].reason


def test_on_a_saturday_less_changes_than_on_a_tuesday() -> None:
    by_name = {
        one.event.name: np.abs(one.shape).mean()
        for one in learn_holidays(history(load(60, [TUESDAY])), calendar([TUESDAY, COMING, 65]))
    }
    assert by_name["Holiday 65"] < 0.2 * by_name["Holiday 61"]


@pytest.mark.parametrize("days", [(), (COMING,), (3,)])
def test_without_an_earlier_holiday_that_can_be_compared_it_says_so(days: Sequence[int]) -> None:
    (found,) = learn_holidays(history(load(7 if days == (3,) else 60)), calendar(days))
    assert (found.used, found.days) == (False, 0)
    assert found.reason == "none of the kept weeks can be compared with usual days"


def test_a_load_without_a_weekly_shape_has_no_day_of_rest() -> None:
    flat = 100 * np.exp(np.random.default_rng(3).normal(0, 0.05, 60 * DAY))
    flat[TUESDAY * DAY : (TUESDAY + 1) * DAY] *= 0.7
    assert not learned([TUESDAY], flat)[0].used


def test_a_load_of_nothing_and_gaps_are_survived() -> None:
    assert not learned([TUESDAY], np.zeros(60 * DAY))[0].used
    gaps = load(60, [TUESDAY, NEXT])
    gaps[NEXT * DAY : NEXT * DAY + 20] = np.nan
    *_, coming = learned([TUESDAY, NEXT], gaps)
    assert (coming.used, coming.days) == (True, 1)
    assert not learned([TUESDAY], np.full(60 * DAY, np.nan))[0].used


def test_that_the_deployed_days_end_is_told_before_they_do() -> None:
    (found,) = learn_holidays(history(load(60)), calendar([TUESDAY], until_day=70))
    assert found.reason.endswith("; the deployed ones end on 2026-03-12: deploy again")


def test_an_event_on_a_holiday_is_not_counted_twice() -> None:
    values = load(60, [TUESDAY, NEXT])
    hours = [day * DAY + 18 for day in (TUESDAY, 45, 50, NEXT)]
    for at in hours:
        values[at : at + 3] *= 2.0
    match = RepeatingEvent(
        "cup match", tuple(START + at * 3600.0 for at in [*hours, COMING * DAY + 18]), 3 * 3600.0
    )
    known = calendar([TUESDAY, NEXT, COMING])
    usual, aware = (
        forecast_with_events(history(one), events, 3600.0, reach_seconds=7 * SECONDS, holidays=known)
        for one, events in ((load(60, [TUESDAY, NEXT]), ()), (values, [match]))
    )
    evening = [one.highest(0.5, 43.5 * 3600.0, 43.5 * 3600.0) for one in (usual, aware)]
    assert evening[1] / evening[0] == pytest.approx(2.0, rel=0.15)


def test_past_forecasts_know_only_the_holidays_that_were_over() -> None:
    known = calendar([TUESDAY, NEXT, COMING])
    past = {
        day: forecast
        for day, (_, (forecast,)) in zip(
            (TUESDAY, NEXT),
            rolling_with_events(
                history(load(65, [TUESDAY, NEXT, COMING])), (),
                [(TUESDAY - 1) * DAY, (NEXT - 1) * DAY], [3600.0], 2 * DAY, holidays=known,
            ),
            strict=True,
        )
    }  # fmt: skip
    assert past[TUESDAY].events == ()
    assert [(one.name, one.earlier_days) for one in past[NEXT].events] == [("Holiday 54", 1)]


def test_how_far_each_holiday_was_like_a_sunday() -> None:
    values = load(60, [TUESDAY])
    shares = {
        one.name: share for one, share in likeness_by_day(history(values), calendar([31, TUESDAY, NEXT]))
    }
    assert set(shares) == {"Holiday 40", "Holiday 54"}
    assert shares["Holiday 40"] == pytest.approx(1.0, abs=0.15)
    assert shares["Holiday 54"] == pytest.approx(0.0, abs=0.15)


def test_a_gulf_country_rests_on_another_day() -> None:
    values = load(60, [TUESDAY])
    known = replace(calendar([TUESDAY, COMING]), day_of_rest=4)
    assert not learn_holidays(history(values), known)[0].used, "Fridays of this load are days like others"
