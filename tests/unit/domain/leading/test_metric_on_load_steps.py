"""A metric's points on the steps of the load: only what had ended by then, and nothing that cannot be a count."""

from __future__ import annotations

import numpy as np
import pytest
from peaker.domain.forecasting import LoadSeries
from peaker.domain.leading import on_load_steps

LOAD = LoadSeries(3_000.0, 300, np.ones(4))


def test_points_of_the_loads_period_stand_where_they_are() -> None:
    assert on_load_steps([3_000, 3_300, 3_900], [1.0, 2.0, 4.0], 300, LOAD) == pytest.approx(
        [1, 2, np.nan, 4], nan_ok=True
    )


def test_points_a_minute_apart_are_averaged() -> None:
    times = [3_300 + 60 * at for at in range(5)]
    assert on_load_steps(times, [1, 2, 3, 4, 5], 60, LOAD)[1] == pytest.approx(3.0)


def test_a_longer_period_is_known_at_its_end_and_stands_until_the_next_may_end() -> None:
    found = on_load_steps([2_700, 3_300], [6.0, 8.0], 600, LOAD)
    assert found == pytest.approx([6, 6, 8, 8])
    assert on_load_steps([2_700], [6.0], 600, LOAD) == pytest.approx([6, 6, np.nan, np.nan], nan_ok=True)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, -np.inf, 1e300])
def test_what_cannot_be_a_count_is_missing(value: float) -> None:
    assert np.isnan(on_load_steps([3_000], [value], 300, LOAD)[0])


def test_points_outside_of_the_load_are_left_out() -> None:
    assert np.isnan(on_load_steps([0.0, 1e9, np.nan], [1.0, 1.0, 1.0], 300, LOAD)).all()


def test_no_point_and_no_load_are_no_error() -> None:
    assert np.isnan(on_load_steps([], [], 300, LOAD)).all()
    assert len(on_load_steps([3_000], [1.0], 600, LoadSeries(3_000.0, 300, np.zeros(0)))) == 0
