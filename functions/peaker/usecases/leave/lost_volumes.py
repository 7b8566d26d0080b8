"""What was made for a replica and is attached to it no more: it can neither serve nor come back."""

from __future__ import annotations

from peaker.domain.runs.ledger import ResourceKind, ResourceState, of_kind
from peaker.ports.bundle import Ports


def lost_volumes(ports: Ports, instance_id: str, builder: str) -> tuple[str, ...]:
    """Ids of the volumes of the run that built it which somebody detached or deleted, in order of their making.

    What is attached is asked of the instance: a volume that lost its tags is not lost.
    """
    attached = {one.volume_id for one in ports.storage.volumes_of_instance(instance_id)}
    made = of_kind(ports.ledger.resources(builder), ResourceKind.VOLUME)
    here = [row.resource_id for row in made if row.state is not ResourceState.UNDONE]
    return tuple(one for one in here if one is not None and one not in attached)
