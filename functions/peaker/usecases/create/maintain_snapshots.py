"""MaintainSnapshots takes the first snapshot set of a cluster that is observed, and deletes sets without use.

Each cluster's own rule calls it, without an execution: a cluster that does not answer keeps no other from its look.
The lease is held for the seconds of one call: a set is begun by one look and kept by a later one, which finds it by its
tags. Nothing is begun while a run is at work, and a run that begins in between finds the set as it finds a backup's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from peaker.domain.document.plan import Price
from peaker.domain.prices.price_table import usd
from peaker.domain.replicas.data_volumes import data_volumes
from peaker.domain.replicas.donor import DonorTerms
from peaker.domain.replicas.donor import choose_donor as judge_donors
from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.execution_input import ExecutionInput, Trigger
from peaker.domain.runs.ledger import (
    FIRST_SNAPSHOTS,
    PRUNE_SNAPSHOTS,
    Donor,
    FirstSetSize,
    Holder,
    ResourceKind,
    RunRow,
    of_kind,
)
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.storage.first_snapshots import FirstSet, decide_first_set
from peaker.domain.storage.snapshot_sets import SnapshotSet, deleted_outside, surplus_sets
from peaker.ports.bundle import Ports
from peaker.usecases.create.await_snapshots import await_snapshots
from peaker.usecases.create.choose_donor import choose_donor_by
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.plan.refresh_prices import storage_prices
from peaker.usecases.run.held_lease import SHORT_LEASE_TIME, ShortLeases
from peaker.usecases.run.kept_snapshots import (
    delete_surplus_sets,
    forget_deleted,
    keep_set,
    volumes_of_donors,
)
from peaker.usecases.run.record_receipt import close_scheduled_run
from peaker.usecases.run.tear_down import TearDown, delete_snapshots
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NotYet, PeakerError, SnapshotFailed
from peaker_contract.metrics import Metric
from peaker_contract.names import CLUSTER_TAG, RUN_TAG

_FIRST = "first-snapshots-"
_AT_WORK = "running"
_NOT_DEPLOYED = "the cluster is not in the settings any more"


def maintain_snapshots(ports: Ports, cluster: str | None) -> Summary:
    """Looks at the snapshot sets of one cluster; without one at those of clusters that left the settings.

    After a refusal the next look tries again.
    """
    ours = ports.storage.snapshots_of_environment(cluster)
    if cluster is not None:
        return Summary(text=f"{cluster}: {_attempted(lambda: _look(ports, cluster, ours))}")
    removed = {one.tags.get(CLUSTER_TAG, "") for one in ours} - {"", *ports.clusters.names()}
    found = [f"{name}: {_attempted(lambda n=name: _remove(ports, n, ours))}" for name in sorted(removed)]  # type: ignore[misc]
    return Summary(text="; ".join(found) or "no cluster was removed")


def _attempted(look: Callable[[], str]) -> str:
    try:
        return look()
    except PeakerError as error:
        return f"{type(error).__name__}: {error}"


def _look(ports: Ports, name: str, ours: Sequence[Snapshot]) -> str:
    settings = ports.clusters.settings(name)
    kept = ports.ledger.snapshot_sets(name)
    begun = [*_left_open(ports, name, kept), *_begun(name, ours, kept)]
    if begun:
        return _finish(ports, settings, begun[-1], kept, ours)
    if kept:
        unwanted = None if settings.keep_snapshots else "keep_snapshots is false"
        return _prune(ports, ShortLeases(ports, name), name, ours, unwanted)
    decision = _decide(ports, settings, kept)
    return _begin(ports, settings, decision) if decision.take else decision.reason


def _remove(ports: Ports, name: str, ours: Sequence[Snapshot]) -> str:
    """Of a cluster that is not deployed any more all sets go, also one that was begun."""
    leases = ShortLeases(ports, name)
    for run_id in _begun(name, ours, ports.ledger.snapshot_sets(name)):
        with leases.held(run_id, FIRST_SNAPSHOTS) as holder:
            keep_set(ports, holder, ports.ledger.run(run_id), ports.ledger.resources(run_id))
            ports.ledger.close_run(holder, "rolled_back", ports.clock.now())
    return _prune(ports, leases, name, ours, _NOT_DEPLOYED)


def _begun(cluster: str, ours: Sequence[Snapshot], kept: Sequence[SnapshotSet]) -> list[str]:
    """The runs of first sets that are neither kept nor gone, the oldest first."""
    runs = {one.tags.get(RUN_TAG, "") for one in ours if one.tags.get(CLUSTER_TAG) == cluster}
    return sorted(run for run in runs - {one.run_id for one in kept} if run.startswith(_FIRST))


def _left_open(ports: Ports, cluster: str, kept: Sequence[SnapshotSet]) -> list[str]:
    """The runs whose look died after the set was kept, or on an earlier day before any snapshot was there: today's
    run goes on by its name."""
    runs = [one.run_id for one in ports.ledger.unfinished_runs(cluster) if one.operation == FIRST_SNAPSHOTS]
    today = _run_of_today(ports, cluster)
    return [run for run in runs if run != today or run in {one.run_id for one in kept}]


def _run_of_today(ports: Ports, cluster: str) -> str:
    return f"{_FIRST}{cluster}-{ports.clock.now():%Y%m%d}"


def _decide(ports: Ports, settings: ClusterSettings, kept: Sequence[SnapshotSet]) -> FirstSet:
    now = ports.clock.now()
    fleet = gather_fleet(ports, settings, with_volumes=True)
    choice = judge_donors(fleet, settings)
    volumes = {} if choice.donor is None else data_volumes(choice.donor, settings.volumes)
    return decide_first_set(
        settings,
        ports.readings.published(settings, Metric.OBSERVING, now),
        kept,
        ports.lease.current(settings.name, now),
        fleet,
        choice,
        ports.storage.snapshots_of_volumes([one.volume_id for one in volumes.values()]),
        storage_prices(ports, settings).snapshot_hour(1.0),
    )


def _begin(ports: Ports, settings: ClusterSettings, decision: FirstSet) -> str:
    """A call whose answer was lost is looked for by the run's tag, which is the same for all looks of a day (I10)."""
    now = ports.clock.now()
    run_id = _run_of_today(ports, settings.name)
    with ShortLeases(ports, settings.name).held(run_id, FIRST_SNAPSHOTS) as holder:
        request = ExecutionInput(
            cluster=settings.name, reason=decision.reason, trigger=Trigger(kind="schedule")
        )
        ports.ledger.open_run(holder, RunRow(run_id, settings.name, FIRST_SNAPSHOTS, now, request))
        run = ports.ledger.run(run_id)
        if run.outcome != _AT_WORK:
            return f"{run_id}: {run.outcome}; the next try is tomorrow"
        if run.part(Donor) is None:
            ports.ledger.settle(holder, FirstSetSize(gib=decision.gib))
            terms = DonorTerms(settings.volumes, settings.gates.lag_seconds)
            _do(ports, holder, "ChooseDonor", partial(choose_donor_by, terms=terms))
        if any(row.resource_id for row in of_kind(ports.ledger.resources(run_id), ResourceKind.SNAPSHOT)):
            return _give_up(ports, settings, holder, f"the set of {run_id} is not there any more")
        _do(ports, holder, "CreateSnapshots", create_snapshots)
    return f"{run_id} began: {decision.reason}"


