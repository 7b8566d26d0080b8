"""Capacity reservations: shown late, full with an instance in them, ended by themselves within an hour of their end."""

from __future__ import annotations

import random
from typing import Any

from peaker.domain.reading import Unknown
from peaker.domain.reserved_capacity.places import CapacityReservation, ReservationSpec

from bench.faults.workflows.virtual_time import VirtualTime
from bench.faults.world.account import (
    OTHERS_SHOWN_WITHIN,
    Account,
    Record,
    change,
    stale,
    state_at,
)
from peaker_contract.errors import AwsCallRejected, CapacityUnavailable, ResourceNotFound
from peaker_contract.tags import OWNER_TAG

# EC2 ends a limited reservation within so long after its end (botocore, ec2:CreateCapacityReservation, EndDate).
ENDED_WITHIN = 3600.0
OPEN = ("pending", "active")


class HostileReservations:
    """Port CapacityReservations."""

    def __init__(self, account: Account, time: VirtualTime, chance: random.Random, environment: str) -> None:
        self._account = account
        self._time = time
        self._random = chance
        self._environment = environment

    def of_environment(self) -> list[CapacityReservation]:
        now = self._time.seconds
        second = stale(self._random, now)
        return [
            self._listed(one, second)
            for one in self._account.reservations.values()
            if one["shown"] <= now and one["tags"].get(OWNER_TAG) == self._environment
        ]

    def of_account(self) -> list[CapacityReservation]:
        now = self._time.seconds
        second = stale(self._random, now)
        shown = [one for one in self._account.reservations.values() if one["shown"] <= now]
        return [found for found in (self._listed(one, second) for one in shown) if found.is_open]

    def platform(self, image_id: str) -> str | Unknown:
        return "Linux/UNIX"

    def reserve(self, spec: ReservationSpec, client_token: str) -> str:
        now, asked, account = self._time.seconds, repr(spec), self._account
        if client_token in account.tokens:
            before, reservation_id = account.tokens[client_token]
            if before != asked:
                raise AwsCallRejected("ec2:CreateCapacityReservation: IdempotentParameterMismatch")
            return reservation_id
        if spec.zone in account.full_zones or spec.instance_type in account.full_types:
            raise CapacityUnavailable(
                f"ec2:CreateCapacityReservation: InsufficientInstanceCapacity: {spec.zone}"
            )
        ends = (spec.ends_at - self._time.datetime_of(0)).total_seconds()
        if ends <= now:
            raise AwsCallRejected("ec2:CreateCapacityReservation: InvalidParameterValue: EndDate")
        record: Record = {
            "id": account.next_id("cr"),
            "zone": spec.zone,
            "type": spec.instance_type,
            "tags": dict(spec.tags),
            "ends": ends,
            "shown": now + self._random.uniform(0, OTHERS_SHOWN_WITHIN),
        }
        late = ends - now + self._random.uniform(0, ENDED_WITHIN)
        record["history"] = [
            (now, "pending"),
            (now + self._random.uniform(0, 300), "active"),
            (now + late, "expired"),
        ]
        account.reservations[record["id"]] = record
        account.tokens[client_token] = (asked, record["id"])
        return str(record["id"])

    def cancel(self, reservation_id: str) -> None:
        record = self._account.reservations.get(reservation_id)
        now = self._time.seconds
        if record is not None and state_at(record, now) in OPEN:
            change(record, now, (0, "cancelled"))

    def _listed(self, record: Record, second: float) -> CapacityReservation:
        return CapacityReservation(
            reservation_id=record["id"],
            state=state_at(record, second),
            zone=record["zone"],
            instance_type=record["type"],
            total=1,
            available=0 if _within(self._account, record["id"], second) else 1,
            tags=record["tags"],
        )


def require_room(account: Account, reservation_id: str, second: float, action: str) -> None:
    """Raises what EC2 raises for a reservation that is gone or full."""
    record = account.reservations.get(reservation_id)
    if record is None or state_at(record, second) not in OPEN:
        raise ResourceNotFound(f"{action}: InvalidCapacityReservationId.NotFound: {reservation_id}")
    if _within(account, reservation_id, second):
        raise CapacityUnavailable(f"{action}: ReservationCapacityExceeded: {reservation_id}")


def _within(account: Account, reservation_id: str, second: float) -> list[Any]:
    return [
        one["id"]
        for one in account.instances.values()
        if one.get("reservation") == reservation_id
        and one["history"][0][0] <= second
        and state_at(one, second) in ("pending", "running", "stopping")
    ]
