"""The blend: at every origin and horizon each expert counts by how well it has done there lately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from .control import Controlled
from .experts import DSR, HOLT_WINTERS, SHAPE_LEVEL, Expert, fitted_experts, naive_experts
from .intervals import BandSettings, ErrorBands, PastGrid, interpolate_knots
from .panel import Panel
from .ridge import Features, RidgeModel, build_features, fit_ridge, ridge_forecast
from .series import Floats, Ints
from .smoothing import smooth_panel

BLEND = "blend"
KNOT_MINUTES = (5, 15, 30, 60, 90, 120, 180, 240, 360, 540, 720, 1080, 1440)
_MOST_ORIGINS = 1400
_BEYOND_HISTORY = 1.5


@dataclass(frozen=True)
class BlendSettings:
    """`power` sharpens the preference for the better expert, `memory_days` is the half-life of its record."""

    power: float = 2.0
    memory_days: float = 2.0
    priors: Mapping[str, float] = field(
        default_factory=lambda: {DSR: 1.0, HOLT_WINTERS: 1.0, SHAPE_LEVEL: 1.0}
    )
    other_prior: float = 0.3
    fold_days: int = 7
    bands: BandSettings = field(default_factory=BandSettings)


class FittedModels:
    """Every expert and their blend on one panel: forecasts of any origin, with the record of the past ones.

    Fitted on the panel's first `fit_steps`. Origins after that see newer loads, but no newer fit.
    """

    def __init__(self, panel: Panel, settings: BlendSettings | None = None) -> None:
        self.panel = panel
        self.settings = settings or BlendSettings()
        day = panel.day
        knots = np.unique(np.array([panel.steps(minutes) for minutes in KNOT_MINUTES]))
        count = len(panel.believed)
        first = min(8 * day, max(day, panel.fit_steps // 3)) if panel.fit_steps > 2 * day else day
        stride = max(-(-(count - first) // _MOST_ORIGINS), panel.steps(30))
        self.grid = PastGrid(np.arange(first, count, stride), knots[knots <= day], stride, day)
        features = build_features(panel)
        folds = ((self.grid.origins // (self.settings.fold_days * day)) % 2).astype(np.int64)
        ridge = fit_ridge(panel, features, self.grid.origins, folds, self.grid.knots)
        fitted = fitted_experts(panel, features, ridge, smooth_panel(panel))
        self.lowest, self.highest = _plausible(panel)
        self.experts = [self._bounded(expert) for expert in (*fitted, *naive_experts(panel))]
        self.names = [expert.name for expert in self.experts]
        self._past = self._past_forecasts(features, ridge, folds)
        padded = np.concatenate([panel.z, np.full(day + 1, np.nan)])
        self._actual = padded[self.grid.origins[:, None] + self.grid.knots[None, :]]
        self._bands: dict[str, ErrorBands] = {}
        # By model, knot and newest step, so that lead times share what they have in common.
        self.controls: dict[tuple[str, int, int], Controlled] = {}
        self.weights = self._expert_weights()
        self._past_blend = np.einsum("mgk,mgk->gk", self.weights, self._past)

    def past_point(self, name: str) -> Floats:
        """The forecasts [origin, knot] that `name` would have given at the past origins of the grid, in z."""
        past: Floats = self._past_blend if name == BLEND else self._past[self.names.index(name)]
        return past

    def residual(self, name: str) -> Floats:
        """Actual - forecast at the past origins, in z; NaN where the actual is not known."""
        return np.asarray(self._actual - self.past_point(name), dtype=float)

    def bands(self, name: str) -> ErrorBands:
        """The error bands of one candidate."""
        if name not in self._bands:
            self._bands[name] = ErrorBands(
                self.grid, self.residual(name), self.settings.bands, self.panel.fit_steps
            )
        return self._bands[name]

    def points(self, name: str, origins: Ints, horizons: Ints) -> Floats:
        """The forecast [origin, horizon] of one candidate, in z."""
        if name != BLEND:
            return self.experts[self.names.index(name)].forecast(origins, horizons)
        at = self.grid.last_at(origins)
        point = np.zeros((len(origins), len(horizons)))
        for m, expert in enumerate(self.experts):
            weight = interpolate_knots(horizons, self.grid.knots, self.weights[m, at][:, :, None])
            point += weight[:, :, 0] * expert.forecast(origins, horizons)
        return point

    def quantiles(self, name: str, origins: Ints, horizons: Ints, levels: Floats) -> Floats:
        """Quantiles [origin, horizon, level] of one candidate, in z, with the errors known at the first
        origin.
        """
        offsets = self.bands(name).offsets(origins, levels)
        spread = interpolate_knots(horizons, self.grid.knots, offsets)
        return np.minimum(self.points(name, origins, horizons)[:, :, None] + spread, self.highest)

    def _bounded(self, expert: Expert) -> Expert:
        """The expert kept within what the history makes plausible: an extrapolation may not run away."""
        return Expert(
            expert.name,
            lambda origins, horizons: np.clip(expert.forecast(origins, horizons), self.lowest, self.highest),
        )

    def _past_forecasts(self, features: Features, ridge: RidgeModel, folds: Ints) -> Floats:
        """Forecasts [expert, origin, knot].

        The ridge's come from the half of the history they were not fitted on.
        """
        origins, knots = self.grid.origins, self.grid.knots
        past = np.stack([expert.forecast(origins, knots) for expert in self.experts])
        at = self.names.index(DSR)
        for fold in (0, 1):
            rows = np.flatnonzero((origins < self.panel.fit_steps) & (folds == fold))
            if len(rows):
                honest = ridge_forecast(features, knots, ridge.halves[fold], origins[rows], knots)
                past[at, rows] = np.clip(honest, self.lowest, self.highest)
        return past

    def _expert_weights(self) -> Floats:
        """Weights [expert, origin, knot]: prior x (recent mean absolute error) ** -power."""
        total, weight = self.grid.discounted(
            np.abs(self._actual[None] - self._past), self.settings.memory_days
        )
        pooled = (total / np.maximum(weight, 1e-12)).mean(axis=0, keepdims=True)
        # A little of the pooled error keeps a young history from trusting one lucky expert.
        prior_weight = 0.1 * self.panel.day / self.grid.stride
        loss = (total + prior_weight * pooled) / (weight + prior_weight) + 1e-6
        prior = np.array([self.settings.priors.get(name, self.settings.other_prior) for name in self.names])
        raw = prior[:, None, None] * (loss / loss.min(axis=0, keepdims=True)) ** -self.settings.power
        return np.asarray(raw / raw.sum(axis=0, keepdims=True), dtype=float)


def _plausible(panel: Panel) -> tuple[float, float]:
    """The range of the fitted history in z, wider by a factor of 1.5 in load at either end."""
    known = panel.believed[: panel.fit_steps]
    known = known[np.isfinite(known)]
    margin = float(np.log(_BEYOND_HISTORY))
    return float(known.min()) - margin, float(known.max()) + margin
