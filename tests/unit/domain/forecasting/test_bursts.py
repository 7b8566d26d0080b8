"""Bursts at random hours: a band does not wait for them at the hour of the last one; for daily ones it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.forecasting.intervals import BandSettings, ErrorBands, PastGrid, comes_again

DAY = 48
DAYS = 40
BURST = 8


def test_daily_bursts_come_again() -> None:
    assert comes_again(np.arange(10) * DAY + 20, 10 * DAY, DAY) == 1


def test_weekly_bursts_come_again() -> None:
    assert comes_again(np.arange(4) * 7 * DAY + 20, 25 * DAY, DAY) == 1


def test_a_burst_of_which_the_next_day_is_not_over_may_be_the_first_of_many() -> None:
    assert comes_again(np.array([20, 21, 22]), DAY + 10, DAY) == 1


@given(count=st.integers(1, 12))
def test_each_burst_that_did_not_come_again_counts(count: int) -> None:
    every_third_day_two_hours_later = np.arange(count) * (3 * DAY + 4)
    newest = int(every_third_day_two_hours_later[-1]) + 2 * DAY
    assert comes_again(every_third_day_two_hours_later, newest, DAY) == pytest.approx(1 / (count + 1))


def test_a_burst_that_lasts_is_one() -> None:
    assert comes_again(np.arange(3 * DAY), 6 * DAY, DAY) == pytest.approx(1 / 2)


def p95_a_day_after_the_last_of(begins: list[int]) -> float:
    """Of errors a step ahead, with a burst of 1 (four hours) from each of the steps on."""
    residual = np.random.default_rng(3).normal(0, 0.05, DAYS * DAY)
    for begin in begins:
        residual[begin : begin + BURST] += 1
    origins = np.arange(len(residual))
    made = ErrorBands(
        PastGrid(origins, np.array([1]), 1, DAY), residual[:, None], BandSettings(), len(residual)
    )
    middle_of_the_next = np.array([begins[-1] + BURST // 2 + DAY])
    return float(made.offsets(middle_of_the_next, np.array([0.95]))[0, 0, 0])


def test_a_burst_is_not_expected_at_its_hour_where_those_before_did_not_come_again() -> None:
    last = (DAYS - 2) * DAY + 20
    at_random_hours = [last - 4 * each * DAY - 6 * each for each in range(7, 0, -1)]
    assert p95_a_day_after_the_last_of([*at_random_hours, last]) < 0.4
    assert p95_a_day_after_the_last_of([last - days * DAY for days in range(20, -1, -1)]) > 0.9
