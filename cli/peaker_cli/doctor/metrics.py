"""These checks tell whether the forecast has its inputs: the load metric, its age, its history, its period. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from peaker.adapters.cloudwatch.metric_data import metric_query
from peaker.domain.forecasting import UnusableSeries, series_from_points
from peaker.domain.forecasting.local_clock import on_local_clock, utc_offsets
from peaker.domain.forecasting.series import DAY_SECONDS, Floats, LoadSeries
from peaker.domain.reading import Unknown

from peaker_cli.doctor.finding import Area, Finding
from peaker_cli.durations import clock
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import NO_LOAD_UNITS, LoadMetricSettings, why_no_load_unit

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


METRICS = Area("metrics")
# The forecaster's own bounds (domain/forecasting/forecaster.py): below the first only the load itself counts, below
# the second a forecast adds replicas and lets none go.
REACTIVE_BELOW_DAYS, SCALE_OUT_ONLY_BELOW_DAYS = 3.0, 14.0
# A reading is stale after so many periods (adapters/cloudwatch/readings.py).
STALE_AFTER_PERIODS = 3
_FEW_POINTS_SHARE = 0.8
_SEE_WRITER = "see what writes the metric"
# One zone for each set of days on which clocks are changed; those of UTC never are.
_CLOCKS = (
    "UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Sydney", "Pacific/Auckland",
)  # fmt: skip


@dataclass(frozen=True)
class MetricFacts:
    """These answers were read at `now`. `recent` are points of three periods at least, in the metric's own
    period; `history` the instants of the points that a forecast reads, whose spacing is `history_period`.

    `similar` are the dimensions of metrics of that name; `loads` are the values of `history`; `unit` is one of a
    utilisation or a time in which points of today were written.
    """

    now: datetime
    similar: Sequence[Mapping[str, str]] | Unknown
    recent: Sequence[datetime] | Unknown
    history: Sequence[datetime] | Unknown
    history_period: timedelta
    loads: Sequence[float] = ()
    unit: str | Unknown | None = None


def look_at_metrics(settings: ClusterSettings, facts: MetricFacts) -> list[Finding]:
    if isinstance(facts.history, Unknown):
        return [METRICS.unknown("load metric", facts.history)]
    if not facts.history:
        return [_missing(settings, facts)]
    metric = settings.load_metric
    origin = "measured by Peaker on the replicas: " if settings.measures_load else ""
    shown = f"{origin}{metric.namespace} {metric.name}, {metric.statistic} of {metric.period_seconds} s"
    return [
        _load(shown, facts.unit),
        _age(settings, facts, facts.history),
        _history(facts, facts.history),
        *_gaps(settings, facts, facts.history),
        *_time_zone(settings, facts, facts.history),
    ]


def _load(shown: str, unit: str | Unknown | None) -> Finding:
    if isinstance(unit, Unknown):
        return METRICS.unknown("load metric", unit)
    if unit is None:
        return METRICS.passes("load metric", shown)
    return METRICS.refuses(
        "load metric",
        f"{shown}, is written in {unit}: {why_no_load_unit(unit)}",
        "set load_metric to a load that grows with the readers, such as queries a second, or remove it, and deploy",
    )


def _missing(settings: ClusterSettings, facts: MetricFacts) -> Finding:
    metric = settings.load_metric
    wanted = dimensions_text(metric.dimensions)
    detail = f"{metric.namespace} {metric.name} with {wanted} has no point"
    remedy = _mended(
        settings, "let something write it, or set load_metric to a metric that is written, and deploy"
    )
    if not settings.measures_load and not isinstance(facts.similar, Unknown) and facts.similar:
        others = "; ".join(dimensions_text(one) for one in facts.similar[:3])
        if any(dict(one) == dict(metric.dimensions) for one in facts.similar):
            detail = f"{detail} of the statistic {metric.statistic} in the time that a forecast reads"
        else:
            detail = f"{detail}; that name is there with {others}"
            remedy = "set load_metric.dimensions to one of these, and deploy"
    return METRICS.refuses("load metric", detail, remedy, points=0)


def _mended(settings: ClusterSettings, by_its_owner: str) -> str:
    """Returns the remedy for points that do not come: of Peaker's own measure the log that says why."""
    if not settings.measures_load:
        return by_its_owner
    return (
        "Peaker publishes it from the second check on in which each registered replica answers: look at the log "
        "of check_replicas, whose `reads` names those that do"
    )


def dimensions_text(dimensions: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(dimensions.items())) or "no dimension"


def _age(settings: ClusterSettings, facts: MetricFacts, history: Sequence[datetime]) -> Finding:
    if isinstance(facts.recent, Unknown):
        return METRICS.unknown("newest point", facts.recent)
    newest = max(facts.recent) if facts.recent else history[-1]
    period = timedelta(seconds=settings.load_metric.period_seconds)
    age = max(facts.now - newest, timedelta())
    minutes = f"{age.total_seconds() / 60:.0f} min old; a period is {period.total_seconds() / 60:g} min"
    detail = f"of {clock(newest)}, {minutes}"
    numbers = {
        "age_seconds": round(age.total_seconds()),
        "period_seconds": settings.load_metric.period_seconds,
    }
    if age > STALE_AFTER_PERIODS * period:
        detail = f"{detail}: it is stale after {STALE_AFTER_PERIODS} periods, and the forecast holds (I4)"
        remedy = f"{_mended(settings, _SEE_WRITER)}; docs/runbooks/forecast-degraded.md"
        return METRICS.refuses("newest point", detail, remedy, **numbers)
    return METRICS.passes("newest point", detail, **numbers)


