"""How well each candidate has done lately: rolling-origin coverage and pinball loss on the metric itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .blend import FittedModels
from .series import Floats, Ints

SCORED_LEVELS = np.array([0.9, 0.95])
_TRAILING_DAYS = 7
_STRETCH_ANCHOR_MINUTES = (60, 480)
_STRETCH_DAYS = 14
_STRETCH_AFTER_DAYS = 5
_STRETCH_HALF_LIFE_DAYS = 10.0
_STRETCH_PRIOR_DAYS = 5.0
_STRETCH_RANGE = (0.6, 1.5)
# Of what the trailing weeks ask for: what was too wide for weeks will be so tomorrow; what was too narrow was
# mostly one event, and the coverage gate looks after the rest.
_NARROWED_BY = 0.5
_WIDENED_BY = 0.25


@dataclass(frozen=True)
class Record:
    """One candidate over the trailing week at the horizon that matters.

    coverage90 and coverage95 are shares of origins whose load stayed under the band, pinball95 is in load
    units, excess95 is the part of a band's own scale that would have been needed on top to cover 95 % (0 when
    covered).
    """

    name: str
    origins: int
    coverage90: float
    coverage95: float
    pinball95: float
    excess95: float


def pinball(actual: Floats, quantile: Floats, level: float) -> Floats:
    """Pinball (quantile) loss, element by element."""
    above = actual - quantile
    return np.maximum(level * above, (level - 1) * above)


def trailing_record(models: FittedModels, name: str, knot: int, newest: int | None = None) -> Record | None:
    """The record of `name` at the grid's knot number `knot`; bands are remade for each day with what was
    known then.

    None when fewer than 10 origins can be scored.
    """
    grid, panel = models.grid, models.panel
    bands, residual = models.bands(name), models.residual(name)[:, knot]
    last = len(panel.believed) - 1 if newest is None else newest
    ahead = int(grid.knots[knot])
    actuals, quantiles, excess = [], [], []
    for days_ago in range(_TRAILING_DAYS, 0, -1):
        end = last - ahead - (days_ago - 1) * panel.day
        rows = _rows(grid.origins, end - panel.day, end)
        rows = rows[np.isfinite(residual[rows])]
        if not len(rows):
            continue
        offsets = bands.offsets(grid.origins[rows], SCORED_LEVELS, np.array([knot]))[:, 0, :]
        point = models.past_point(name)[rows, knot]
        actuals.append(point + residual[rows])
        quantiles.append(point[:, None] + offsets)
        width = np.maximum(offsets[:, 1], 1e-6)
        excess.append((residual[rows] - offsets[:, 1]) / width)
    scored = sum(len(part) for part in actuals)
    if scored < 10:
        return None
    actual, quantile = panel.load(np.concatenate(actuals)), panel.load(np.concatenate(quantiles))
    return Record(
        name=name,
        origins=scored,
        coverage90=float((actual <= quantile[:, 0] * (1 + 1e-9)).mean()),
        coverage95=float((actual <= quantile[:, 1] * (1 + 1e-9)).mean()),
        pinball95=float(pinball(actual, quantile[:, 1], 0.95).mean()),
        excess95=max(0.0, float(np.quantile(np.concatenate(excess), 0.95))),
    )


def band_stretch(models: FittedModels, name: str, newest: int) -> Floats:
    """By what factor [knot, level] the bands of `name` must be stretched to cover what they promise.

    The bands of the trailing weeks, remade for each day with what was known then, against what came: conformal
    prediction on the bands themselves. 1 where too little was scored; drawn to 1 while few days were.
    """
    grid = models.grid
    anchors = np.unique(
        [knot_for(models, models.panel.steps(minutes)) for minutes in _STRETCH_ANCHOR_MINUTES]
    )
    found = np.stack([_stretch_at(models, name, int(knot), newest) for knot in anchors])
    at, known = np.log(grid.knots.astype(float)), np.log(grid.knots[anchors].astype(float))
    return np.stack([np.interp(at, known, column) for column in found.T], axis=1)


def _stretch_at(models: FittedModels, name: str, knot: int, newest: int) -> Floats:
    grid, day = models.grid, models.panel.day
    bands, residual = models.bands(name), models.residual(name)[:, knot]
    ahead = int(grid.knots[knot])
    levels = np.concatenate([[0.5], SCORED_LEVELS])
    ratios, weights = [], []
    days = 0
    for days_ago in range(_STRETCH_DAYS, 0, -1):
        end = newest - ahead - (days_ago - 1) * day
        rows = _rows(grid.origins, end - day, end)[:: _every(grid.stride, day, 12)]
        rows = rows[np.isfinite(residual[rows])]
        # The first days' bands come from too few errors to say anything about the later ones.
        if not len(rows) or grid.origins[rows[0]] < _STRETCH_AFTER_DAYS * day:
            continue
        offsets = bands.offsets(grid.origins[rows], levels, np.array([knot]))[:, 0, :]
        width = np.maximum(offsets[:, 1:] - offsets[:, :1], 1e-6)
        ratios.append((residual[rows, None] - offsets[:, :1]) / width)
        weights.append(np.full(len(rows), 0.5 ** (days_ago / _STRETCH_HALF_LIFE_DAYS)))
        days += 1
    if days < 2:
        return np.ones(len(SCORED_LEVELS))
    ratio, weight = np.concatenate(ratios), np.concatenate(weights)
    wanted = np.array([_weighted_quantile(ratio[:, i], weight, q) for i, q in enumerate(SCORED_LEVELS)])
    trust = days / (days + _STRETCH_PRIOR_DAYS) * np.where(wanted < 1, _NARROWED_BY, _WIDENED_BY)
    return np.asarray(np.clip(1 + trust * (wanted - 1), *_STRETCH_RANGE), dtype=float)


def _every(stride: int, day: int, wanted_a_day: int) -> int:
    """Every how manieth origin leaves about so many a day: neighbours miss by the same events."""
    return max(1, round(day / stride / wanted_a_day))


def _weighted_quantile(values: Floats, weight: Floats, level: float) -> float:
    order = np.argsort(values)
    reach = np.cumsum(weight[order])
    return float(np.interp(level, (reach - 0.5 * weight[order]) / reach[-1], values[order]))


def recent_error(models: FittedModels, name: str, knot: int, newest: int) -> float:
    """Mean absolute error over the trailing week in z; infinite when nothing could be scored."""
    grid = models.grid
    end = newest - int(grid.knots[knot])
    rows = _rows(grid.origins, end - _TRAILING_DAYS * models.panel.day, end)
    error = np.abs(models.residual(name)[rows, knot])
    error = error[np.isfinite(error)]
    return float(error.mean()) if len(error) else float("inf")


def knot_for(models: FittedModels, lead_steps: int) -> int:
    """Number of the first knot at or after the lead time (the last one when none is)."""
    return min(int(np.searchsorted(models.grid.knots, lead_steps)), len(models.grid.knots) - 1)


def _rows(origins: Ints, after: int, until: int) -> Ints:
    return np.flatnonzero((origins > after) & (origins <= until))
