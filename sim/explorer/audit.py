"""What is left over in the account when no run is at work any more."""

from __future__ import annotations

from collections.abc import Iterator

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.usecases.run.kept_snapshots import kept_ids

from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import RUN_TAG
from sim.explorer.account import ec2, instances
from sim.explorer.states import listed_runs
from sim.explorer.world import ExploredWorld, tags_of


def left_over(world: ExploredWorld) -> list[str]:
    """All that is neither in service nor parked nor gone, by cluster."""
    found: list[str] = []
    for cluster in world.clusters.by_name.values():
        found += _runs(world, cluster.name)
        found += _replicas(world, cluster)
        found += _storage(world, cluster.name)
    return found


def _runs(world: ExploredWorld, cluster: str) -> Iterator[str]:
    held = world.ports.lease.current(cluster, world.time.now())
    if held is not None:
        yield f"{held.operation} {held.run_id} holds the lease"
    for run in world.ports.ledger.unfinished_runs(cluster):
        yield f"{run.operation} {run.run_id} is {run.outcome}"
    for run_id, outcome in listed_runs(cluster):
        if world.ports.ledger.run(run_id).outcome != outcome:
            yield f"{run_id} is listed as {outcome}, which its row does not say"


def _replicas(world: ExploredWorld, cluster: ClusterSettings) -> Iterator[str]:
    rows = world.ports.ledger.replicas(cluster.name)
    serving = world.ports.endpoint.health(cluster)
    for one in instances().values():
        if RUN_TAG in tags_of(one) and one._state.name != "terminated":
            row = rows.get(one.id)
            if row is None or not _is_in_line(row, one._state.name, one.id in serving):
                yield f"{one.id} is {one._state.name}, serves {one.id in serving}, its row {row}"
    for name, row in rows.items():
        there = instances().get(name)
        if row.state is not ReplicaState.RETIRED and (there is None or there._state.name == "terminated"):
            yield f"{name} is gone, its row {row.state.value}"
    if not any(one.state is TargetState.HEALTHY for one in serving.values()):
        yield f"nobody serves {cluster.name}"


def _is_in_line(row: ReplicaRow, state: str, serves: bool) -> bool:
    if row.state is ReplicaState.IN_SERVICE:
        return state == "running" and serves
    return row.state is ReplicaState.PARKED and state == "stopped" and not serves


def _storage(world: ExploredWorld, cluster: str) -> Iterator[str]:
    for volume in ec2().volumes.values():
        if RUN_TAG in tags_of(volume) and volume.attachment is None:
            yield f"volume {volume.id} of {tags_of(volume)[RUN_TAG]} is attached nowhere"
    kept = kept_ids(world.ports, cluster)
    for snapshot in ec2().snapshots.values():
        if RUN_TAG in tags_of(snapshot) and snapshot.id not in kept:
            yield f"snapshot {snapshot.id} of {tags_of(snapshot)[RUN_TAG]} is not kept"
