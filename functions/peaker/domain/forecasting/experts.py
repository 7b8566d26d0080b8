"""The forecasts that compete: every expert gives z for any (origin, horizon) from a panel, causally."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .panel import Panel, level_views
from .ridge import Features, RidgeModel, ridge_forecast
from .series import Floats, Ints
from .smoothing import SmoothedStates
from .windows import first_known, trailing_mean

Forecast = Callable[[Ints, Ints], Floats]

DSR = "dsr"
HOLT_WINTERS = "holt_winters"
SHAPE_LEVEL = "shape_and_level"
LAST_WEEK_TREND = "last_week_trend"
LAST_WEEK = "last_week"
YESTERDAY = "yesterday"
PERSISTENCE = "persistence"


@dataclass(frozen=True)
class Expert:
    """A named forecast: forecast(origins, horizons) -> z, shape (origins, horizons)."""

    name: str
    forecast: Forecast


def at_target(ahead: Floats) -> Forecast:
    """A forecast that reads one value per target time."""
    return lambda origins, horizons: ahead[origins[:, None] + horizons[None, :]]


def shape_with_level(shape_ahead: Floats, level: Floats) -> Forecast:
    """The course of `shape` moved to the present level: the deviation of now persists in full."""

    def forecast(origins: Ints, horizons: Ints) -> Floats:
        return np.asarray(
            shape_ahead[origins[:, None] + horizons[None, :]] + level[origins][:, None], dtype=float
        )

    return forecast


def naive_experts(panel: Panel) -> list[Expert]:
    """Last week + trend, last week, yesterday, persistence."""
    count = len(panel.believed)
    hour = trailing_mean(panel.believed, panel.steps(60))
    last = first_known(panel.believed, hour, trailing_mean(panel.believed, panel.day, 0.0))
    last = first_known(last, panel.shape_ahead[:count])
    week_levels = level_views(panel, panel.last_week_ahead)
    flat = np.zeros(count + panel.day)
    return [
        Expert(LAST_WEEK_TREND, shape_with_level(panel.last_week_ahead, week_levels[3])),
        Expert(LAST_WEEK, at_target(panel.last_week_ahead)),
        Expert(YESTERDAY, at_target(panel.yesterday_ahead)),
        Expert(PERSISTENCE, shape_with_level(flat, last)),
    ]


def fitted_experts(
    panel: Panel, features: Features, ridge: RidgeModel, states: SmoothedStates
) -> list[Expert]:
    """DSR, Holt-Winters, and the seasonal shape at the level of now."""
    levels = level_views(panel, panel.shape_ahead)

    def dsr(origins: Ints, horizons: Ints) -> Floats:
        return ridge_forecast(features, ridge.knots, ridge.full, origins, horizons)

    return [
        Expert(DSR, dsr),
        Expert(HOLT_WINTERS, states.forecast),
        Expert(SHAPE_LEVEL, shape_with_level(panel.shape_ahead, levels[1])),
    ]
