"""The forecast from the second day on, in steps of an hour, up to two weeks ahead.

The course is the median of the same hour in the last four weeks that are known by then, so the weekly shape stays. What
the last day and the last week were above it, and what a Fourier fit says, moves it by a ridge regression per horizon:
growth goes on, and a deviation of one day fades as past ones did. Bands come from past errors at the same horizon.
"""

from __future__ import annotations

import numpy as np

from .control import controlled, interpolated, widened
from .intervals import ErrorBands, Memory, PastGrid, interpolate_knots
from .panel import Panel, seasonal_shape
from .ridge import HALF_LIFE_DAYS, robust_ridge
from .series import Floats, Ints, LoadSeries
from .windows import all_missing_is_nan, first_known, interpolate_rows, shifted, trailing_mean

SHORTEST_REACH_DAYS = 7
LONGEST_REACH_DAYS = 14
_KNOT_HOURS = (24, 36, 48, 72, 96, 120, 168, 240, 336)
_CONTROLLED_HOURS = (24, 72, 168)
_PROFILE_WEEKS = 4
_RIDGE_STRENGTH = 8.0
# Days of errors at one horizon from which its bands stand on their own.
_LEAST_ERROR_DAYS = 2
# Errors a week ahead come once a week, so more of them count than those of the next hours.
_MEMORY = Memory(days=10.0, scale_days=3.0)