def _finish(
    ports: Ports,
    settings: ClusterSettings,
    run_id: str,
    kept: Sequence[SnapshotSet],
    ours: Sequence[Snapshot],
) -> str:
    stays = [f"{run_id} stays for the first run's copy"]
    with ShortLeases(ports, settings.name).held(run_id, FIRST_SNAPSHOTS) as holder:
        outcome = ports.ledger.run(run_id).outcome
        if outcome != _AT_WORK:
            delete_snapshots(TearDown(ports, holder, settings, run_id), ports.ledger.resources(run_id))
            return f"{run_id}: {outcome}; EC2 still lists its snapshots"
        if run_id in {one.run_id for one in kept}:
            return _record(ports, settings, holder, "succeeded", stays)
        if kept:
            return _give_up(ports, settings, holder, f"{kept[-1].run_id} left a set of its own")
        if run_id not in {one.tags.get(RUN_TAG) for one in ours}:
            return _give_up(ports, settings, holder, f"no snapshot of {run_id} is there")
        try:
            # An answer that was lost: what the run was about to make gets its row's id.
            _do(ports, holder, "CreateSnapshots", create_snapshots)
            _do(ports, holder, "AwaitSnapshots", await_snapshots)
        except NotYet as pending:
            return f"{run_id}: {pending}"
        except SnapshotFailed as failed:
            return _give_up(ports, settings, holder, str(failed))
        run, rows = ports.ledger.run(run_id), ports.ledger.resources(run_id)
        keep_set(ports, holder, run, rows)
        return _record(ports, settings, holder, "succeeded", stays)


