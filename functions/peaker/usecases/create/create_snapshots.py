"""CreateSnapshots: all data volumes of the donor at one instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, of_kind
from peaker.domain.runs.run import SnapshotStep, StepInput, Summary
from peaker.domain.runs.run_memory import Donor, RunReplica
from peaker.ports import Ports
from peaker.usecases.run.batch_members import clones_alone, require_donor
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.lost_answers import LOST_ANSWER_GRACE, may_still_appear
from peaker.usecases.run.resource_tags import resource_tags
from peaker.usecases.run.run_memory import approved_plan, made_id, settled
from peaker_contract.errors import ResourceNotFound, SnapshotFailed, SnapshotsPending
from peaker_contract.tags import DONOR_TAG


def create_snapshots(ports: Ports, step: SnapshotStep) -> Summary:
    """CreateSnapshots has no ClientToken: the run's tag is looked for before it is called (I10).

    Raises SnapshotsPending while an earlier call without an answer may have made them and while EC2 does not find yet
    what it has just answered, SnapshotFailed where the set lacks a member, NoDonor where a failover made the donor the
    source. A clone needs none.

    Of a replica that is to be refilled: nothing has mounted its volumes since it was parked, so that they stay as they
    are taken.
    """
    if step.of == "replica":
        return _summary(_take_set(ports, step, _of_replica(ports, step), lambda: None))
    donor = settled(ports, step, Donor)
    if clones_alone(ports, step.run_id):
        return Summary(text=f"none: {donor.instance_id} is cloned over the network", numbers={})
    job = _SetOfVolumes(
        ResourceKind.SNAPSHOT,
        donor.instance_id,
        donor.volumes,
        {**resource_tags(ports, step), DONOR_TAG: donor.instance_id},
    )
    return _summary(_take_set(ports, step, job, lambda: require_donor(ports, step)))


@dataclass(frozen=True)
class _SetOfVolumes:
    """Which volumes of an instance (ids by name) are snapshotted at one instant, under which tags; `kind` is that of
    their rows."""

    kind: ResourceKind
    instance_id: str
    volumes: Mapping[str, str]
    tags: Mapping[str, str]


def _of_replica(ports: Ports, step: StepInput) -> _SetOfVolumes:
    replica = settled(ports, step, RunReplica)
    built = ports.ledger.resources(replica.builder)
    volumes = {
        one.name: made_id(built, ResourceKind.VOLUME, one.name) for one in approved_plan(ports, step).volumes
    }
    return _SetOfVolumes(ResourceKind.OWN_SNAPSHOT, replica.instance_id, volumes, resource_tags(ports, step))


def _take_set(
    ports: Ports, step: StepInput, job: _SetOfVolumes, may_take: Callable[[], object]
) -> dict[str, str]:
    """The snapshot ids by the names of the volumes. `may_take` is asked right before the call, and raises."""
    earlier = of_kind(ports.ledger.resources(step.run_id), job.kind)
    rows = _intend(ports, step, job)
    if any(row.resource_id is None for row in rows.values()):
        snapshots = _made_earlier(ports, step, job, earlier) or _make(ports, step, job, may_take)
        rows = {name: _record(ports, step, row, snapshots) for name, row in rows.items()}
    # All ids are in the ledger by now: whatever the naming meets, no second set is made.
    return {name: _named(ports, row) for name, row in rows.items()}


def _made_earlier(
    ports: Ports, step: StepInput, job: _SetOfVolumes, earlier: Sequence[ResourceRow]
) -> list[Snapshot]:
    """What EC2 shows of the run's set; nothing only where no call can have made one."""
    sources = set(job.volumes.values())
    snapshots = [
        one for one in ports.storage.snapshots_of_run(step.run_id) if one.source_volume_id in sources
    ]
    if snapshots:
        return snapshots
    if any(row.resource_id is not None for row in earlier):
        raise SnapshotsPending("an earlier call recorded a part of the set, which does not show yet")
    if any(may_still_appear(row, ports.clock.now()) for row in earlier):
        raise SnapshotsPending("an earlier call's answer was lost; its snapshots may still show")
    return []


def _make(
    ports: Ports, step: StepInput, job: _SetOfVolumes, may_take: Callable[[], object]
) -> list[Snapshot]:
    may_take()
    ports.ledger.require_lease(holder_of(step))
    return ports.storage.create_snapshots(job.instance_id, list(job.volumes.values()), dict(job.tags))


def _summary(made: Mapping[str, str]) -> Summary:
    return Summary(text=f"snapshots of {', '.join(made)} at one instant", numbers={"snapshots": dict(made)})


def _intend(ports: Ports, step: StepInput, job: _SetOfVolumes) -> dict[str, ResourceRow]:
    now = ports.clock.now()
    return {
        name: ports.ledger.intend(
            holder_of(step), job.kind, name, step.step, now, {"source_volume_id": volume_id}
        )
        for name, volume_id in job.volumes.items()
    }


def _record(ports: Ports, step: StepInput, row: ResourceRow, snapshots: Sequence[Snapshot]) -> ResourceRow:
    if row.resource_id is not None:
        return row
    source = row.details["source_volume_id"]
    snapshot = next((one for one in snapshots if one.source_volume_id == source), None)
    if snapshot is None and may_still_appear(row, ports.clock.now()):
        raise SnapshotsPending(f"of the set the one of {source} ({row.name}) does not show yet")
    if snapshot is None:
        raise SnapshotFailed(f"the snapshot set has no member of {source} ({row.name}); none of it is usable")
    return ports.ledger.made(holder_of(step), row, snapshot.snapshot_id, ports.clock.now())


def _named(ports: Ports, row: ResourceRow) -> str:
    """CreateSnapshots gives all members the same tags; a call just after it may not find them yet."""
    snapshot_id, now = str(row.resource_id), ports.clock.now()
    try:
        ports.storage.name_snapshot(snapshot_id, row.name)
    except ResourceNotFound as error:
        if now - (row.made_at or now) < LOST_ANSWER_GRACE:
            raise SnapshotsPending(f"EC2 does not find {snapshot_id} ({row.name}) yet: {error}") from error
        raise SnapshotFailed(f"{snapshot_id} ({row.name}) is not there any more: {error}") from error
    return snapshot_id
