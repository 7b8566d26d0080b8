"""AwaitSnapshots: every member of the set is complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peaker.domain.instants import seconds_between
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import ResourceKind, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.storage.block_list import BLOCK_BYTES
from peaker.domain.storage.snapshot_sets import newest_completed
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import shared_run
from peaker_contract.errors import PeakerError, SnapshotFailed, SnapshotsPending

# A page takes about 0.1 s; 200 of them cover 1 TB of changes.
PAGES_AT_MOST = 200


def await_snapshots(ports: Ports, step: StepInput) -> Summary:
    """Raises SnapshotsPending until all are complete, SnapshotFailed when one ended in error.

    A member of a batch waits for the set that all its members are made from.
    """
    made = _complete(ports, shared_run(step))
    sizes = {name: one.full_size_bytes for name, one in made.items()}
    copied = _copied(ports, list(made.values()))
    return Summary(
        text=f"{len(made)} snapshots complete, {copied['copy']}",
        numbers={"full_size_bytes": sizes, **copied},
    )


def _complete(ports: Ports, run_id: str) -> dict[str, Snapshot]:
    """The run's snapshots by the names of their volumes."""
    rows = of_kind(ports.ledger.resources(run_id), ResourceKind.SNAPSHOT)
    shown = {one.snapshot_id: one for one in ports.storage.snapshots_of_run(run_id)}
    found = {row.name: shown[str(row.resource_id)] for row in rows if row.resource_id in shown}
    missing = [row.name for row in rows if row.name not in found]
    failed = [one.snapshot_id for one in found.values() if one.state == "error"]
    if failed:
        raise SnapshotFailed(f"{', '.join(failed)} ended in error; none of the set is usable")
    if missing:
        raise SnapshotsPending(f"snapshots of {', '.join(missing)} do not show yet")
    pending = [
        f"{one.snapshot_id} {one.progress_percent:g} %" for one in found.values() if one.state != "completed"
    ]
    if pending:
        raise SnapshotsPending(", ".join(pending))
    return found


def _copied(ports: Ports, made: Sequence[Snapshot]) -> dict[str, Any]:
    """What the set copied: what differs from the newest completed snapshot before it, of each volume, or all.

    It only teaches the prediction: where it cannot be measured the run goes on, and the reason stands here.
    """
    before = newest_completed(
        [one for one in _earlier(ports, made) if one.snapshot_id not in {each.snapshot_id for each in made}]
    )
    full = [one for one in made if one.source_volume_id not in before]
    try:
        counts = [
            ports.snapshot_blocks.changed(
                before[one.source_volume_id].snapshot_id, one.snapshot_id, PAGES_AT_MOST
            )
            for one in made
            if one.source_volume_id in before
        ]
    except PeakerError as error:
        return {"copy": f"copied bytes unknown: {type(error).__name__}: {error}"}
    unknown = [count.why for count in counts if isinstance(count, Unknown)]
    sizes = [one.full_size_bytes for one in full]
    if unknown or None in sizes:
        return {"copy": f"copied bytes unknown: {'; '.join(unknown) or 'EC2 gives no size'}"}
    changed = sum(count for count in counts if isinstance(count, int)) * BLOCK_BYTES
    copied = changed + sum(size or 0 for size in sizes)
    if full:
        return {"copy": f"a full copy of {len(full)}", "copied_bytes": copied, "since_seconds": None}
    pairs = [(before[one.source_volume_id].started_at, one.started_at) for one in made]
    ages = [
        seconds_between(earlier, later)
        for earlier, later in pairs
        if earlier is not None and later is not None
    ]
    return {"copy": "changes only", "copied_bytes": copied, "since_seconds": max(ages, default=0.0)}


def _earlier(ports: Ports, made: Sequence[Snapshot]) -> list[Snapshot]:
    started = [one.started_at for one in made if one.started_at is not None]
    found = ports.storage.snapshots_of_volumes([one.source_volume_id for one in made])
    return [one for one in found if one.started_at is not None and started and one.started_at < min(started)]
