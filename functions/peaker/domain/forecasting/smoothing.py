"""Holt-Winters in numpy: additive level with daily and weekly seasons on hourly blocks of z.

A whole history is filtered once, for several smoothing rates side by side; the states it leaves behind give
the forecast of every past origin, so the model is scored like the others without being run again.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    scores = _scores(means[:fitted], level, daily, weekly, day)
    best = int(np.argmin(scores))
    season = _season_ahead(daily[:, :, best], weekly[:, :, best], blocks, day)
    return SmoothedStates(
        size, float(_RATES[best, 0]), level[:, best], season, trailing_mean(panel.believed, size), panel
    )


def _filter(means: Floats, day: int, fitted: int) -> tuple[Floats, Floats, Floats]:
    count, rates = len(means), len(_RATES)
    alpha, gamma, omega = _RATES.T
    week = 7 * day
    opening = means[: min(day, fitted)]
    known = opening[np.isfinite(opening)]
    start = float(known.mean()) if len(known) else 0.0
    level_now = np.full(rates, start)
    first_day = np.where(np.isfinite(means[:day]), means[:day] - start, 0.0)
    padded = np.concatenate([first_day, np.zeros(max(0, day - len(first_day)))])[:day]
    daily_now = np.repeat(padded[:, None], rates, axis=1)
    weekly_now = np.zeros((week, rates))
    level = np.empty((count, rates))
    daily = np.empty((count, day, rates))
    weekly = np.empty((count, week, rates))
    for at in range(count):
        value = means[at]
        if np.isfinite(value):
            d, w = at % day, at % week
            error = value - level_now - daily_now[d] - weekly_now[w]
            level_now = level_now + alpha * error
            left = (1 - alpha) * error
            daily_now[d] += gamma * left
            weekly_now[w] += omega * left
        level[at] = level_now
        daily[at] = daily_now
        weekly[at] = weekly_now
    return level, daily, weekly


def _scores(means: Floats, level: Floats, daily: Floats, weekly: Floats, day: int) -> Floats:
    """Mean absolute error over several horizons, the later half of the history counting."""
    count = len(means)
    total = np.zeros(len(_RATES))
    for ahead in _SCORED_AHEAD_BLOCKS:
        at = np.arange(count // 3, count - ahead)
        if not len(at):
            continue
        target = means[at + ahead]
        predicted = level[at] + daily[at, (at + ahead) % day] + weekly[at, (at + ahead) % (7 * day)]
        with all_missing_is_nan():
            error = np.nanmean(np.abs(target[:, None] - predicted), axis=0)
        total += np.nan_to_num(error, nan=0.0)
    return total


def _season_ahead(daily: Floats, weekly: Floats, blocks: int, day: int) -> Floats:
    """season[b, j]: the season after block b for block b + j, j = 0 .. a day and a bit."""
    ahead = np.arange(day + 3)
    at = np.arange(blocks)[:, None]
    target = at + ahead[None, :]
    return np.asarray(daily[at, target % day] + weekly[at, target % (7 * day)], dtype=float)
