"""Issued forecasts against what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peaker.domain.forecasting import LoadSeries
from peaker.domain.issued import IssuedForecast

# Below this many scored forecasts their coverage says little.
LEAST_SCORED = 40


@dataclass(frozen=True)
class Score:
    """How many could be scored, their share under p95, and the mean error of p50 relative to the load."""

    scored: int
    coverage95: float | None
    error50: float | None


def score_issued(issued: Sequence[IssuedForecast], series: LoadSeries) -> Score:
    """Score every forecast whose target step is in the history and was seen."""
    pairs = []
    for forecast in issued:
        at = round((forecast.target_seconds - series.start_seconds) / series.step_seconds) - 1
        if 0 <= at < len(series.values) and np.isfinite(series.values[at]):
            pairs.append((forecast.p50, forecast.p95, float(series.values[at])))
    if not pairs:
        return Score(0, None, None)
    p50, p95, actual = np.array(pairs).T
    mean = float(actual.mean())
    error = float(np.abs(actual - p50).mean() / mean) if mean > 0 else None
    return Score(len(pairs), float((actual <= p95 * (1 + 1e-9)).mean()), error)
