"""Load per replica beside how the service answered, step by step: what can be seen of a replica's capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import UnusableSeries, series_from_points
from peaker.domain.forecasting.series import DAY_SECONDS, step_for_period

from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import PastLoad
from peaker_backtest.points import iso

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Limit:
    """How slow or how busy a replica may be: `value` in `unit` (ms or %) of what is measured, in words."""

    value: float
    unit: str
    measure: str
    option: str

    def __str__(self) -> str:
        return f"{self.value:g} {self.unit}"


@dataclass(frozen=True)
class Observations:
    """Steps in which load, measure and the number of replicas are known, in order of time.

    loads: load-metric units per replica. measures: in the limit's unit. days: whole UTC days since the epoch. notes:
    what was left out, in words.
    """

    step_seconds: int
    times: Floats
    loads: Floats
    measures: Floats
    days: Ints
    replicas: tuple[int, int]
    notes: tuple[str, ...] = ()

    def without_days(self, days: Sequence[int]) -> Observations:
        """The observations of all other days."""
        kept = ~np.isin(self.days, np.array(days, dtype=np.int64))
        return Observations(
            self.step_seconds, self.times[kept], self.loads[kept], self.measures[kept], self.days[kept],
            self.replicas, self.notes,
        )  # fmt: skip

    @property
    def day_count(self) -> int:
        return len(np.unique(self.days))


def observe(load: PastLoad, measure: PastLoad, serving: PastLoad | int) -> Observations:
    """The steps of the longest of the three periods in which all three are known. Raises BadInput.

    A step in which the number of replicas changed, and those beside it, are left out: who had which share of the load
    is not known there. Latencies and CPU of 0 are those of a replica without a request: no measure.
    """
    series = [load, measure, *([serving] if isinstance(serving, PastLoad) else [])]
    step = step_for_period(max(one.period_seconds for one in series))
    begin = np.floor(max(one.times_seconds[0] for one in series) / step) * step
    end = np.ceil((min(one.times_seconds[-1] for one in series) + 1) / step) * step
    if end <= begin:
        spans = "; ".join(f"{iso(one.times_seconds[0])} to {iso(one.times_seconds[-1])}" for one in series)
        raise BadInput(
            f"load, measure and replicas have no time in common ({spans}): export the same days, or check "
            "--time-zone",
            field="--measure",
        )
    loads, measures = _on_grid(load, step, begin, end), _on_grid(measure, step, begin, end)
    replicas = (
        _on_grid(serving, step, begin, end)
        if isinstance(serving, PastLoad)
        else np.full(len(loads), float(serving))
    )
    known = np.isfinite(loads) & np.isfinite(measures) & (measures > 0)
    steady = np.isfinite(replicas) & (replicas >= 1) & (replicas == np.round(replicas))
    with_count = known & np.isfinite(replicas)
    steady &= ~_beside_a_change(replicas)
    kept = known & steady
    notes = []
    if (missing := int((np.isfinite(loads) & ~known).sum())) > 0:
        notes.append(f"{missing:,} steps have no measure, or one of 0")
    if (uncounted := int((known & ~np.isfinite(replicas)).sum())) > 0:
        notes.append(f"in {uncounted:,} steps the number of replicas is not known")
    if (changed := int((with_count & ~steady).sum())) > 0:
        notes.append(f"{changed:,} steps lie at a change of the number of replicas: left out")
    times = begin + step * np.arange(len(loads), dtype=np.float64)
    seen = replicas[kept]
    span = (int(seen.min()), int(seen.max())) if len(seen) else (0, 0)
    return Observations(
        step, times[kept], loads[kept] / seen, measures[kept], (times[kept] // DAY_SECONDS).astype(np.int64),
        span, tuple(notes),
    )  # fmt: skip


def _on_grid(one: PastLoad, step: int, begin: float, end: float) -> Floats:
    """The means of each step from `begin` to `end`, NaN where nothing was seen."""
    found = np.full(round((end - begin) / step), np.nan)
    try:
        days = (end - min(one.times_seconds)) / DAY_SECONDS + 1
        series = series_from_points(
            one.times_seconds, one.values, now_seconds=end, period_seconds=step, keep_days=days
        )
    except UnusableSeries as error:
        raise BadInput(str(error)) from error
    offset = round((series.start_seconds - begin) / step)
    values = series.values[max(0, -offset) :]
    at = max(0, offset)
    found[at : at + len(values)] = values[: max(0, len(found) - at)]
    return found


def _beside_a_change(replicas: Floats) -> NDArray[np.bool_]:
    """Whether the count is not a whole one, or another than in the step before or after."""
    differs = np.isfinite(replicas[1:] + replicas[:-1]) & (replicas[1:] != replicas[:-1])
    found = np.zeros(len(replicas), dtype=bool)
    found[1:] |= differs
    found[:-1] |= differs
    return found
