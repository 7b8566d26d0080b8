"""Blends three point forecasts: a ridge regression, the seasonal shape at the level of now, and the load of now.

At every origin and horizon each of them counts by how well it has done there lately.
"""

from __future__ import annotations

import numpy as np

from .intervals import ErrorBands, PastGrid, interpolate_knots
from .panel import Panel, level_views
from .ridge import build_features, fit_ridge, ridge_forecast
from .series import Floats, Ints
from .windows import first_known, trailing_mean

KNOT_MINUTES = (5, 15, 30, 60, 90, 120, 180, 240, 360, 540, 720, 1080, 1440)
_MOST_ORIGINS = 1400
_BEYOND_HISTORY = float(np.log(1.5))
# How much each expert counts beforehand, how sharply the better one is preferred, and the half-life of its record.
_PRIORS = np.array([1.0, 1.0, 0.3])
_POWER = 2.0
_MEMORY_DAYS = 2.0
_FOLD_DAYS = 7
# Errors far below this, in z, tell no expert from another.
_SAME_ERROR = 0.0003


class Blend:
    """Forecasts z = log(load + c) for any origin of a panel, and keeps the errors of its past forecasts.

    It is fitted on the panel's first `fit_steps`; origins after that see newer loads, but no newer fit.
    """

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        day = panel.day
        knots = np.unique(np.array([panel.steps(minutes) for minutes in KNOT_MINUTES]))
        count = len(panel.believed)
        first = min(8 * day, max(day, panel.fit_steps // 3)) if panel.fit_steps > 2 * day else day
        stride = max(-(-(count - first) // _MOST_ORIGINS), panel.steps(30))
        self.grid = PastGrid(np.arange(first, count, stride), knots[knots <= day], stride, day)
        self.lowest, self.highest = _plausible(panel)
        self._features = build_features(panel)
        folds = ((self.grid.origins // (_FOLD_DAYS * day)) % 2).astype(np.int64)
        self._ridge = fit_ridge(panel, self._features, self.grid.origins, folds, self.grid.knots)
        self._shape_level = level_views(panel, panel.shape_ahead)[1]
        hour = trailing_mean(panel.believed, panel.steps(60))
        last = first_known(panel.believed, hour, trailing_mean(panel.believed, day, 0.0))
        self._last = first_known(last, panel.shape_ahead[:count])
        past = self._experts(self.grid.origins, self.grid.knots)
        self._forecast_halves(past, folds)
        padded = np.concatenate([panel.z, np.full(day + 1, np.nan)])
        actual = padded[self.grid.origins[:, None] + self.grid.knots[None, :]]
        self._weights = self._expert_weights(np.abs(actual[None] - past))
        residual = actual - np.einsum("mgk,mgk->gk", self._weights, past)
        self.bands = ErrorBands(self.grid, residual, panel.fit_steps)

    def points(self, origins: Ints, horizons: Ints) -> Floats:
        """Forecast the middle [origin, horizon], in z."""
        at = self.grid.last_at(origins)
        point = np.zeros((len(origins), len(horizons)))
        for weights, expert in zip(self._weights, self._experts(origins, horizons), strict=True):
            point += interpolate_knots(horizons, self.grid.knots, weights[at][:, :, None])[:, :, 0] * expert
        return point

    def knot_for(self, lead_steps: int) -> int:
        """Number of the first knot at or after the lead time (the last one when none is)."""
        return min(int(np.searchsorted(self.grid.knots, lead_steps)), len(self.grid.knots) - 1)

    def _experts(self, origins: Ints, horizons: Ints) -> Floats:
        """Forecasts [expert, origin, horizon], within what the history makes plausible."""
        target = origins[:, None] + horizons[None, :]
        each = np.stack(
            [
                ridge_forecast(self._features, self.grid.knots, self._ridge[0], origins, horizons),
                self.panel.shape_ahead[target] + self._shape_level[origins][:, None],
                np.broadcast_to(self._last[origins][:, None], target.shape),
            ]
        )
        return np.asarray(np.clip(each, self.lowest, self.highest), dtype=float)

    def _forecast_halves(self, past: Floats, folds: Ints) -> None:
        """Put in the regression's past forecasts, each from the half of the history that it was not fitted on."""
        origins, knots = self.grid.origins, self.grid.knots
        for fold in (0, 1):
            rows = np.flatnonzero((origins < self.panel.fit_steps) & (folds == fold))
            if len(rows):
                honest = ridge_forecast(self._features, knots, self._ridge[1 + fold], origins[rows], knots)
                past[0, rows] = np.clip(honest, self.lowest, self.highest)

    def _expert_weights(self, error: Floats) -> Floats:
        """Weights [expert, origin, knot]: prior x (recent mean absolute error) ** -power."""
        total, weight = self.grid.discounted(error, _MEMORY_DAYS)
        pooled = (total / np.maximum(weight, 1e-12)).mean(axis=0, keepdims=True)
        # A little of the pooled error keeps a young history from trusting one lucky expert.
        prior_weight = 0.1 * self.panel.day / self.grid.stride
        loss = (total + prior_weight * pooled) / (weight + prior_weight) + _SAME_ERROR
        raw = _PRIORS[:, None, None] * (loss / loss.min(axis=0, keepdims=True)) ** -_POWER
        return np.asarray(raw / raw.sum(axis=0, keepdims=True), dtype=float)


def _plausible(panel: Panel) -> tuple[float, float]:
    """The range of the fitted history in z, wider by a factor of 1.5 in load at either end."""
    known = panel.believed[: panel.fit_steps]
    known = known[np.isfinite(known)]
    return float(known.min()) - _BEYOND_HISTORY, float(known.max()) + _BEYOND_HISTORY
