"""The fleet as a decision counts it: replicas that serve, are being built, or drain."""

from __future__ import annotations

from datetime import datetime

from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.planning.needed_replicas import FleetCounts
from peaker.domain.replicas.fleet import FleetState, ReplicaState
from peaker.domain.runs.batch import Batch
from peaker.domain.runs.ledger import LeaseRow
from peaker.ports.bundle import Ports
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.batch_members import members_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import LedgerInconsistent, Retryable


def fleet_now(
    ports: Ports, settings: ClusterSettings, now: datetime
) -> tuple[FleetCounts, FleetState | None]:
    """The fleet as the decision counts it. When AWS does not answer, serving is unknown, which means hold (I4)."""
    try:
        fleet = gather_fleet(ports, settings, with_volumes=True)
        lease = ports.lease.current(settings.name, now)
        building = _building(ports, fleet, lease)
    except Retryable:
        return FleetCounts(serving=None), None
    rows = {one.instance_id: one.ledger_row for one in fleet.replicas if one.ledger_row is not None}
    serving = fleet.serving
    in_service_since = {
        one.instance_id: row.changed_at.timestamp()
        for one in serving
        if (row := rows.get(one.instance_id)) is not None and row.state is ReplicaState.IN_SERVICE
    }
    counts = FleetCounts(
        serving=len(serving),
        building=building + len(fleet.returning),
        draining=_draining(fleet, lease),
        peak_in_service_since=in_service_since,
    )
    return counts, fleet


def _draining(fleet: FleetState, lease: LeaseRow | None) -> int:
    """Replicas that a live scale_in takes away: those that drain by the ledger, one from its first moment on."""
    if lease is None or lease.operation != "scale_in":
        return 0
    return max(1, sum(one.is_draining for one in fleet.replicas))


def _building(ports: Ports, fleet: FleetState, lease: LeaseRow | None) -> int:
    """Replicas that a live scale_out will add: all that it is to bring, from its first moment, until each serves.

    A row left behind by a dead run does not count: nobody works on it.
    """
    if lease is None or lease.operation != "scale_out":
        return 0
    served = sum(one.instance_id in fleet.at_work for one in fleet.serving)
    return max(0, _asked_of(ports, lease.run_id) - served)


def _asked_of(ports: Ports, run_id: str) -> int:
    """The replicas of its plan, or of its request; 1 where no row can be read. Of a batch that has begun, the members
    that are at work or serve: nobody builds those that have failed until the next round.
    """
    try:
        run = ports.ledger.run(run_id)
        batch, plan = run.part(Batch), run.part(ScaleOutPlan)
    except LedgerInconsistent:
        return 1
    if batch is not None and batch.rounds:
        return sum(one.state in ("at_work", "in_service") for one in members_of(ports, batch).values())
    if batch is not None:
        return batch.wanted
    return run.request.count if plan is None else plan.count
