"""The places that a cluster has reserved: what its record says, what EC2 says, and both together. Pure.

A place is room for one instance: a targeted, limited capacity reservation with a count of 1. What one replica needs is
asked for, spread, given back and refused alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from peaker_contract.tags import RESERVATION_TAG

# EC2's words for what may be used, now or within minutes (EC2 User Guide, "View the state of a Capacity Reservation").
OPEN_STATES = frozenset({"pending", "active"})
# A reservation that is younger may be in no list of EC2 yet; nor is a call of an earlier look under way any more.
LISTED_AFTER = timedelta(minutes=10)
# `peaker month` tells of the last two months; all are one item of DynamoDB, of 400 KB at most.
_KEPT_FOR = timedelta(days=92)
_MOST_KEPT = 600


@dataclass(frozen=True)
class Pool:
    """What EC2 has room for or not: a type in a zone."""

    zone: str
    instance_type: str


@dataclass(frozen=True)
class CapacityReservation:
    """A capacity reservation as EC2 lists it. `state` is EC2's word; `available` are the instances it has room for."""

    reservation_id: str
    state: str
    zone: str
    instance_type: str
    total: int
    available: int
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def pool(self) -> Pool:
        return Pool(self.zone, self.instance_type)


@dataclass(frozen=True)
class ReservationSpec:
    """What to reserve: room for one instance, for launches that name it, until `ends_at` at the latest.

    `platform` is EC2's word for what the image is billed as, without which no instance fits.
    """

    zone: str
    instance_type: str
    platform: str
    ends_at: datetime
    tags: Mapping[str, str]


class ReservedPlace(BaseModel):
    """A place as it is recorded before EC2 is asked for it; `reservation_id` is None until EC2's answer is known.

    `unused_seconds` is how long no instance was seen in it, `seen_at` the last look. `hourly_usd` None: no known price.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    zone: str
    instance_type: str
    platform: str
    event: str
    asked_at: AwareDatetime
    ends_at: AwareDatetime
    hourly_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    reservation_id: str | None = None
    seen_at: AwareDatetime | None = None
    unused_seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    given_back_at: AwareDatetime | None = None

    @property
    def is_open(self) -> bool:
        """Asked for, and not known to be gone."""
        return self.given_back_at is None

    @property
    def pool(self) -> Pool:
        return Pool(self.zone, self.instance_type)

    @property
    def unused_usd(self) -> float | None:
        """What was paid for the room while no instance ran in it."""
        return None if self.hourly_usd is None else self.hourly_usd * self.unused_seconds / 3600


class ReservedPlaces(BaseModel):
    """All of one cluster, the oldest first. `version` grows with each write; `asked` counts all that ever were."""

    model_config = ConfigDict(frozen=True)

    version: int = 0
    asked: int = Field(default=0, ge=0)
    places: tuple[ReservedPlace, ...] = ()

    @property
    def open_ones(self) -> tuple[ReservedPlace, ...]:
        return tuple(one for one in self.places if one.is_open)

    def with_place(self, place: ReservedPlace) -> ReservedPlaces:
        """With one more, or with what has become of the one of that name."""
        if any(one.name == place.name for one in self.places):
            changed = tuple(place if one.name == place.name else one for one in self.places)
            return self.model_copy(update={"places": changed})
        return self.model_copy(update={"asked": self.asked + 1, "places": (*self.places, place)})

    def without(self, name: str) -> ReservedPlaces:
        """Without one that EC2 refused: it never was."""
        return self.model_copy(update={"places": tuple(one for one in self.places if one.name != name)})

    def kept_at(self, now: datetime) -> ReservedPlaces:
        """Without what was given back long ago."""
        recent = [one for one in self.places if one.is_open or one.asked_at > now - _KEPT_FOR]
        over = [one for one in recent if not one.is_open]
        dropped = {one.name for one in over[: max(0, len(recent) - _MOST_KEPT)]}
        return self.model_copy(update={"places": tuple(one for one in recent if one.name not in dropped)})


@dataclass(frozen=True)
class HeldPlace:
    """A recorded place and the reservation that EC2 lists for it; None where it does not list it yet."""

    place: ReservedPlace
    reservation: CapacityReservation | None

    @property
    def is_free(self) -> bool:
        """Room for an instance, as far as EC2 says; what it does not list yet holds none."""
        return self.reservation is None or self.reservation.available > 0


def seen(places: ReservedPlaces, listed: Sequence[CapacityReservation], now: datetime) -> ReservedPlaces:
    """The record with what EC2 says now: ids of lost answers, the time without an instance, and what is gone.

    What was asked for without an answer and is not listed by now was never made: it is wanted anew, or no more.
    """
    changed = [_seen(one, listed, now) if one.is_open else one for one in places.places]
    there = [one for one in changed if one.reservation_id is not None or now - one.asked_at < LISTED_AFTER]
    return places.model_copy(update={"places": tuple(there)}).kept_at(now)


def held(places: ReservedPlaces, listed: Sequence[CapacityReservation]) -> list[HeldPlace]:
    """The open places whose id is known."""
    by_id = {one.reservation_id: one for one in listed}
    known = [one for one in places.open_ones if one.reservation_id is not None]
    return [HeldPlace(one, by_id.get(str(one.reservation_id))) for one in known]


def unanswered(places: ReservedPlaces) -> list[ReservedPlace]:
    """Those of which nobody knows whether EC2 has reserved them."""
    return [one for one in places.open_ones if one.reservation_id is None]


def unrecorded(places: ReservedPlaces, listed: Sequence[CapacityReservation]) -> list[CapacityReservation]:
    """Open reservations that carry the cluster's tags and that no record explains: they are left alone (I1)."""
    known = {one.reservation_id for one in places.places} | {one.name for one in places.places}
    return [
        one
        for one in listed
        if one.is_open and not known & {one.reservation_id, one.tags.get(RESERVATION_TAG, one.reservation_id)}
    ]


def with_room(places: ReservedPlaces, listed: Sequence[CapacityReservation]) -> list[CapacityReservation]:
    """What a launch may name: recorded as ours, open, and with room as EC2 says. It may be full by then."""
    return [
        one.reservation
        for one in held(places, listed)
        if one.reservation is not None and one.reservation.is_open and one.reservation.available > 0
    ]


def _seen(place: ReservedPlace, listed: Sequence[CapacityReservation], now: datetime) -> ReservedPlace:
    found = next((one for one in listed if _is_of(place, one)), None)
    if found is None:
        gone = place.reservation_id is not None and now - place.asked_at >= LISTED_AFTER
        return place.model_copy(update={"given_back_at": now}) if gone else place
    if not found.is_open:
        return place.model_copy(
            update={"reservation_id": found.reservation_id, "given_back_at": min(now, place.ends_at)}
        )
    since = (now - (place.seen_at or place.asked_at)).total_seconds()
    return place.model_copy(
        update={
            "reservation_id": found.reservation_id,
            "seen_at": now,
            "unused_seconds": place.unused_seconds + (max(0.0, since) if found.available > 0 else 0.0),
        }
    )


def _is_of(place: ReservedPlace, reservation: CapacityReservation) -> bool:
    if place.reservation_id is not None:
        return place.reservation_id == reservation.reservation_id
    return reservation.tags.get(RESERVATION_TAG) == place.name
