"""Reads the traces, and tells which of them have a rhythm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.forecaster import utilisation_reasons
from peaker.domain.forecasting.windows import trailing_mean
from peaker_backtest.load_input import read_load

Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "data" / "traces"
# Correlation of a load with itself a day or a week earlier, from which on it has a rhythm.
RHYTHM = 0.5


def trace_names(folder: Path) -> list[str]:
    """Names of the CSV files of a folder of traces."""
    return sorted(path.stem for path in folder.glob("*.csv") if path.stem != "manifest")


def load_trace(folder: Path, name: str) -> LoadSeries:
    """One trace as a series."""
    return read_load(folder / f"{name}.csv").series()


def hourly_means(series: LoadSeries) -> LoadSeries:
    """The series in steps of an hour, or of its own longer ones; an hour without a point is missing."""
    size = max(1, 3600 // series.step_seconds)
    count = len(series.values) // size
    blocks = series.values[: count * size].reshape(count, size)
    seen = np.isfinite(blocks)
    total = np.where(seen, blocks, 0.0).sum(axis=1)
    means = np.where(seen.any(axis=1), total / np.maximum(1, seen.sum(axis=1)), np.nan)
    return LoadSeries(series.start_seconds, size * series.step_seconds, means)


def has_rhythm(series: LoadSeries) -> bool:
    """Whether the load repeats by the day or the week, as demand from people and schedules does.

    That is, the log of its hourly mean, less the mean of the day before, correlates by 0.5 or more with itself 24 hours
    or 7 days earlier. A utilisation never does: scaling itself shapes it.
    """
    if utilisation_reasons(series):
        return False
    means = hourly_means(series)
    hourly, day = means.values, means.steps_per_day
    z = np.log(hourly + 0.05 * np.nanmean(hourly) + 1e-12)
    z = (z - trailing_mean(z, day))[day:]
    return max(_correlation(z, day), _correlation(z, 7 * day)) >= RHYTHM


def _correlation(values: Floats, lag: int) -> float:
    """With itself `lag` steps earlier; -1 when fewer than a day of pairs were seen or nothing changes."""
    if len(values) <= lag:
        return -1.0
    now, then = values[lag:], values[:-lag]
    seen = np.isfinite(now) & np.isfinite(then)
    if seen.sum() < 24 or min(now[seen].std(), then[seen].std()) < 1e-9:
        return -1.0
    return float(np.corrcoef(now[seen], then[seen])[0, 1])


def first_test_step(series: LoadSeries) -> int | None:
    """First step of the operational test: the last 50 days of a long trace, from day 35, or from day 15."""
    day = series.steps_per_day
    days = len(series.values) / day
    if days > 150:
        return len(series.values) - 50 * day
    first = 35 * day if days >= 50 else 15 * day
    return first if len(series.values) - first >= day else None
