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
- a series of zeros or of one value: that value, with a band as wide as its past errors (none).
- clock changes: times are seconds since the epoch, so no hour is lost or doubled; the shape's jump by one
  hour is a deviation that the level views absorb, and a week later it is the shape.
- a utilisation instead of a demand: said in the reasons, and `degraded`, because scaling itself changes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from .blend import BLEND, FittedModels
from .experts import HOLT_WINTERS, LAST_WEEK, LAST_WEEK_TREND, PERSISTENCE, YESTERDAY
from .intervals import interpolate_knots
from .panel import Panel, build_panel
from .record import SCORED_LEVELS, Record, band_stretch, knot_for, recent_error, trailing_record
from .series import KEPT_HISTORY_DAYS, Floats, Ints, LoadSeries
from .windows import trailing_mean

LEVELS = (0.5, 0.75, 0.9, 0.95, 0.975, 0.99)
REACTIVE_ONLY_BELOW_DAYS = 3.0
SCALE_OUT_ONLY_BELOW_DAYS = 14.0
LATE_SECONDS = 900.0
STALE_SECONDS = 3600.0
GATE_SHIFT_BELOW = 0.88
GATE_DEGRADED_BELOW = 0.85
SWITCH_GAIN = 0.03
_GUARDED_FROM = 0.9
_WIDEST_EXCESS = 1.0
_WORTH_SCORING = 1.5
_SATURATED_SHARE = 0.002
CHALLENGERS = (HOLT_WINTERS, LAST_WEEK_TREND, LAST_WEEK, YESTERDAY, PERSISTENCE)


class Standing(StrEnum):
    """What the forecast may be used for, from nothing to everything."""

    REACTIVE_ONLY = "reactive_only"
    DEGRADED = "degraded"
    SCALE_OUT_ONLY = "scale_out_only"
    NORMAL = "normal"


