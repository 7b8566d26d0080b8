"""The disposal of a replica that leaves the endpoint: it is parked or retired, by its figures."""

from __future__ import annotations

from peaker.domain.document.disposal import Disposal
from peaker.domain.planning.parking_figures import parking_figures
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.service.parking import decide_disposal
from peaker.ports.bundle import Ports
from peaker.usecases.plan.lead_time_inputs import lead_time_inputs, snapshot_history
from peaker.usecases.plan.refresh_prices import cluster_prices
from peaker_contract.cluster import ClusterSettings


def disposal_of(ports: Ports, settings: ClusterSettings, fleet: FleetState, replica: Replica) -> Disposal:
    """The settings and the figures decide the disposal; the fleet must hold the volumes."""
    past = ports.records.past_steps(settings.name)
    inputs = lead_time_inputs(settings, fleet, past, snapshot_history(ports, settings, fleet))
    figures = parking_figures(replica, settings, cluster_prices(ports, settings), inputs, past)
    return decide_disposal(figures, settings.retirement.park)
