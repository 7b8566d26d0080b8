"""Which events of the calendar take how many replicas, and from when on room is kept for them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from peaker.domain.planning.scaling_policy import replicas_for
from peaker.domain.reading import Known, Reading
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import CalendarEvent


@dataclass(frozen=True)
class EventNeed:
    """An event that says how many replicas it takes. Room is kept from `reserved_from` until `ends_at`."""

    reason: str
    replicas: int
    reserved_from: datetime
    starts_at: datetime
    ends_at: datetime


def event_needs(settings: ClusterSettings, capacity: Reading, lead_seconds: Reading) -> list[EventNeed]:
    """The calendar's events, in order of their starts; those that only multiply the forecast name no number.

    `capacity` is what a replica serves as forecast_load reckons; unknown, the settings' figure with its headroom. Where
    the lead time's p90 is unknown, room is kept from when it certainly would be: as if there were none.
    """
    per_replica = (
        capacity.value
        if isinstance(capacity, Known) and capacity.value > 0
        else settings.capacity_per_replica * (1 - settings.forecast.headroom)
    )
    lead = lead_seconds.value if isinstance(lead_seconds, Known) else 0.0
    before = timedelta(minutes=settings.capacity_reservations.minutes_before, seconds=max(0.0, lead))
    found = [
        EventNeed(
            reason=event.reason,
            replicas=min(_asked(event, per_replica), settings.max_replicas),
            reserved_from=event.from_ - before,
            starts_at=event.from_,
            ends_at=event.until,
        )
        for event in settings.calendar
    ]
    return sorted((one for one in found if one.replicas > 0), key=lambda one: (one.starts_at, one.reason))


def need_at(needs: Sequence[EventNeed], now: datetime) -> EventNeed | None:
    """The event that takes the most of those that room is kept for now; of equal ones the one that ends last."""
    here = [one for one in needs if one.reserved_from <= now < one.ends_at]
    return max(here, key=lambda one: (one.replicas, one.ends_at), default=None)


def next_need(needs: Sequence[EventNeed], now: datetime) -> EventNeed | None:
    """The event that room is kept for now, else the next one."""
    return need_at(needs, now) or next((one for one in needs if one.reserved_from > now), None)


def _asked(event: CalendarEvent, capacity_per_replica: float) -> int:
    by_load = 0 if event.load is None else replicas_for(event.load, capacity_per_replica)
    return max(event.min_replicas or 0, by_load)
