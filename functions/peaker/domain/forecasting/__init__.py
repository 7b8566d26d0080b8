"""Load forecasts with honest error bands, on numpy alone.

series: history on an even grid; forecaster: the entry point; blend, ridge, smoothing, experts: the models;
intervals: split-conformal bands; record: rolling-origin scores.
"""

from .forecaster import LEVELS, Forecast, Standing, forecast_demand
from .series import LoadSeries, UnusableSeries, series_from_points

__all__ = [
    "LEVELS",
    "Forecast",
    "LoadSeries",
    "Standing",
    "UnusableSeries",
    "forecast_demand",
    "series_from_points",
]
