"""How long before the load a metric rises.

The lag at which the metric's deviation says most of the load's deviation beyond what the load itself says of it: their
partial correlation, given the load's deviation at the time of the metric's. Found from what was known before each edge
in time, so that what it foretells can be judged on what came after.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peaker.domain.forecasting.series import Floats, Ints
from peaker.domain.forecasting.windows import shifted

MOST_CANDIDATES = 48
_LEAST_ROWS = 50


def candidate_lags(longest_steps: int) -> Ints:
    """Whole steps from one up to the longest; up to 48 of them are every one, more are spread evenly."""
    every = max(1, -(-longest_steps // MOST_CANDIDATES))
    return np.arange(every, longest_steps + 1, every, dtype=np.int64)


def found_lags(leading: Floats, load: Floats, lags: Ints, edges: Sequence[int]) -> list[int | None]:
    """The lag in steps that the steps before each edge show, edges ascending; None where they show none.

    `leading` and `load` are deviations per step. Only a metric that rises before the load rises leads.
    """
    scores = np.stack([_scores(leading, load, int(lag), edges) for lag in lags])
    found: list[int | None] = []
    for column in scores.T:
        best = int(np.argmax(np.nan_to_num(column, nan=-1.0)))
        found.append(int(lags[best]) if np.nan_to_num(column[best]) > 0 else None)
    return found


def _scores(leading: Floats, load: Floats, lag: int, edges: Sequence[int]) -> Floats:
    """The partial correlation by what came before each edge; NaN where too little was seen."""
    before, now = shifted(leading, lag), load
    own = shifted(load, lag)
    good = np.isfinite(before) & np.isfinite(now) & np.isfinite(own)
    x, y, w = (np.where(good, one, 0.0) for one in (before, now, own))
    terms = np.stack([good.astype(float), x, y, w, x * x, y * y, w * w, x * y, x * w, y * w])
    starts = np.concatenate([[0], np.asarray(edges[:-1], dtype=np.int64)])
    sums = np.add.reduceat(terms[:, : edges[-1]], starts, axis=1).cumsum(axis=1)
    count = np.maximum(sums[0], 1.0)
    mx, my, mw = sums[1:4] / count
    vx, vy, vw = sums[4] / count - mx**2, sums[5] / count - my**2, sums[6] / count - mw**2
    cxy, cxw, cyw = sums[7] / count - mx * my, sums[8] / count - mx * mw, sums[9] / count - my * mw
    tiny = 1e-12
    left_x, left_y = vx - cxw**2 / np.maximum(vw, tiny), vy - cyw**2 / np.maximum(vw, tiny)
    both = cxy - cxw * cyw / np.maximum(vw, tiny)
    known = (sums[0] >= _LEAST_ROWS) & (left_x > tiny) & (left_y > tiny)
    result = np.full(len(edges), np.nan)
    np.divide(both, np.sqrt(np.maximum(left_x * left_y, tiny * tiny)), out=result, where=known)
    return result
