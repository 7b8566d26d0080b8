"""Whose public holidays a backtest reckons with, and their days over a load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.days_ahead import LONGEST_REACH_DAYS
from peaker.domain.known_events import HolidayCalendar, PublicHoliday

from peaker_backtest.errors import BadInput, shown_whole
from peaker_backtest.times_in_text import time_zone
from peaker_contract.load_settings import WEEKDAYS, PublicHolidaySettings
from peaker_holidays import Place, UnknownPlace, check_place, public_holidays, weekday_of_rest

# A place is checked by names of some years before its load is read; a holiday may be in only some of them.
_CHECKED_YEARS = range(2010, 2036)


@dataclass(frozen=True)
class HolidaysOf:
    """A place, the zone of its midnights, its holidays that are days like others, and the weekday of rest.

    zone_name is None where a zone was given by its offset. day_of_rest counts from 0, a Monday.
    """

    place: Place
    zone: tzinfo
    zone_name: str | None
    day_of_rest: int
    ordinary: tuple[str, ...] = ()

    def calendar(self, series: LoadSeries) -> HolidayCalendar:
        """The holidays of the series and of the two weeks after it, as far as forecasts reach."""
        first = datetime.fromtimestamp(series.start_seconds, UTC) - timedelta(days=1)
        last = datetime.fromtimestamp(series.end_seconds, UTC) + timedelta(days=LONGEST_REACH_DAYS + 1)
        found = public_holidays(self.place, self.zone, range(first.year, last.year + 1), self.ordinary)
        kept = [one for one in found if first <= one.midnight < last]
        return HolidayCalendar(
            tuple(PublicHoliday(one.name, one.midnight.weekday(), one.midnight.timestamp()) for one in kept),
            self.day_of_rest,
            datetime(last.year + 1, 1, 1, tzinfo=UTC).timestamp(),
        )

    @property
    def settings_lines(self) -> str:
        """What to write into the cluster's settings."""
        lines = ["public_holidays:", f"  country: {self.place.country}"]
        if self.place.subdivision is not None:
            lines.append(f'  subdivision: "{self.place.subdivision}"')
        lines.append(
            f"  time_zone: {self.zone_name or 'Europe/London  # the IANA name of the zone that you gave'}"
        )
        if self.day_of_rest != weekday_of_rest(self.place):
            lines.append(f"  day_of_rest: {WEEKDAYS[self.day_of_rest]}")
        if self.ordinary:
            lines.append(
                f"  ordinary: [{', '.join(json.dumps(name, ensure_ascii=False) for name in self.ordinary)}]"
            )
        return "\n".join(lines)


def parse_holidays(text: str | None, ordinary: Sequence[str], zone_name: str | None) -> HolidaysOf | None:
    """By the command line: a country or country-subdivision, such as DE or DE-BY. Raises BadInput."""
    if text is None:
        if ordinary:
            raise BadInput("--ordinary-holiday needs --holidays", field="--ordinary-holiday")
        return None
    country, _, subdivision = text.partition("-")
    return _checked(Place(country.upper(), subdivision or None), zone_name or "UTC", ordinary, None)


def holidays_of(settings: PublicHolidaySettings) -> HolidaysOf:
    """By a cluster's settings, as deployed. Raises BadInput where the library of this machine does not know them."""
    place = Place(settings.country, settings.subdivision)
    rest = None if settings.day_of_rest is None else WEEKDAYS.index(settings.day_of_rest)
    return _checked(place, settings.time_zone, settings.ordinary, rest)


def _checked(place: Place, zone_name: str, ordinary: Sequence[str], rest: int | None) -> HolidaysOf:
    try:
        check_place(place, ordinary, _CHECKED_YEARS)
        day_of_rest = weekday_of_rest(place) if rest is None else rest
    except UnknownPlace as error:
        option = "--ordinary-holiday" if error.field == "ordinary" else "--holidays"
        what = "" if error.field == "ordinary" else f" {error.field}"
        raise BadInput(f"{option}:{what} {shown_whole(str(error))}", field=option) from None
    zone = time_zone(zone_name)
    name = zone.key if isinstance(zone, ZoneInfo) else "UTC" if zone is UTC else None
    return HolidaysOf(place, zone, name, day_of_rest, tuple(ordinary))
