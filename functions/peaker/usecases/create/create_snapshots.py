"""CreateSnapshots: all data volumes of the donor at one instant."""

from __future__ import annotations

from collections.abc import Sequence

from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import Donor, ResourceKind, ResourceRow, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import require_donor
from peaker.usecases.run.lost_answers import LOST_ANSWER_GRACE, may_still_appear
from peaker.usecases.run.run_memory import intend, resource_tags, settled
from peaker_contract.errors import (
    AwsCallRejected,
    ResourceNotFound,
    SnapshotFailed,
    SnapshotsPending,
    Throttled,
)
from peaker_contract.names import DONOR_TAG


def create_snapshots(ports: Ports, step: StepInput) -> Summary:
    """CreateSnapshots has no ClientToken: the run's tag is looked for before it is called (I10), and of calls at the
    same time one makes the set.

    Raises SnapshotsPending while an earlier call without an answer may have made them and while EC2 does not find yet
    what it has just answered, SnapshotFailed where the set lacks a member, NoDonor where a failover made the donor the
    source.
    """
    donor = settled(ports, step, Donor)
    earlier = of_kind(ports.ledger.resources(step.run_id), ResourceKind.SNAPSHOT)
    rows = {
        name: intend(ports, step, ResourceKind.SNAPSHOT, name, {"source_volume_id": volume_id})
        for name, volume_id in donor.volumes.items()
    }
    if any(row.resource_id is None for row in rows.values()):
        snapshots = _made_earlier(ports, step, donor, earlier) or _make(ports, step, donor)
        rows = {name: _record(ports, step, row, snapshots) for name, row in rows.items()}
    # All ids are in the ledger by now: whatever the naming meets, no second set is made.
    made = {name: _named(ports, row) for name, row in rows.items()}
    return Summary(text=f"snapshots of {', '.join(made)} at one instant", numbers={"snapshots": made})


def _made_earlier(
    ports: Ports, step: StepInput, donor: Donor, earlier: Sequence[ResourceRow]
) -> list[Snapshot]:
    """What EC2 shows of the run's set. A set that does not show yet keeps its call's claim from every other call."""
    sources = set(donor.volumes.values())
    snapshots = [
        one for one in ports.storage.snapshots_of_run(step.run_id) if one.source_volume_id in sources
    ]
    if snapshots:
        return snapshots
    if any(row.resource_id is not None for row in earlier):
        raise SnapshotsPending("an earlier call recorded a part of the set, which does not show yet")
    return []


def _make(ports: Ports, step: StepInput, donor: Donor) -> list[Snapshot]:
    require_donor(ports, step)
    now = ports.clock.now()
    until = now + LOST_ANSWER_GRACE
    if not ports.ledger.claim(step.holder, step.step, now, until):
        raise SnapshotsPending(
            "an earlier call's answer was lost, or another call makes the set at this moment"
        )
    ports.ledger.require_lease(step.holder)
    tags = {**resource_tags(ports, step), DONOR_TAG: donor.instance_id}
    try:
        return ports.storage.create_snapshots(donor.instance_id, list(donor.volumes.values()), tags)
    except (AwsCallRejected, Throttled, SnapshotsPending):
        # It has made nothing, and the next try need not wait for an answer.
        ports.ledger.claim(step.holder, step.step, until, now)
        raise


def _record(ports: Ports, step: StepInput, row: ResourceRow, snapshots: Sequence[Snapshot]) -> ResourceRow:
    if row.resource_id is not None:
        return row
    source = row.details["source_volume_id"]
    snapshot = next((one for one in snapshots if one.source_volume_id == source), None)
    if snapshot is None and may_still_appear(row, ports.clock.now()):
        raise SnapshotsPending(f"of the set the one of {source} ({row.name}) does not show yet")
    if snapshot is None:
        raise SnapshotFailed(f"the snapshot set has no member of {source} ({row.name}); none of it is usable")
    return ports.ledger.made(step.holder, row, snapshot.snapshot_id, ports.clock.now())


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
