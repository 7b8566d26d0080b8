"""A load on its readers' clock: local history for the forecaster, and its local forecast back in real time.

The history is put as if the clock had always stood as it stands at its end, so that "the same hour last week" is the
same local hour after a change of the clock in either direction. Without a change in reach nothing moves.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from .forecast import Forecast
from .series import Floats, Ints, LoadSeries

# Clocks are changed at a full or a half hour of UTC.
_LOOK_SECONDS = 1800


def utc_offsets(zone: tzinfo, times_seconds: Floats) -> Ints:
    """Seconds that the zone's clock is ahead of UTC at each time."""
    if zone is UTC:
        return np.zeros(len(times_seconds), dtype=np.int64)
    looks, at = np.unique(np.floor_divide(times_seconds, _LOOK_SECONDS).astype(np.int64), return_inverse=True)
    offsets = [
        (datetime.fromtimestamp(look * _LOOK_SECONDS, zone).utcoffset() or timedelta()).total_seconds()
        for look in looks.tolist()
    ]
    return np.array(offsets, dtype=np.int64)[at]


def clock_changes(zone: tzinfo, from_seconds: float, until_seconds: float) -> bool:
    """Whether the zone's clock is changed between the two times."""
    looks = np.arange(from_seconds, until_seconds + _LOOK_SECONDS, _LOOK_SECONDS, dtype=np.float64)
    offsets = utc_offsets(zone, looks)
    return bool((offsets != offsets[0]).any())


def on_local_clock(series: LoadSeries, zone: tzinfo) -> LoadSeries:
    """The series as if the clock had always stood as at its end; the end stays, the beginning moves.

    An hour that the clock skips is unknown. Of an hour that it repeats the later pass counts: a mean or a maximum would
    make the newest load another one than was measured. A step that is no part of the change goes to the nearest one.
    """
    count, step = len(series.values), series.step_seconds
    if not count:
        return series
    offsets = utc_offsets(zone, series.start_seconds + step * np.arange(count, dtype=np.float64))
    moved = np.rint((offsets - offsets[-1]) / step).astype(np.int64)
    if not moved.any():
        return series
    local = np.arange(count) + moved
    first = int(local.min())
    seen = np.isfinite(series.values) & (local < count)
    values = np.full(count - first, np.nan)
    # Of steps that meet, numpy leaves the last one, which is the later in time.
    values[local[seen] - first] = series.values[seen]
    return LoadSeries(series.start_seconds + first * step, step, values)


def in_real_time(local: Forecast, zone: tzinfo) -> Forecast:
    """A forecast that was made on the clock of its time of issue, moved by the changes of the clock that lie ahead.

    A skipped hour is left out, a repeated one comes twice; what lies before the first step or behind the last one is
    that step.
    """
    near, later, step = local.quantiles, local.later_quantiles, local.step_seconds
    if near is None:
        return local
    size = local.later_step_seconds // step
    whole = near if later is None else np.concatenate([near, np.repeat(later, size, axis=0)])
    # The step before the first one is the newest that was measured: its clock is the forecast's.
    ahead = local.issued_at_seconds + step * np.arange(-1, len(whole), dtype=np.float64)
    offsets = utc_offsets(zone, ahead)
    moved = np.rint((offsets[1:] - offsets[0]) / step).astype(np.int64)
    if not moved.any():
        return local
    real = whole[np.clip(np.arange(len(whole)) + moved, 0, len(whole) - 1)]
    hours = None if later is None else real[len(near) :].reshape(len(later), size, -1).max(axis=1)
    return replace(local, quantiles=real[: len(near)], later_quantiles=hours)