@dataclass(frozen=True)
class Forecast:
    """Load quantiles for the day ahead of `issued_at_seconds`, and how far they may be trusted.

    quantiles[h, i] is the load under which the step ending at issued_at + (h + 1) * step stays with
    probability levels[i]; None when there is no forecast (reactive_only). coverage is the trailing week's p95
    coverage at the lead time; age_seconds is how old the newest point is beyond its own step.
    """

    issued_at_seconds: float
    step_seconds: int
    levels: tuple[float, ...]
    quantiles: Floats | None
    standing: Standing
    model: str
    reasons: tuple[str, ...]
    coverage: float | None = None
    age_seconds: float | None = None
    last_load: float | None = None
    shifted: bool = False
    stale: bool = True
    numbers: Mapping[str, float] = field(default_factory=dict)

    def quantile(self, level: float) -> Floats:
        """The curve of one level, interpolated between the issued levels.

        Raises ValueError when there is none.
        """
        if self.quantiles is None:
            raise ValueError(f"there is no forecast: {'; '.join(self.reasons)}")
        if not self.levels[0] <= level <= self.levels[-1]:
            raise ValueError(f"level {level} is outside {self.levels[0]} to {self.levels[-1]}")
        if level in self.levels:
            return self.quantiles[:, self.levels.index(level)]
        right = int(np.searchsorted(self.levels, level))
        low, high = self.levels[right - 1], self.levels[right]
        part = (level - low) / (high - low)
        return (1 - part) * self.quantiles[:, right - 1] + part * self.quantiles[:, right]

    def highest(self, level: float, from_seconds: float, until_seconds: float) -> float:
        """The highest quantile over the steps that overlap [from, until], seconds from the time of issue."""
        curve = self.quantile(level)
        first = int(min(max(from_seconds // self.step_seconds, 0), len(curve) - 1))
        last = int(min(max(-(-until_seconds // self.step_seconds), first + 1), len(curve)))
        return float(curve[first:last].max())


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
    excess: float
    guard_limit: float
    stretch: Floats
    reasons: tuple[str, ...]

    def issue(self, origins: Ints, horizons: Ints, levels: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """(load quantiles [origin, horizon, level], level shift seen [origin])."""
        models, panel = self.models, self.models.panel
        wanted = np.concatenate([[0.5], levels])
        offsets = self._stretched(models.bands(self.model).offsets(origins, wanted), wanted)[:, :, 1:]
        spread = interpolate_knots(horizons, models.grid.knots, offsets)
        z = models.points(self.model, origins, horizons)[:, :, None] + spread
        deviation = hour_deviation(panel)[origins]
        shifted = np.nan_to_num(deviation, nan=0.0) > self.guard_limit
        if shifted.any():
            target = origins[:, None] + horizons[None, :]
            persists = panel.profile_ahead[target] + np.nan_to_num(deviation)[:, None]
            floor = np.where(shifted[:, None], persists, -np.inf)
            z = np.where(levels >= _GUARDED_FROM, np.maximum(z, floor[:, :, None]), z)
        z = np.minimum(np.maximum.accumulate(z, axis=2), models.highest)
        return panel.load(z), shifted

    def _stretched(self, offsets: Floats, levels: Floats) -> Floats:
        """Bands as wide as they would have had to be lately; offsets[..., 0] is the median's."""
        factor = np.stack(
            [np.interp(levels, (0.5, *SCORED_LEVELS), (1.0, *at_knot)) for at_knot in self.stretch]
        )
        factor = np.where(
            levels > 0.5, np.maximum(factor, 1.0 + self.excess if self.excess > 0 else 0.0), 1.0
        )
        middle = offsets[:, :, :1]
        return np.asarray(middle + (offsets - middle) * factor[None], dtype=float)


def hour_deviation(panel: Panel) -> Floats:
    """How far the last hour was above the profile, in z."""
    deviation = panel.believed - panel.profile_ahead[: len(panel.believed)]
    return trailing_mean(deviation, panel.steps(60))


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
    record = records.get(model)
    naive = [records[name] for name in (LAST_WEEK_TREND, LAST_WEEK, PERSISTENCE) if name in records]
    best_naive = min(naive, key=lambda each: each.pinball95) if naive else None
    excess = 0.0
    standing = Standing.NORMAL
    if record is not None and record.coverage95 < GATE_SHIFT_BELOW:
        excess = min(_WIDEST_EXCESS, record.excess95)
        reasons.append(f"p95 covered {record.coverage95:.0%} of the week: bands widened by {excess:.0%}")
    if record is not None and record.coverage95 < GATE_DEGRADED_BELOW:
        standing = Standing.DEGRADED
        reasons.append(f"coverage {record.coverage95:.0%} is below {GATE_DEGRADED_BELOW:.0%}")
    if utilisation_reasons(series.until(series.start_seconds + panel.fit_steps * series.step_seconds)):
        standing = Standing.DEGRADED
    recent = hour_deviation(panel)[max(0, panel.fit_steps - 28 * panel.day) : panel.fit_steps]
    recent = recent[np.isfinite(recent)]
    guard = float(np.quantile(recent, 0.99)) if len(recent) > 24 else np.inf
    stretch = band_stretch(models, model, newest)
    return FittedForecaster(
        models, model, record, best_naive, standing, excess, guard, stretch, tuple(reasons)
    )


def forecast_demand(
    series: LoadSeries,
    lead_seconds: float,
    *,
    levels: Sequence[float] = LEVELS,
    metric_name: str = "",
    metric_unit: str = "",
) -> Forecast:
    """The forecast issued at the end of `series`, judged at `lead_seconds` (the lead time that triggers)."""
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
    last_load = float(series.values[seen[-1]])
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
    fitted = judge_models(fit_models(trimmed), lead_seconds)
    horizons = np.arange(1, trimmed.steps_per_day + 1)
    loads, shifted = fitted.issue(np.array([len(trimmed.values) - 1]), horizons, np.array(wanted))
    standing = Standing.DEGRADED if utilisation else fitted.standing
    if days < SCALE_OUT_ONLY_BELOW_DAYS:
        reasons.append(f"{days:.1f} days of history: it may add replicas, it may not remove any")
        if standing is Standing.NORMAL:
            standing = Standing.SCALE_OUT_ONLY
    if shifted[0]:
        reasons.append(
            "level shift: the last hour was higher than 99 % of the last 28 days; no scale-in for an hour"
        )
    return Forecast(
        issued_at, series.step_seconds, wanted, loads[0], standing, fitted.model, (*reasons, *fitted.reasons),
        coverage=fitted.record.coverage95 if fitted.record else None,
        age_seconds=age, last_load=last_load, shifted=bool(shifted[0]), stale=stale,
        numbers=_numbers(fitted, days),
    )  # fmt: skip


def rolling_forecasts(
    series: LoadSeries, origins: Sequence[int], lead_seconds: Sequence[float], horizon_steps: int
) -> Iterator[tuple[int, tuple[Forecast, ...]]]:
    """What would have been issued at each origin (the last step then known), one forecast per lead time.

    The models are fitted once a day on what was known by then; loads are taken in at every origin. Origins must
    ascend. The first 3 days of history give `reactive_only`.
    """
    day = series.steps_per_day
    position = 0
    horizons = np.arange(1, min(horizon_steps, day) + 1)
    while position < len(origins):
        fitted_at = origins[position]
        chunk = [one for one in origins[position : position + day] if one < fitted_at + day]
        position += len(chunk)
        first = max(0, fitted_at + 1 - KEPT_HISTORY_DAYS * day)
        known = series.values[first : chunk[-1] + 1]
        part = LoadSeries(series.start_seconds + first * series.step_seconds, series.step_seconds, known)
        fit_steps = fitted_at + 1 - first
        days = LoadSeries(0.0, series.step_seconds, known[:fit_steps]).span_days()
        if days < REACTIVE_ONLY_BELOW_DAYS:
            for origin in chunk:
                yield origin, tuple(_without_models(part, origin - first, days) for _ in lead_seconds)
            continue
        models = fit_models(part, fit_steps)
        inside = np.array(chunk) - first
        issued = [
            (judged := judge_models(models, lead), judged.issue(inside, horizons, np.array(LEVELS)))
            for lead in lead_seconds
        ]
        for row, origin in enumerate(chunk):
            yield (
                origin,
                tuple(
                    _past_forecast(part, int(inside[row]), judged, loads[row], bool(shifted[row]), days)
                    for judged, (loads, shifted) in issued
                ),
            )


def _past_forecast(
    series: LoadSeries, origin: int, judged: FittedForecaster, loads: Floats, shifted: bool, days: float
) -> Forecast:
    standing = judged.standing
    if days < SCALE_OUT_ONLY_BELOW_DAYS and standing is Standing.NORMAL:
        standing = Standing.SCALE_OUT_ONLY
    age, last = _newest_load(series, origin)
    return Forecast(
        issued_at_seconds=series.start_seconds + (origin + 1) * series.step_seconds,
        step_seconds=series.step_seconds,
        levels=LEVELS,
        quantiles=loads,
        standing=standing,
        model=judged.model,
        reasons=judged.reasons,
        coverage=judged.record.coverage95 if judged.record else None,
        age_seconds=age,
        last_load=last,
        shifted=shifted,
        stale=age is None or age > STALE_SECONDS,
    )


def _without_models(series: LoadSeries, origin: int, days: float) -> Forecast:
    age, last = _newest_load(series, origin)
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


def _newest_load(series: LoadSeries, origin: int) -> tuple[float | None, float | None]:
    """(age in seconds beyond its own step, value) of the newest point at `origin`; None when there is none."""
    for back in range(min(origin, series.steps_per_day) + 1):
        value = series.values[origin - back]
        if np.isfinite(value):
            return float(back * series.step_seconds), float(value)
    return None, None


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
    numbers = {"history_days": days, "band_excess": fitted.excess}
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
