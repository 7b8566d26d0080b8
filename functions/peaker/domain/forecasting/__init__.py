"""Load forecasts with honest error bands, on numpy alone.

series: history on an even grid; forecaster: the entry point; ridge, blend: the point forecast; intervals:
split-conformal bands; control: their width, learned online; guards: the least that they say; days_ahead: from the
second day on; forecast: a forecast as it is issued.
"""

from .forecast import LEVELS, Forecast, Standing
from .forecaster import Forecaster
from .series import LoadSeries, UnusableSeries, series_from_points

__all__ = [
    "LEVELS",
    "Forecast",
    "Forecaster",
    "LoadSeries",
    "Standing",
    "UnusableSeries",
    "series_from_points",
]
