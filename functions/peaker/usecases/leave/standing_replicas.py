"""The expired parked replicas that stand on, since a run may refill them."""

from __future__ import annotations

from peaker.domain.planning.methods.refilling import (
    StandsExpired,
    stands_expired,
    why_settings_forbid_refills,
)
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.ports import Ports
from peaker.usecases.run.kept_snapshots import set_made_from
from peaker_contract.cluster import ClusterSettings


def standing_for_refills(
    ports: Ports, settings: ClusterSettings, fleet: FleetState
) -> dict[str, StandsExpired]:
    """By instance id; none where the settings forbid refills, and none whose snapshot set is gone."""
    if why_settings_forbid_refills(settings) is not None:
        return {}
    found = {one.instance_id: _stands(ports, settings, one) for one in fleet.parked}
    return {name: stands for name, stands in found.items() if stands is not None}


def _stands(ports: Ports, settings: ClusterSettings, replica: Replica) -> StandsExpired | None:
    row, now = replica.ledger_row, ports.clock.now()
    if row is None or row.parking is None or row.parking.stands_until is None:
        return None
    base = set_made_from(ports, settings.name, row.run_id)
    return stands_expired(replica, ports.environment, base is not None, now)
