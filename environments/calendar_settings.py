"""Events as people write them: with the zone of their times, which is left behind once they are in UTC."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field, ValidationInfo, field_validator

from environments.faults import UnclearWord
from peaker_contract import load_settings
from peaker_contract.field_types import Settings, moment


def zone_name(name: str) -> str:
    """The name of an IANA zone. Raises ValueError that names the nearest."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(
            name, sorted(one for one in available_timezones() if "/" in one), n=1
        )
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"must be an IANA zone such as Europe/London, got {name!r}{hint}") from None
    return name


class _InAZone(Settings):
    time_zone: Annotated[str, Field(strict=True, max_length=64)] = Field(
        default="UTC",
        exclude=True,
        description="IANA zone of times that have no offset.",
        examples=["Europe/Berlin"],
    )

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        return zone_name(name)


# The zone comes first of the bases' fields, and so is known when the times are read.
class CalendarEvent(load_settings.CalendarEvent, _InAZone):
    """A known event, which never lowers the need; what is deployed is UTC.

    A time that a clock change repeats or skips is taken so that the event is longer, not shorter.
    """

    @field_validator("from_", "until", mode="before")
    @classmethod
    def _has_an_offset(cls, given: object, info: ValidationInfo) -> datetime:
        choices = _choices(given, info)
        return min(choices) if info.field_name == "from_" else max(choices)


class RepeatingEvent(load_settings.RepeatingEvent, _InAZone):
    """An event that comes again: its earlier days teach the forecast; what is deployed is UTC."""

    @field_validator("starts", mode="before")
    @classmethod
    def _have_an_offset(cls, given: object, info: ValidationInfo) -> object:
        return [min(_choices(one, info)) for one in given] if isinstance(given, list | tuple) else given


def _choices(given: object, info: ValidationInfo) -> list[datetime]:
    """The moments that a time may mean: two where a clock change repeats or skips it."""
    found = moment(given.text if isinstance(given, UnclearWord) else given)
    if found.tzinfo is not None:
        return [found]
    zone = ZoneInfo(info.data.get("time_zone", "UTC"))
    return [found.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
