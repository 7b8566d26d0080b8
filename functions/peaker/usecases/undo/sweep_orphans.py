"""SweepOrphans reconciles the leftovers of a cluster, look after look, until none is left.

Each cluster's own rule calls it, without an execution: a cluster that does not answer keeps no other from its look.
`roll_back`, which the event of an execution's end starts, is the fast way to the same end; events are delivered best
effort, and an undo can be stopped, crash or meet a refusal. Each look does the next step of every leftover, under the
cluster's lease, which it holds for the seconds of that step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from peaker.domain.instants import seconds_between
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.ledger import SWEEP, ResourceKind, RunRow
from peaker.domain.runs.run import Summary
from peaker.domain.service.leftovers import (
    WORKFLOWS,
    ClusterObservation,
    OwnedThing,
    UndoAttempts,
    UnfinishedRun,
    decide_leftovers,
)
from peaker.ports.bundle import Ports
from peaker.usecases.leave.retire_replica import lost_volumes
from peaker.usecases.run.kept_snapshots import kept_ids
from peaker.usecases.run.run_memory import instance_state, opened_run
from peaker.usecases.run.tear_down import is_backup
from peaker.usecases.undo.process_leftovers import process_leftovers
from peaker_contract.errors import PeakerError
from peaker_contract.metrics import Metric
from peaker_contract.names import RUN_TAG

_OUT_OF_SERVICE = frozenset({ReplicaState.DRAINING, ReplicaState.PARKED})


class ClusterSwept(Summary):
    """`leftovers` counts those that have not ended; `oldest_seconds` is the time since the first step of the oldest."""

    leftovers: int = 0
    oldest_seconds: float = 0.0
    ended_runs: tuple[str, ...] = ()
    untouchable: tuple[str, ...] = ()

    @property
    def figures(self) -> dict[Metric, float]:
        """Returns the sweep's metrics."""
        return {Metric.LEFTOVERS: self.leftovers, Metric.LEFTOVER_SECONDS: self.oldest_seconds}


@dataclass(frozen=True)
class _Endpoint:
    """The endpoint's view: members of either group, draining ones, those without reads in the serving group,
    and whether any gets reads.
    """

    registered: frozenset[str] | Unknown
    leaving: frozenset[str] = frozenset()
    without_reads: frozenset[str] = frozenset()
    any_healthy: bool = False


def sweep_orphans(ports: Ports, name: str) -> ClusterSwept:
    """Does the next step of every leftover of one cluster. Raises PeakerError where AWS or the ledger refuses."""
    unfinished = ports.ledger.unfinished_runs(name)
    judgement = decide_leftovers(_look(ports, name, unfinished))
    steps = process_leftovers(ports, name, judgement)
    said = (step.text for step in steps)
    since = [taken.first_at for run in unfinished if (taken := run.part(UndoAttempts)) is not None]
    return ClusterSwept(
        text="; ".join((*said, *judgement.paused, *judgement.held, *judgement.untouchable)) or judgement.text,
        leftovers=len(judgement.leftovers) + len(judgement.paused) - sum(step.ended for step in steps),
        oldest_seconds=seconds_between(min(since), ports.clock.now()) if since else 0.0,
        ended_runs=tuple(step.ended_run for step in steps if step.ended_run is not None),
        untouchable=judgement.untouchable,
    )


def _look(ports: Ports, name: str, unfinished: Sequence[RunRow]) -> ClusterObservation:
    now = ports.clock.now()
    lease = ports.lease.current(name, now)
    rows = ports.ledger.replicas(name)
    things = tuple(_owned_things(ports, name))
    sweeps = [run for run in unfinished if run.operation == SWEEP]
    endpoint = _endpoint(ports, name)
    return ClusterObservation(
        cluster=name,
        at=now,
        lease=lease,
        lease_execution=Unknown("no lease is held") if lease is None else ports.executions.that_began(lease),
        unfinished=tuple(
            UnfinishedRun(run, ports.executions.that_began(run))
            for run in unfinished
            if run.operation in WORKFLOWS and lease is None
        ),
        rolled_back=ports.executions.being_rolled_back() if lease or unfinished else frozenset(),
        rows=rows,
        states=_states(ports, name, rows),
        registered=endpoint.registered,
        leaving=endpoint.leaving,
        lost_volumes=_lost_volumes(ports, rows, endpoint.without_reads),
        unhealthy=endpoint.without_reads if endpoint.any_healthy else frozenset(),
        things=things,
        kept_snapshots=kept_ids(ports, name),
        runs=_runs(ports, {one.run_id for one in things}),
        sweep=sweeps[-1].part(UndoAttempts) if sweeps else None,
    )


def _owned_things(ports: Ports, name: str) -> Iterator[OwnedThing]:
    """Yields Peaker's resources of a cluster. An instance that has ended is none; its volumes are."""
    compute, storage, rows_of = ports.compute, ports.storage, cache(ports.ledger.resources)
    listed = (
        *(
            (ResourceKind.INSTANCE, one.instance_id, one.tags)
            for one in compute.instances_of_environment(name)
        ),
        *((ResourceKind.VOLUME, one.volume_id, one.tags) for one in storage.volumes_of_environment(name)),
        *(
            (ResourceKind.SNAPSHOT, one.snapshot_id, one.tags)
            for one in storage.snapshots_of_environment(name)
            if not is_backup(one, rows_of(one.tags.get(RUN_TAG, "")))
        ),
    )
    for kind, resource_id, tags in listed:
        yield OwnedThing(kind, resource_id, tags.get(RUN_TAG, ""))


def _states(ports: Ports, name: str, rows: Mapping[str, ReplicaRow]) -> dict[str, str]:
    """A list may be a moment behind: what it does not have is asked for by its id."""
    states = {one.instance_id: one.state for one in ports.compute.instances_of_cluster(name)}
    for instance_id, row in rows.items():
        if row.state is not ReplicaState.RETIRED and instance_id not in states:
            states[instance_id] = instance_state(ports, instance_id)
    return states


def _lost_volumes(
    ports: Ports, rows: Mapping[str, ReplicaRow], unhealthy: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Returns lost volumes by instance id. A replica that gets reads has its volumes, and its run undoes one
    that is being made.
    """
    doubted = [
        row
        for row in rows.values()
        if row.state in _OUT_OF_SERVICE
        or (row.state is ReplicaState.IN_SERVICE and row.instance_id in unhealthy)
    ]
    found = {row.instance_id: lost_volumes(ports, row.instance_id, row.run_id) for row in doubted}
    return {instance_id: lost for instance_id, lost in found.items() if lost}


def _endpoint(ports: Ports, name: str) -> _Endpoint:
    settings = ports.clusters.settings(name)
    try:
        serving, warming = ports.endpoint.health(settings), ports.endpoint.warming_health(settings)
    except PeakerError as error:
        return _Endpoint(Unknown(f"the read endpoint does not answer: {error}"))
    stays = frozenset(
        name
        for group in (serving, warming)
        for name, one in group.items()
        if one.state is not TargetState.DRAINING
    )
    registered = frozenset((*serving, *warming))
    down = (TargetState.UNHEALTHY, TargetState.UNUSED)
    return _Endpoint(
        registered=registered,
        leaving=registered - stays,
        without_reads=frozenset(name for name, one in serving.items() if one.state in down),
        any_healthy=any(one.state is TargetState.HEALTHY for one in serving.values()),
    )


def _runs(ports: Ports, run_ids: set[str]) -> dict[str, RunRow]:
    rows = {run_id: opened_run(ports, run_id) for run_id in sorted(run_ids - {""})}
    return {run_id: row for run_id, row in rows.items() if row is not None}
