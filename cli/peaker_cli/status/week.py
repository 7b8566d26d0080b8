"""The last seven days of a cluster: its load, and what the checks published, as the page draws them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from peaker.domain.reading import Unknown
from peaker_pages.charts import Points, Series, TimeAxis, line_chart
from peaker_pages.elements import Node, note

from peaker_contract.metrics import Metric

WEEK = timedelta(days=7)
WEEK_PERIOD_SECONDS = 900
PUBLISHED = (
    Metric.FORECAST_LOAD_P50,
    Metric.FORECAST_LOAD_P95,
    Metric.LEAD_TIME_SECONDS,
    Metric.SERVING_REPLICAS,
    Metric.REQUIRED_REPLICAS,
    Metric.CAPACITY_PER_REPLICA,
)


@dataclass(frozen=True)
class Week:
    """The points of the seven days before `until`, a quarter of an hour each."""

    until: datetime
    load: Points | Unknown
    published: Mapping[Metric, Points] | Unknown


def render_week(week: Week, capacity_per_replica: float) -> list[Node]:
    """Draws load, forecast and capacity, and below them the replicas; says what is unknown."""
    said = [
        note(f"{name} unknown: {found.why}", "warning")
        for name, found in (("load", week.load), ("forecast and replicas", week.published))
        if isinstance(found, Unknown)
    ]
    load = () if isinstance(week.load, Unknown) else week.load
    published = {} if isinstance(week.published, Unknown) else week.published
    if not load and not any(published.values()):
        return [*said, None if said else note("CloudWatch has no point of the last seven days yet.")]
    return [*said, *_charts(week.until, load, published, capacity_per_replica)]


def _charts(
    until: datetime, load: Points, published: Mapping[Metric, Points], capacity_per_replica: float
) -> list[Element]:
    serving, required = (
        published.get(Metric.SERVING_REPLICAS, ()),
        published.get(Metric.REQUIRED_REPLICAS, ()),
    )
    each = dict(published.get(Metric.CAPACITY_PER_REPLICA, ()))
    low, high = (_ahead(published, one) for one in (Metric.FORECAST_LOAD_P50, Metric.FORECAST_LOAD_P95))
    axis = TimeAxis(until - WEEK, max([until, *(at for at, _ in high)]))
    capacity = [(at, count * each.get(at, capacity_per_replica)) for at, count in serving]
    lines = [
        Series("forecast one lead time before, p50 to p95", "band", low, "band", high),
        Series("capacity in service", "peaker", capacity, "step"),
        Series("load", "load", load),
    ]
    counts = [
        Series("required", "reactive", required, "step"),
        Series("serving", "peaker", serving, "step"),
    ]
    return [
        line_chart("Load, forecast and capacity of the last seven days", axis, lines, "load", now=until),
        line_chart("Replicas of the last seven days", axis, counts, "replicas", 90, now=until),
    ]


def _ahead(published: Mapping[Metric, Points], metric: Metric) -> list[tuple[datetime, float]]:
    """Returns the forecasts at the times that they were made for."""
    lead = dict(published.get(Metric.LEAD_TIME_SECONDS, ()))
    points = ((at, lead.get(at), value) for at, value in published.get(metric, ()))
    return [(at + timedelta(seconds=seconds), value) for at, seconds, value in points if seconds is not None]
