"""The stop of an instance that Peaker made."""

from __future__ import annotations

from peaker.domain.runs.ledger import Holder
from peaker.ports.bundle import Ports
from peaker_contract.errors import NotOwned
from peaker_contract.names import OWNER_TAG, RUN_TAG


def stop_owned_instance(ports: Ports, holder: Holder, instance_id: str, builder: str) -> None:
    """Stop it, with its tags read anew immediately before (I1), and the lease (I6).

    Raises NotOwned and LeaseLost, and leaves it alone.
    """
    tags = ports.compute.instance(instance_id).tags
    if (tags.get(OWNER_TAG), tags.get(RUN_TAG)) != (ports.environment, builder):
        raise NotOwned(
            f"{instance_id} is left alone, only what Peaker made is stopped (I1): tags say owner "
            f"{tags.get(OWNER_TAG)!r} and run {tags.get(RUN_TAG)!r}, the ledger {ports.environment!r} and {builder!r}"
        )
    ports.ledger.require_lease(holder)
    ports.compute.stop(instance_id)
