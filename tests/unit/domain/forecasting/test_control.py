"""Bands whose width is learned: they cover what they promise on any load."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peaker.domain.forecasting.control import GAIN_PER_DAY, controlled, interpolated, widened
from peaker.domain.forecasting.intervals import ErrorBands, PastGrid

DAY = 48


def bands(residual: np.ndarray) -> ErrorBands:
    """Bands of the given errors of one horizon, an hour ahead, one every half hour from day 8 on."""
    origins = np.arange(8 * DAY, 8 * DAY + len(residual))
    grid = PastGrid(origins, np.array([2]), 1, DAY)
    return ErrorBands(grid, residual[:, None], int(origins[-1]) + 1)


def noise(days: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, days * DAY)


def at_the_end(residual: np.ndarray):  # type: ignore[no-untyped-def]
    made = bands(residual)
    return controlled(made, 0, int(made.grid.origins[-1]))


def test_errors_that_grow_every_day_are_followed() -> None:
    growing = noise(40) * np.exp(np.arange(40 * DAY) / DAY * 0.12)
    found = at_the_end(growing)
    assert found.factors[1] > 1.15
    assert found.coverage is not None
    assert found.coverage[1] >= 0.9


def test_too_few_errors_say_nothing() -> None:
    found = at_the_end(noise(2))
    assert (found.factors == 1).all()
    assert found.coverage is None


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), jumps=st.integers(0, 4))
def test_coverage_is_held_whatever_the_errors_do(seed: int, jumps: int) -> None:
    """The bound of the control over its three weeks, 24 forecasts a day, the factor within its range."""
    random = np.random.default_rng(seed)
    errors = noise(40, seed)
    for _ in range(jumps):
        errors[random.integers(0, len(errors)) :] *= random.lognormal(0, 0.7)
    made = bands(errors)
    found = controlled(made, 0, int(made.grid.origins[-1]))
    assert found.coverage is not None
    # The factor moves by about one in such a week, and the share above the band is that over gain * days, at most.
    assert found.coverage[1] >= 0.95 - 1.0 / (7 * GAIN_PER_DAY)


def test_a_factor_widens_what_lies_above_the_median_and_nothing_else() -> None:
    offsets = np.array([[[0.1, -0.2, 0.1, 0.3, 0.5]]])
    levels = np.array([0.5, 0.1, 0.5, 0.9, 0.95])
    assert widened(offsets, np.array([[2.0, 3.0]]), levels)[0, 0] == pytest.approx([0.1, -0.2, 0.1, 0.5, 1.3])


def test_between_two_horizons_the_factor_is_between_theirs() -> None:
    near, far = (controlled(bands(noise(2)), 0, 0) for _ in range(2))
    assert (interpolated(np.array([2, 48]), [near, far], np.array([2, 10, 48])) == 1).all()
