"""Starts a stopped instance in the room of the cluster's group of capacity reservations, else without it."""

from __future__ import annotations

from peaker.ports.bundle import Ports
from peaker_contract.errors import AwsCallRejected, CapacityUnavailable, ResourceNotFound

# EC2's refusals of a launch or start that names a group, after which the same is asked without it. Where the group has
# no room EC2 itself takes on-demand capacity; AWS documents no code for a group that is gone.
GROUP_REFUSED = (CapacityUnavailable, ResourceNotFound, AwsCallRejected)


def start_instance(ports: Ports, instance_id: str, capacity_reservation_group_arn: str | None) -> None:
    """Begins to start it; running already is not an error. Raises CapacityUnavailable."""
    if capacity_reservation_group_arn is not None:
        try:
            ports.compute.start(instance_id, capacity_reservation_group_arn)
        except GROUP_REFUSED:
            pass
        else:
            return
    ports.compute.start(instance_id)
