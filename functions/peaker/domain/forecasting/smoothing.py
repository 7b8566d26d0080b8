"""Holt-Winters in numpy: additive level with daily and weekly seasons on hourly blocks of z.

A whole history is filtered once, for several smoothing rates side by side; the states it leaves behind give
the forecast of every past origin, so the model is scored like the others without being run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from .panel import Panel
from .series import Floats, Ints
from .windows import all_missing_is_nan, trailing_mean

# (level rate, daily season rate, weekly season rate) per hourly block.
_RATES = np.array(
    [
        (0.1, 0.1, 0.1),
        (0.3, 0.1, 0.1),
        (0.6, 0.1, 0.1),
        (0.9, 0.1, 0.1),
        (0.3, 0.3, 0.2),
        (0.6, 0.3, 0.2),
    ]
)
_SCORED_AHEAD_BLOCKS = (1, 3, 6, 24)


@dataclass(frozen=True)
class SmoothedStates:
    """Level and seasons after each block, for the chosen rates."""

    block_steps: int
    rate: float
    level: Floats
    season_ahead: Floats
    hour_mean: Floats
    panel: Panel

    def forecast(self, origins: Ints, horizons: Ints) -> Floats:
        """z for every (origin, horizon).

        The level takes in the last hour before the origin, not the last full block.
        """
        size = self.block_steps
        # The last block that had ended an hour (one block) before the origin's own trailing hour began.
        done = np.clip((origins + 1) // size - 1, 0, len(self.level) - 1)
        previous = np.maximum(0, done - 1)
        season_now = self._season_at(done, origins - (size - 1) // 2)
        now = self.hour_mean[origins]
        level = self.level[previous]
        moved = level + self.rate * (now - season_now - level)
        level = np.where(np.isfinite(moved), moved, self.level[done])
        columns = [level + self._season_at(done, origins + horizon) for horizon in horizons]
        return np.stack(columns, axis=1)

    def _season_at(self, done: Ints, steps: Ints) -> Floats:
        """The season known after block `done`, at a grid step, interpolated between block centres."""
        size = self.block_steps
        position = (steps - (size - 1) / 2) / size
        low = np.floor(position).astype(np.int64)
        part = position - low
        ahead = self.season_ahead.shape[1]
        offset = np.clip(low - done, 0, ahead - 2)
        left = self.season_ahead[done, offset]
        right = self.season_ahead[done, offset + 1]
        return np.asarray((1 - part) * left + part * right, dtype=float)


def smooth_panel(panel: Panel) -> SmoothedStates:
    """Filter the panel's history; the rates are those with the least error over its fitted part."""
    size = panel.hour_steps()
    blocks = len(panel.believed) // size
    with all_missing_is_nan():
        means = np.nanmean(panel.believed[: blocks * size].reshape(blocks, size), axis=1)
    day = panel.day // size if panel.day >= size else 1
    fitted = max(1, min(panel.fit_steps // size, blocks))
    level, daily, weekly = _filter(means, day, fitted)
    scores = _scores(means[:fitted], level, daily, weekly)
    best = int(np.argmin(scores))
    season = _season_ahead(daily.of_rate(best), weekly.of_rate(best), blocks, day)
    return SmoothedStates(
        size, float(_RATES[best, 0]), level[:, best], season, trailing_mean(panel.believed, size), panel
    )


@dataclass(frozen=True)
class _Season:
    """A season of `period` blocks, each of which changes once in a period.

    moved[period + b] is what block b left of its place in the season; the first period is the season to begin with.
    """

    period: int
    moved: Floats

    def known_at(self, blocks: Ints, ahead: Ints) -> Floats:
        """The season of block b + ahead, as it was known after block b."""
        periods_ago = -(-ahead // self.period)
        return np.asarray(self.moved[blocks + ahead + self.period * (1 - periods_ago)], dtype=float)

    def of_rate(self, rate: int) -> _Season:
        """That of one of the rates."""
        return _Season(self.period, self.moved[:, rate])


def _filter(means: Floats, day: int, fitted: int) -> tuple[Floats, _Season, _Season]:
    """(level [block, rate], the daily season, the weekly season) after each block."""
    week = 7 * day
    opening = means[: min(day, fitted)]
    known = opening[np.isfinite(opening)]
    start = float(known.mean()) if len(known) else 0.0
    first_day = np.where(np.isfinite(means[:day]), means[:day] - start, 0.0)
    padded = np.concatenate([first_day, np.zeros(max(0, day - len(first_day)))])[:day].tolist()
    filtered = [
        _filter_at(rates, means.tolist(), start, padded.copy(), [0.0] * week) for rates in _RATES.tolist()
    ]
    level, daily, weekly = (np.array(each).T for each in zip(*filtered, strict=True))
    return level, _Season(day, daily), _Season(week, weekly)


def _filter_at(
    rates: Sequence[float], means: Sequence[float], now: float, daily: list[float], weekly: list[float]
) -> tuple[list[float], list[float], list[float]]:
    """The level from `now` on, and the seasons with what each block made of them, in plain numbers: each block needs
    the one before, and arrays of a few numbers are slow."""
    alpha, gamma, omega = rates
    level: list[float] = []
    for at, value in enumerate(means):
        of_day, of_week = daily[at], weekly[at]
        if isfinite(value):
            error = value - now - of_day - of_week
            now += alpha * error
            left = (1 - alpha) * error
            of_day += gamma * left
            of_week += omega * left
        level.append(now)
        daily.append(of_day)
        weekly.append(of_week)
    return level, daily, weekly


def _scores(means: Floats, level: Floats, daily: _Season, weekly: _Season) -> Floats:
    """Mean absolute error over several horizons, the later half of the history counting."""
    count = len(means)
    total = np.zeros(len(_RATES))
    for ahead in _SCORED_AHEAD_BLOCKS:
        at = np.arange(count // 3, count - ahead)
        if not len(at):
            continue
        target = means[at + ahead]
        so_far = np.array(ahead)
        predicted = level[at] + daily.known_at(at, so_far) + weekly.known_at(at, so_far)
        with all_missing_is_nan():
            error = np.nanmean(np.abs(target[:, None] - predicted), axis=0)
        total += np.nan_to_num(error, nan=0.0)
    return total


def _season_ahead(daily: _Season, weekly: _Season, blocks: int, day: int) -> Floats:
    """season[b, j]: the season after block b for block b + j, j = 0 .. a day and a bit."""
    ahead = np.arange(day + 3)[None, :]
    at = np.arange(blocks)[:, None]
    return np.asarray(daily.known_at(at, ahead) + weekly.known_at(at, ahead), dtype=float)
