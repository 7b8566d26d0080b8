"""Statistics over arrays: moving ones over missing values (NaN), without a loop over time, and robust fits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .series import Floats, Ints


@contextmanager
def all_missing_is_nan() -> Iterator[None]:
    """numpy warns about a median or mean of nothing; here the answer NaN is what is wanted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _window_mean(values: Floats, first: Ints, last: Ints, least_share: float) -> Floats:
    known = np.isfinite(values)
    totals = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0.0], np.cumsum(known)])
    seen = counts[last] - counts[first]
    mean = np.full(len(values), np.nan)
    enough = seen >= np.maximum(1.0, least_share * (last - first))
    np.divide(totals[last] - totals[first], seen, out=mean, where=enough)
    return mean


def trailing_mean(values: Floats, width: int, least_share: float = 0.34) -> Floats:
    """Mean of the last `width` values up to and including each one; NaN where too few of them were seen."""
    at = np.arange(len(values))
    return _window_mean(values, np.maximum(0, at + 1 - width), at + 1, least_share)


def centred_mean(values: Floats, half: int) -> Floats:
    """Mean of the values within `half` steps on either side; shorter at the ends."""
    if half <= 0:
        return values.copy()
    at = np.arange(len(values))
    last = np.minimum(len(values), at + half + 1)
    return _window_mean(values, np.maximum(0, at - half), last, 0.0)


def trailing_median_of_three(values: Floats) -> Floats:
    """Median of the last three values: one wild point does not move it."""
    stacked = np.stack([values, shifted(values, 1), shifted(values, 2)])
    with all_missing_is_nan():
        return np.asarray(np.nanmedian(stacked, axis=0), dtype=float)


def shifted(values: Floats, steps: int, length: int | None = None) -> Floats:
    """values[i - steps] at i (the value `steps` ago), NaN before the beginning; as long as `length`."""
    size = len(values) if length is None else length
    moved = np.full(size, np.nan)
    count = min(size - steps, len(values))
    if count > 0:
        moved[steps : steps + count] = values[:count]
    return moved


def first_known(*candidates: Floats) -> Floats:
    """Element by element the first candidate that is not NaN."""
    chosen = candidates[0].copy()
    for candidate in candidates[1:]:
        chosen = np.where(np.isfinite(chosen), chosen, candidate)
    return chosen


def median(values: Floats) -> float:
    """Of finite values, at least one; numpy's own looks for NaN first, which takes longer than the median here."""
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    lower, upper = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float((lower + upper) / 2)


def huber_fit(inputs: Floats, target: Floats, penalty: Floats, importance: Floats) -> Floats:
    """Coefficients by ridge regression with Huber weights on top of `importance`."""
    solution: Floats = np.zeros(inputs.shape[1])
    weight = importance
    for _ in range(3):
        weighted = inputs * weight[:, None]
        solution = np.asarray(
            np.linalg.solve(weighted.T @ inputs + np.diag(penalty), weighted.T @ target), dtype=float
        )
        error = np.abs(target - inputs @ solution)
        spread = 1.4826 * median(error) + 1e-9
        weight = importance / np.maximum(1.0, error / (1.345 * spread))
    return solution


def interpolate_rows(horizons: Ints, knots: Ints, rows: Floats) -> Floats:
    """rows [K, T] at the knots to [H, T] at the horizons, linear in the log of the horizon."""
    between, known = np.log(horizons.astype(float)), np.log(knots.astype(float))
    return np.stack([np.interp(between, known, column) for column in rows.T], axis=1)
