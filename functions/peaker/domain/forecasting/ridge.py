"""Direct seasonal ridge (DSR): one robust ridge regression per horizon on seasonal and level features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .panel import Panel, level_views
from .series import Floats, Ints
from .windows import huber_fit, interpolate_rows

HALF_LIFE_DAYS = 14.0
_STRENGTH = 4.0


@dataclass(frozen=True)
class Features:
    """What the regression reads.

    Three seasonal views minus the profile, and the level views at the origin.
    """

    profile: Floats
    seasonal: list[Floats]
    levels: list[Floats]

    def at(self, origins: Ints, horizons: Ints) -> Floats:
        """Features of every (origin, horizon).

        Seasonal at the target, seasonal at the origin, levels, constant.
        """
        target = origins[:, None] + horizons[None, :]
        shape = target.shape
        columns = [view[target] for view in self.seasonal]
        columns += [np.broadcast_to(view[origins][:, None], shape) for view in self.seasonal]
        columns += [np.broadcast_to(view[origins][:, None], shape) for view in self.levels]
        columns.append(np.ones(shape))
        return np.stack(columns, axis=-1)


def build_features(panel: Panel) -> Features:
    profile = panel.profile_ahead
    seasonal = [
        panel.last_week_ahead - profile,
        panel.yesterday_ahead - profile,
        panel.shape_ahead - profile,
    ]
    return Features(profile, seasonal, level_views(panel, profile))


def fit_ridge(panel: Panel, features: Features, origins: Ints, folds: Ints, knots: Ints) -> list[Floats]:
    """Coefficients [knot, feature] by all `origins`, and by either half for honest errors on the other.

    Targets after panel.fit_steps are not used; `folds` is 0 or 1 per origin.
    """
    days = max(1.0, panel.fit_steps / panel.day)
    strength = _STRENGTH * max(1.0, 14.0 / days) ** 2
    full, first, second = [], [], []
    for knot in knots:
        use = origins + knot < panel.fit_steps
        rows = origins[use]
        design = features.at(rows, np.array([knot]))[:, 0, :]
        target = panel.believed[rows + knot] - features.profile[rows + knot]
        good = np.isfinite(target) & np.isfinite(design).all(axis=1)
        design, target, rows, fold = design[good], target[good], rows[good], folds[use][good]
        decay = 0.5 ** ((panel.fit_steps - rows) / (HALF_LIFE_DAYS * panel.day))
        full.append(robust_ridge(design, target, decay, strength))
        first.append(robust_ridge(design[fold == 1], target[fold == 1], decay[fold == 1], strength))
        second.append(robust_ridge(design[fold == 0], target[fold == 0], decay[fold == 0], strength))
    return [np.stack(full), np.stack(first), np.stack(second)]


def ridge_forecast(
    features: Features, knots: Ints, coefficients: Floats, origins: Ints, horizons: Ints
) -> Floats:
    """z forecast for every (origin, horizon); coefficients are interpolated over the log of the horizon."""
    beta = interpolate_rows(horizons, knots, coefficients)
    target = origins[:, None] + horizons[None, :]
    moved = np.einsum("ohf,hf->oh", features.at(origins, horizons), beta)
    return np.asarray(features.profile[target] + moved, dtype=float)


def robust_ridge(design: Floats, target: Floats, decay: Floats, strength: float) -> Floats:
    """Coefficients by ridge regression with Huber weights on top of `decay`; the last column is the constant."""
    width = design.shape[1]
    if len(target) < width:
        return np.zeros(width)
    penalty = np.full(width, strength)
    penalty[-1] = 0.1 * strength
    scale = np.sqrt(np.average(design**2, axis=0, weights=decay)) + 1e-6
    return np.asarray(huber_fit(design / scale, target, penalty, decay) / scale, dtype=float)
