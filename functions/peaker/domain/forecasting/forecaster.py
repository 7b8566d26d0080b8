"""The forecast of a cluster's demand: a pure function of its history and the time.

What it does with hard input, in one place (each has a test):
- no points, or all missing: `reactive_only`, no quantiles. Unknown is not zero.
- under 3 days of history: `reactive_only`. 3 to 14 days: `scale_out_only`. 14 days and more: `normal`.
- a metric up to 15 minutes late (beyond its own period): carried on. Up to 60 minutes: longer level windows.
  Later than that: `stale`, which forbids scale-in.
- gaps: missing stays missing; medians over four weeks and longer level windows step over it.
- one point above 3 x p99: not believed until a second one follows within three steps.
- a level shift: the experts that follow the level gain weight within hours; until then the guard keeps the
  upper bands at least at "what we see now persists in full", and forbids scale-in for an hour.
- an outage: once half of a rare fall is gone, the upper bands expect all of it back (guards.py).
- a series of zeros or of one value: that value, with a band as wide as its past errors (none).
- clock changes: the rhythm is of the local hours of a zone (local_clock.py); what is said of now (the newest load,
  its age, its rise) is of real time.
- bands that cover too little: their width follows what came (control.py), so cost grows in proportion. What still
  falls short of it takes trust away bit by bit (`wary`); `degraded` is left for what cannot be forecast at all, and
  its upper bands are at least the quantiles of the last week.
- growth: no band reaches above the highest load of four weeks by more than a week's growth, once it is measured.
- a utilisation instead of a demand: said in the reasons, and `degraded`, because scaling itself changes it; for the
  same reason a low one removes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

import numpy as np

from .blend import BLEND, FittedModels
from .control import Controlled, controlled, interpolated, widened
from .days_ahead import SHORTEST_REACH_DAYS, DaysAhead
from .experts import HOLT_WINTERS, LAST_WEEK, LAST_WEEK_TREND, PERSISTENCE, YESTERDAY
from .forecast import LEVELS, Forecast, Rise, Standing, rises
from .guards import Guards, Seen, guards_of
from .intervals import interpolate_knots
from .local_clock import clock_changes, in_real_time, on_local_clock, utc_offsets
from .panel import Panel, believable, build_panel, highest_loads
from .record import Record, knot_for, recent_error, trailing_record
from .series import DAY_SECONDS, KEPT_HISTORY_DAYS, Floats, Ints, LoadSeries

REACTIVE_ONLY_BELOW_DAYS = 3.0
SCALE_OUT_ONLY_BELOW_DAYS = 14.0
LATE_SECONDS = 900.0
STALE_SECONDS = 3600.0
# Share of the week's loads under p95 at the lead time, as the bands were then: full trust, and none.
TRUSTED_COVERAGE = 0.88
UNFORECASTABLE_COVERAGE = 0.65
SWITCH_GAIN = 0.03
_CONTROLLED_MINUTES = (60, 240, 1440)
_WORTH_SCORING = 1.5
_SATURATED_SHARE = 0.002
CHALLENGERS = (HOLT_WINTERS, LAST_WEEK_TREND, LAST_WEEK, YESTERDAY, PERSISTENCE)


@dataclass(frozen=True)
class FittedForecaster:
    """A fit that can issue forecasts for later origins of the same panel.

    `forecast_demand` uses it for one origin.
    """

    models: FittedModels
    model: str
    record: Record | None
    naive_record: Record | None
    standing: Standing
    trust: float
    coverage: float | None
    guards: Guards
    factors: Floats
    reasons: tuple[str, ...]
    utilisation: bool = False

    def issue(self, origins: Ints, horizons: Ints, levels: Floats) -> tuple[Floats, Seen]:
        """(load quantiles [origin, horizon, level], what the last hour shows at each origin)."""
        models, panel = self.models, self.models.panel
        wanted = np.concatenate([[0.5], levels])
        offsets = widened(models.bands(self.model).offsets(origins, wanted), self.factors, wanted)[:, :, 1:]
        spread = interpolate_knots(horizons, models.grid.knots, offsets)
        middle = models.points(self.model, origins, horizons)[:, :, None]
        highest = np.maximum(highest_loads(panel)[origins][:, None, None], middle)
        z = np.minimum(middle + spread, highest)
        seen = self.guards.seen(origins)
        z = self.guards.raised(z, origins, horizons, levels, seen)
        z = np.minimum(np.maximum.accumulate(z, axis=2), models.highest)
        return panel.load(z), seen


def fit_models(series: LoadSeries, fit_steps: int | None = None) -> FittedModels:
    """Fit every model on the first `fit_steps` of the series (all of it by default)."""
    return FittedModels(build_panel(series, fit_steps))


def judge_models(models: FittedModels, lead_seconds: float) -> FittedForecaster:
    """Choose the model by the trailing week at the lead time, and apply the coverage gate."""
    panel, series = models.panel, models.panel.series
    newest = panel.fit_steps - 1
    knot = knot_for(models, max(1, round(lead_seconds / series.step_seconds)))
    records = {}
    # A challenger whose mean error is far from the blend's cannot have the better bands: not scored in full.
    limit = _WORTH_SCORING * recent_error(models, BLEND, knot, newest)
    worth = [name for name in CHALLENGERS if recent_error(models, name, knot, newest) <= limit]
    for name in (BLEND, *worth):
        record = trailing_record(models, name, knot, newest)
        if record is not None:
            records[name] = record
    model, reasons = _choose(records)
    naive = [records[name] for name in (LAST_WEEK_TREND, LAST_WEEK, PERSISTENCE) if name in records]
    best_naive = min(naive, key=lambda each: each.pinball95) if naive else None
    factors, lead = _control(models, model, knot, newest)
    coverage = None if lead.coverage is None else float(lead.coverage[-1])
    trust = _trust(coverage)
    standing = Standing.NORMAL if trust >= 1 else Standing.WARY
    if lead.factors[-1] > 1.1:
        reasons.append(f"p95 is {lead.factors[-1] - 1:.0%} wider than past errors, so that it covers again")
    if coverage is not None and trust < 1:
        reasons.append(f"p95 covered {coverage:.0%} of the week: {trust:.0%} of the usual trust")
    until = series.start_seconds + panel.fit_steps * series.step_seconds
    utilisation = bool(utilisation_reasons(series.until(until)))
    if utilisation:
        trust = 0.0
    if trust <= 0:
        standing = Standing.DEGRADED
    guards = guards_of(panel, unforecastable=trust <= 0)
    return FittedForecaster(
        models, model, records.get(model), best_naive, standing, trust, coverage, guards, factors,
        tuple(reasons), utilisation,
    )  # fmt: skip


def _control(models: FittedModels, model: str, lead_knot: int, newest: int) -> tuple[Floats, Controlled]:
    """(factors on the bands' width [knot, level], the control at the lead time)."""
    found = models.controls
    anchors = {knot_for(models, models.panel.steps(minutes)) for minutes in _CONTROLLED_MINUTES}
    for knot in anchors | {lead_knot}:
        if (model, knot, newest) not in found:
            found[model, knot, newest] = controlled(models.bands(model), knot, newest)
    at = sorted(anchors | {lead_knot})
    each = [found[model, knot, newest] for knot in at]
    factors = interpolated(models.grid.knots[at], each, models.grid.knots)
    return factors, found[model, lead_knot, newest]


def _trust(coverage: float | None) -> float:
    """From 1 where p95 covers what it should to 0 where it covers next to nothing of what it promises."""
    if coverage is None:
        return 1.0
    share = (coverage - UNFORECASTABLE_COVERAGE) / (TRUSTED_COVERAGE - UNFORECASTABLE_COVERAGE)
    return min(1.0, max(0.0, share))


def forecast_demand(
    series: LoadSeries,
    lead_seconds: float,
    *,
    levels: Sequence[float] = LEVELS,
    metric_name: str = "",
    metric_unit: str = "",
    reach_seconds: float = SHORTEST_REACH_DAYS * DAY_SECONDS,
    zone: tzinfo = UTC,
) -> Forecast:
    """The forecast issued at the end of `series`, judged at `lead_seconds` (the lead time that triggers).

    It reaches `reach_seconds` ahead, a day at least: in steps of the series for a day, then of an hour. Its rhythm is
    of local hours of `zone`.
    """
    wanted = tuple(sorted(levels))
    issued_at = series.end_seconds
    seen = np.flatnonzero(np.isfinite(series.values))
    utilisation = utilisation_reasons(series, metric_name, metric_unit)
    reasons = list(utilisation)
    if not len(seen):
        return Forecast(
            issued_at, series.step_seconds, wanted, None, Standing.REACTIVE_ONLY, "none",
            (*reasons, "the metric has no points: nothing is known about the load"),
        )  # fmt: skip
    age = float(len(series.values) - 1 - seen[-1]) * series.step_seconds
    believed = believable(series.values, len(series.values))
    last_load = newest_load(series, believed, len(series.values) - 1)[1]
    stale = age > STALE_SECONDS
    if age > LATE_SECONDS:
        reasons.append(f"metric_{'stale' if stale else 'late'}: the newest point is {age / 60:.0f} min late")
    trimmed = LoadSeries(
        series.start_seconds + float(seen[0]) * series.step_seconds,
        series.step_seconds,
        series.values[seen[0] :],
    )
    days = trimmed.span_days()
    if days < REACTIVE_ONLY_BELOW_DAYS:
        reasons.append(
            f"{days:.1f} days of history, under {REACTIVE_ONLY_BELOW_DAYS:.0f}: only the load itself counts"
        )
        return Forecast(
            issued_at, series.step_seconds, wanted, None, Standing.REACTIVE_ONLY, "none", tuple(reasons),
            age_seconds=age, last_load=last_load, stale=stale, numbers={"history_days": days},
        )  # fmt: skip
    local = on_local_clock(trimmed, zone)
    fitted = judge_models(fit_models(local), lead_seconds)
    horizons = np.arange(1, trimmed.steps_per_day + 1)
    newest = np.array([len(local.values) - 1])
    loads, hour = fitted.issue(newest, horizons, np.array(wanted))
    later, later_step = _later(fitted.models.panel, newest, np.array(wanted), reach_seconds)
    standing = Standing.DEGRADED if utilisation else fitted.standing
    if days < SCALE_OUT_ONLY_BELOW_DAYS:
        reasons.append(f"{days:.1f} days of history: it may add replicas, it may not remove any")
        if standing in {Standing.NORMAL, Standing.WARY}:
            standing = Standing.SCALE_OUT_ONLY
    if hour.shifted[0]:
        reasons.append(
            "level shift: the last hour was higher than 99 % of the last 28 days; no scale-in for an hour"
        )
    if hour.returning[0]:
        reasons.append("the load comes back from a rare low: the upper bands expect all of it back")
    issued = Forecast(
        issued_at, series.step_seconds, wanted, loads[0], standing, fitted.model, (*reasons, *fitted.reasons),
        coverage=fitted.coverage, age_seconds=age, last_load=last_load, shifted=bool(hour.shifted[0]), stale=stale,
        numbers=_numbers(fitted, days), later_quantiles=None if later is None else later[0],
        later_step_seconds=later_step, trust=fitted.trust, rise=rises(trimmed, np.array([len(trimmed.values) - 1]))[0],
        utilisation=bool(utilisation), highest_load=float(np.nanmax(believed)),
    )  # fmt: skip
    return in_real_time(issued, zone)


def _later(panel: Panel, origins: Ints, levels: Floats, reach_seconds: float) -> tuple[Floats | None, int]:
    """(quantiles [origin, hour, level] from the second day on, the seconds of an hour of the grid)."""
    if reach_seconds <= DAY_SECONDS:
        return None, panel.series.step_seconds
    days_ahead = DaysAhead(panel, reach_seconds)
    return days_ahead.issue(origins, levels, highest_loads(panel)[origins]), days_ahead.step_seconds


def rolling_forecasts(
    series: LoadSeries,
    origins: Sequence[int],
    lead_seconds: Sequence[float],
    horizon_steps: int,
    reach_seconds: float = 0.0,
    zone: tzinfo = UTC,
) -> Iterator[tuple[int, tuple[Forecast, ...]]]:
    """What would have been issued at each origin (the last step then known), one forecast per lead time.

    The models are fitted once a day, and where the clock of `zone` changes, on what was known by then; loads are taken
    in at every origin. Origins must ascend. The first 3 days of history give `reactive_only`. A forecast reaches
    `horizon_steps` of the first day ahead, or, where `reach_seconds` is more than a day, so far.
    """
    day, step = series.steps_per_day, series.step_seconds
    position = 0
    offsets = utc_offsets(zone, series.start_seconds + step * np.asarray(origins, dtype=float))
    horizons = np.arange(1, (day if reach_seconds > DAY_SECONDS else min(horizon_steps, day)) + 1)
    while position < len(origins):
        fitted_at = origins[position]
        chunk = [
            one for one, offset in zip(origins[position : position + day], offsets[position:], strict=False)
            if one < fitted_at + day and offset == offsets[position]
        ]  # fmt: skip
        position += len(chunk)
        first = max(0, fitted_at + 1 - KEPT_HISTORY_DAYS * day)
        known = series.values[first : chunk[-1] + 1]
        part = LoadSeries(series.start_seconds + first * step, step, known)
        fit_steps = fitted_at + 1 - first
        days = LoadSeries(0.0, series.step_seconds, known[:fit_steps]).span_days()
        believed = believable(known, fit_steps)
        if days < REACTIVE_ONLY_BELOW_DAYS:
            for origin in chunk:
                without = _without_models(part, believed, origin - first, days)
                yield origin, tuple(without for _ in lead_seconds)
            continue
        local = on_local_clock(part, zone)
        inside = np.array(chunk) - first
        on_clock = inside + len(local.values) - len(known)
        models = fit_models(local, fit_steps + len(local.values) - len(known))
        issued = [
            (judged := judge_models(models, lead), judged.issue(on_clock, horizons, np.array(LEVELS)))
            for lead in lead_seconds
        ]
        later, later_step = _later(models.panel, on_clock, np.array(LEVELS), reach_seconds)
        rise = rises(part, inside)
        ends_at = part.end_seconds + max(reach_seconds, DAY_SECONDS)
        is_moved = clock_changes(zone, part.start_seconds + step * float(inside[0]), ends_at)
        for row, origin in enumerate(chunk):
            plain = _past_forecast(part, believed, int(inside[row]), days, rise[row])
            hours = None if later is None else later[row]
            forecasts = [
                _judged(plain, judged, loads[row], hours, later_step, bool(hour.shifted[row]))
                for judged, (loads, hour) in issued
            ]
            yield origin, tuple(in_real_time(one, zone) if is_moved else one for one in forecasts)


def _judged(
    plain: Forecast,
    judged: FittedForecaster,
    loads: Floats,
    hours: Floats | None,
    hour_seconds: int,
    shifted: bool,
) -> Forecast:
    standing = plain.standing
    if standing is Standing.NORMAL or judged.standing is Standing.DEGRADED:
        standing = judged.standing
    return replace(
        plain, quantiles=loads, later_quantiles=hours, later_step_seconds=hour_seconds, standing=standing,
        model=judged.model, reasons=judged.reasons, coverage=judged.coverage, shifted=shifted, trust=judged.trust,
        utilisation=judged.utilisation,
    )  # fmt: skip


def _past_forecast(
    series: LoadSeries, believed: Floats, origin: int, days: float, rise: Rise | None
) -> Forecast:
    """What is known at the origin whatever the lead time is."""
    young = days < SCALE_OUT_ONLY_BELOW_DAYS
    plain = _without_models(series, believed, origin, days)
    return replace(plain, standing=Standing.SCALE_OUT_ONLY if young else Standing.NORMAL, rise=rise)


def _without_models(series: LoadSeries, believed: Floats, origin: int, days: float) -> Forecast:
    age, last = newest_load(series, believed, origin)
    return Forecast(
        issued_at_seconds=series.start_seconds + (origin + 1) * series.step_seconds,
        step_seconds=series.step_seconds,
        levels=LEVELS,
        quantiles=None,
        standing=Standing.REACTIVE_ONLY,
        model="none",
        reasons=(f"{days:.1f} days of history: only the load itself counts",),
        age_seconds=age,
        last_load=last,
        stale=age is None or age > STALE_SECONDS,
    )


def newest_load(series: LoadSeries, believed: Floats, origin: int) -> tuple[float | None, float | None]:
    """(age in seconds beyond its own step of the newest point, the newest value that is believed) at `origin`.

    None when there is none within a day. `believed` is the series without lone spikes; a point of half an hour and more
    is a mean of many, and believed as it is.
    """
    if series.step_seconds > LATE_SECONDS:
        believed = series.values
    first = max(0, origin - series.steps_per_day)
    seen = np.flatnonzero(np.isfinite(series.values[first : origin + 1]))
    if not len(seen):
        return None, None
    good = np.flatnonzero(np.isfinite(believed[first : origin + 1]))
    age = float(origin - first - seen[-1]) * series.step_seconds
    return age, float(believed[first + good[-1]]) if len(good) else None


def _choose(records: Mapping[str, Record]) -> tuple[str, list[str]]:
    """The blend, unless a challenger was at least 3 % better over the week."""
    if BLEND not in records:
        return BLEND, ["too few past origins to compare the models: the blend stands"]
    blend = records[BLEND]
    best = min(records.values(), key=lambda each: each.pinball95)
    if best.pinball95 < (1 - SWITCH_GAIN) * blend.pinball95:
        gain = 1 - best.pinball95 / blend.pinball95
        return best.name, [f"{best.name} was {gain:.0%} better than the blend over {best.origins} origins"]
    return BLEND, [f"the blend stands: no challenger was 3 % better over {blend.origins} origins"]


def _numbers(fitted: FittedForecaster, days: float) -> dict[str, float]:
    numbers = {"history_days": days, "trust": fitted.trust}
    if fitted.record:
        numbers |= {
            "coverage90": fitted.record.coverage90,
            "coverage95": fitted.record.coverage95,
            "pinball95": fitted.record.pinball95,
            "scored_origins": float(fitted.record.origins),
        }
    if fitted.record and fitted.naive_record and fitted.naive_record.pinball95 > 0:
        numbers["skill_against_naive"] = 1 - fitted.record.pinball95 / fitted.naive_record.pinball95
    return numbers


def utilisation_reasons(series: LoadSeries, name: str = "", unit: str = "") -> list[str]:
    """Why the series looks like a utilisation; empty when it does not.

    A percentage is shaped by the very scaling that it is to drive: it falls when a replica is added.
    """
    if unit.lower() == "percent" or "utili" in name.lower() or "percent" in name.lower():
        what = f"{name or 'the metric'} is a utilisation"
    else:
        known = series.values[np.isfinite(series.values)]
        if len(known) < 100 or known.max() > 100.0 or (known >= 99.0).mean() < _SATURATED_SHARE:
            return []
        what = f"{name or 'the metric'} never exceeds 100 and often stands there, as a utilisation does"
    return [
        f"{what}: scaling itself changes it. "
        "Forecast demand instead (queries/s, or CPU-seconds over all replicas)"
    ]
