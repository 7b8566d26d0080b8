"""What is known beforehand: events that repeat and public holidays, what their earlier days teach, and forecasts that
reckon with them.

Pure, on numpy. Imports `forecasting`, whose models never see an event: the load is freed of it before, and the
forecast gets it back after.
"""

from .holidays import HOLIDAYS, HolidayCalendar, PublicHoliday, learn_holidays, likeness_by_day
from .learning import LearnedEvent, RepeatingEvent, learn_events
from .with_events import EVENT_REASON, forecast_with_events, rolling_with_events

__all__ = [
    "EVENT_REASON",
    "HOLIDAYS",
    "HolidayCalendar",
    "LearnedEvent",
    "PublicHoliday",
    "RepeatingEvent",
    "forecast_with_events",
    "learn_events",
    "learn_holidays",
    "likeness_by_day",
    "rolling_with_events",
]
