"""Raises the upper bands where past errors are no guide.

A rise that was hardly ever seen is taken to last, with the loads about it as they were about each hour so far. A fall
that was hardly ever seen, and of which half is gone again, is taken to go in full: an outage ends faster than the
errors of usual days let a band rise. A load that cannot be forecast is what it was in the last week.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .panel import Panel, hour_deviation
from .series import Floats, Ints

GUARDED_FROM = 0.9
_MEMORY_DAYS = 28
_RARE = 0.01
# A fall this young is not yet among those that it is compared with.
_FALL_DAYS = 1.5
_LEAST_HOURS = 24
_GONE_SHARE = 0.5

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Guards:
    """What was usual when the models were fitted.

    rose_above and fell_below are deviations of an hour from the profile, in z, that were passed in 1 % of four weeks;
    infinite where too little is known. beside are the deviations of single loads from the hour before them, in z: where
    an hour's level lasts, half of the loads lie above it. usual are the deviations, in z, of the loads before a fall;
    last_week are the last week's loads in z, where nothing can be forecast.
    """

    panel: Panel
    rose_above: float
    fell_below: float
    beside: Floats
    usual: Floats
    last_week: Floats

    def seen(self, origins: Ints) -> Seen:
        """What the hour before each origin shows."""
        deviation = hour_deviation(self.panel)
        fall = round(_FALL_DAYS * self.panel.day)
        now = np.nan_to_num(deviation[origins], nan=0.0)
        before = [deviation[max(0, at - fall) : at + 1] for at in origins]
        lowest = np.array([np.fmin.reduce(each, initial=0.0) for each in before], dtype=float)
        fallen = now < self.fell_below
        returning = fallen & (now > (1 - _GONE_SHARE) * lowest)
        return Seen(now, now > self.rose_above, fallen, returning)

    def raised(self, z: Floats, origins: Ints, horizons: Ints, levels: Floats, seen: Seen) -> Floats:
        """Quantiles z [origin, horizon, level] from p90 on, at least what the guards say."""
        profile = self.panel.profile_ahead[origins[:, None] + horizons[None, :]][:, :, None]
        floor = np.full(z.shape, -np.inf)
        rows = seen.shifted
        if rows.any():
            lasting = profile[rows] + seen.deviation[rows, None, None]
            spread = np.quantile(self.beside, levels) if len(self.beside) else np.zeros(len(levels))
            floor[rows] = lasting + np.maximum(0.0, spread)
        rows = seen.returning
        if rows.any():
            floor[rows] = profile[rows] + np.quantile(self.usual, levels)
        if len(self.last_week):
            floor = np.maximum(floor, np.quantile(self.last_week, levels))
        return np.where(levels >= GUARDED_FROM, np.maximum(z, floor), z)


@dataclass(frozen=True)
class Seen:
    """Per origin: the last hour's deviation in z, whether it is a rare rise or fall, whether a rare fall goes away."""

    deviation: Floats
    shifted: Flags
    fallen: Flags
    returning: Flags


def guards_of(panel: Panel, *, unforecastable: bool) -> Guards:
    """The guards from the panel's first `fit_steps`."""
    fit, day = panel.fit_steps, panel.day
    since = max(0, fit - _MEMORY_DAYS * day)
    deviation = hour_deviation(panel)
    single = panel.believed[:fit] - panel.profile_ahead[:fit]
    risen = _known(deviation[since:fit])
    before = max(since, fit - round(_FALL_DAYS * day))
    fallen = _known(deviation[since:before])
    return Guards(
        panel=panel,
        rose_above=float(np.quantile(risen, 1 - _RARE)) if len(risen) > _LEAST_HOURS else np.inf,
        fell_below=float(np.quantile(fallen, _RARE)) if len(fallen) > _LEAST_HOURS else -np.inf,
        beside=_known((single[1:] - deviation[: fit - 1])[since:]),
        usual=_known(single[since:before]),
        last_week=_known(panel.believed[max(0, fit - 7 * day) : fit]) if unforecastable else np.empty(0),
    )


def _known(values: Floats) -> Floats:
    return np.asarray(values[np.isfinite(values)], dtype=float)
