"""The room that is reserved for the cluster, as a launch may name it."""

from __future__ import annotations

from peaker.domain.reserved_capacity.places import CapacityReservation, with_room
from peaker.ports import Ports
from peaker_contract.errors import AwsCallRejected, CapacityUnavailable, ResourceNotFound

# EC2's refusals of a launch into reserved room, after which it goes on without: the room is full, is gone, or is none
# that this instance fits into. AWS documents no code of its own for one that was given back.
ROOM_REFUSED = (CapacityUnavailable, ResourceNotFound, AwsCallRejected)


def reserved_room(ports: Ports, cluster: str) -> list[CapacityReservation]:
    """What has room as EC2 says, the oldest first. EC2 is not asked where nothing is recorded."""
    places = ports.place_records.places(cluster)
    if not places.open_ones:
        return []
    return with_room(places, ports.capacity_reservations.of_environment())
