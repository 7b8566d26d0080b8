"""The load as it was and as it is expected: its history, known events, the forecast of both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from peaker.domain.forecasting import Forecast, LoadSeries, UnusableSeries, series_from_points
from peaker.domain.forecasting.days_ahead import LONGEST_REACH_DAYS, SHORTEST_REACH_DAYS
from peaker.domain.forecasting.series import DAY_SECONDS, KEPT_HISTORY_DAYS, empty_series
from peaker.domain.known_events import HolidayCalendar, PublicHoliday, RepeatingEvent, forecast_with_events
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.scaling_policy import horizon_needed_seconds
from peaker.ports import ForecastPorts
from peaker_contract.cluster import ClusterSettings
from peaker_contract.field_types import midnight_of
from peaker_contract.load_settings import WEEKDAYS


def forecast_ahead(series: LoadSeries, lead_time: LeadTime, settings: ClusterSettings) -> Forecast:
    """The forecast as far ahead as the decision looks: a week at least, two weeks at most."""
    wanted = settings.forecast
    needed = horizon_needed_seconds(lead_time, 60.0 * wanted.schedule_minutes, wanted.keep_lead_times)
    reach = min(LONGEST_REACH_DAYS * DAY_SECONDS, max(SHORTEST_REACH_DAYS * DAY_SECONDS, needed))
    return forecast_with_events(
        series,
        repeating_events(settings),
        lead_time.p90_seconds,
        metric_name=settings.load_metric.name,
        reach_seconds=reach,
        holidays=holiday_calendar(settings),
        zone=ZoneInfo(settings.time_zone),
    )


def load_history(ports: ForecastPorts, settings: ClusterSettings, now: datetime) -> LoadSeries:
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


def repeating_events(settings: ClusterSettings) -> tuple[RepeatingEvent, ...]:
    """The settings' events that come again."""
    return tuple(
        RepeatingEvent(
            name=event.name,
            starts_seconds=tuple(start.timestamp() for start in event.starts),
            duration_seconds=60.0 * event.minutes,
        )
        for event in settings.repeating_events
    )


def holiday_calendar(settings: ClusterSettings) -> HolidayCalendar | None:
    """The settings' public holidays, as they were deployed; None where there are none."""
    given = settings.public_holidays
    if given is None or given.days is None or given.last_year is None or given.day_of_rest is None:
        return None
    named = [(midnight_of(day), name) for name, days in given.days.items() for day in days]
    return HolidayCalendar(
        holidays=tuple(PublicHoliday(name, day.weekday(), day.timestamp()) for day, name in sorted(named)),
        day_of_rest=WEEKDAYS.index(given.day_of_rest),
        known_until_seconds=datetime(given.last_year + 1, 1, 1, tzinfo=UTC).timestamp(),
    )
