"""Bands against what came: 48 rolling origins per trace, evenly spaced from day 8, 14, 28 or 56 (by length) to a day
before the end; the last two thirds of every second one are scored in five horizon buckets, p95 pinball loss against
last week's value with online conformal bands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecaster, LoadSeries
from peaker.domain.forecasting.series import DAY_SECONDS, KEPT_HISTORY_DAYS

from bench.forecast.traces import hourly_means, load_trace

Floats = NDArray[np.float64]
BUCKET_ENDS_MINUTES = (30, 60, 180, 360, 1440)
LEVELS = (0.9, 0.95)
DECILES = tuple(round(0.1 * k, 1) for k in range(1, 10))
_LEAD_SECONDS = 4200.0
_TWO_DAYS_HOURS = 48


@dataclass(frozen=True)
class Accuracy:
    """One trace: per level and bucket the mean pinball loss of ours and of last week, coverage, and points.

    covered_seen_before is p95's coverage of the loads that were no higher than any in the history of their forecast.
    """

    trace: str
    ours: dict[float, list[float]]
    last_week: dict[float, list[float]]
    coverage: dict[float, list[float]]
    points: list[int]
    covered_seen_before: float


@dataclass
class _Scores:
    """What was scored so far, by bucket and level."""

    ours: dict[tuple[int, float], list[Floats]] = field(default_factory=dict)
    last_week: dict[tuple[int, float], list[Floats]] = field(default_factory=dict)
    covered: dict[tuple[int, float], list[Floats]] = field(default_factory=dict)
    covered_seen_before: list[Floats] = field(default_factory=list)


def pinball(actual: Floats, quantile: Floats, level: float) -> Floats:
    """The pinball (quantile) loss of each load."""
    above = actual - quantile
    return np.maximum(level * above, (level - 1) * above)


def accuracy_of(task: tuple[Path, str]) -> Accuracy:
    """Score the bands of one trace of a folder."""
    folder, name = task
    series = load_trace(folder, name)
    values, day = series.values, series.steps_per_day
    origins = _origins(series)
    horizons = np.arange(1, day + 1)
    buckets = np.searchsorted(BUCKET_ENDS_MINUTES, horizons * series.step_seconds / 60, side="left")
    offset = 0.05 * float(np.nanmean(values[: origins[0] + 1]))
    errors: list[list[Floats]] = [[] for _ in BUCKET_ENDS_MINUTES]
    scores = _Scores()
    for number, origin in enumerate(origins):
        actual = values[origin + horizons]
        week = values[origin + horizons - 7 * day]
        week_z = np.log(np.where(np.isfinite(week), week, _mean_before(values, origin, day)) + offset)
        if number >= len(origins) // 3:
            bands = [np.concatenate(each) for each in errors]
            _score(scores, series, origin, buckets, [week_z, np.array(offset)], bands)
        error = np.log(actual + offset) - week_z
        for bucket in range(len(BUCKET_ENDS_MINUTES)):
            errors[bucket].append(error[(buckets == bucket) & np.isfinite(error)])
    present = sorted({bucket for bucket, _ in scores.ours})

    def means(parts: dict[tuple[int, float], list[Floats]]) -> dict[float, list[float]]:
        return {
            level: [float(np.concatenate(parts[bucket, level]).mean()) for bucket in present]
            for level in LEVELS
        }

    points = [sum(len(part) for part in scores.ours[bucket, LEVELS[0]]) for bucket in present]
    return Accuracy(
        name, means(scores.ours), means(scores.last_week), means(scores.covered), points,
        float(np.concatenate(scores.covered_seen_before).mean()),
    )  # fmt: skip


def _score(
    scores: _Scores,
    series: LoadSeries,
    origin: int,
    buckets: NDArray[np.int64],
    last_week: list[Floats],
    last_week_errors: list[Floats],
) -> None:
    """Score one forecast, and last week's value (`last_week`: its z, and the offset of z) with its past errors."""
    values, day = series.values, series.steps_per_day
    week_z, offset = last_week
    until = LoadSeries(series.start_seconds, series.step_seconds, values[: origin + 1])
    known = until.last_days(KEPT_HISTORY_DAYS)
    issued = Forecaster(known, reach_seconds=DAY_SECONDS).at_the_end(_LEAD_SECONDS)
    actual = values[origin + 1 : origin + 1 + day]
    seen = np.isfinite(actual)
    before = seen & (actual <= np.nanmax(known.values))
    under = actual <= issued.quantile(0.95) * (1 + 1e-9)
    scores.covered_seen_before.append(under[before].astype(float))
    for bucket, errors in enumerate(last_week_errors):
        at = (buckets == bucket) & seen
        if not at.any():
            continue
        for level in LEVELS:
            quantile = issued.quantile(level)[at]
            rival = np.maximum(0.0, np.exp(week_z[at] + np.quantile(errors, level)) - offset)
            for parts, found in (
                (scores.ours, pinball(actual[at], quantile, level)),
                (scores.last_week, pinball(actual[at], rival, level)),
                (scores.covered, (actual[at] <= quantile * (1 + 1e-9)).astype(float)),
            ):
                parts.setdefault((bucket, level), []).append(found)


def _origins(series: LoadSeries) -> list[int]:
    """Every second of 48 evenly spaced origins (the last known step of each)."""
    day = series.steps_per_day
    days = len(series.values) / day
    first_day = 56 if days > 150 else 28 if days >= 40 else 14 if days >= 20 else 8
    first, last = first_day * day - 1, len(series.values) - 1 - day
    return [int(first + (last - first) * i / 47) for i in range(48)][::2]


def _mean_before(values: Floats, origin: int, day: int) -> float:
    """Mean of the last day, or of all history when that day was not seen."""
    last_day = values[max(0, origin - day) : origin + 1]
    known = last_day if np.isfinite(last_day).any() else values[: origin + 1]
    return float(np.nanmean(known))


@dataclass(frozen=True)
class TwoDays:
    """One trace's hourly means 48 h ahead: mean weighted quantile loss over the deciles, ours and seasonal naive's."""

    ours: float
    naive: float


def two_days_of(task: tuple[Path, str]) -> TwoDays:
    """Score every sixth hour of the last third. The naive forecast repeats last week, with the deciles of its past
    errors."""
    series = hourly_means(load_trace(*task))
    values, week = series.values, 168
    first = max(21 * 24, 2 * len(values) // 3)
    ahead = np.arange(1, _TWO_DAYS_HOURS + 1)
    change = values[week:first] - values[: first - week]
    spread = np.quantile(change[np.isfinite(change)], DECILES)
    ours, naive = 0.0, 0.0
    for origin in range(first, len(values) - _TWO_DAYS_HOURS, 6):
        actual = values[origin + ahead]
        seen = np.isfinite(actual) & np.isfinite(values[origin + ahead - week])
        known = LoadSeries(series.start_seconds, 3600, values[: origin + 1]).last_days(KEPT_HISTORY_DAYS)
        issued = Forecaster(known, levels=DECILES, reach_seconds=2 * DAY_SECONDS).at_the_end(3600.0)
        assert issued.quantiles is not None
        assert issued.later_quantiles is not None
        both = np.concatenate([issued.quantiles, issued.later_quantiles])
        for i, level in enumerate(DECILES):
            ours += float(pinball(actual[seen], both[seen, i], level).sum())
            last_week = np.maximum(0.0, values[origin + ahead - week] + spread[i])
            naive += float(pinball(actual[seen], last_week[seen], level).sum())
    return TwoDays(ours, naive)
