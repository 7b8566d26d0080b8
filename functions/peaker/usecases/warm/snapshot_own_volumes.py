"""SnapshotOwnVolumes: of a parked replica's volumes, so that what it has written itself can be told."""

from __future__ import annotations

from peaker.domain.runs.ledger import ResourceKind, ResourceRow, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.runs.run_memory import RunReplica
from peaker.ports import Ports
from peaker.usecases.create.await_snapshots import await_snapshots
from peaker.usecases.create.create_snapshots import SetOfVolumes, take_set
from peaker.usecases.run.resource_tags import resource_tags
from peaker.usecases.run.run_memory import approved_plan, made_id, settled
from peaker_contract.errors import SnapshotFailed, SnapshotsPending


def snapshot_own_volumes(ports: Ports, step: StepInput) -> Summary:
    """Its volumes are attached and nothing has mounted them since it was parked, so that they stay as they are taken.

    Raises SnapshotsPending until these snapshots and the donor's set are complete, SnapshotFailed where one ended in
    error.
    """
    replica = settled(ports, step, RunReplica)
    built = ports.ledger.resources(replica.builder)
    volumes = {
        one.name: made_id(built, ResourceKind.VOLUME, one.name) for one in approved_plan(ports, step).volumes
    }
    job = SetOfVolumes(ResourceKind.OWN_SNAPSHOT, replica.instance_id, volumes, resource_tags(ports, step))
    own = take_set(ports, step, job, lambda: None)
    shared = await_snapshots(ports, step)
    _require_complete(ports, step, of_kind(ports.ledger.resources(step.run_id), job.kind))
    return Summary(
        text=f"snapshots of {', '.join(own)} of {replica.instance_id}; {shared.text}",
        numbers={**shared.numbers, "own_snapshots": own},
    )


def _require_complete(ports: Ports, step: StepInput, rows: list[ResourceRow]) -> None:
    found = {one.snapshot_id: one for one in ports.storage.snapshots_of_run(step.run_id)}
    states = {row.name: found[str(row.resource_id)] for row in rows if row.resource_id in found}
    failed = [one.snapshot_id for one in states.values() if one.state == "error"]
    if failed:
        raise SnapshotFailed(f"{', '.join(failed)} ended in error; what the replica wrote cannot be told")
    pending = [row.name for row in rows if row.name not in states or states[row.name].state != "completed"]
    if pending:
        raise SnapshotsPending(f"the replica's own snapshots of {', '.join(pending)}")
