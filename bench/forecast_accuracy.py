"""How near the forecast comes: pinball loss by horizon against last week's value, and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries, forecast_demand
from peaker.domain.forecasting.forecaster import utilisation_reasons
from peaker.domain.forecasting.record import pinball
from peaker.domain.forecasting.windows import trailing_mean

from peaker_backtest.load_input import read_load

Floats = NDArray[np.float64]
BUCKET_ENDS_MINUTES = (30, 60, 180, 360, 1440)
LEVELS = (0.9, 0.95)
# Correlation of a load with itself a day or a week earlier, from which on it has a rhythm.
RHYTHM = 0.5


@dataclass(frozen=True)
class Accuracy:
    """One trace: per bucket the mean pinball of ours and of last week, coverage, points."""

    trace: str
    ours: dict[str, list[float]]
    last_week: dict[str, list[float]]
    coverage: dict[str, list[float]]
    points: list[int]


def trace_series(folder: Path, name: str) -> LoadSeries:
    return read_load(folder / f"{name}.csv").series()


def kind_of(series: LoadSeries) -> str:
    """What a trace is, by its values alone; so it can be said of any CSV.

    `utilisation`: never above 100 and often at it, so scaling itself shapes it. `load`: it has a rhythm, that is,
    the log of its hourly mean, less the mean of the day before, correlates by 0.5 or more with itself 24 hours or
    7 days earlier. That is what demand from people and schedules looks like, and the group by which the decisions
    are judged. `other`: the rest (a percentage, a latency, bytes in bursts); shown, not judged.
    """
    if utilisation_reasons(series):
        return "utilisation"
    size = max(1, 3600 // series.step_seconds)
    day = series.steps_per_day // size
    count = len(series.values) // size
    blocks = series.values[: count * size].reshape(count, size)
    seen = np.isfinite(blocks)
    hourly = np.where(seen, blocks, 0.0).sum(axis=1) / np.maximum(1, seen.sum(axis=1))
    hourly[~seen.any(axis=1)] = np.nan
    z = np.log(hourly + 0.05 * np.nanmean(hourly) + 1e-12)
    z = (z - trailing_mean(z, day))[day:]
    return "load" if max(_correlation(z, day), _correlation(z, 7 * day)) >= RHYTHM else "other"


def _correlation(values: Floats, lag: int) -> float:
    """With itself `lag` steps earlier; -1 when fewer than a day of pairs were seen or nothing changes."""
    if len(values) <= lag:
        return -1.0
    now, then = values[lag:], values[:-lag]
    seen = np.isfinite(now) & np.isfinite(then)
    if seen.sum() < 24 or min(now[seen].std(), then[seen].std()) < 1e-9:
        return -1.0
    return float(np.corrcoef(now[seen], then[seen])[0, 1])


def scored_origins(series: LoadSeries) -> list[int]:
    """Every second of 48 evenly spaced origins (the last known step of each)."""
    day = series.steps_per_day
    days = len(series.values) / day
    first_day = 56 if days > 150 else 28 if days >= 40 else 14 if days >= 20 else 8
    first, last = first_day * day - 1, len(series.values) - 1 - day
    return [int(first + (last - first) * i / 47) for i in range(48)][::2]


def accuracy_of(task: tuple[Path, str]) -> Accuracy:
    folder, name = task
    series = trace_series(folder, name)
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
    for number, origin in enumerate(origins):
        actual = values[origin + horizons]
        week = values[origin + horizons - 7 * day]
        fallback = _mean_before(values, origin, day)
        week_z = np.log(np.where(np.isfinite(week), week, fallback) + offset)
        if number >= len(origins) // 3:
            issued = forecast_demand(series.until(_end_of(series, origin)).last_days(63), 70 * 60.0)
            for bucket in range(len(BUCKET_ENDS_MINUTES)):
                at = (buckets == bucket) & np.isfinite(actual)
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
    return Accuracy(name, means(ours), means(theirs), means(covered), points)


def _mean_before(values: Floats, origin: int, day: int) -> float:
    """Mean of the last day, or of all history when that day was not seen."""
    last_day = values[max(0, origin - day) : origin + 1]
    known = last_day if np.isfinite(last_day).any() else values[: origin + 1]
    return float(np.nanmean(known))


def _end_of(series: LoadSeries, step: int) -> float:
    return series.start_seconds + (step + 1) * series.step_seconds


def ratios_at(one: Accuracy, level: float) -> list[float]:
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
