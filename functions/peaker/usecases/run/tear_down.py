"""Take away what one run made, and nothing else. The only place of terminate, delete and deregister.

Every destructive call passes `_confirm_ours` with freshly read tags immediately before it (I1). One that is refused
ends nothing but itself: the rest goes on, and the end names all refusals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from peaker.domain.instants import seconds_between
from peaker.domain.replicas.inventory import Snapshot, TargetState, Volume
from peaker.domain.runs.ledger import EndpointExit, Holder, ResourceKind, ResourceRow, ResourceState, of_kind
from peaker.domain.service.leftovers import attempt_of
from peaker.ports.bundle import Ports
from peaker.usecases.run.kept_snapshots import kept_ids
from peaker.usecases.run.lost_answers import why_unseen
from peaker.usecases.run.sent_commands import RESEND_AFTER, sent_command
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected, NotOwned, ResourceNotFound
from peaker_contract.names import OWNER_TAG, ROLE_TAG, RUN_TAG

_ATTACHED = {"attaching", "attached", "busy", "detaching"}


@dataclass(frozen=True)
class TearDown:
    """A tear-down removes one run's resources, on behalf of the lease's holder."""

    ports: Ports
    holder: Holder
    settings: ClusterSettings
    run_id: str
    # The run that built the replica and whose id the tags carry, where it is another one.
    builder: str | None = None
    # The snapshot set is not the member's alone: other members of its batch are made from it.
    shares_snapshots: bool = False
    # Nobody is connected any more, or may be cut off: the load balancer's delay need not run out.
    drained: bool = False


@dataclass
class _Refusals:
    """Refusals keep the resources that could not be removed, by id; this round waits for them no more."""

    by_id: dict[str, AwsCallRejected | NotOwned] = field(default_factory=dict)

    @contextmanager
    def told_later(self, resource_id: str) -> Iterator[None]:
        try:
            yield
        except (AwsCallRejected, NotOwned) as refusal:
            self.by_id[resource_id] = refusal

    def without(self, resource_ids: Iterable[str]) -> list[str]:
        return [one for one in resource_ids if one not in self.by_id]

    def tell(self) -> None:
        """Raises the refusal, or one that names them all."""
        refusals = list(self.by_id.values())
        if len(refusals) == 1:
            raise refusals[0]
        if refusals:
            rejected = any(isinstance(one, AwsCallRejected) for one in refusals)
            kind = AwsCallRejected if rejected else NotOwned
            raise kind("; ".join(str(one) for one in refusals))


def tear_down(job: TearDown) -> list[str]:
    """Take the next step towards nothing being left; returns what is not gone yet, empty when all is.

    Order: commands, target (and its draining), instance, volumes, snapshots. Call again until empty. What refuses, and
    what hangs on it (the instance of a target, the volumes of an instance), is left; when all else is gone,
    AwsCallRejected or NotOwned names it.
    """
    rows = job.ports.ledger.resources(job.run_id)
    refusals = _Refusals()
    waiting = cancel_commands(job, rows) or remove_targets(job, rows, refusals)
    waiting = waiting or _terminate_instances(job, rows, refusals)
    waiting = waiting or _delete_volumes(job, rows, refusals)
    if not waiting and not job.shares_snapshots:
        waiting = _delete_snapshots(job, rows, refusals)
    if not waiting:
        refusals.tell()
    return waiting


def delete_snapshots(job: TearDown, rows: Sequence[ResourceRow]) -> list[str]:
    """Delete the run's snapshots but those that outlive it; returns those that are not gone yet."""
    refusals = _Refusals()
    waiting = _delete_snapshots(job, rows, refusals)
    refusals.tell()
    return waiting


def is_backup(snapshot: Snapshot, rows: Sequence[ResourceRow]) -> bool:
    """Tells whether somebody's backup of a volume that the run made has copied its tags: no run snapshots its own."""
    return any(row.resource_id == snapshot.source_volume_id for row in of_kind(rows, ResourceKind.VOLUME))


