"""Forecasts a cluster's demand: a pure function of its history and the time.

What it does with hard input (each has a test):
- no points, or all missing: `reactive_only`, no quantiles. Unknown is not zero.
- under 3 days of history: `reactive_only`. 3 to 14 days: `scale_out_only`. 14 days and more: `normal`.
- a metric up to 15 minutes late (beyond its own period): carried on. Up to 60 minutes: longer level windows.
  Later than that: `stale`, which forbids scale-in.
- gaps: missing stays missing; medians over four weeks and longer level windows step over it.
- one point above 3 x p99: not believed until a second one follows within three steps.
- a level shift: the experts that follow the level gain weight within hours; until then the guard keeps the
  upper bands at least at "what we see now persists in full", and forbids scale-in for an hour.
- a rare fall, which may be an outage: a replica goes only after half a lead time of it.
- an outage: once half of a rare fall is gone, the upper bands expect all of it back (guards.py).
- a series of zeros or of one value: that value, with a band as wide as its past errors (none).
- clock changes: the rhythm is of the local hours of a zone (local_clock.py); the newest load and its age are of
  real time.
- bands that cover too little: their width follows the loads that came (control.py), so cost grows in proportion. Below
  65 % the load is `degraded`, and its upper bands are at least the quantiles of the last week.
- growth: no band reaches above the highest load of four weeks by more than a week's growth, once it is measured.
- a utilisation instead of a demand: said in the reasons, and `degraded`, because scaling itself changes it; for the
  same reason a low one removes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import cached_property

import numpy as np

from .blend import Blend
from .control import Controlled, controlled, interpolated, widened
from .days_ahead import SHORTEST_REACH_DAYS, DaysAhead
from .forecast import LEVELS, Forecast, Standing
from .guards import Guards, Seen, guards_of
from .intervals import interpolate_knots
from .local_clock import clock_changes, in_real_time, on_local_clock, utc_offsets
from .panel import believable, build_panel, highest_loads
from .series import DAY_SECONDS, KEPT_HISTORY_DAYS, Floats, Ints, LoadSeries

REACTIVE_ONLY_BELOW_DAYS = 3.0
SCALE_OUT_ONLY_BELOW_DAYS = 14.0
LATE_SECONDS = 900.0
STALE_SECONDS = 3600.0
# Below this share of the week's loads under p95 at the lead time, as the bands were then, a load cannot be forecast.
UNFORECASTABLE_COVERAGE = 0.65
_CONTROLLED_MINUTES = (60, 240, 1440)
_SATURATED_SHARE = 0.002


@dataclass(frozen=True)
class _Judged:
    """How far the forecast may be used at one lead time, and the factors on the width of its bands."""

    factors: Floats
    coverage: float | None
    standing: Standing
    guards: Guards
    reasons: tuple[str, ...]


class Forecaster:
    """Fits the models once, on the first `fit_steps` of a load (all by default), and forecasts for any lead time.

    Origins are steps of the series, the last one then known; those after the fit see newer loads, but no newer fit.
    `events` are the times, from and until, of the events that multiply a load: what came then was multiplied already.
    """

    def __init__(
        self,
        series: LoadSeries,
        fit_steps: int | None = None,
        *,
        levels: Sequence[float] = LEVELS,
        horizon_steps: int | None = None,
        reach_seconds: float = SHORTEST_REACH_DAYS * DAY_SECONDS,
        zone: tzinfo = UTC,
        events: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.series = series
        self.levels = tuple(sorted(levels))
        self.zone = zone
        self.reach_seconds = reach_seconds
        self.horizons = np.arange(1, 1 + min(horizon_steps or series.steps_per_day, series.steps_per_day))
        self.fit_steps = len(series.values) if fit_steps is None else fit_steps
        self.fitted = LoadSeries(series.start_seconds, series.step_seconds, series.values[: self.fit_steps])
        self.believed = believable(series.values, self.fit_steps)
        self.usual = _outside(events, series, self.believed)
        self.utilisation = utilisation_reasons(self.fitted)
        self.days = self.fitted.span_days()
        self._controls: dict[int, Controlled] = {}

    def at_the_end(self, lead_seconds: float) -> Forecast:
        return self.issue([len(self.series.values) - 1], lead_seconds)[0]

    def issue(self, origins: Sequence[int], lead_seconds: float) -> list[Forecast]:
        """Forecast from each origin, judged at `lead_seconds` (the lead time that triggers)."""
        if self.days < REACTIVE_ONLY_BELOW_DAYS:
            return [self._without_models(origin) for origin in origins]
        at = np.asarray(origins)
        judged = self._judged(lead_seconds)
        loads, seen = self._quantiles(judged, at + self._moved)
        later = self._later(at + self._moved)
        begins = self._end_of(int(at[0]))
        is_moved = clock_changes(
            self.zone, begins, self._end_of(int(at[-1])) + max(self.reach_seconds, DAY_SECONDS)
        )
        found = []
        for row, origin in enumerate(origins):
            age, last_load = newest_load(self.series, self.believed, origin)
            reasons = [*self.utilisation, *_late(age), *self._young()]
            if seen.shifted[row]:
                reasons.append(
                    "level shift: the last hour was higher than 99 % of the last 28 days; no scale-in for an hour"
                )
            if seen.returning[row]:
                reasons.append("the load comes back from a rare low: the upper bands expect all of it back")
            issued = Forecast(
                issued_at_seconds=self._end_of(origin),
                step_seconds=self.series.step_seconds,
                levels=self.levels,
                quantiles=loads[row],
                standing=judged.standing,
                reasons=(*reasons, *judged.reasons),
                coverage=judged.coverage,
                age_seconds=age,
                last_load=last_load,
                shifted=bool(seen.shifted[row]),
                fallen=bool(seen.fallen[row]),
                stale=age is None or age > STALE_SECONDS,
                is_young=self.days < SCALE_OUT_ONLY_BELOW_DAYS,
                later_quantiles=None if later is None else later[row],
                later_step_seconds=self.series.step_seconds
                if later is None
                else self._days_ahead.step_seconds,
                utilisation=bool(self.utilisation),
                highest_load=_highest(self.usual[: origin + 1], self.believed[: origin + 1]),
            )
            found.append(in_real_time(issued, self.zone) if is_moved else issued)
        return found

    @cached_property
    def _blend(self) -> Blend:
        local = on_local_clock(self._trimmed, self.zone)
        return Blend(build_panel(local, self.fit_steps + len(local.values) - len(self.series.values)))

    @cached_property
    def _trimmed(self) -> LoadSeries:
        """The series from its first point on."""
        series = self.series
        first = int(np.flatnonzero(np.isfinite(series.values))[0])
        start = series.start_seconds + first * series.step_seconds
        return LoadSeries(start, series.step_seconds, series.values[first:])

    @cached_property
    def _moved(self) -> int:
        """What turns a step of the series into one of the panel."""
        return len(self._blend.panel.believed) - len(self.series.values)

    @cached_property
    def _days_ahead(self) -> DaysAhead:
        return DaysAhead(self._blend.panel, self.reach_seconds)

    @cached_property
    def _highest(self) -> Floats:
        return highest_loads(self._blend.panel)

    def _end_of(self, step: int) -> float:
        return self.series.start_seconds + (step + 1) * self.series.step_seconds

    def _young(self) -> list[str]:
        if self.days >= SCALE_OUT_ONLY_BELOW_DAYS:
            return []
        return [f"{self.days:.1f} days of history: it may add replicas, it may not remove any"]

    def _quantiles(self, judged: _Judged, origins: Ints) -> tuple[Floats, Seen]:
        """(load quantiles [origin, horizon, level], what the hour before each origin shows)."""
        blend, panel = self._blend, self._blend.panel
        levels = np.array(self.levels)
        wanted = np.concatenate([[0.5], levels])
        offsets = widened(blend.bands.offsets(origins, wanted), judged.factors, wanted)[:, :, 1:]
        spread = interpolate_knots(self.horizons, blend.grid.knots, offsets)
        middle = blend.points(origins, self.horizons)[:, :, None]
        z = np.minimum(middle + spread, np.maximum(self._highest[origins][:, None, None], middle))
        seen = judged.guards.seen(origins)
        z = judged.guards.raised(z, origins, self.horizons, levels, seen)
        z = np.minimum(np.maximum.accumulate(z, axis=2), blend.highest)
        return panel.load(z), seen

    def _later(self, origins: Ints) -> Floats | None:
        """Quantiles [origin, hour, level] from the second day on; None where only the first day is asked for."""
        if self.reach_seconds <= DAY_SECONDS:
            return None
        return self._days_ahead.issue(origins, np.array(self.levels), self._highest[origins])

    def _judged(self, lead_seconds: float) -> _Judged:
        """Judge the bands by the share of the last week's loads that they covered at the lead time."""
        factors, lead = self._control(lead_seconds)
        coverage = None if lead.coverage is None else float(lead.coverage[-1])
        reasons = []
        if lead.factors[-1] > 1.1:
            reasons.append(
                f"p95 is {lead.factors[-1] - 1:.0%} wider than past errors, so that it covers again"
            )
        is_unforecastable = bool(self.utilisation) or (
            coverage is not None and coverage < UNFORECASTABLE_COVERAGE
        )
        standing = Standing.NORMAL if self.days >= SCALE_OUT_ONLY_BELOW_DAYS else Standing.SCALE_OUT_ONLY
        if is_unforecastable:
            standing = Standing.DEGRADED
        if is_unforecastable and coverage is not None:
            reasons.append(f"p95 covered {coverage:.0%} of the week")
        guards = guards_of(self._blend.panel, unforecastable=is_unforecastable)
        return _Judged(factors, coverage, standing, guards, tuple(reasons))

    def _control(self, lead_seconds: float) -> tuple[Floats, Controlled]:
        """(factors on the bands' width [knot, level], the control at the lead time)."""
        blend, panel = self._blend, self._blend.panel
        lead = blend.knot_for(max(1, round(lead_seconds / self.series.step_seconds)))
        at = sorted({lead, *(blend.knot_for(panel.steps(minutes)) for minutes in _CONTROLLED_MINUTES)})
        for knot in at:
            if knot not in self._controls:
                self._controls[knot] = controlled(blend.bands, knot, panel.fit_steps - 1)
        each = [self._controls[knot] for knot in at]
        knots = blend.grid.knots
        return interpolated(knots[at], each, knots), self._controls[lead]

    def _without_models(self, origin: int) -> Forecast:
        """What is known where the history is too short for a forecast."""
        age, last_load = newest_load(self.series, self.believed, origin)
        known = np.isfinite(self.series.values[: origin + 1]).any()
        why = "the metric has no points: nothing is known about the load"
        if known:
            why = (
                f"{self.days:.1f} of {REACTIVE_ONLY_BELOW_DAYS:.0f} days of load: only the load itself counts"
            )
        return Forecast(
            issued_at_seconds=self._end_of(origin),
            step_seconds=self.series.step_seconds,
            levels=self.levels,
            quantiles=None,
            standing=Standing.REACTIVE_ONLY,
            reasons=(*self.utilisation, *_late(age), why),
            age_seconds=age,
            last_load=last_load,
            stale=age is None or age > STALE_SECONDS,
        )


