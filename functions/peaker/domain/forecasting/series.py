"""A load history on an even grid of time: what the forecaster reads.

Time is seconds since the epoch (UTC), so a clock change moves nothing: the two 01:30 of an autumn night are
two different seconds. A missing point is NaN, never 0 (invariant I4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY_SECONDS = 86_400
SHORTEST_STEP_SECONDS = 300
LONGEST_STEP_SECONDS = 21_600
# CloudWatch answers no points in five minutes to a request that begins 63 days ago: a day less is asked for.
KEPT_HISTORY_DAYS = 62
# Steps that divide a day, so that "the same time yesterday" is a whole number of steps ago.
_STEPS_SECONDS = (
    300,
    360,
    400,
    450,
    480,
    600,
    720,
    900,
    1200,
    1800,
    3600,
    5400,
    7200,
    10_800,
    14_400,
    21_600,
)


class UnusableSeries(ValueError):
    """The history cannot be put on a grid; the message says why and what to do."""


@dataclass(frozen=True)
class LoadSeries:
    """Load per step.

    Values[i] covers [start + i * step, start + (i + 1) * step). NaN where nothing was seen.
    """

    start_seconds: float
    step_seconds: int
    values: Floats

    @property
    def end_seconds(self) -> float:
        return self.start_seconds + self.step_seconds * len(self.values)

    @property
    def steps_per_day(self) -> int:
        return DAY_SECONDS // self.step_seconds

    def span_days(self) -> float:
        """Days from the first to the last step that has a value, at most those that have one: a gap is no history."""
        seen = np.flatnonzero(np.isfinite(self.values))
        if not len(seen):
            return 0.0
        days_ago = (len(self.values) - 1 - seen) // self.steps_per_day
        return min(float(seen[-1] - seen[0] + 1) / self.steps_per_day, float(len(np.unique(days_ago))))

    def until(self, end_seconds: float) -> LoadSeries:
        """The history as it was known at `end_seconds`: only steps that had ended."""
        count = int((end_seconds - self.start_seconds) // self.step_seconds)
        return LoadSeries(self.start_seconds, self.step_seconds, self.values[: max(0, count)])

    def last_days(self, days: float) -> LoadSeries:
        keep = min(len(self.values), round(days * self.steps_per_day))
        first = len(self.values) - keep
        return LoadSeries(
            self.start_seconds + first * self.step_seconds, self.step_seconds, self.values[first:]
        )


def step_for_period(period_seconds: float) -> int:
    """The grid step for points that come every `period_seconds`: the next step of 5 minutes or more that
    divides a day.

    Raises UnusableSeries above 6 hours: a daily shape cannot be seen in fewer than 4 points a day.
    """
    if not math.isfinite(period_seconds) or period_seconds <= 0:
        raise UnusableSeries(f"a metric period must be positive, got {period_seconds}")
    for step in _STEPS_SECONDS:
        if step >= period_seconds:
            return step
    raise UnusableSeries(
        f"the metric has one point every {period_seconds / 3600:.1f} h; "
        f"publish it at least every {LONGEST_STEP_SECONDS // 3600} h"
    )


def usual_period(times_seconds: Sequence[float] | Floats) -> float:
    """The usual distance between neighbouring points, in seconds (the median, so gaps do not count)."""
    times = np.unique(np.asarray(times_seconds, dtype=float))
    if len(times) < 2:
        raise UnusableSeries("fewer than two points: the period of the metric is not known")
    return float(np.median(np.diff(times)))


def series_from_points(
    times_seconds: Sequence[float] | Floats,
    values: Sequence[float] | Floats,
    *,
    now_seconds: float,
    period_seconds: float | None = None,
    keep_days: float = KEPT_HISTORY_DAYS,
) -> LoadSeries:
    """Points in any order onto the grid that ends at `now_seconds` (rounded down to a step).

    Several points in one step are averaged (a 1-minute metric, a doubled point); points that are not finite
    or negative, or that lie in the future, are dropped; steps without a point are NaN.
    """
    times = np.asarray(times_seconds, dtype=float)
    loads = np.asarray(values, dtype=float)
    if times.shape != loads.shape:
        raise UnusableSeries(f"{len(times)} times but {len(loads)} values")
    step = step_for_period(period_seconds if period_seconds is not None else usual_period(times))
    end = math.floor(now_seconds / step) * step
    good = np.isfinite(times) & np.isfinite(loads) & (loads >= 0) & (times < end)
    good &= times >= end - keep_days * DAY_SECONDS
    times, loads = times[good], loads[good]
    if not len(times):
        return LoadSeries(float(end), step, np.full(0, np.nan))
    first = math.floor(float(times.min()) / step) * step
    index = ((times - first) // step).astype(np.int64)
    count = round((end - first) / step)
    totals = np.bincount(index, weights=loads, minlength=count)[:count]
    seen = np.bincount(index, minlength=count)[:count]
    grid = np.full(count, np.nan)
    np.divide(totals, seen, out=grid, where=seen > 0)
    return LoadSeries(float(first), step, grid)


def empty_series(now_seconds: float) -> LoadSeries:
    step = SHORTEST_STEP_SECONDS
    return LoadSeries(math.floor(now_seconds / step) * step, step, np.full(0, np.nan))
