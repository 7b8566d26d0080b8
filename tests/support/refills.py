"""An expired parked replica that a run refills, in memory: built from a kept set, parked, its volumes of 200 GiB."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.run import PlanStep, SnapshotStep, StepInput
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.start_parked_replica import start_parked_replica
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.release_lease import release_lease

from peaker_contract.tags import OWNER_TAG, RUN_TAG
from tests.support.builders import BASE, RUN_ID, data_volumes_of, leased, orders
from tests.support.fakes import NOON, FakePorts, fake_ports
from tests.support.peak import PEAK, with_peak

REFILL = "scale-out-orders-20261122T120000-00cd"
SECOND = f"{REFILL}-2"
SIZE_GIB = 200
DAY = timedelta(days=1)
VOLUMES = {one.volume_id for one in data_volumes_of(PEAK)}
SPENT = "the source has purged binary logs that it lacks (1-7)"
PARKING = Parking(NOON - 0.75 * DAY, "uuid:1-9", 86_400.0, NOON, "a limit", spent=SPENT)
SETTINGS: dict[str, Any] = {
    "retirement": {"idle_seconds": 600, "park": "always", "refill_expired": True},
    "prewarm": {"direct_fill": True},
}


def with_expired_replica(**changes: Any) -> FakePorts:
    """PEAK, of the run RUN_ID, stands parked and has expired; the set that it was built from is kept."""
    ports = with_peak(fake_ports(orders(**{**SETTINGS, **changes})), size_gib=SIZE_GIB)
    for volume in data_volumes_of(BASE, size_gib=SIZE_GIB):
        ports.storage.add(volume)
    for group in (ports.endpoint.targets, ports.endpoint.warming):
        group.pop(PEAK, None)
    ports.compute.instances[PEAK] = replace(ports.compute.instances[PEAK], state="stopped")
    step = leased(ports, "RecordReceipt")
    sources = {str(one.name): one.volume_id for one in data_volumes_of(BASE)}
    taken = ports.storage.create_snapshots(
        BASE, list(sources.values()), {OWNER_TAG: "local", RUN_TAG: RUN_ID}
    )
    for one in taken:
        ports.storage.snapshots[one.snapshot_id] = replace(one, state="completed", started_at=NOON - DAY)
    ids = dict(zip(sources, (one.snapshot_id for one in taken), strict=True))
    ports.ledger.keep_snapshots(
        holder_of(step), SnapshotSet("orders", RUN_ID, BASE, NOON - DAY, ids, sources)
    )
    row = ReplicaRow("orders", PEAK, RUN_ID, ReplicaState.PARKED, NOON, parking=PARKING)
    ports.ledger.set_replica(holder_of(step), row)
    release_lease(ports, step)
    return ports


def of_run(ports: FakePorts, name: str) -> StepInput:
    """A step of the run that refills it."""
    return leased(ports, name, run_id=REFILL)


def of_second(ports: FakePorts, name: str) -> StepInput:
    """A step of the second member of that run."""
    return of_run(ports, name).model_copy(update={"run_id": SECOND, "batch": REFILL})


def of_replica(step: StepInput, **more: Any) -> SnapshotStep:
    """The step as one of the replica's own snapshots."""
    return SnapshotStep(**{**step.model_dump(), **more, "of": "replica"})


def refilling(ports: FakePorts, second: bool = False) -> None:
    """The run has planned to refill it, snapshotted the donor and started its instance; as its second member too."""
    plan = plan_scale_out(ports, PlanStep(**of_run(ports, "PlanScaleOut").model_dump())).plan
    assert plan["method"]["action"] == "refill", plan["method"]["reason"]
    choose_donor(ports, of_run(ports, "ChooseDonor"))
    create_snapshots(ports, SnapshotStep(**of_run(ports, "CreateSnapshots").model_dump()))
    if second:
        batch = ports.ledger.run(REFILL)
        row = RunRow(SECOND, "orders", "scale_out", batch.started_at, batch.request, parts=batch.parts)
        ports.ledger.open_run(holder_of(of_second(ports, "OpenMember")), row)
    start_parked_replica(
        ports, of_second(ports, "StartParkedReplica") if second else of_run(ports, "StartParkedReplica")
    )


def with_own_snapshots(second: bool) -> FakePorts:
    """Both sets of snapshots are complete, of the run itself or of its second member."""
    ports = with_expired_replica(max_replicas=4)
    refilling(ports, second)
    of = of_second if second else of_run
    create_snapshots(ports, of_replica(of(ports, "SnapshotOwnVolumes")))
    ports.storage.complete()
    return ports
