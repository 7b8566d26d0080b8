"""Reserved room in memory, true to the guarantees that ports.py states; the contract tests hold it to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from peaker.domain.reading import Unknown
from peaker.domain.reserved_capacity.places import CapacityReservation, ReservationSpec, ReservedPlaces

from peaker_contract.errors import CapacityUnavailable, ResourceNotFound
from peaker_contract.tags import OWNER_TAG


@dataclass
class FakeCapacityReservations:
    """Active at once. `full` are pools without room, as (zone, type); `shows` False: EC2 lists nothing yet.

    `full_by_now`: somebody was faster than the list that says there is room.
    """

    now: Callable[[], datetime] = lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    made: dict[str, CapacityReservation] = field(default_factory=dict)
    specs: dict[str, ReservationSpec] = field(default_factory=dict)
    full: set[tuple[str, str]] = field(default_factory=set)
    refused: Exception | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    image_is: str | Unknown = "Linux/UNIX"
    shows: bool = True
    full_by_now: bool = False
    lost: int = 0
    _by_token: dict[str, str] = field(default_factory=dict)
    _within: dict[str, set[str]] = field(default_factory=dict)

    def of_environment(self) -> list[CapacityReservation]:
        self._expire()
        return [one for one in self.made.values() if self.shows and one.tags.get(OWNER_TAG) == "local"]

    def of_account(self) -> list[CapacityReservation]:
        self._expire()
        return [one for one in self.made.values() if self.shows and one.is_open]

    def platform(self, image_id: str) -> str | Unknown:
        return self.image_is

    def reserve(self, spec: ReservationSpec, client_token: str) -> str:
        self.asked.append((spec.zone, spec.instance_type))
        if self.refused is not None:
            raise self.refused
        if client_token not in self._by_token:
            if (spec.zone, spec.instance_type) in self.full:
                raise CapacityUnavailable(
                    f"InsufficientInstanceCapacity: {spec.instance_type} in {spec.zone}"
                )
            reservation_id = f"cr-{len(self._by_token) + 1:017x}"
            self._by_token[client_token] = reservation_id
            self.specs[reservation_id] = spec
            self.made[reservation_id] = CapacityReservation(
                reservation_id, "active", spec.zone, spec.instance_type, 1, 1, dict(spec.tags)
            )
        if self.lost:
            self.lost -= 1
            raise TimeoutError("the function's time was over")
        return self._by_token[client_token]

    def cancel(self, reservation_id: str) -> None:
        there = self.made.get(reservation_id)
        if there is not None and there.is_open:
            self.cancelled.append(reservation_id)
            self.made[reservation_id] = replace(there, state="cancelled")

    # -- what launches do, and what a test does ----------------------------------------------------------------

    def enter(self, reservation_id: str, instance_id: str) -> None:
        """As a launch that names it."""
        self._expire()
        there = self.made.get(reservation_id)
        if there is None or not there.is_open:
            raise ResourceNotFound(f"InvalidCapacityReservationId.NotFound: {reservation_id}")
        if there.available < 1 or self.full_by_now:
            raise CapacityUnavailable(f"ReservationCapacityExceeded: {reservation_id}")
        self._within.setdefault(reservation_id, set()).add(instance_id)
        self.made[reservation_id] = replace(there, available=0)

    def leave(self, instance_id: str) -> None:
        for reservation_id, within in self._within.items():
            if instance_id in within:
                within.discard(instance_id)
                self.made[reservation_id] = replace(self.made[reservation_id], available=1)

    @property
    def open_ones(self) -> list[CapacityReservation]:
        self._expire()
        return [one for one in self.made.values() if one.is_open]

    @property
    def pools(self) -> list[tuple[str, str]]:
        return [(one.zone, one.instance_type) for one in self.open_ones]

    def _expire(self) -> None:
        for reservation_id, spec in self.specs.items():
            if self.made[reservation_id].is_open and spec.ends_at <= self.now():
                self.made[reservation_id] = replace(self.made[reservation_id], state="expired")


class FakePlaceRecords:
    """`before_a_write` is another look that gets in between a look and the write after it, once."""

    def __init__(self) -> None:
        self._by_cluster: dict[str, ReservedPlaces] = {}
        self.before_a_write: Callable[[], None] | None = None

    def places(self, cluster: str) -> ReservedPlaces:
        return self._by_cluster.get(cluster, ReservedPlaces())

    def keep_places(self, cluster: str, changed: ReservedPlaces) -> bool:
        other, self.before_a_write = self.before_a_write, None
        if other is not None:
            other()
        if changed.version != self.places(cluster).version:
            return False
        self._by_cluster[cluster] = changed.model_copy(update={"version": changed.version + 1})
        return True
