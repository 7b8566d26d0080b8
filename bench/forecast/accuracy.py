"""Bands against what came: 48 rolling origins per trace, evenly spaced from day 8, 14, 28 or 56 (by length) to a day
before the end; the last two thirds of every second one are scored in five horizon buckets, p95 pinball loss against
last week's value with online conformal bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries, forecast_demand
from peaker.domain.forecasting.record import pinball
from peaker.domain.forecasting.series import DAY_SECONDS

from bench.forecast.rhythms import series_of
from bench.forecast.traces import load_trace

Floats = NDArray[np.float64]
BUCKET_ENDS_MINUTES = (30, 60, 180, 360, 1440)
LEVELS = (0.9, 0.95)


@dataclass(frozen=True)
class Accuracy:
    """One load: per bucket the mean pinball of ours and of last week, coverage, points.

    seen_before is the share of the loads that were no higher than any in the history of their forecast, which is what a
    fleet sized by the highest load ever seen covers; covered_seen_before is p95's coverage of those.
    """

    trace: str
    ours: dict[str, list[float]]
    last_week: dict[str, list[float]]
    coverage: dict[str, list[float]]
    points: list[int]
    seen_before: float
    covered_seen_before: float


def scored_origins(series: LoadSeries) -> list[int]:
    """Every second of 48 evenly spaced origins (the last known step of each)."""
    day = series.steps_per_day
    days = len(series.values) / day
    first_day = 56 if days > 150 else 28 if days >= 40 else 14 if days >= 20 else 8
    first, last = first_day * day - 1, len(series.values) - 1 - day
    return [int(first + (last - first) * i / 47) for i in range(48)][::2]


def accuracy_of(task: tuple[Path, str]) -> Accuracy:
    """One trace of a folder."""
    folder, name = task
    return scored(name, load_trace(folder, name))


def drawn_accuracy_of(task: tuple[str, int]) -> Accuracy:
    """One drawn load with a rhythm: kind and seed."""
    kind, seed = task
    return scored(f"{kind} {seed}", series_of(kind, seed))


def scored(name: str, series: LoadSeries) -> Accuracy:
    """Bands of any load against what came."""
    day = series.steps_per_day
    origins = scored_origins(series)
    horizons = np.arange(1, day + 1)
    buckets = np.searchsorted(BUCKET_ENDS_MINUTES, horizons * series.step_seconds / 60, side="left")
    values = series.values
    mean = float(np.nanmean(values[origins[0] + 1 :]))
    offset = 0.05 * float(np.nanmean(values[: origins[0] + 1]))
    errors: list[list[Floats]] = [[] for _ in BUCKET_ENDS_MINUTES]
    ours: dict[tuple[int, float], list[Floats]] = {}
    theirs: dict[tuple[int, float], list[Floats]] = {}
    covered: dict[tuple[int, float], list[Floats]] = {}
    known: list[Floats] = []
    known_covered: list[Floats] = []
    for number, origin in enumerate(origins):
        actual = values[origin + horizons]
        week = values[origin + horizons - 7 * day]
        fallback = _mean_before(values, origin, day)
        week_z = np.log(np.where(np.isfinite(week), week, fallback) + offset)
        if number >= len(origins) // 3:
            issued = forecast_demand(
                series.until(_end_of(series, origin)).last_days(63), 70 * 60.0, reach_seconds=DAY_SECONDS
            )
            seen = np.isfinite(actual)
            before = actual[seen] <= np.nanmax(values[max(0, origin + 1 - 63 * day) : origin + 1])
            known.append(before.astype(float))
            known_covered.append((actual <= issued.quantile(0.95) * (1 + 1e-9))[seen][before].astype(float))
            for bucket in range(len(BUCKET_ENDS_MINUTES)):
                at = (buckets == bucket) & seen
                if not at.any():
                    continue
                pool = np.concatenate(errors[bucket])
                for level in LEVELS:
                    band = np.exp(week_z[at] + np.quantile(pool, level)) - offset
                    quantile = issued.quantile(level)[at]
                    key = (bucket, level)
                    ours.setdefault(key, []).append(pinball(actual[at], quantile, level) / mean)
                    theirs.setdefault(key, []).append(pinball(actual[at], np.maximum(0, band), level) / mean)
                    covered.setdefault(key, []).append((actual[at] <= quantile * (1 + 1e-9)).astype(float))
        error = np.log(actual + offset) - week_z
        for bucket in range(len(BUCKET_ENDS_MINUTES)):
            errors[bucket].append(error[(buckets == bucket) & np.isfinite(error)])
    present = sorted({bucket for bucket, _ in ours})

    def means(parts: dict[tuple[int, float], list[Floats]]) -> dict[str, list[float]]:
        return {
            str(level): [float(np.concatenate(parts[bucket, level]).mean()) for bucket in present]
            for level in LEVELS
        }

    points = [sum(len(part) for part in ours[bucket, LEVELS[0]]) for bucket in present]
    return Accuracy(
        name, means(ours), means(theirs), means(covered), points, float(np.concatenate(known).mean()),
        float(np.concatenate(known_covered).mean()),
    )  # fmt: skip


def _mean_before(values: Floats, origin: int, day: int) -> float:
    """Mean of the last day, or of all history when that day was not seen."""
    last_day = values[max(0, origin - day) : origin + 1]
    known = last_day if np.isfinite(last_day).any() else values[: origin + 1]
    return float(np.nanmean(known))


def _end_of(series: LoadSeries, step: int) -> float:
    return series.start_seconds + (step + 1) * series.step_seconds


def ratios(one: Accuracy, level: float) -> list[float]:
    pairs = zip(one.ours[str(level)], one.last_week[str(level)], strict=True)
    return [mine / other for mine, other in pairs if mine > 0 and other > 0]


def geometric(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-3))))) if ratios else float("nan")


def pooled_coverage(accuracy: Sequence[Accuracy], level: float) -> float:
    hits = sum(
        share * points
        for one in accuracy
        for share, points in zip(one.coverage[str(level)], one.points, strict=True)
    )
    return hits / sum(sum(one.points) for one in accuracy)


DECILES = tuple(round(0.1 * k, 1) for k in range(1, 10))
_TWO_DAYS_HOURS = 48


@dataclass(frozen=True)
class TwoDays:
    """One trace's hourly means 48 h ahead: mean weighted quantile loss over the deciles, ours and seasonal naive's."""

    trace: str
    ours: float
    naive: float


def two_days_of(task: tuple[Path, str]) -> TwoDays:
    """Every sixth hour of the last third is an origin. The naive one repeats last week, with its own past errors'
    deciles by horizon day."""
    folder, name = task
    series = hourly_means(load_trace(folder, name))
    values, week = series.values, 168
    first = max(21 * 24, 2 * len(values) // 3)
    ahead = np.arange(1, _TWO_DAYS_HOURS + 1)
    change = values[week:first] - values[: first - week]
    spread = np.quantile(change[np.isfinite(change)], DECILES)
    ours, naive, size = 0.0, 0.0, 0.0
    for origin in range(first, len(values) - _TWO_DAYS_HOURS, 6):
        actual = values[origin + ahead]
        seen = np.isfinite(actual) & np.isfinite(values[origin + ahead - week])
        issued = forecast_demand(
            LoadSeries(series.start_seconds, 3600, values[: origin + 1]).last_days(63), 3600.0,
            levels=(*DECILES[:4], 0.5, *DECILES[5:]), reach_seconds=2 * DAY_SECONDS,
        )  # fmt: skip
        assert issued.quantiles is not None
        assert issued.later_quantiles is not None
        both = np.concatenate([issued.quantiles, issued.later_quantiles])
        for i, level in enumerate(DECILES):
            ours += float(pinball(actual[seen], both[seen, i], level).sum())
            last_week = np.maximum(0.0, values[origin + ahead - week] + spread[i])
            naive += float(pinball(actual[seen], last_week[seen], level).sum())
        size += float(np.abs(actual[seen]).sum()) * len(DECILES) / 2
    return TwoDays(name, ours / size, naive / size) if size else TwoDays(name, np.nan, np.nan)


def hourly_means(series: LoadSeries) -> LoadSeries:
    """The series in steps of an hour; an hour without a point is missing."""
    size = max(1, 3600 // series.step_seconds)
    count = len(series.values) // size
    blocks = series.values[: count * size].reshape(count, size)
    seen = np.isfinite(blocks)
    total = np.where(seen, blocks, 0.0).sum(axis=1)
    return LoadSeries(
        series.start_seconds, size * series.step_seconds,
        np.where(seen.any(axis=1), total / np.maximum(1, seen.sum(axis=1)), np.nan),
    )  # fmt: skip
