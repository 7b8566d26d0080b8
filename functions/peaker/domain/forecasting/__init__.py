"""Load forecasts with honest error bands, on numpy alone.

series: history on an even grid; forecaster: the entry point; blend, ridge, smoothing, experts: the models;
intervals: split-conformal bands; control: their width, learned online; guards: what they
say at least; days_ahead: from the second day on;
record: rolling-origin scores; forecast: what is issued.
"""

from .forecast import LEVELS, BeyondHorizon, Forecast, Rise, Standing
from .forecaster import forecast_demand
from .series import LoadSeries, UnusableSeries, series_from_points

__all__ = [
    "LEVELS",
    "BeyondHorizon",
    "Forecast",
    "LoadSeries",
    "Rise",
    "Standing",
    "UnusableSeries",
    "forecast_demand",
    "series_from_points",
]
