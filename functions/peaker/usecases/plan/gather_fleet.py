"""Gather a cluster's fleet from EC2, the read endpoint and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.fleet import FleetState, Replica, ReplicaRow
from peaker.domain.replicas.inventory import Instance, TargetHealth, TargetState, Volume
from peaker.domain.runs.batch import Batch
from peaker.domain.runs.ledger import RunReplica
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import member_rows
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import LedgerInconsistent, PeakerError
from peaker_contract.names import ROLE_TAG

_LEAVING = {"shutting-down", "terminated"}


def gather_fleet(ports: Ports, settings: ClusterSettings, *, with_volumes: bool = False) -> FleetState:
    """The fleet now. Volumes cost one call per replica and are read only when asked for; lag is Unknown."""
    instances = ports.compute.instances_of_cluster(settings.name)
    health = ports.endpoint.health(settings)
    rows = ports.ledger.replicas(settings.name)
    volumes = ports.storage.volumes_of_instance if with_volumes else None
    at_work = _replicas_at_work(ports, settings.name, rows)
    return fleet_of(settings.name, ports.clock.now(), instances, health, rows, volumes, at_work)


def possible_donors(ports: Ports, settings: ClusterSettings) -> FleetState:
    """The fleet with volumes, and with the lag of those that get reads: one call per replica each.

    The lag is that of the newest scheduled check (Unknown once three have passed, and where CloudWatch does
    not answer); PrepareDonor measures it on the host right before the snapshot.
    """
    fleet = gather_fleet(ports, settings, with_volumes=True)
    lags = {
        one.instance_id: _heard_lag(ports, settings, one.instance_id, fleet.gathered_at)
        for one in fleet.serving
    }
    known = (replace(one, lag_seconds=lags.get(one.instance_id, one.lag_seconds)) for one in fleet.replicas)
    return replace(fleet, replicas=tuple(known))


def _heard_lag(ports: Ports, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
    try:
        return ports.readings.lag_seconds(settings, instance_id, now)
    except PeakerError as error:
        return Unknown(str(error))


def source_of(ports: Ports, settings: ClusterSettings) -> Instance | Unknown:
    found = ports.compute.instances_of_cluster(settings.name)
    return _source([one for one in found if one.state not in _LEAVING])


def _replicas_at_work(ports: Ports, cluster: str, rows: Mapping[str, ReplicaRow]) -> frozenset[str]:
    """The replicas that the scale_out which holds the lease builds or returns, with all members of its batch."""
    lease = ports.lease.current(cluster, ports.clock.now())
    if lease is None or lease.operation != "scale_out":
        return frozenset()
    try:
        run = ports.ledger.run(lease.run_id)
        batch = run.part(Batch)
        members = {run.run_id: run} if batch is None else {run.run_id: run, **member_rows(ports, batch)}
        taken = [row.part(RunReplica) for row in members.values()]
    except LedgerInconsistent:
        members, taken = {}, []
    built = {row.instance_id for row in rows.values() if row.run_id in {lease.run_id, *members}}
    return frozenset({*built, *(one.instance_id for one in taken if one is not None)})


def fleet_of(
    cluster: str,
    gathered_at: datetime,
    instances: Sequence[Instance],
    health: Mapping[str, TargetHealth] | Unknown,
    rows: Mapping[str, ReplicaRow],
    volumes_of: Callable[[str], Sequence[Volume]] | None = None,
    at_work: frozenset[str] = frozenset(),
) -> FleetState:
    """The fleet by what EC2, the serving group and the ledger said; instances that go are left out."""
    staying = [one for one in instances if one.state not in _LEAVING]
    replicas = [
        Replica(
            instance=instance,
            volumes=tuple(volumes_of(instance.instance_id)) if volumes_of else (),
            health=_standing(health, instance.instance_id),
            lag_seconds=Unknown("not measured yet"),
            ledger_row=rows.get(instance.instance_id),
        )
        for instance in staying
        if instance.is_replica
    ]
    return FleetState(
        cluster=cluster,
        gathered_at=gathered_at,
        source=_source(staying),
        replicas=tuple(sorted(replicas, key=lambda replica: replica.instance_id)),
        at_work=at_work,
    )


def _standing(health: Mapping[str, TargetHealth] | Unknown, instance_id: str) -> TargetHealth | Unknown:
    if isinstance(health, Unknown):
        return health
    found = health.get(instance_id, TargetHealth(TargetState.ABSENT))
    if found.state is TargetState.UNAVAILABLE:
        return Unknown(found.reason or "the read endpoint cannot say")
    return found


def _source(instances: list[Instance]) -> Instance | Unknown:
    sources = [one for one in instances if one.tags.get(ROLE_TAG) == "source"]
    if len(sources) == 1:
        return sources[0]
    ids = ", ".join(one.instance_id for one in sources) or "none"
    return Unknown(f"expected one instance tagged {ROLE_TAG}=source, found {ids}")