def _late(age_seconds: float | None) -> list[str]:
    if age_seconds is None or age_seconds <= LATE_SECONDS:
        return []
    word = "stale" if age_seconds > STALE_SECONDS else "late"
    return [f"metric_{word}: the newest point is {age_seconds / 60:.0f} min late"]


def rolling_forecasts(
    series: LoadSeries,
    origins: Sequence[int],
    lead_seconds: Sequence[float],
    horizon_steps: int,
    reach_seconds: float = 0.0,
    zone: tzinfo = UTC,
) -> Iterator[tuple[int, tuple[Forecast, ...]]]:
    """Forecast as it would have been at each origin (the last step then known), once per lead time.

    The models are fitted once a day, and where the clock of `zone` changes, on the loads known by then; loads are taken
    in at every origin. Origins must ascend. A forecast reaches `horizon_steps` of the first day ahead, or, where
    `reach_seconds` is more than a day, so far.
    """
    day, step = series.steps_per_day, series.step_seconds
    position = 0
    offsets = utc_offsets(zone, series.start_seconds + step * np.asarray(origins, dtype=float))
    while position < len(origins):
        fitted_at = origins[position]
        chunk = [
            one for one, offset in zip(origins[position : position + day], offsets[position:], strict=False)
            if one < fitted_at + day and offset == offsets[position]
        ]  # fmt: skip
        position += len(chunk)
        first = max(0, fitted_at + 1 - KEPT_HISTORY_DAYS * day)
        part = LoadSeries(series.start_seconds + first * step, step, series.values[first : chunk[-1] + 1])
        forecaster = Forecaster(
            part, fitted_at + 1 - first, horizon_steps=day if reach_seconds > DAY_SECONDS else horizon_steps,
            reach_seconds=reach_seconds, zone=zone,
        )  # fmt: skip
        inside = [one - first for one in chunk]
        issued = [forecaster.issue(inside, lead) for lead in lead_seconds]
        yield from zip(chunk, zip(*issued, strict=True), strict=True)


