"""Split-conformal error bands.

Past errors of a forecast, scaled by the error level of their time, as quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .series import Floats, Ints
from .windows import median

Flags = NDArray[np.bool_]

_SMALLEST = 1e-6
_FAR = 6.0
_LONG_MEMORY_DAYS = 14.0
_LONG_SHARE = 0.2
# Errors within about three hours of the time of day count most.
_HOURS_WIDE = 3.0
_HOURS_FLOOR = 0.25
# Exponents on the error level of the last days, and of the time of day.
_SCALE_SHARE = 0.7
_SEASON_SHARE = 0.7
_SEASON_PRIOR_DAYS = 4.0
# How far an error level may lie from the usual one: when the error was made, and now.
_THEN = (0.8, 3.0)
_NOW = (0.33, 1.6)
_EVENT_SHARE = 0.2


@dataclass(frozen=True)
class Memory:
    """Half-lives of past errors in the bands, and of their size in the error level of now."""

    days: float = 3.0
    scale_days: float = 1.0


@dataclass(frozen=True)
class PastGrid:
    """The past origins at which forecasts are scored.

    Grid steps, their horizons (knots), and steps per day.
    """

    origins: Ints
    knots: Ints
    stride: int
    day: int

    def last_at(self, origins: Ints) -> Ints:
        """Index of the last grid origin at or before each origin."""
        found = np.searchsorted(self.origins, origins, side="right") - 1
        return np.clip(found, 0, len(self.origins) - 1)

    def discounted(self, values: Floats, memory_days: float) -> tuple[Floats, Floats]:
        """(sum, weight) of values[..., origin, knot], halved per `memory_days`, over those known at each
        origin.

        A value for horizon k is known k steps after its origin; NaN does not count.
        """
        grow = 2.0 ** ((self.origins - self.origins[0]) / (memory_days * self.day))
        seen = np.isfinite(values)
        total = np.cumsum(np.where(seen, values, 0.0) * grow[:, None], axis=-2)
        weight = np.cumsum(seen * grow[:, None], axis=-2)
        known_total, known_weight = np.zeros_like(total), np.zeros_like(weight)
        for k, knot in enumerate(self.knots):
            lag = -(-int(knot) // self.stride)
            if lag < len(self.origins):
                known_total[..., lag:, k] = total[..., :-lag, k] / grow[lag:]
                known_weight[..., lag:, k] = weight[..., :-lag, k] / grow[lag:]
        return known_total, known_weight


class ErrorBands:
    """Quantiles of the error of one forecast, from its residuals (actual - forecast in z) on a grid of past
    origins.
    """

    def __init__(
        self, grid: PastGrid, residual: Floats, fit_steps: int, memory: Memory | None = None
    ) -> None:
        self.grid = grid
        self.residual = residual
        self.memory = memory or Memory()
        self.fit_steps = fit_steps
        self.scale = self._scale()
        self._by_slot: dict[int, Floats] = {}
        apart = np.arange(grid.day) / grid.day * 24
        apart = np.minimum(apart, 24 - apart)
        nearness = _HOURS_FLOOR + np.exp(-0.5 * (apart / _HOURS_WIDE) ** 2)
        # Twice, so that differences of times of day from -day to day are indices without a modulo.
        self._nearness = np.concatenate([nearness, nearness])

    def _scale(self) -> Floats:
        """The usual size of the error at each origin and knot, from errors known by then."""
        size = np.abs(self.residual)
        total, weight = self.grid.discounted(size, self.memory.scale_days)
        long_total, long_weight = self.grid.discounted(size, 1e4)
        overall = long_total / np.maximum(long_weight, 1e-12)
        prior = 0.25 * self.grid.day / self.grid.stride
        recent = (total + prior * overall) / (weight + prior)
        recent, overall = np.maximum(recent, _SMALLEST), np.maximum(overall, _SMALLEST)
        return np.asarray(recent**_SCALE_SHARE * overall ** (1 - _SCALE_SHARE), dtype=float)

    def _time_of_day_scale(self, k: int) -> Floats:
        """How large the errors for knot k are in each hour of the target's day, 1 on average.

        From targets before `fit_steps`; smoothed over neighbouring hours, drawn to 1 while few days were seen. A
        night's small errors say little about the evening's, and the other way round.
        """
        day, slots, stride = self.grid.day, min(24, self.grid.day), self.grid.stride
        target = self.grid.origins + int(self.grid.knots[k])
        size = np.abs(self.residual[:, k])
        seen = np.isfinite(size) & (target < self.fit_steps)
        if seen.sum() < 2 * slots:
            return np.ones(slots)
        size = np.minimum(size[seen], np.quantile(size[seen], 0.98))
        slot = (target[seen] % day) * slots // day
        sums = np.stack([np.bincount(slot, size, slots), np.bincount(slot, minlength=slots)])
        total, count = sums + 0.5 * (np.roll(sums, 1, axis=1) + np.roll(sums, -1, axis=1))
        mean = max(_SMALLEST, total.sum() / count.sum())
        prior = _SEASON_PRIOR_DAYS * count.mean() / max(1.0, seen.sum() * stride / day)
        usual = (total + prior * mean) / (count + prior) / mean
        return np.asarray(usual**_SEASON_SHARE, dtype=float)

    def _season(self, origins: Ints, k: int) -> Floats:
        if k not in self._by_slot:
            self._by_slot[k] = self._time_of_day_scale(k)
        usual = self._by_slot[k]
        hour = ((origins + int(self.grid.knots[k])) % self.grid.day) * len(usual) // self.grid.day
        return np.asarray(usual[hour], dtype=float)

    def offsets(self, origins: Ints, levels: Floats, knots: Ints | None = None) -> Floats:
        """Error quantiles [origin, knot, level] with the errors known at the first of `origins`.

        `knots` are indices into the grid's knots (all by default). A weighted quantile; upper levels carry
        the finite-sample correction of split conformal prediction.
        """
        chosen = np.arange(len(self.grid.knots)) if knots is None else knots
        result = np.zeros((len(origins), len(chosen), len(levels)))
        at = self.grid.last_at(origins)
        for place, k in enumerate(chosen):
            known = self._known(int(k), int(origins.min()))
            if len(known) < 2:
                continue
            residual = self.residual[known, k]
            season = self._season(self.grid.origins[known], int(k))
            usual = _usual_size(np.abs(residual), season)
            then = _within(self.scale[known, k] / usual, *_THEN) * season
            now = _within(self.scale[at, k] / usual, *_NOW) * self._season(origins, int(k))
            scaled = residual / then
            order = np.argsort(scaled)
            past = self.grid.origins[known[order]]
            weight = self._weights(past, origins) * self._event_weight(past, _far_above(residual[order]))
            result[:, place, :] = _weighted_quantiles(scaled[order], weight, levels) * now[:, None]
        return result

    def _known(self, k: int, origin: int) -> Ints:
        return np.flatnonzero(
            np.isfinite(self.residual[:, k]) & (self.grid.origins + self.grid.knots[k] <= origin)
        )

    def _weights(self, past: Ints, origins: Ints) -> Floats:
        day = self.grid.day
        near = self._nearness[(origins % day + day)[:, None] - (past % day)[None, :]]
        age_days = (int(origins.max()) - past) / day
        long = _LONG_SHARE * 0.5 ** (age_days / _LONG_MEMORY_DAYS)
        recency = 0.5 ** (age_days / self.memory.days) + long
        return np.asarray(near * recency[None, :], dtype=float)

    def _event_weight(self, past: Ints, far: Flags) -> Floats:
        """One event counts as one: a level shift misses every forecast made in the day before it.

        When all errors far outside the usual lie within a day and a half, they count for less.
        """
        weight = np.ones(len(past))
        if far.any() and np.ptp(past[far]) <= 1.5 * self.grid.day and np.ptp(past) >= 5 * self.grid.day:
            weight[far] = _EVENT_SHARE
        return weight


def _far_above(residual: Floats) -> Flags:
    """Errors that are no usual ones: a load far above its forecast."""
    middle = median(residual)
    usual = 1.4826 * median(np.abs(residual - middle)) + _SMALLEST
    return np.asarray(residual > middle + _FAR * usual)


def _usual_size(size: Floats, season: Floats) -> float:
    """The median size of the errors, as if they were alike at all hours: quiet hours alone would make it small."""
    alike = size / season
    mean = float(alike.mean())
    return max(_SMALLEST, median(alike) * (float(size.mean()) / mean if mean > 0 else 1.0))


def _within(values: Floats, least: float, most: float) -> Floats:
    """As numpy's clip, which costs more than these short arrays."""
    return np.minimum(np.maximum(values, least), most)


