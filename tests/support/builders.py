"""Sentences to build situations with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from peaker.adapters.dynamodb.items import cluster_key
from peaker.adapters.dynamodb.ledger_items import replica_item
from peaker.domain.document.disposal import ParkingFigures
from peaker.domain.instants import to_iso
from peaker.domain.limits.account_limits import DEFAULT_REGION_RATE, AccountUse
from peaker.domain.planning.lead_time import LeadTimeInputs
from peaker.domain.planning.plan_facts import PlanFacts
from peaker.domain.prices.price_table import US_EAST_1
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.data_volumes import PlannedVolume
from peaker.domain.replicas.donor import choose_donor
from peaker.domain.replicas.fleet import FleetState, Parking, Replica, ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Instance, Snapshot, TargetHealth, TargetState, Volume
from peaker.domain.runs.ledger import ResourceKind
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.runs.run import RequestedStep, StepInput, run_id
from peaker.usecases.run.acquire_lease import acquire_lease

from lab.application_load import APPLICATION_LOAD
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import (
    CLUSTER_TAG,
    ENVIRONMENT_TAG,
    LOAD_TAG,
    OWNER_TAG,
    ROLE_TAG,
    RUN_TAG,
    VOLUME_TAG,
)
from sim.calm import CalmPorts
from sim.workflows.virtual_time import START as NOON

ROOT = Path(__file__).resolve().parents[2]
EXECUTION = "manual-1"
RUN_ID = run_id("scale_out", "orders", NOON, EXECUTION)
SOURCE = "i-0000000000000050a"
BASE = "i-000000000000b0001"
PEAK = "i-000000000000c0002"


# A read endpoint by name; clients may act on an old answer for 60 + 30 s.
BY_NAME = {
    "kind": "route53",
    "port": 3306,
    "health_port": 9200,
    "hosted_zone_id": "Z0123456789ABCDEFGHIJ",
    "record_name": "reads.orders.example",
    "ttl_seconds": 30,
}


@cache
def _local_cluster() -> dict[str, Any]:
    environment = yaml.safe_load((ROOT / "environments" / "local.yaml").read_text(encoding="utf-8"))
    return dict(environment["clusters"][0])


def orders(**changes: Any) -> ClusterSettings:
    """The local environment's cluster with a capacity of 100 per replica; `changes` go over it."""
    block = {**_local_cluster(), **APPLICATION_LOAD, "capacity_per_replica": 100.0}
    block["environment"] = "local"
    block["region"] = "us-east-1"
    block["read_endpoint"] = {**block["read_endpoint"], "target_group_arn": "arn:target-group"}
    return ClusterSettings.model_validate({**block, **changes})


def instance(instance_id: str, role: str = "replica", **more: Any) -> Instance:
    """A running instance of the cluster, base load, in us-east-1b."""
    tags = {CLUSTER_TAG: "orders", ENVIRONMENT_TAG: "local", ROLE_TAG: role}
    tags |= {LOAD_TAG: "base"} if role == "replica" else {}
    tags.update(more.pop("tags", {}))
    values: dict[str, Any] = {
        "state": "running",
        "zone": "us-east-1b",
        "launched_at": NOON - timedelta(days=9),
    }
    values.update(more)
    return Instance(
        instance_id=instance_id, private_ip="10.77.2.20", instance_type="r6i.large", tags=tags, **values
    )


def data_volumes_of(
    instance_id: str, run_tags: Mapping[str, str] | None = None, size_gib: int = 4
) -> list[Volume]:
    """The two data volumes, attached."""
    return [
        Volume(
            volume_id=f"vol-{name}-{instance_id[-4:]}",
            state="in-use",
            size_gib=size_gib,
            volume_type="gp3",
            zone="us-east-1b",
            instance_id=instance_id,
            device=device,
            attachment_state="attached",
            tags={CLUSTER_TAG: "orders", VOLUME_TAG: name, **(run_tags or {})},
        )
        for name, device in (("data", "/dev/sdf"), ("log", "/dev/sdg"))
    ]


def planned_volume(
    name: str = "data", kind: str = "gp3", size_gib: int = 8, iops: int = 3000, mib_per_s: int = 125
) -> PlannedVolume:
    """A volume of a plan."""
    return PlannedVolume(
        name=name, device="/dev/sdf", mount_point=f"/{name}", filesystem="xfs", size_gib=size_gib,
        volume_type=kind, iops=iops, throughput_mib_per_s=mib_per_s, initialization_rate_mib_per_s=None,
    )  # fmt: skip


def replica(
    instance_id: str,
    *,
    health: TargetHealth | Unknown | None = None,
    lag: Reading | None = None,
    peak_of: str | None = None,
    row_state: ReplicaState | None = ReplicaState.IN_SERVICE,
    launched_at: datetime = NOON - timedelta(days=9),
    volumes: tuple[Volume, ...] | None = None,
    **more: Any,
) -> Replica:
    """A healthy base replica; with `peak_of` a run's peak replica, owned and in the ledger."""
    tags = {} if peak_of is None else {LOAD_TAG: "peak", OWNER_TAG: "local", RUN_TAG: peak_of}
    tags.update(more.pop("tags", {}))
    row = None
    if peak_of is not None and row_state is not None:
        row = ReplicaRow("orders", instance_id, peak_of, row_state, NOON - timedelta(hours=5))
    return Replica(
        instance=instance(instance_id, tags=tags, launched_at=launched_at, **more),
        volumes=tuple(data_volumes_of(instance_id)) if volumes is None else volumes,
        health=health or TargetHealth(TargetState.HEALTHY),
        lag_seconds=lag or Unknown("not measured yet"),
        ledger_row=row,
    )


