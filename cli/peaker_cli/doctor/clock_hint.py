"""The clock hint decides, by the week after a clock change, whether a load followed another clock than its
settings'.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

import numpy as np
from peaker.domain.forecasting.local_clock import on_local_clock, utc_offsets
from peaker.domain.forecasting.series import DAY_SECONDS, Floats, LoadSeries

_WEEK_SECONDS = 7 * DAY_SECONDS
_LEAST_SECONDS = 2 * DAY_SECONDS
_LONGEST_STEP_SECONDS = 3600
# The other clock must bring the load this much nearer to that of the week before.
_MOST_ERROR_SHARE = 0.7


def better_zone(series: LoadSeries, zone: tzinfo, others: Mapping[str, tzinfo]) -> str | None:
    """The name of the zone on whose clock the load repeats itself better than on that of `zone`.

    The load of up to seven days after a change of either clock is held against the same local time a week before. None
    where no clock changed in the history, where a day or less of it is known after the change, or where no zone is
    clearly better.
    """
    best, found = _MOST_ERROR_SHARE, None
    for name, other in others.items():
        changed_at = _change_between(series, zone, other)
        if changed_at is None:
            continue
        known = series.until(changed_at + _WEEK_SECONDS)
        steps = int((known.end_seconds - changed_at) // series.step_seconds)
        here, there = (_error(on_local_clock(known, one), steps) for one in (zone, other))
        if there < best * here:
            best, found = there / here, name
    return found


def _change_between(series: LoadSeries, zone: tzinfo, other: tzinfo) -> float | None:
    """Returns the last change of the two clocks' distance with a week known before it and two days after it."""
    if series.step_seconds > _LONGEST_STEP_SECONDS:
        return None
    times = series.start_seconds + series.step_seconds * np.arange(len(series.values), dtype=np.float64)
    changed = times[1:][np.diff(utc_offsets(other, times) - utc_offsets(zone, times)) != 0]
    usable = (changed >= series.start_seconds + _WEEK_SECONDS) & (
        changed <= series.end_seconds - _LEAST_SECONDS
    )
    return float(changed[usable][-1]) if usable.any() else None


def _error(local: LoadSeries, steps: int) -> float:
    """The mean distance, in logarithms, of the last `steps` loads to those of a week before."""
    week = 7 * local.steps_per_day
    now, before = local.values[-steps:], local.values[-steps - week : -week]
    offset = 0.05 * float(np.nanmean(local.values)) + 1e-9
    apart: Floats = np.abs(np.log((now + offset) / (before + offset)))
    return float(apart[np.isfinite(apart)].mean()) if np.isfinite(apart).any() else float("inf")