def _delete_snapshots(job: TearDown, rows: Sequence[ResourceRow], refusals: _Refusals) -> list[str]:
    kept = kept_ids(job.ports, job.holder.cluster)
    mine = [row for row in of_kind(rows, ResourceKind.SNAPSHOT) if row.resource_id not in kept]
    found = [
        one
        for one in job.ports.storage.snapshots_of_run(job.run_id)
        if one.snapshot_id not in kept and not is_backup(one, rows)
    ]
    for snapshot in found:
        with refusals.told_later(snapshot.snapshot_id):
            row = _row_of_snapshot(mine, snapshot)
            _confirm_ours(job, snapshot.snapshot_id, snapshot.tags, row)
            job.ports.storage.delete_snapshot(snapshot.snapshot_id)
            # A receipt does not wait until lists show it no more, and nobody looks again.
            if row is not None and row.resource_id == snapshot.snapshot_id:
                job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
    shown = {one.source_volume_id for one in found}
    _mark_gone(job, [row for row in mine if row.details.get("source_volume_id") not in shown])
    return _settle(job, mine, [snapshot.snapshot_id for snapshot in found], refusals)


def cancel_commands(job: TearDown, rows: Sequence[ResourceRow], *, except_of: str | None = None) -> list[str]:
    """Cancel what still runs on hosts; the commands of the step `except_of` go on.

    Returns those that were about to be sent and may still show: what is not known cannot be cancelled.
    """
    waiting: list[str] = []
    now = job.ports.clock.now()
    for row in of_kind(rows, ResourceKind.COMMAND):
        if not row.is_open or row.step == except_of:
            continue
        instance_id = row.details["instance_id"]
        command_id = sent_command(job.ports, job.run_id, row)
        if command_id is None and now - row.intended_at < RESEND_AFTER:
            waiting.append(f"command {row.name} of {instance_id} (its answer was lost)")
            continue
        if command_id is not None:
            job.ports.commands.cancel(command_id, instance_id)
        job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
    return waiting


def remove_targets(
    job: TearDown, rows: Sequence[ResourceRow], refusals: _Refusals | None = None
) -> list[str]:
    """Deregister the run's targets; returns those that still have to drain.

    A load balancer keeps a deregistered target `draining` for the whole deregistration delay, also when its last
    connection has ended, and may give it new connections in that time. A DNS name loses it at once, but clients may
    come to the address that they know. A target whose row says undone is looked at too: a call that landed late may
    have put it back.
    """
    mine = of_kind(rows, ResourceKind.TARGET)
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
        if refusals is None:
            waiting += _remove_target(job, row, instance_id, states)
            continue
        with refusals.told_later(instance_id):
            waiting += _remove_target(job, row, instance_id, states)
    return waiting


def _remove_target(job: TearDown, row: ResourceRow, instance_id: str, states: Set[TargetState]) -> list[str]:
    """The target's next step; what is waited for."""
    if not states and row.state is ResourceState.UNDONE:
        return []
    if not states and (left := _seconds_until_clients_followed(job)) > 0:
        return [f"clients of {instance_id} for {left:.0f} s: {job.settings.read_endpoint.late_because}"]
    if not states or (job.drained and states == {TargetState.DRAINING}):
        job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
        return []
    if states != {TargetState.DRAINING}:
        # An id that EC2 has forgotten is never given again: then the ledger's row alone says whose target it is.
        with suppress(ResourceNotFound):
            _confirm_ours(job, instance_id, job.ports.compute.instance(instance_id).tags, row)
        _note_that_it_leaves(job)
        job.ports.endpoint.deregister(job.settings, instance_id)
    return [f"target {instance_id} {', '.join(sorted(state.value for state in states))}"]


def _note_that_it_leaves(job: TearDown) -> None:
    if job.settings.read_endpoint.clients_follow_within_seconds:
        job.ports.ledger.settle(job.holder, EndpointExit(at=job.ports.clock.now()))


def _seconds_until_clients_followed(job: TearDown) -> float:
    """Returns the seconds for which clients may still act on an earlier answer; 0 or less when none does, or
    no client may be connected.
    """
    follow = job.settings.read_endpoint.clients_follow_within_seconds
    if job.drained or not follow:
        return 0.0
    left = job.ports.ledger.run(job.holder.run_id).part(EndpointExit)
    return 0.0 if left is None else follow - seconds_between(left.at, job.ports.clock.now())


def _terminate_instances(job: TearDown, rows: Sequence[ResourceRow], refusals: _Refusals) -> list[str]:
    """One whose target could not be taken out may still have clients, and stays."""
    found = job.ports.compute.instances_of_run(job.run_id)
    mine = of_kind(rows, ResourceKind.INSTANCE)
    for instance in found:
        if instance.state == "shutting-down" or instance.instance_id in refusals.by_id:
            continue
        with refusals.told_later(instance.instance_id):
            _confirm_ours(job, instance.instance_id, instance.tags, attempt_of(mine, instance))
            job.ports.compute.terminate(instance.instance_id)
    return _settle(job, mine, [instance.instance_id for instance in found], refusals)


