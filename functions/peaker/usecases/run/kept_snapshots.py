"""The snapshot sets that stay between runs: one per donor, the newest that is complete (I7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import Donor, Holder, ResourceKind, ResourceRow, ResourceState, RunRow, of_kind
from peaker.domain.storage.set_manifest import SetManifest
from peaker.domain.storage.snapshot_sets import SnapshotSet, surplus_sets
from peaker.ports.bundle import Ports
from peaker_contract.errors import AwsCallRejected, NotOwned
from peaker_contract.names import OWNER_TAG


def keep_set(ports: Ports, holder: Holder, run: RunRow, rows: Sequence[ResourceRow]) -> SnapshotSet | None:
    """Keep the run's set, which the workflow has found complete; None for a run of which none is there.

    What somebody deleted meanwhile is no part of it.
    """
    found = {one.snapshot_id: one for one in ports.storage.snapshots_of_run(run.run_id)}
    made = [row for row in of_kind(rows, ResourceKind.SNAPSHOT) if row.resource_id is not None]
    mine = [row for row in made if row.resource_id in found]
    for row in made:
        if row.resource_id not in found and row.state is not ResourceState.UNDONE:
            ports.ledger.mark(holder, run.run_id, row, ResourceState.UNDONE)
    if not mine:
        return None
    kept = SnapshotSet(
        cluster=run.cluster,
        run_id=run.run_id,
        donor=run.required(Donor, "RecordReceipt").instance_id,
        kept_at=ports.clock.now(),
        snapshots={row.name: str(row.resource_id) for row in mine},
        sources={row.name: str(row.details["source_volume_id"]) for row in mine},
        full_bytes={row.name: _full_bytes(found.get(str(row.resource_id))) for row in mine},
        manifest=_manifest(run, mine) if len(mine) == len(made) else {},
    )
    ports.ledger.keep_snapshots(holder, kept)
    for row in mine:
        ports.ledger.mark(holder, run.run_id, row, ResourceState.KEPT)
    return kept


def _manifest(run: RunRow, mine: Sequence[ResourceRow]) -> dict[str, Any]:
    manifest = run.part(SetManifest)
    if manifest is None:
        return {}
    made = {row.name: str(row.resource_id) for row in mine}
    return manifest.model_copy(update={"snapshots": made}).document()


def _full_bytes(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.full_size_bytes


def kept_ids(ports: Ports, cluster: str) -> frozenset[str]:
    """The snapshots that outlive their runs."""
    return frozenset().union(*(one.snapshot_ids for one in ports.ledger.snapshot_sets(cluster)))


def delete_surplus_sets(ports: Ports, holder: Holder, cluster: str, unwanted: str | None) -> list[str]:
    """Delete the kept sets that nothing needs; returns what is to be said of each. `unwanted`: why none is wanted.

    It is called under the cluster's lease, so that no run is using one. A set that EC2 does not give away (an image is
    made of it), or that is not ours by its tags (I1), stays, and it is said.
    """
    sets = ports.ledger.snapshot_sets(cluster)
    notes = []
    for surplus in surplus_sets(sets, volumes_of_donors(ports, sets), unwanted):
        kept = surplus.kept
        try:
            _delete(ports, holder, kept)
        except (AwsCallRejected, NotOwned) as error:
            notes.append(f"the snapshots of {kept.run_id} stay, though {surplus.why}: {error}")
            continue
        _settle(ports, holder, kept)
        notes.append(f"the snapshots of {kept.run_id} were deleted: {surplus.why}")
    return notes


def forget_deleted(
    ports: Ports, holder: Holder, cluster: str, gone: Mapping[str, Collection[str]]
) -> list[str]:
    """Take snapshots that somebody deleted (`gone`, by run) out of their sets; returns what is to be said of each.

    What is left of a set stays: the next snapshot of its volume copies only what changed.
    """
    notes = []
    for kept in ports.ledger.snapshot_sets(cluster):
        mine = gone.get(kept.run_id, ())
        if not mine:
            continue
        _mark_undone(ports, holder, kept, mine)
        left = kept.without(mine)
        if left.snapshots:
            ports.ledger.keep_snapshots(holder, left)
        else:
            ports.ledger.forget_snapshots(holder, kept, ports.clock.now())
        notes.append(f"{', '.join(sorted(mine))} of {kept.run_id} are gone, or carry Peaker's tag no more")
    return notes


def volumes_of_donors(ports: Ports, sets: Sequence[SnapshotSet]) -> dict[str, list[str]]:
    """The ids of the volumes that each donor of the sets has now."""
    return {
        donor: [one.volume_id for one in ports.storage.volumes_of_instance(donor)]
        for donor in sorted({one.donor for one in sets})
    }


def _delete(ports: Ports, holder: Holder, kept: SnapshotSet) -> None:
    """Deletes its members that EC2 still has, under the lease (I6). The set's own row is their ledger row (I1)."""
    members = [
        one for one in ports.storage.snapshots_of_run(kept.run_id) if one.snapshot_id in kept.snapshot_ids
    ]
    for one in members:
        if one.tags.get(OWNER_TAG) != ports.environment:
            raise NotOwned(f"{one.snapshot_id} is left alone: its tags do not say that Peaker made it (I1)")
        ports.ledger.require_lease(holder)
        ports.storage.delete_snapshot(one.snapshot_id)


def _settle(ports: Ports, holder: Holder, kept: SnapshotSet) -> None:
    """The set's own row goes last: while it is there, the next run's end does the rest again."""
    _mark_undone(ports, holder, kept, kept.snapshot_ids)
    ports.ledger.forget_snapshots(holder, kept, ports.clock.now())


def _mark_undone(ports: Ports, holder: Holder, kept: SnapshotSet, snapshot_ids: Collection[str]) -> None:
    for row in of_kind(ports.ledger.resources(kept.run_id), ResourceKind.SNAPSHOT):
        if row.resource_id in snapshot_ids:
            ports.ledger.mark(holder, kept.run_id, row, ResourceState.UNDONE)
