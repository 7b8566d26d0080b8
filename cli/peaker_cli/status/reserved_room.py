"""Room that is kept for events of the calendar, as `peaker status` shows it: what, for which, until when, its price.

Pure; by Peaker's own record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from peaker.domain.planning.checks.verdict import Check
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.reserved_capacity.places import ReservedPlace, ReservedPlaces


@dataclass(frozen=True)
class PlacesOfPool:
    """So many places for instances of a type in a zone."""

    instance_type: str
    zone: str
    count: int


@dataclass(frozen=True)
class ReservedRoom:
    """Places of one event; the USD are for all of them, while nothing runs in one."""

    event: str
    until: datetime
    places: tuple[PlacesOfPool, ...]
    usd_per_hour: Reading

    @property
    def text(self) -> str:
        """`2 x r6i.large in us-east-1a for winter sale until 24 Nov 10:00, $0.252 an hour while nothing runs there`"""
        what = ", ".join(f"{one.count} x {one.instance_type} in {one.zone}" for one in self.places)
        price = (
            f"at an unknown price ({self.usd_per_hour.why})"
            if isinstance(self.usd_per_hour, Unknown)
            else f"${self.usd_per_hour.value:.4g} an hour while nothing runs there"
        )
        return f"{what} for {self.event} until {self.until:%d %b %H:%M}, {price}"


@dataclass(frozen=True)
class RoomStatus:
    """`reserved` is what is kept now; `missing` says what is due and not there, None where nothing is."""

    reserved: tuple[ReservedRoom, ...]
    missing: str | Unknown | None = None


def room_status(
    places: ReservedPlaces | Unknown, ahead: Check | Unknown | None
) -> RoomStatus | Unknown | None:
    """None for a cluster that keeps no room and has none left; `ahead` is the check of its next event."""
    if isinstance(places, Unknown):
        return places
    by_event: dict[tuple[str, datetime], list[ReservedPlace]] = {}
    for one in places.open_ones:
        by_event.setdefault((one.event, one.ends_at), []).append(one)
    reserved = tuple(_room(event, until, found) for (event, until), found in sorted(by_event.items()))
    if ahead is None and not reserved:
        return None
    if isinstance(ahead, Check):
        late = ahead.verdict == "warn"
        return RoomStatus(reserved, f"{ahead.detail}; {ahead.remedy}" if late else None)
    return RoomStatus(reserved, ahead)


def _room(event: str, until: datetime, places: Sequence[ReservedPlace]) -> ReservedRoom:
    counts = Counter((one.instance_type, one.zone) for one in places)
    known = [one.hourly_usd for one in places if one.hourly_usd is not None]
    price: Reading = (
        Known(round(sum(known), 4)) if len(known) == len(places) else Unknown("not every place had a price")
    )
    pools = tuple(PlacesOfPool(kind, zone, count) for (kind, zone), count in sorted(counts.items()))
    return ReservedRoom(event, until, pools, price)
