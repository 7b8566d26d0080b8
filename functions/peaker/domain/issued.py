"""Forecasts that were issued, kept to be scored against what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peaker.domain.forecasting.series import Floats, LoadSeries

# Below this many scored forecasts their coverage says little.
LEAST_SCORED = 40


@dataclass(frozen=True)
class LoadPoints:
    """A metric's points: seconds since the epoch of each period's start, values, and the period in seconds."""

    times_seconds: Floats
    values: Floats
    period_seconds: float


@dataclass(frozen=True)
class IssuedForecast:
    """What was said at `issued_at_seconds` about the load at `target_seconds` (the end of a step)."""

    issued_at_seconds: float
    target_seconds: float
    p50: float
    p95: float
    model: str
    required: int


@dataclass(frozen=True)
class Score:
    """How issued forecasts did: how many could be scored, share under p95, mean error of p50 relative to the load."""

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
