"""Loads of a known shape for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast, Forecaster, LoadSeries

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z, a Thursday


def daily(days: float, step_seconds: int = 900, noise: float = 0.05, seed: int = 1) -> NDArray[np.float64]:
    """A daily wave between about 40 and 160, lower at weekends, with multiplicative noise."""
    per_day = 86_400 // step_seconds
    at = np.arange(round(days * per_day))
    hour = at / per_day * 24 % 24
    weekday = (at // per_day + 3) % 7
    wave = 100 + 60 * np.sin((hour - 9) / 24 * 2 * np.pi)
    factor = np.where(weekday >= 5, 0.7, 1.0)
    return wave * factor * np.exp(np.random.default_rng(seed).normal(0, noise, len(at)))


def series(values: NDArray[np.float64], step_seconds: int = 900) -> LoadSeries:
    """The values as a history from START."""
    return LoadSeries(START, step_seconds, values)


def forecast_demand(series: LoadSeries, lead_seconds: float, **how: Any) -> Forecast:
    """The forecast from the end of `series`, judged at `lead_seconds`."""
    return Forecaster(series, **how).at_the_end(lead_seconds)
