"""Take away what one run made, and nothing else. The only place of terminate, delete and deregister.

Every destructive call passes `_confirm_ours` with freshly read tags immediately before it (I1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peaker.domain.instants import seconds_between
from peaker.domain.replicas.inventory import Instance, Snapshot, TargetState, Volume
from peaker.domain.runs.ledger import Holder, ResourceKind, ResourceRow, ResourceState, of_kind
from peaker.domain.runs.run_memory import EndpointExit
from peaker.ports import Ports
from peaker.usecases.run.kept_snapshots import kept_ids
from peaker.usecases.run.lost_answers import may_still_appear
from peaker.usecases.run.run_host_command import command_comment
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NotOwned
from peaker_contract.tags import OWNER_TAG, RUN_TAG

_ATTACHED = {"attaching", "attached", "busy", "detaching"}


@dataclass(frozen=True)
class TearDown:
    """What is torn down: one run's resources, on behalf of the lease's holder."""

    ports: Ports
    holder: Holder
    settings: ClusterSettings
    run_id: str
    # The run that built the replica and whose id the tags carry, where it is another one.
    builder: str | None = None
    # Nobody is connected any more, or may be cut off: the load balancer's delay need not run out.
    drained: bool = False


def tear_down(job: TearDown) -> list[str]:
    """Take the next step towards nothing being left; returns what is not gone yet, empty when all is.

    Order: commands, target (and its draining), instance, volumes, snapshots. Call again until empty.
    """
    rows = job.ports.ledger.resources(job.run_id)
    cancel_commands(job, rows)
    waiting = remove_targets(job, rows)
    if waiting:
        return waiting
    waiting = _terminate_instances(job, rows)
    if waiting:
        return waiting
    waiting = _delete_volumes(job, rows)
    return waiting or delete_snapshots(job, rows)


def delete_snapshots(job: TearDown, rows: Sequence[ResourceRow]) -> list[str]:
    """Delete the run's snapshots but those that outlive it; returns those that are not gone yet."""
    kept = kept_ids(job.ports, job.holder.cluster)
    found = [one for one in job.ports.storage.snapshots_of_run(job.run_id) if one.snapshot_id not in kept]
    mine = [row for row in of_kind(rows, ResourceKind.SNAPSHOT) if row.resource_id not in kept]
    for snapshot in found:
        row = _row_of_snapshot(mine, snapshot)
        _confirm_ours(job, snapshot.snapshot_id, snapshot.tags, row)
        job.ports.storage.delete_snapshot(snapshot.snapshot_id)
    return _settle(job, mine, [snapshot.snapshot_id for snapshot in found])


def cancel_commands(job: TearDown, rows: Sequence[ResourceRow], *, except_of: str | None = None) -> None:
    """Cancel what still runs on hosts; the commands of the step `except_of` go on."""
    for row in of_kind(rows, ResourceKind.COMMAND):
        if not row.is_open or row.step == except_of:
            continue
        instance_id = row.details["instance_id"]
        command_id = row.resource_id or job.ports.commands.find(
            instance_id, command_comment(job.run_id, row.name), row.intended_at
        )
        if command_id is not None:
            job.ports.commands.cancel(command_id, instance_id)
        job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)


def remove_targets(job: TearDown, rows: Sequence[ResourceRow]) -> list[str]:
    """Deregister the run's targets; returns those that still have to drain.

    A load balancer keeps a deregistered target `draining` for the whole deregistration delay, also when its last
    connection has ended, and may give it new connections in that time. A DNS name loses it at once, but clients may
    come to the address that they know.
    """
    mine = [row for row in of_kind(rows, ResourceKind.TARGET) if row.state is not ResourceState.UNDONE]
    if not mine:
        return []
    groups = (
        job.ports.endpoint.health(job.settings),
        job.ports.endpoint.warming_health(job.settings),
    )
    waiting: list[str] = []
    for row in mine:
        instance_id = str(row.details["instance_id"])
        states = {group[instance_id].state for group in groups if instance_id in group}
        if not states and (left := _seconds_until_clients_followed(job)) > 0:
            late = job.settings.read_endpoint.late_because
            waiting.append(f"clients of {instance_id} for {left:.0f} s: {late}")
            continue
        if not states or (job.drained and states == {TargetState.DRAINING}):
            job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
            continue
        waiting.append(f"target {instance_id} {', '.join(sorted(state.value for state in states))}")
        if states != {TargetState.DRAINING}:
            tags = job.ports.compute.instance(instance_id).tags
            _confirm_ours(job, instance_id, tags, row)
            _note_that_it_leaves(job)
            job.ports.endpoint.deregister(job.settings, instance_id)
    return waiting