def fleet_with(*replicas: Replica, source: Instance | Unknown | None = None) -> FleetState:
    """The fleet at noon; its source is known unless said otherwise."""
    return FleetState("orders", NOON, source or instance(SOURCE, "source"), replicas)


def plan_facts(fleet: FleetState, settings: ClusterSettings, **changes: Any) -> PlanFacts:
    """What a plan at noon depends on: the prices of us-east-1, nothing else known, no snapshot kept."""
    known: dict[str, Any] = {
        "prices": US_EAST_1, "donor": choose_donor(fleet, settings), "inputs": LeadTimeInputs(()),
        "past": PastSteps(), "lease": None, "promises": {}, "region": DEFAULT_REGION_RATE,
        "account": AccountUse({}, {}), "snapshot_sets": (), "binary_logs_kept": Unknown("nobody asked"),
        "image_keys": (), "why_no_image": None, "why_unusable": {}, "image_devices": (),
    }  # fmt: skip
    return PlanFacts(settings=settings, fleet=fleet, environment="local", **{"now": NOON, **known, **changes})


def with_cluster(ports: CalmPorts) -> CalmPorts:
    """A source and one serving base replica with its volumes."""
    ports.compute.add(instance(SOURCE, "source"))
    ports.compute.add(instance(BASE))
    for volume in data_volumes_of(BASE):
        ports.storage.add(volume)
    ports.endpoint.set(BASE, TargetState.HEALTHY)
    return ports


def leased(
    ports: CalmPorts, step: str, operation: str = "scale_out", run_id: str = RUN_ID, **more: Any
) -> StepInput:
    """The input of a step of a run that holds the lease of orders; opens the run when it is new.

    The clock may stand still between two runs: what the one before had under way has ended.
    """
    let_late_calls_end(ports, "orders")
    request = RequestedStep(
        run_id=run_id, cluster="orders", operation=operation, step="AcquireLease",  # type: ignore[arg-type]
        request=more.pop("request", {"cluster": "orders"}),
    )  # fmt: skip
    lease = acquire_lease(ports, request)
    return StepInput(
        run_id=run_id, cluster="orders", operation=operation, step=step, fencing_token=lease.fencing_token,  # type: ignore[arg-type]
    )  # fmt: skip


def write_replica(ports: CalmPorts, row: ReplicaRow) -> None:
    """The ledger's row of a replica, without a lease."""
    ports.world.table.plant(replica_item(row))


def let_late_calls_end(ports: CalmPorts, cluster: str) -> None:
    """As if the time had passed in which a call of the run before may be under way."""
    lease = ports.world.table.get(cluster_key(cluster), "lease")
    if lease is not None:
        ports.world.table.plant({**lease, "settled_at": to_iso(NOON - timedelta(days=99))})


def run_with_a_registered_replica(ports: CalmPorts) -> StepInput:
    """A build that got as far as a registered replica, PEAK, with volumes and snapshots; it holds the lease."""
    step = leased(ports, "RegisterReplica")
    holder, now = step.holder, ports.clock.now()
    tags = {OWNER_TAG: "local", RUN_TAG: RUN_ID}
    ports.compute.add(instance(PEAK, tags={**tags, LOAD_TAG: "peak"}))
    volumes = [ports.storage.add(volume) for volume in data_volumes_of(PEAK, tags)]
    snapshots = ports.storage.create_snapshots(BASE, ["vol-data-0001", "vol-log-0001"], tags)
    ports.endpoint.set(PEAK, TargetState.HEALTHY)
    made = [(ResourceKind.INSTANCE, "replica", PEAK, {})]
    made += [(ResourceKind.VOLUME, str(one.name), one.volume_id, {}) for one in volumes]
    made += [
        (ResourceKind.SNAPSHOT, name, one.snapshot_id, {"source_volume_id": one.source_volume_id})
        for name, one in zip(("data", "log"), snapshots, strict=True)
    ]
    made += [(ResourceKind.TARGET, "read-endpoint", PEAK, {"instance_id": PEAK})]
    for kind, name, resource_id, details in made:
        row = ports.ledger.intend(holder, kind, name, "Made", now, details)
        ports.ledger.made(holder, row, resource_id, now)
    return step


def parked(instance_id: str, hours: float, until: datetime | None = None, **more: str) -> Replica:
    """A replica that was parked so many hours before NOON."""
    one = replica(
        instance_id,
        peak_of=RUN_ID,
        row_state=ReplicaState.PARKED,
        health=TargetHealth(TargetState.ABSENT),
        state="stopped",
    )
    assert one.ledger_row is not None
    stands = Parking(NOON - timedelta(hours=hours), "uuid:1-9", 86_400.0, until, "a limit", **more)
    return replace(one, ledger_row=replace(one.ledger_row, parking=stands))


def figures_of_parking(**changes: float | None) -> ParkingFigures:
    """Back in 10 min against 90, ten minutes more per hour; a quarter dollar an hour against five for building."""
    values: dict[str, float | None] = {
        "return_seconds": 600, "build_seconds": 5400, "catch_up_per_hour": 600,
        "parked_hourly_usd": 0.25, "serving_hourly_usd": 1.11, "rebuild_usd": 5.0,
    }  # fmt: skip
    return ParkingFigures.model_validate({**values, **changes})


def back_up_with_tags(ports: CalmPorts, instance_id: str) -> None:
    """A backup of a volume of the replica, with the volume's tags."""
    volume = next(one for one in ports.storage.volumes_of_instance(instance_id) if one.name == "data")
    backup = Snapshot("snap-0000000000000bacc", "completed", volume.volume_id, 100.0, tags=volume.tags)
    ports.storage.add_snapshot(backup)