class DaysAhead:
    """The later part of the forecast, fitted on the panel's first `fit_steps`; hours are blocks of the grid."""

    def __init__(self, panel: Panel, reach_seconds: float) -> None:
        self.panel = panel
        self.size = panel.hour_steps()
        self.step_seconds = self.size * panel.series.step_seconds
        self.day = max(1, panel.day // self.size)
        # One block more than asked for: where hours and blocks do not meet, an hour lies in two of them.
        self.reach = int(-(-reach_seconds // self.step_seconds))
        count = len(panel.believed) // self.size
        self.fitted = max(1, min(panel.fit_steps // self.size, count))
        with all_missing_is_nan():
            grouped = panel.believed[: count * self.size].reshape(count, self.size)
            self.blocks = np.asarray(np.nanmean(grouped, axis=1), dtype=float)
        # A block's bands are those of the steps in it: one of them, another one each time, stands for all.
        number = np.arange(count)
        self.samples = panel.z[number * self.size + (7 * number + number // self.day) % self.size]
        coarse = LoadSeries(panel.series.start_seconds, self.step_seconds, np.exp(self.blocks))
        self.shape = seasonal_shape(coarse, self.blocks, self.fitted, count + self.reach + 2)
        hours = np.array(
            [hour for hour in _KNOT_HOURS if hour * 3600 <= (self.reach + 1) * self.step_seconds]
        )
        self.knots = np.unique(np.maximum(1, hours * 3600 // self.step_seconds))
        self._profiles: dict[int, tuple[Floats, list[Floats]]] = {}
        first = min(14 * self.day, max(self.day, self.fitted // 2))
        self.grid = PastGrid(np.arange(first, max(first + 1, count)), self.knots, 1, self.day)
        self._fit()

    def issue(self, origins: Ints, levels: Floats, highest: Floats) -> Floats:
        """Load quantiles [origin, hour, level] from the end of the first day on; origins are steps of the panel.

        highest[origin] is the z that no quantile exceeds.
        """
        result = []
        horizons = np.arange(self.day + 1, self.reach + 2)
        by_block: dict[int, Floats] = {}
        for row, origin in enumerate(origins):
            ended, begun = divmod(int(origin) + 1, self.size)
            block = max(0, min(ended, len(self.blocks)) - 1)
            if block not in by_block:
                by_block[block] = self._quantiles(np.array([block]), horizons, levels)[0]
            z = by_block[block]
            z = np.maximum(z[:-1], z[1:]) if begun else z[:-1]
            result.append(np.minimum(z, highest[row]))
        return self.panel.load(np.stack(result))

    def _quantiles(self, blocks: Ints, horizons: Ints, levels: Floats) -> Floats:
        wanted = np.concatenate([[0.5], levels])
        offsets = widened(self._offsets(blocks, wanted), self.factors, wanted)[:, :, 1:]
        spread = interpolate_knots(horizons, self.knots, offsets)
        z = self._points(blocks, horizons)[:, :, None] + spread
        return np.asarray(np.maximum.accumulate(z, axis=2), dtype=float)

    def _profile(self, weeks_ago: int) -> tuple[Floats, list[Floats]]:
        """(course over the grid and the reach, level views) from the weeks that are known `weeks_ago` weeks ahead."""
        if weeks_ago not in self._profiles:
            length = len(self.shape)
            weeks = [
                shifted(self.blocks, k * 7 * self.day, length)
                for k in range(weeks_ago, weeks_ago + _PROFILE_WEEKS)
            ]
            with all_missing_is_nan():
                profile = np.asarray(np.nanmedian(np.stack(weeks), axis=0), dtype=float)
            profile = first_known(profile, self.shape)
            deviation = self.blocks - profile[: len(self.blocks)]
            zero = np.zeros(len(deviation))
            week = first_known(trailing_mean(deviation, 7 * self.day, 0.1), zero)
            levels = [first_known(trailing_mean(deviation, self.day, 0.1), week), week]
            self._profiles[weeks_ago] = (profile, levels)
        return self._profiles[weeks_ago]

    def _design(self, blocks: Ints, horizon: int) -> tuple[Floats, Floats]:
        """(course at the target, features [block, feature])."""
        profile, levels = self._profile(-(-horizon // (7 * self.day)))
        target = blocks + horizon
        columns = [self.shape[target] - profile[target], self.shape[blocks] - profile[blocks]]
        columns += [view[blocks] for view in levels]
        return profile[target], np.stack([*columns, np.ones(len(blocks))], axis=1)

    def _fit(self) -> None:
        origins, count = self.grid.origins, len(self.blocks)
        folds = (origins // (2 * self.day)) % 2
        strength = _RIDGE_STRENGTH * max(1.0, 14.0 * self.day / self.fitted) ** 2
        self.coefficients = []
        residual = np.full((len(origins), len(self.knots)), np.nan)
        for k, knot in enumerate(self.knots):
            base, design = self._design(origins, int(knot))
            target = np.full(len(origins), np.nan)
            sample = target.copy()
            inside = origins + knot < count
            target[inside] = self.blocks[origins[inside] + knot]
            sample[inside] = self.samples[origins[inside] + knot]
            moved = target - base
            usable = np.isfinite(moved) & (origins + knot < self.fitted)
            decay = 0.5 ** ((self.fitted - origins) / (HALF_LIFE_DAYS * self.day))
            self.coefficients.append(robust_ridge(design[usable], moved[usable], decay[usable], strength))
            # Errors from the half of the history that the coefficients were not fitted on.
            others = [usable & (folds == fold) for fold in (1, 0)]
            halves = np.stack(
                [robust_ridge(design[rows], moved[rows], decay[rows], strength) for rows in others]
            )
            own = np.where((origins < self.fitted)[:, None], halves[folds], self.coefficients[-1][None])
            residual[:, k] = sample - base - (design * own).sum(axis=1)
        self.bands = ErrorBands(self.grid, residual, self.fitted, _MEMORY)
        newest = self.fitted - 1
        anchors = np.array([k for k in self.knots if k * self.step_seconds // 3600 in _CONTROLLED_HOURS])
        found = [controlled(self.bands, int(np.searchsorted(self.knots, knot)), newest) for knot in anchors]
        self.factors = interpolated(anchors, found, self.knots)

    def _points(self, blocks: Ints, horizons: Ints) -> Floats:
        beta = interpolate_rows(horizons, self.knots, np.stack(self.coefficients))
        columns = []
        for at, horizon in enumerate(horizons):
            base, design = self._design(blocks, int(horizon))
            columns.append(base + design @ beta[at])
        return np.stack(columns, axis=1)

    def _offsets(self, blocks: Ints, levels: Floats) -> Floats:
        """Band offsets; a horizon with too few errors takes those of the last one with enough, wider by the root of
        the times."""
        offsets = self.bands.offsets(blocks, levels)
        known = np.isfinite(self.bands.residual).sum(axis=0)
        enough = np.flatnonzero(known >= _LEAST_ERROR_DAYS * self.day)
        last = int(enough[-1]) if len(enough) else 0
        for k in range(last + 1, len(self.knots)):
            offsets[:, k] = offsets[:, last] * np.sqrt(self.knots[k] / self.knots[last])
        return offsets
