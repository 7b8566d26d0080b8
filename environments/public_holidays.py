"""Public holidays as people write them, and the days that a deployment writes for the functions.

The functions do not have the library that knows the days: the first look takes 0.8 s and 43 MB, at every cold start.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Self
from zoneinfo import ZoneInfo

from pydantic import field_validator, model_validator

from peaker_contract.field_types import Fault, refuse, zone_name
from peaker_contract.load_settings import WEEKDAYS, PublicHolidaySettings
from peaker_holidays import Place, UnknownPlace, check_place, public_holidays, weekday_of_rest

# What is deployed: what is left of this year and the two that follow, and what the forecast remembers of the last one.
# By whole years, so that a synth of the same file gives the same template until the year is over.
YEARS_AHEAD = 2
_REMEMBERED_FROM = (10, 25)
# Some holidays are only in some years, so names are looked for in several; the size is checked by the longest of them.
CHECKED_YEARS = range(2025, 2036)


class PublicHolidays(PublicHolidaySettings):
    """The public holidays of the readers' place: earlier ones teach the forecast what the coming ones bring."""

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        return zone_name(name)

    @model_validator(mode="after")
    def _are_known(self) -> Self:
        try:
            check_place(place_of(self), self.ordinary, CHECKED_YEARS)
        except UnknownPlace as error:
            refuse([Fault((error.field,), str(error))])
        return self


def place_of(settings: PublicHolidaySettings) -> Place:
    return Place(settings.country, settings.subdivision)


def deployed_holidays(settings: PublicHolidaySettings | None, year: int) -> dict[str, Any] | None:
    """What DeployedPublicHolidays has beside the settings, for a deployment in this year; None where none are named."""
    if settings is None:
        return None
    place, years = place_of(settings), range(year - 1, year + YEARS_AHEAD + 1)
    since = date(year - 1, *_REMEMBERED_FROM)
    days: dict[str, list[str]] = {}
    for one in public_holidays(place, ZoneInfo(settings.time_zone), years, settings.ordinary):
        if one.midnight.date() >= since:
            days.setdefault(one.name, []).append(f"{one.midnight:%Y-%m-%d}{one.midnight.isoformat()[19:25]}")
    return {
        "days": days,
        "last_year": years[-1],
        "day_of_rest": settings.day_of_rest or WEEKDAYS[weekday_of_rest(place)],
    }
