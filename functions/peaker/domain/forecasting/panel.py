"""Everything the forecasting models may know at each step, computed once for a whole history.

Every array is causal: what it holds for a time t + h (h up to a day ahead) was known at t. That lets one pass
give the forecasts of all past origins, from which the models learn their weights and their error bands.
Loads are handled as z = log(load + c): demand varies in proportion to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .series import Floats, LoadSeries
from .windows import (
    all_missing_is_nan,
    centred_mean,
    first_known,
    huber_fit,
    shifted,
    trailing_mean,
    trailing_median_of_three,
)

# c as a share of the mean load: keeps log finite at zero, small enough not to flatten the night.
_OFFSET_SHARE = 0.05
# A single point above this multiple of the 99th percentile is not believed until a neighbour agrees.
SPIKE_MULTIPLE = 3.0
_FOURIER_DAYS = 28
_DAILY_HARMONICS = 8
_WEEKLY_HARMONICS = 3
_WEEKLY_NEEDS_DAYS = 14
_HIGHEST_DAYS = 28
# Above the highest load of a history in which no growth can be measured yet.
_YOUNG_MARGIN = float(np.log(1.5))


@dataclass(frozen=True)
class Panel:
    """Causal views of one history. Arrays named *_ahead reach one day past the last step."""

    series: LoadSeries
    fit_steps: int
    offset: float
    z: Floats
    believed: Floats
    profile_ahead: Floats
    last_week_ahead: Floats
    yesterday_ahead: Floats
    shape_ahead: Floats

    @property
    def day(self) -> int:
        return self.series.steps_per_day

    def steps(self, minutes: float) -> int:
        """Whole steps in `minutes`, at least one."""
        return max(1, round(minutes * 60 / self.series.step_seconds))

    def hour_steps(self) -> int:
        """Steps of an hour, or of the longest part of one of which a day is a whole number."""
        size = self.steps(60)
        while self.day % size:
            size -= 1
        return size

    def load(self, z: Floats) -> Floats:
        """Back from z to load; never negative."""
        return np.maximum(0.0, np.exp(np.minimum(z, 60.0)) - self.offset)


def believable(values: Floats, fit_steps: int) -> Floats:
    """The values with every lone spike made NaN.

    Above 3 x p99 and no agreement from the two points before it.
    """
    seen = values[:fit_steps][np.isfinite(values[:fit_steps])]
    if not len(seen):
        return values.copy()
    limit = SPIKE_MULTIPLE * float(np.quantile(seen, 0.99))
    high = np.nan_to_num(values, nan=0.0) > limit
    if limit <= 0 or not high.any():
        return values.copy()
    before = np.concatenate([[False], high[:-1]]) | np.concatenate([[False, False], high[:-2]])
    return np.where(high & ~before, np.nan, values)


def build_panel(series: LoadSeries, fit_steps: int) -> Panel:
    """The panel of `series`.

    Constants (offset, seasonal shape, spike limit) come from its first `fit_steps` only.
    """
    count = len(series.values)
    fitted = min(fit_steps, count)
    values = series.values
    mean = float(np.nanmean(values[:fitted]))
    offset = max(_OFFSET_SHARE * mean, 1e-9)
    z = np.log(values + offset)
    believed = np.log(believable(values, fitted) + offset)
    day, week = series.steps_per_day, 7 * series.steps_per_day
    half = round(900 / series.step_seconds)
    smooth = centred_mean(believed, half if series.step_seconds <= 900 else 0)
    behind = trailing_mean(believed, max(1, half), least_share=0.0)
    length = count + day
    weekly = [shifted(smooth, k * week, length) for k in (1, 2, 3, 4)]
    # Yesterday's value for a time almost a day ahead may not look past the origin: trailing, not centred.
    daily = [shifted(behind if k == 1 else smooth, k * day, length) for k in range(1, 8)]
    with all_missing_is_nan():
        by_week = np.asarray(np.nanmedian(np.stack(weekly), axis=0), dtype=float)
        by_day = np.asarray(np.nanmedian(np.stack(daily), axis=0), dtype=float)
    shape = seasonal_shape(series, believed, fitted, length)
    profile = first_known(by_week, by_day, shape)
    return Panel(
        series=series,
        fit_steps=fitted,
        offset=offset,
        z=z,
        believed=believed,
        profile_ahead=profile,
        last_week_ahead=first_known(weekly[0], profile),
        yesterday_ahead=first_known(daily[0], profile),
        shape_ahead=shape,
    )


def level_views(panel: Panel, base_ahead: Floats) -> list[Floats]:
    """How far the load is above `base` now, over 15 min, 1 h, 3 h and 24 h.

    Each falls back to the next longer window when its own points are missing, so a metric that is a little
    late still has a level; the last resort is no deviation at all.
    """
    deviation = panel.believed - base_ahead[: len(panel.believed)]
    quick = trailing_median_of_three(deviation) if panel.steps(15) >= 3 else trailing_mean(deviation, 1)
    hour = trailing_mean(deviation, panel.steps(60))
    three = trailing_mean(deviation, panel.steps(180))
    whole_day = trailing_mean(deviation, panel.day, least_share=0.1)
    zero = np.zeros(len(deviation))
    day_view = first_known(whole_day, zero)
    three_view = first_known(three, day_view)
    hour_view = first_known(hour, three_view)
    return [first_known(quick, hour_view), hour_view, three_view, day_view]


def seasonal_shape(series: LoadSeries, z: Floats, fitted: int, length: int) -> Floats:
    """A robust Fourier fit of the last four weeks: the daily (and weekly) course, continued over the grid."""
    first = max(0, fitted - _FOURIER_DAYS * series.steps_per_day)
    stride = max(1, round(900 / series.step_seconds))
    rows = np.arange(first, fitted, stride)
    rows = rows[np.isfinite(z[rows])]
    middle = float(np.median(z[rows])) if len(rows) else 0.0
    span_days = (fitted - first) / series.steps_per_day
    if span_days < 1.0 or len(rows) < 24:
        return np.full(length, middle)
    design = _harmonics(series, np.arange(length), span_days)
    penalty = np.full(design.shape[1], 2.0)
    penalty[0] = 0.0
    solution = huber_fit(design[rows], z[rows], penalty, np.ones(len(rows)))
    return np.asarray(design @ solution, dtype=float)


def _harmonics(series: LoadSeries, index: np.ndarray, span_days: float) -> Floats:
    """Constant, daily harmonics, and weekly ones once two weeks have been seen."""
    days = (series.start_seconds + index * series.step_seconds) / 86_400.0
    highest = max(1, min(_DAILY_HARMONICS, series.steps_per_day // 2 - 1))
    columns = [np.ones(len(index))]
    for k in range(1, highest + 1):
        columns += [np.sin(2 * np.pi * k * days), np.cos(2 * np.pi * k * days)]
    if span_days >= _WEEKLY_NEEDS_DAYS:
        for k in range(1, _WEEKLY_HARMONICS + 1):
            columns += [np.sin(2 * np.pi * k * days / 7), np.cos(2 * np.pi * k * days / 7)]
    return np.stack(columns, axis=1)


def highest_loads(panel: Panel) -> Floats:
    """The highest z of the last four weeks at each step, and a week's growth on top: no band reaches above it.

    A band above everything that was ever seen covers next to nothing and costs replicas.
    """
    fit, day = panel.fit_steps, panel.day
    recent = panel.believed[max(0, fit - _HIGHEST_DAYS * day) : fit]
    best = float(np.nanmax(recent)) if np.isfinite(recent).any() else np.inf
    later = np.fmax.accumulate(np.concatenate([[best], panel.believed[fit:]]))[1:]
    return np.concatenate([np.full(fit, best), later]) + _weekly_growth(panel)


def _weekly_growth(panel: Panel) -> float:
    """By how much the load grew from week to week, in z; 0 where it did not grow in each of the last weeks."""
    week = 7 * panel.day
    ends = range(panel.fit_steps, week - 1, -week)
    weeks = [panel.believed[end - week : end] for end in ends][:4]
    means = [float(np.nanmean(one)) for one in weeks if np.isfinite(one).mean() > 0.5]
    if len(means) < 2:
        return _YOUNG_MARGIN
    growth = -np.diff(means)
    return float(growth.mean()) if (growth > 0).all() else 0.0


def hour_deviation(panel: Panel) -> Floats:
    """How far the last hour was above the profile, in z."""
    deviation = panel.believed - panel.profile_ahead[: len(panel.believed)]
    return trailing_mean(deviation, panel.steps(60))
