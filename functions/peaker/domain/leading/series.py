"""A leading metric on the steps of the load, and how far it is above its usual.

Its usual is the median of the same time in the last four weeks, at the level of the last day: a metric that has become
twice as high for good is at its usual a day later. What is missing stays unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.panel import SPIKE_MULTIPLE, believable
from peaker.domain.forecasting.series import Floats, Ints
from peaker.domain.forecasting.windows import (
    centred_mean,
    shifted,
    trailing_mean,
    trailing_median_of_three,
)

_WEEKS = 4
_LEAST_WEEKS = 2
_SMOOTHED_SECONDS = 900
_OFFSET_SHARE = 0.05
_LEAST_SHARE_OF_DAY = 0.1
# Beyond every metric that counts something; sums of such values would not be finite.
_LARGEST = 1e15
# Seven times its usual, or a seventh of it: what is beyond says no more.
_FARTHEST = 2.0


@dataclass(frozen=True)
class LeadingMetric:
    """A metric by the name that people know it by: values per step of the load, NaN where nothing is known.

    `unknown` says why nothing at all is known; empty where something is.
    """

    name: str
    values: Floats
    unknown: str = ""

    def between(self, first: int, end: int) -> LeadingMetric:
        """Of the load's steps from `first` on, before `end`."""
        return LeadingMetric(self.name, self.values[first:end], self.unknown)


def unknown_metric(name: str, why: str, load: LoadSeries) -> LeadingMetric:
    """A metric of which nothing is known."""
    return LeadingMetric(name, np.full(len(load.values), np.nan), why)


def on_load_steps(
    times_seconds: Sequence[float], values: Sequence[float], period_seconds: float, load: LoadSeries
) -> Floats:
    """What is known of the metric at the end of each step of the load; a point says what its period was.

    Several points that end within a step are averaged. Points of a longer period stand until the next one may end.
    What is negative, not finite or beyond all bounds is missing.
    """
    count, step = len(load.values), float(load.step_seconds)
    times, seen = np.asarray(times_seconds, dtype=float), np.asarray(values, dtype=float)
    good = np.isfinite(times) & np.isfinite(seen) & (seen >= 0) & (seen <= _LARGEST)
    ends = times[good] + period_seconds - load.start_seconds
    at = np.ceil(ends / step - 1e-9).astype(np.int64) - 1
    inside = (at >= 0) & (at < count)
    totals = np.bincount(at[inside], weights=seen[good][inside], minlength=count)[:count]
    number = np.bincount(at[inside], minlength=count)[:count]
    found = np.full(count, np.nan)
    np.divide(totals, number, out=found, where=number > 0)
    carried = max(0, round(period_seconds / step) - 1)
    return _carried(found, carried) if carried else found


def _carried(values: Floats, steps: int) -> Floats:
    """Each value stands for so many more steps, or until the next one."""
    at = np.where(np.isfinite(values), np.arange(len(values)), -1)
    newest = np.maximum.accumulate(at) if len(at) else at
    near = (newest >= 0) & (np.arange(len(values)) - newest <= steps)
    return np.where(near, values[np.maximum(newest, 0)], np.nan) if len(values) else values


def above_usual(values: Floats, load: LoadSeries, known_steps: int) -> Floats:
    """How far each value is above the metric's usual, as a logarithm; NaN where either is not known.

    Causal: what is said of a step was known at its end, the scale by what was known in the first `known_steps`.
    """
    believed = believable(values, known_steps)
    z = np.log(believed + _offset(values[:known_steps]))
    day, week = load.steps_per_day, 7 * load.steps_per_day
    half = round(_SMOOTHED_SECONDS / load.step_seconds) if load.step_seconds <= _SMOOTHED_SECONDS else 0
    smooth = centred_mean(z, half)
    weeks = np.stack([shifted(smooth, number * week) for number in range(1, _WEEKS + 1)])
    known = np.isfinite(weeks).sum(axis=0)
    usual = np.where(known >= _LEAST_WEEKS, _median(weeks, known), np.nan)
    deviation = z - usual
    level = trailing_mean(deviation, day, _LEAST_SHARE_OF_DAY)
    above = deviation - np.nan_to_num(level)
    if 3 * load.step_seconds <= _SMOOTHED_SECONDS:
        # One wild point is no rise.
        above = np.where(np.isfinite(above), trailing_median_of_three(above), np.nan)
    return np.asarray(np.clip(above, -_FARTHEST, _FARTHEST), dtype=float)


def _median(weeks: Floats, known: Ints) -> Floats:
    """The median of each column's values that are not NaN; some ten times as fast as numpy's for so few rows."""
    ordered = np.sort(weeks, axis=0)
    middle = np.stack([np.maximum(known - 1, 0) // 2, np.minimum(known // 2, len(weeks) - 1)])
    return np.asarray(np.take_along_axis(ordered, middle, axis=0).mean(axis=0), dtype=float)


def _offset(seen: Floats) -> float:
    """What is added before the logarithm is taken: a share of the mean, wild points cut off."""
    known = seen[np.isfinite(seen)]
    if not len(known):
        return 1e-9
    limit = SPIKE_MULTIPLE * float(np.quantile(known, 0.99))
    return max(_OFFSET_SHARE * float(np.minimum(known, limit).mean()), 1e-9)
