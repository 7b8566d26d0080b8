"""AwaitSnapshots: every member of the set is complete."""

from __future__ import annotations

from peaker.domain.errors import SnapshotFailed, SnapshotsPending
from peaker.domain.ledger import ResourceKind, of_kind
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports


def await_snapshots(ports: Ports, step: StepInput) -> Summary:
    """Raises SnapshotsPending until all are complete, SnapshotFailed when one ended in error."""
    rows = of_kind(ports.ledger.resources(step.run_id), ResourceKind.SNAPSHOT)
    found = {one.snapshot_id: one for one in ports.storage.snapshots_of_run(step.run_id)}
    missing = [row.name for row in rows if row.resource_id not in found]
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
    sizes = {row.name: found[str(row.resource_id)].full_size_bytes for row in rows}
    return Summary(text=f"{len(rows)} snapshots complete", numbers={"full_size_bytes": sizes})