def _history(facts: MetricFacts, history: Sequence[datetime]) -> Finding:
    days = (facts.now - history[0]).total_seconds() / 86_400
    detail, numbers = f"{days:.1f} days", {"days": round(days, 2), "points": len(history)}
    remedy = "wait, or begin by hand and with calendar events (docs/forecast-and-decision.md)"
    if days < REACTIVE_BELOW_DAYS:
        told = (
            f"{detail}; below {REACTIVE_BELOW_DAYS:g} days only the load itself counts, nothing is forecast"
        )
        return METRICS.warns("history", told, remedy, **numbers)
    if days < SCALE_OUT_ONLY_BELOW_DAYS:
        told = f"{detail}; below {SCALE_OUT_ONLY_BELOW_DAYS:g} days a forecast adds replicas and lets none go"
        return METRICS.warns("history", told, remedy, **numbers)
    return METRICS.passes("history", detail, **numbers)


def _gaps(settings: ClusterSettings, facts: MetricFacts, history: Sequence[datetime]) -> Iterable[Finding]:
    """Points further apart than the period of the settings: the metric is written less often."""
    if len(history) < 2:
        return
    spacing = median((later - earlier).total_seconds() for earlier, later in pairwise(history))
    asked = facts.history_period.total_seconds()
    if spacing > asked:
        yield METRICS.warns(
            "period",
            f"points are {spacing:g} s apart, the metric's period is {settings.load_metric.period_seconds} s",
            _mended(settings, f"set load_metric.period_seconds to {spacing:g}, and deploy"),
            spacing_seconds=spacing,
        )
        return
    span = (history[-1] - history[0]).total_seconds() / asked + 1
    share = len(history) / span
    numbers = {"share": round(share, 3)}
    if share < _FEW_POINTS_SHARE:
        yield METRICS.warns(
            "period",
            f"{1 - share:.0%} of the points are missing",
            _mended(settings, _SEE_WRITER),
            **numbers,
        )
    else:
        yield METRICS.passes("period", f"a point every {asked:g} s, {1 - share:.0%} missing", **numbers)


def _time_zone(
    settings: ClusterSettings, facts: MetricFacts, history: Sequence[datetime]
) -> Iterable[Finding]:
    """Warns where the load followed another clock than the settings' at the last clock change."""
    try:
        series = series_from_points(
            [one.timestamp() for one in history],
            facts.loads,
            now_seconds=facts.now.timestamp(),
            period_seconds=facts.history_period.total_seconds(),
        )
    except UnusableSeries:
        return
    zones = {name: ZoneInfo(name) for name in _CLOCKS if name != settings.time_zone}
    name = better_zone(series, ZoneInfo(settings.time_zone), zones)
    if name is not None:
        yield METRICS.warns(
            "time zone",
            f"the load's daily rhythm moved with the clock of {name}, time_zone is {settings.time_zone}",
            f"set time_zone to the readers' zone, such as {name}, and deploy",
        )


# botocore, `ListMetrics`: so many of a metric's dimensions can be asked for at once.
_MOST_FILTERS = 10


def similar_metrics(client: Any, metric: LoadMetricSettings) -> list[dict[str, str]]:
    """The dimensions of this metric alone where it is listed, else those of the first 500 of its name.

    Those that nobody wrote for two weeks are not listed.
    """
    name = {"Namespace": metric.namespace, "MetricName": metric.name}
    wanted = dict(metric.dimensions)
    filters = [{"Name": key, "Value": value} for key, value in wanted.items()][:_MOST_FILTERS]
    # By its dimensions: under AWS's own names an account may have thousands.
    pages = client.get_paginator("list_metrics").paginate(**name, Dimensions=filters)
    if any(_dimensions_of(one) == wanted for page in pages for one in page["Metrics"]):
        return [wanted]
    return [_dimensions_of(one) for one in client.list_metrics(**name)["Metrics"]]


def _dimensions_of(found: Mapping[str, Any]) -> dict[str, str]:
    return {one["Name"]: one["Value"] for one in found["Dimensions"]}


def unit_of_no_load(client: Any, metric: LoadMetricSettings, now: datetime) -> str | None:
    """Returns the unit of a utilisation or a time in which points of the last day were written; None without one."""
    stat = metric_query(metric.namespace, metric.name, metric.dimensions, "Average", 3_600)["MetricStat"]
    answer = client.get_metric_data(
        MetricDataQueries=[
            {"Id": unit.lower(), "MetricStat": {**stat, "Unit": unit}} for unit in NO_LOAD_UNITS
        ],
        StartTime=now - timedelta(days=1),
        EndTime=now,
    )
    written = {one["Id"] for one in answer["MetricDataResults"] if one["Values"]}
    return next((unit for unit in NO_LOAD_UNITS if unit.lower() in written), None)
