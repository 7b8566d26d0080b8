"""Error bands that learn their width online, so that they cover what they promise whatever the load does.

Quantile tracking, the proportional part of conformal PID control (Angelopoulos, Candes and Tibshirani, "Conformal PID
Control for Time Series Prediction", NeurIPS 2023, arXiv 2307.16896; with a fixed gain it is adaptive conformal
inference, Gibbs and Candes, NeurIPS 2021, arXiv 2106.00170, on the width instead of the level). After each load
that came, the factor on the band's width goes up by gain * level when the load was above the band, and down by
gain * (1 - level) when it was not. The updates add up, so for factors within [0, b] the share of loads above the band
differs from 1 - level by at most (b + gain * (1 + d)) / (gain * T) after T loads, d being how many forecasts are made
before the first of them is judged. Nothing is assumed of the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .intervals import ErrorBands
from .series import Floats, Ints
from .windows import interpolate_rows

CONTROLLED_LEVELS = np.array([0.9, 0.95])
# By how much the factor changes in a day of misses alone. Errors of neighbouring forecasts are one event.
GAIN_PER_DAY = 1.0
_DAYS = 21
_SCORED_DAYS = 7
_ORIGINS_A_DAY = 24
# Bands that come from fewer days of errors say nothing about the later ones.
_LEAST_ERROR_DAYS = 3
_LEAST_SCORED = 10
# Quiet weeks narrow the bands of each level a little only: the rare day that past errors still know of comes again.
_NARROWEST = {0.9: 0.95, 0.95: 0.88}
_WIDEST = 5.0


@dataclass(frozen=True)
class Controlled:
    """One horizon: the factor on the width of p90 and p95, and the share of the last week's loads under them.

    `coverage` is of the bands as they were controlled at the time; None when too little could be scored.
    """

    factors: Floats
    coverage: Floats | None
    scored: int


def controlled(bands: ErrorBands, knot: int, newest: int) -> Controlled:
    """Run the control over the last three weeks before grid step `newest`, at the grid's knot number `knot`.

    The bands of each day are remade with what was known then.
    """
    grid = bands.grid
    ahead = int(grid.knots[knot])
    levels = np.concatenate([[0.5], CONTROLLED_LEVELS])
    origins: list[Ints] = []
    ratios: list[Floats] = []
    every = max(1, round(grid.day / grid.stride / _ORIGINS_A_DAY))
    for days_ago in range(_DAYS, 0, -1):
        end = newest - ahead - (days_ago - 1) * grid.day
        rows = np.flatnonzero((grid.origins > end - grid.day) & (grid.origins <= end))[::every]
        rows = rows[np.isfinite(bands.residual[rows, knot])]
        if not len(rows) or grid.origins[rows[0]] - ahead - grid.origins[0] < _LEAST_ERROR_DAYS * grid.day:
            continue
        offsets = bands.offsets(grid.origins[rows], levels, np.array([knot]))[:, 0, :]
        width = np.maximum(offsets[:, 1:] - offsets[:, :1], 1e-6)
        origins.append(grid.origins[rows])
        ratios.append((bands.residual[rows, knot, None] - offsets[:, :1]) / width)
    if not origins:
        return Controlled(np.ones(len(CONTROLLED_LEVELS)), None, 0)
    at = np.concatenate(origins)
    factors, above = _track(at, np.concatenate(ratios), ahead, GAIN_PER_DAY * every * grid.stride / grid.day)
    recent = above[at > newest - ahead - _SCORED_DAYS * grid.day]
    enough = len(recent) >= _LEAST_SCORED
    return Controlled(factors, 1 - recent.mean(axis=0) if enough else None, len(recent))


def _track(origins: Ints, ratios: Floats, ahead: int, gain: float) -> tuple[Floats, Floats]:
    """(factor after the last load, whether each load was above its band [origin, level])."""
    tracked = [
        _track_level(origins.tolist(), column.tolist(), ahead, gain, float(level))
        for column, level in zip(ratios.T, CONTROLLED_LEVELS, strict=True)
    ]
    factors, above = zip(*tracked, strict=True)
    return np.array(factors), np.array(above, dtype=float).T


def _track_level(
    origins: Sequence[int], ratios: Sequence[float], ahead: int, gain: float, level: float
) -> tuple[float, list[bool]]:
    """One level, in plain numbers: each step needs the one before, and arrays of one number are slow."""
    up, down = gain * level, gain * (1 - level)
    least, most = _NARROWEST[level], _WIDEST
    factor, judged = 1.0, 0
    above: list[bool] = []
    for i, (origin, ratio) in enumerate(zip(origins, ratios, strict=True)):
        while judged < i and origins[judged] + ahead <= origin:
            factor = min(most, max(least, factor + up if above[judged] else factor - down))
            judged += 1
        above.append(ratio > factor)
    for missed in above[judged:]:
        factor = min(most, max(least, factor + up if missed else factor - down))
    return factor, above


def interpolated(anchors: Ints, found: list[Controlled], knots: Ints) -> Floats:
    """The factors [knot, level] at every knot, between those at the anchors."""
    return interpolate_rows(knots, anchors, np.stack([one.factors for one in found]))


def widened(offsets: Floats, factors: Floats, levels: Floats) -> Floats:
    """Band offsets [origin, knot, level] with each knot's factors on what lies above the median.

    levels[0] must be 0.5; below and at the median nothing changes.
    """
    known = (0.5, *CONTROLLED_LEVELS)
    factor = np.stack([np.interp(levels, known, (1.0, *at_knot)) for at_knot in factors])
    factor = np.where(levels > 0.5, factor, 1.0)
    middle = offsets[:, :, :1]
    return np.asarray(middle + (offsets - middle) * factor[None], dtype=float)