def _delete_volumes(job: TearDown, rows: Sequence[ResourceRow], refusals: _Refusals) -> list[str]:
    """Those of an instance that stays are left with it."""
    found = [
        one
        for one in job.ports.storage.volumes_of_run(job.run_id)
        if one.instance_id is None or one.instance_id not in refusals.by_id
    ]
    mine = of_kind(rows, ResourceKind.VOLUME)
    for volume in found:
        if volume.state == "deleting" or volume.attachment_state in _ATTACHED:
            continue
        with refusals.told_later(volume.volume_id):
            _confirm_ours(job, volume.volume_id, volume.tags, _row_of_volume(mine, volume))
            job.ports.storage.delete_volume(volume.volume_id)
    if not refusals.by_id:
        for row in of_kind(rows, ResourceKind.ATTACHMENT):
            if row.state is not ResourceState.UNDONE:
                job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
    return _settle(job, mine, [volume.volume_id for volume in found], refusals)


def _settle(
    job: TearDown, rows: Sequence[ResourceRow], present: Sequence[str], refusals: _Refusals
) -> list[str]:
    """Mark the rows undone once nothing is there; until then say what is waited for."""
    if waiting := refusals.without(present):
        return waiting
    now = job.ports.clock.now()
    unseen = [f"{row.kind.value} {row.name} ({why})" for row in rows if (why := why_unseen(row, now))]
    if unseen:
        return unseen
    if refusals.by_id:
        return []
    for row in rows:
        if row.state is not ResourceState.UNDONE:
            job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)
    return []


def _mark_gone(job: TearDown, unshown: Sequence[ResourceRow]) -> None:
    """An earlier call has deleted them, and its answer was lost."""
    now = job.ports.clock.now()
    for row in unshown:
        if row.state is not ResourceState.UNDONE and why_unseen(row, now) is None:
            job.ports.ledger.mark(job.holder, job.run_id, row, ResourceState.UNDONE)


def _row_of_volume(rows: Sequence[ResourceRow], volume: Volume) -> ResourceRow | None:
    by_id = [row for row in rows if row.resource_id == volume.volume_id]
    by_name = [row for row in rows if row.resource_id is None and row.name == volume.name]
    return next(iter((*by_id, *by_name)), None)


def _row_of_snapshot(rows: Sequence[ResourceRow], snapshot: Snapshot) -> ResourceRow | None:
    """Finds the snapshot's row by its volume: a call whose answer was lost may have made a second snapshot of it."""
    source = snapshot.source_volume_id
    return next((row for row in rows if row.details.get("source_volume_id") == source), None)


def _confirm_ours(job: TearDown, resource_id: str, tags: Mapping[str, str], row: ResourceRow | None) -> None:
    """I1: owner tag, run tag and ledger row agree. Raises NotOwned and leaves the resource alone.

    Raises LeaseLost for a late call of a run that was fenced: nothing stands between this and the call itself.
    """
    problems = _foreign_tags(job.ports, resource_id, tags, job.builder or job.run_id)
    if row is None:
        problems.append("the ledger has no row for it")
    _require_none(resource_id, problems)
    job.ports.ledger.require_lease(job.holder)


def require_owned(ports: Ports, instance_id: str, builder: str) -> None:
    """I1, I2: the tags, read anew immediately before the call, say that this run made it. Raises NotOwned."""
    tags = ports.compute.instance(instance_id).tags
    _require_none(instance_id, _foreign_tags(ports, instance_id, tags, builder))


def _foreign_tags(ports: Ports, resource_id: str, tags: Mapping[str, str], builder: str) -> list[str]:
    require_not_source(resource_id, tags)
    wanted = {OWNER_TAG: ports.environment, RUN_TAG: builder}
    return [
        f"tag {tag} is {tags.get(tag)!r}, not {value!r}"
        for tag, value in wanted.items()
        if tags.get(tag) != value
    ]


def _require_none(resource_id: str, problems: Sequence[str]) -> None:
    if problems:
        raise NotOwned(
            f"{resource_id} is left alone, since only what Peaker made is stopped or deleted (I1): "
            f"{'; '.join(problems)}"
        )


def require_not_source(instance_id: str, tags: Mapping[str, str]) -> None:
    """Raises NotOwned for an instance that a failover made the cluster's source (I2)."""
    if tags.get(ROLE_TAG) == "source":
        raise NotOwned(f"{instance_id} is left alone: it is the source (I2)")
