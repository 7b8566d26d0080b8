"""Calendar events as people write them: a time without an offset is in the cluster's time zone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import field_validator

from environments.faults import UnclearWord
from peaker_contract import load_settings
from peaker_contract.field_types import moment


class CalendarEvent(load_settings.CalendarEvent):
    """A known event, which never lowers the need. Times without an offset are in the cluster's `time_zone`.

    A time that a clock change repeats or skips is taken so that the event is longer, not shorter.
    """

    @field_validator("from_", "until", mode="before")
    @classmethod
    def _has_an_offset(cls, given: object) -> datetime:
        found = _moment(given)
        return found if found.tzinfo else found.replace(tzinfo=UTC)


def in_time_zone(calendar: object, zone: str) -> object:
    """Returns the events with their times in UTC; a time that cannot be read is left for its field to blame."""
    if not isinstance(calendar, list):
        return calendar
    return [_in_utc(one, ZoneInfo(zone)) if isinstance(one, Mapping) else one for one in calendar]


def _in_utc(event: Mapping[str, Any], zone: ZoneInfo) -> dict[str, Any]:
    found = dict(event)
    for name, longest in (("from", min), ("until", max)):
        with suppress(ValueError):
            at = _moment(event.get(name))
            if at.tzinfo is None:
                # Two moments where a clock change repeats or skips the time.
                found[name] = longest(at.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return found


def _moment(given: object) -> datetime:
    return moment(given.text if isinstance(given, UnclearWord) else given)
