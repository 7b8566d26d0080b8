"""The load as it was and as it is expected: its history, and the forecast of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from peaker.domain.forecasting import (
    Forecaster,
    LoadSeries,
    UnusableSeries,
    series_from_points,
)
from peaker.domain.forecasting.days_ahead import LONGEST_REACH_DAYS, SHORTEST_REACH_DAYS
from peaker.domain.forecasting.series import DAY_SECONDS, KEPT_HISTORY_DAYS, empty_series
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.scaling_policy import horizon_needed_seconds
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings


def load_forecaster(series: LoadSeries, lead_time: LeadTime, settings: ClusterSettings) -> Forecaster:
    """Fit the load, to be forecast as far ahead as the decision looks: a week at least, two weeks at most."""
    needed = horizon_needed_seconds(lead_time, 60.0 * settings.forecast.schedule_minutes)
    reach = min(LONGEST_REACH_DAYS * DAY_SECONDS, max(SHORTEST_REACH_DAYS * DAY_SECONDS, needed))
    return Forecaster(
        series,
        reach_seconds=reach,
        zone=ZoneInfo(settings.time_zone),
        events=[
            (one.from_.timestamp(), one.until.timestamp())
            for one in settings.calendar
            if one.factor is not None
        ],
    )


def load_history(ports: Ports, settings: ClusterSettings, now: datetime) -> LoadSeries:
    """The load's kept history on its grid; without a point where its period is too long. Raises Throttled,
    AwsUnavailable."""
    points = ports.history.points(settings, now - timedelta(days=KEPT_HISTORY_DAYS), now)
    try:
        return series_from_points(
            points.times_seconds,
            points.values,
            now_seconds=now.timestamp(),
            period_seconds=points.period_seconds,
        )
    except UnusableSeries:
        # Too coarse for a daily shape: the load itself still counts, nothing is forecast.
        return empty_series(now.timestamp())