def newest_load(series: LoadSeries, believed: Floats, origin: int) -> tuple[float | None, float | None]:
    """(age in seconds beyond its own step of the newest point, the newest value that is believed) at `origin`.

    The age is None without any point, the value without one in a day. `believed` is the series without lone spikes; a
    point of half an hour and more is a mean of many, and believed as it is.
    """
    if series.step_seconds >= LATE_SECONDS:
        believed = series.values
    seen = np.flatnonzero(np.isfinite(series.values[: origin + 1]))
    if not len(seen):
        return None, None
    first = max(0, origin - series.steps_per_day)
    good = np.flatnonzero(np.isfinite(believed[first : origin + 1]))
    age = float(origin - seen[-1]) * series.step_seconds
    return age, float(believed[first + good[-1]]) if len(good) else None


def _outside(events: Sequence[tuple[float, float]], series: LoadSeries, values: Floats) -> Floats:
    """The values, without those of a step that overlaps an event."""
    begins = series.start_seconds + series.step_seconds * np.arange(len(values))
    inside = np.zeros(len(values), dtype=bool)
    for since, until in events:
        inside |= (begins < until) & (begins + series.step_seconds > since)
    return np.where(inside, np.nan, values)


def _highest(usual: Floats, values: Floats) -> float:
    """The highest usual value; where none is, the highest of all."""
    return float(np.nanmax(usual if np.isfinite(usual).any() else values))


def utilisation_reasons(series: LoadSeries) -> list[str]:
    """Say why the series looks like a utilisation; empty when it does not.

    A percentage is shaped by the very scaling that it is to drive: it falls when a replica is added.
    """
    known = series.values[np.isfinite(series.values)]
    if len(known) < 100 or known.max() > 100.0 or (known >= 99.0).mean() < _SATURATED_SHARE:
        return []
    return [
        "the metric never exceeds 100 and often stands there, as a utilisation does: scaling itself changes it. "
        "Forecast demand instead (queries a second over all replicas)"
    ]
