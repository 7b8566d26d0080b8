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
# Where more errors than these are far outside the usual, they are no bursts.
_MOST_FAR = 0.1
_LONG_MEMORY_DAYS = 14.0
# Square root of 3 h / 24 h: up to 3 hours ahead the bands stand as they are.
_SURE_SHARE_OF_DAY = 0.354


@dataclass(frozen=True)
class BandSettings:
    """How past errors count.

    Recent ones more, those at the same time of day more, scaled to the error level of now.
    """

    recency_days: float = 3.0
    young_share: float = 0.25
    hours_wide: float = 3.0
    hours_floor: float = 0.25
    scale_memory_days: float = 1.0
    scale_share: float = 0.7
    quietest_then: float = 0.8
    noisiest_then: float = 3.0
    quietest_now: float = 0.33
    noisiest_now: float = 1.6
    widen_day: float = 0.5
    memory_share: float = 0.2
    event_share: float = 0.2
    season_share: float = 0.7
    season_prior_days: float = 4.0


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

    def __init__(self, grid: PastGrid, residual: Floats, settings: BandSettings, fit_steps: int) -> None:
        self.grid = grid
        self.residual = residual
        self.settings = settings
        self.fit_steps = fit_steps
        self.scale = self._scale()
        self._by_slot: dict[int, Floats] = {}
        apart = np.arange(grid.day) / grid.day * 24
        apart = np.minimum(apart, 24 - apart)
        nearness = settings.hours_floor + np.exp(-0.5 * (apart / settings.hours_wide) ** 2)
        # Twice, so that differences of times of day from -day to day are indices without a modulo.
        self._nearness = np.concatenate([nearness, nearness])

    def _scale(self) -> Floats:
        """The usual size of the error at each origin and knot, from errors known by then."""
        size = np.abs(self.residual)
        total, weight = self.grid.discounted(size, self.settings.scale_memory_days)
        long_total, long_weight = self.grid.discounted(size, 1e4)
        overall = long_total / np.maximum(long_weight, 1e-12)
        prior = 0.25 * self.grid.day / self.grid.stride
        recent = (total + prior * overall) / (weight + prior)
        share = self.settings.scale_share
        return np.asarray(
            np.maximum(recent, _SMALLEST) ** share * np.maximum(overall, _SMALLEST) ** (1 - share),
            dtype=float,
        )

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
        prior = self.settings.season_prior_days * count.mean() / max(1.0, seen.sum() * stride / day)
        usual = (total + prior * mean) / (count + prior) / mean
        return np.asarray(usual**self.settings.season_share, dtype=float)

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
            limits = self.settings
            then = _within(self.scale[known, k] / usual, limits.quietest_then, limits.noisiest_then)
            now = _within(self.scale[at, k] / usual, limits.quietest_now, limits.noisiest_now)
            then = then * season
            now = now * self._season(origins, int(k))
            scaled = residual / then
            order = np.argsort(scaled)
            past = self.grid.origins[known[order]]
            weight = self._weights(past, origins)
            far = _far_above(residual[order])
            weight *= self._event_weight(past, far)
            weight = self._burst_weight(weight, past, far)
            offset = _weighted_quantiles(scaled[order], weight, levels) * now[:, None]
            # Errors far ahead come from few independent days, so their quantiles are themselves uncertain.
            beyond = max(0.0, float(np.sqrt(self.grid.knots[k] / self.grid.day)) - _SURE_SHARE_OF_DAY)
            widen = 1 + limits.widen_day * beyond
            result[:, place, :] = np.where(levels > 0.5, np.maximum(offset, offset * widen), offset)
        return result

    def _known(self, k: int, origin: int) -> Ints:
        return np.flatnonzero(
            np.isfinite(self.residual[:, k]) & (self.grid.origins + self.grid.knots[k] <= origin)
        )

    def _weights(self, past: Ints, origins: Ints) -> Floats:
        day, settings = self.grid.day, self.settings
        near = self._nearness[(origins % day + day)[:, None] - (past % day)[None, :]]
        age_days = (int(origins.max()) - past) / day
        # A young history forgets sooner: its first forecasts were made from almost nothing.
        half_life = min(settings.recency_days, settings.young_share * (int(origins.max()) / day))
        long = settings.memory_share * 0.5 ** (age_days / _LONG_MEMORY_DAYS)
        recency = 0.5 ** (age_days / half_life) + long
        return np.asarray(near * recency[None, :], dtype=float)

    def _event_weight(self, past: Ints, far: Flags) -> Floats:
        """One event counts as one: a level shift misses every forecast made in the day before it.

        When all errors far outside the usual lie within a day and a half, they count for less.
        """
        weight = np.ones(len(past))
        if far.any() and np.ptp(past[far]) <= 1.5 * self.grid.day and np.ptp(past) >= 5 * self.grid.day:
            weight[far] = self.settings.event_share
        return weight

    def _burst_weight(self, weight: Floats, past: Ints, far: Flags) -> Floats:
        """The weight [origin, error], where bursts that do not come again at their hour count for less.

        A burst counts more at its own hour and in the days after it, as if it were the first of a daily one. The less
        the bursts so far came again, the more it counts as their number does: at any hour alike, for weeks. It never
        counts for more than before.
        """
        if not far.any() or far.mean() > _MOST_FAR:
            return weight
        # Where half of them came again nothing changes.
        again = min(1.0, 2 * comes_again(np.sort(past[far]), int(past.max()), self.grid.day))
        age = 0.5 ** ((past.max() - past) / (_LONG_MEMORY_DAYS * self.grid.day))
        alike = weight[:, ~far].mean(axis=1, keepdims=True) * age[far] / age[~far].mean()
        found = weight.copy()
        found[:, far] = np.minimum(weight[:, far], again * weight[:, far] + (1 - again) * alike)
        return found


def comes_again(far: Ints, newest: int, day: int) -> float:
    """How likely a burst comes again at its hour of the next day or week, by those before.

    far: steps of the errors far outside the usual, ascending; newest: the last step that is known; day: steps of a day.
    A burst ends where the next such error is over a sixteenth of a day later. Each counts 1 where it came again, else
    the share of the other ones that were at its hour. Laplace's rule, with one that came again before the first.
    """
    near = day // 16
    begins = far[np.concatenate([[True], np.diff(far) > max(1, near)])]
    judged = begins[begins + day + near <= newest]
    apart = np.abs(begins[None, :] - judged[:, None])
    other = apart > 0
    by_hour = np.minimum(apart % day, -apart % day)
    alike = ((by_hour <= near) & other).sum(axis=1) / np.maximum(1, other.sum(axis=1))
    hits = (np.abs(apart - day) <= near) | (np.abs(apart - 7 * day) <= near)
    return (float(np.maximum(hits.any(axis=1), alike).sum()) + 1) / (len(judged) + 1)


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