def _give_up(ports: Ports, settings: ClusterSettings, holder: Holder, why: str) -> str:
    job, rows = (TearDown(ports, holder, settings, holder.run_id), ports.ledger.resources(holder.run_id))
    if delete_snapshots(job, rows) and (waiting := delete_snapshots(job, rows)):
        return f"{holder.run_id}: {why}; waiting for {', '.join(waiting)} to go"
    return _record(ports, settings, holder, "rolled_back", [why])


def _record(ports: Ports, settings: ClusterSettings, holder: Holder, outcome: str, notes: list[str]) -> str:
    sets = ports.ledger.snapshot_sets(settings.name)
    kept = next((one for one in sets if one.run_id == holder.run_id), None)
    planned = ports.ledger.run(holder.run_id).part(FirstSetSize)
    close_scheduled_run(ports, holder, outcome, notes, _price(ports, settings, kept, planned))
    return notes[0]


def _price(
    ports: Ports, settings: ClusterSettings, kept: SnapshotSet | None, planned: FirstSetSize | None
) -> Price:
    """Of the set alone: no instance and no volume is made."""
    prices = storage_prices(ports, settings)
    planned_gib = 0.0 if planned is None else planned.gib
    gib = 0.0 if kept is None else planned_gib if kept.gib is None else kept.gib
    return Price(
        hourly=0.0,
        instance_hourly=0.0,
        volumes_hourly=0.0,
        once=0.0,
        per_month_if_kept=0.0,
        source=prices.source,
        snapshots_hourly=usd(prices.snapshot_hour(gib), 4),
        snapshots_gib=round(gib, 2),
    )


def _do(ports: Ports, holder: Holder, name: str, act: Any) -> None:
    """One of scale_out's steps, on behalf of this run."""
    now = ports.clock.now()
    ports.ledger.start_step(holder, name, now, now + SHORT_LEASE_TIME)
    done: Summary = act(
        ports,
        StepInput(
            run_id=holder.run_id,
            cluster=holder.cluster,
            operation="scale_out",
            step=name,
            fencing_token=holder.fencing_token,
        ),
    )
    ports.ledger.finish_step(holder, name, ports.clock.now(), done.numbers)


def _prune(
    ports: Ports,
    leases: ShortLeases,
    name: str,
    ours: Sequence[Snapshot],
    unwanted: str | None,
) -> str:
    """Takes the lease only where a set has to go, or somebody deleted what a set has."""
    now: datetime = ports.clock.now()
    sets = ports.ledger.snapshot_sets(name)
    gone = deleted_outside(sets, {one.snapshot_id for one in ours}, now)
    if not gone and not surplus_sets(sets, volumes_of_donors(ports, sets), unwanted):
        return f"{len(sets)} kept" if sets else "nothing is kept"
    with leases.held(f"prune-snapshots-{name}-{now:%Y%m%dT%H%M%S}", PRUNE_SNAPSHOTS) as holder:
        notes = forget_deleted(ports, holder, name, gone)
        return "; ".join([*notes, *delete_surplus_sets(ports, holder, name, unwanted)])
