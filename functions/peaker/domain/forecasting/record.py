"""How well each candidate has done lately: rolling-origin coverage and pinball loss on the metric itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .blend import FittedModels
from .series import Floats, Ints

SCORED_LEVELS = np.array([0.9, 0.95])
_TRAILING_DAYS = 7


@dataclass(frozen=True)
class Record:
    """One candidate over the trailing week at the horizon that matters.

    coverage90 and coverage95 are shares of origins whose load stayed under the band, pinball95 is in load units;
    all of the bands before their width is controlled.
    """

    name: str
    origins: int
    coverage90: float
    coverage95: float
    pinball95: float


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
    actuals, quantiles = [], []
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
    )


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
