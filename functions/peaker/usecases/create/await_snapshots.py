"""AwaitSnapshots: every member of the set is complete."""

from __future__ import annotations

from collections.abc import Sequence

from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import ResourceKind, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.storage.snapshot_sets import newest_completed
from peaker.ports.bundle import Ports
from peaker_contract.errors import PeakerError, SnapshotFailed, SnapshotsPending


def await_snapshots(ports: Ports, step: StepInput) -> Summary:
    """Raises SnapshotsPending until all are complete, SnapshotFailed when one ended in error.

    A member of a batch waits for the set that all its members are made from.
    """
    made = _complete(ports, step.shared_run)
    full = _is_full_copy(ports, list(made.values()))
    kind = "increments" if full is False else "full copies" if full else "nobody knows whether full copies"
    return Summary(
        text=f"{len(made)} snapshots complete, {kind}",
        numbers={
            "full_size_bytes": {name: one.full_size_bytes for name, one in made.items()},
            "full_copy": full,
        },
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


def _is_full_copy(ports: Ports, made: Sequence[Snapshot]) -> bool | None:
    """Tells whether a volume of the set had no completed snapshot before it: then all its blocks were copied.

    None where EC2 does not list the volumes' snapshots. It only teaches the prediction, so the run goes on.
    """
    volumes = {one.source_volume_id for one in made}
    began = min((one.started_at for one in made if one.started_at is not None), default=None)
    try:
        listed = ports.storage.snapshots_of_volumes(sorted(volumes))
    except PeakerError:
        return None
    if began is None:
        return None
    earlier = [one for one in listed if one.started_at is not None and one.started_at < began]
    return not volumes <= newest_completed(earlier).keys()