def _note_that_it_leaves(job: TearDown) -> None:
    if job.settings.read_endpoint.clients_follow_within_seconds:
        job.ports.ledger.settle(job.holder, EndpointExit(at=job.ports.clock.now()))


def _seconds_until_clients_followed(job: TearDown) -> float:
    """How long clients may still act on an answer from before; 0 or less when none does, or nobody may be connected."""
    follow = job.settings.read_endpoint.clients_follow_within_seconds
    if job.drained or not follow:
        return 0.0
    left = job.ports.ledger.run(job.holder.run_id).part(EndpointExit)
    return 0.0 if left is None else follow - seconds_between(left.at, job.ports.clock.now())


def _terminate_instances(job: TearDown, rows: Sequence[ResourceRow]) -> list[str]:
    found = job.ports.compute.instances_of_run(job.run_id)
    mine = of_kind(rows, ResourceKind.INSTANCE)
    for instance in found:
        if instance.state != "shutting-down":
            _confirm_ours(job, instance.instance_id, instance.tags, _row_of_instance(mine, instance))
            job.ports.compute.terminate(instance.instance_id)
    return _settle(job, mine, [instance.instance_id for instance in found])


def _delete_volumes(job: TearDown, rows: Sequence[ResourceRow]) -> list[str]:
    found = job.ports.storage.volumes_of_run(job.run_id)
    mine = of_kind(rows, ResourceKind.VOLUME)
    for volume in found:
        if volume.state != "deleting" and volume.attachment_state not in _ATTACHED:
            _confirm_ours(job, volume.volume_id, volume.tags, _row_of_volume(mine, volume))
            job.ports.storage.delete_volume(volume.volume_id)
    for row in of_kind(rows, ResourceKind.ATTACHMENT):
        if row.state is not ResourceState.UNDONE:
            job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
    return _settle(job, mine, [volume.volume_id for volume in found])


def _settle(job: TearDown, rows: Sequence[ResourceRow], present: Sequence[str]) -> list[str]:
    """Mark the rows undone once nothing is there; until then say what is waited for."""
    if present:
        return list(present)
    now = job.ports.clock.now()
    lost = [row for row in rows if may_still_appear(row, now)]
    if lost:
        return [f"{row.kind.value} {row.name} (its answer was lost)" for row in lost]
    for row in rows:
        if row.state is not ResourceState.UNDONE:
            job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
    return []


def _row_of_instance(rows: Sequence[ResourceRow], instance: Instance) -> ResourceRow | None:
    return next((row for row in rows if row.resource_id in (None, instance.instance_id)), None)


def _row_of_volume(rows: Sequence[ResourceRow], volume: Volume) -> ResourceRow | None:
    by_id = [row for row in rows if row.resource_id == volume.volume_id]
    by_name = [row for row in rows if row.resource_id is None and row.name == volume.name]
    return next(iter((*by_id, *by_name)), None)


def _row_of_snapshot(rows: Sequence[ResourceRow], snapshot: Snapshot) -> ResourceRow | None:
    """By the volume it was taken of: a call whose answer was lost may have made a second one of it."""
    source = snapshot.source_volume_id
    return next((row for row in rows if row.details.get("source_volume_id") == source), None)


def _confirm_ours(job: TearDown, resource_id: str, tags: Mapping[str, str], row: ResourceRow | None) -> None:
    """I1: owner tag, run tag and ledger row agree. Raises NotOwned and leaves the resource alone."""
    problems = []
    if tags.get(OWNER_TAG) != job.ports.environment:
        problems.append(f"tag {OWNER_TAG} is {tags.get(OWNER_TAG)!r}, not {job.ports.environment!r}")
    tagged = job.builder or job.run_id
    if tags.get(RUN_TAG) != tagged:
        problems.append(f"tag {RUN_TAG} is {tags.get(RUN_TAG)!r}, not {tagged!r}")
    if row is None:
        problems.append("the ledger has no row for it")
    if problems:
        raise NotOwned(
            f"{resource_id} is left alone, since only what Peaker made is deleted (I1): {'; '.join(problems)}"
        )
