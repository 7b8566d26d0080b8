"""Events as people write them: with the zone of their times, which is left behind once they are in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationInfo, field_validator

from environments.faults import UnclearWord
from peaker_contract import load_settings
from peaker_contract.field_types import Settings, TimeZoneName, moment


class _InAZone(Settings):
    time_zone: TimeZoneName = Field(
        default="UTC",
        exclude=True,
        description="IANA zone of times that have no offset.",
        examples=["Europe/Berlin"],
    )


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


def _choices(given: object, info: ValidationInfo) -> list[datetime]:
    """The moments that a time may mean: two where a clock change repeats or skips it."""
    found = moment(given.text if isinstance(given, UnclearWord) else given)
    if found.tzinfo is not None:
        return [found]
    zone = ZoneInfo(info.data.get("time_zone", "UTC"))
    return [found.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