def _weighted_quantiles(ordered: Floats, weight: Floats, levels: Floats) -> Floats:
    """Quantiles of `ordered` for every row of `weight`."""
    reach = np.cumsum(weight, axis=1)
    whole = reach[:, -1:].copy()
    reach -= 0.5 * weight
    correction = 1 + weight.max(axis=1, keepdims=True) / whole
    wanted = np.where(levels > 0.5, np.minimum(1.0, levels * correction), levels) * whole
    found = np.array([row.searchsorted(place) for row, place in zip(reach, wanted, strict=True)])
    right = np.minimum(np.maximum(found, 1), len(ordered) - 1)
    rows = np.arange(len(reach))[:, None]
    low, high = reach[rows, right - 1], reach[rows, right]
    part = np.minimum(np.maximum((wanted - low) / np.maximum(high - low, 1e-300), 0.0), 1.0)
    return np.asarray(ordered[right - 1] * (1 - part) + ordered[right] * part, dtype=float)


def interpolate_knots(horizons: Ints, knots: Ints, values: Floats) -> Floats:
    """values [O, K, T] at the knots to [O, H, T] at the horizons, linear in the log of the horizon."""
    if len(knots) == 1:
        return np.repeat(values, len(horizons), axis=1)
    between, known = np.log(horizons.astype(float)), np.log(knots.astype(float))
    right = np.clip(np.searchsorted(known, between), 1, len(known) - 1)
    left = right - 1
    part = np.clip((between - known[left]) / (known[right] - known[left]), 0.0, 1.0)
    return np.asarray(
        values[:, left] * (1 - part)[None, :, None] + values[:, right] * part[None, :, None], dtype=float
    )
