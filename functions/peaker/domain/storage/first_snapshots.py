"""The snapshot set that is taken before a cluster's first run, so that its first peak copies only changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peaker.domain.instants import to_iso
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.data_volumes import data_volumes
from peaker.domain.replicas.donor import DonorChoice
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.storage.snapshot_sets import SnapshotSet, newest_completed
from peaker_contract.cluster import ClusterSettings


@dataclass(frozen=True)
class FirstSet:
    """Whether a first set is taken now, and why, or why not. `gib` are the sizes of the donor's data volumes."""

    take: bool
    reason: str
    gib: float = 0.0


def why_never_first(settings: ClusterSettings) -> str | None:
    """Why the settings allow no first set; None where they do."""
    if settings.mode == "observe":
        return "mode is observe: nothing is made"
    if not settings.keep_snapshots:
        return "keep_snapshots is false"
    if settings.observation_days == 0:
        return "the cluster is not observed"
    return None


def decide_first_set(
    settings: ClusterSettings,
    observing: Reading,
    kept: Sequence[SnapshotSet],
    lease: LeaseRow | None,
    fleet: FleetState,
    choice: DonorChoice,
    others: Sequence[Snapshot],
    snapshot_gib_hour: Reading,
) -> FirstSet:
    """One set while the cluster is observed, of a healthy replica and never of the source (I2).

    `observing` is forecast_load's word, 0 when it is over; unknown means hold (I4). `others` are the snapshots of the
    donor's volumes, whoever made them: a backup's serve as well. `snapshot_gib_hour` is what a GiB costs an hour.
    """
    never = why_never_first(settings)
    if never is not None:
        return FirstSet(False, never)
    if isinstance(observing, Unknown):
        return FirstSet(
            False, f"whether it is observed is unknown ({observing.why}); unknown means hold (I4)"
        )
    if observing.value <= 0:
        return FirstSet(False, "the observation is over: the first run makes its own")
    if kept:
        return FirstSet(False, f"{kept[-1].run_id} left a set")
    if lease is not None:
        until = to_iso(lease.held_until)
        return FirstSet(False, f"{lease.operation} {lease.run_id} holds the lease until {until} (I6)")
    if isinstance(fleet.source, Unknown):
        return FirstSet(False, f"the source is unknown: {fleet.source.why}; what is unknown is held (I4)")
    if choice.donor is None:
        return FirstSet(False, f"no replica can be snapshotted: {choice.text}")
    volumes = data_volumes(choice.donor, settings.volumes)
    gib = float(sum(one.size_gib for one in volumes.values()))
    if {one.volume_id for one in volumes.values()} <= set(newest_completed(others)):
        return FirstSet(
            False, f"each data volume of {choice.donor.instance_id} has a completed snapshot already"
        )
    beyond = _beyond_the_budget(settings, gib, snapshot_gib_hour)
    if beyond is not None:
        return FirstSet(False, beyond)
    return FirstSet(
        True, f"no snapshot of {choice.donor.instance_id} is kept, and the cluster is observed", gib
    )


def _beyond_the_budget(settings: ClusterSettings, gib: float, snapshot_gib_hour: Reading) -> str | None:
    limit = settings.limits.max_hourly_cost_usd
    if limit is None:
        return None
    if isinstance(snapshot_gib_hour, Unknown):
        return (
            f"{snapshot_gib_hour.why}; so the budget, max_hourly_cost_usd {limit:g}, cannot be checked (I4)"
        )
    hourly = gib * snapshot_gib_hour.value
    if hourly <= limit:
        return None
    return f"{gib:g} GiB at ${hourly:.4f} an hour are above the budget, max_hourly_cost_usd {limit:g} (I12)"


def first_set_note(
    settings: ClusterSettings, observing: Reading, kept: Sequence[SnapshotSet], gib: float, hourly: Reading
) -> str | None:
    """What a plan says of the first set; None where none is to come."""
    never = why_never_first(settings)
    price = f"at most {gib:g} GiB, " + (
        f"${hourly.value:.4f} an hour" if isinstance(hourly, Known) else "at an unknown price"
    )
    if settings.mode == "observe" and settings.keep_snapshots:
        return (
            "mode is observe, so no snapshot is taken; with mode act, one set would be while the cluster is observed "
            f"(keep_snapshots): {price}"
        )
    if never is not None or kept or not (isinstance(observing, Known) and observing.value > 0):
        return None
    return f"one snapshot set is taken while the cluster is observed (keep_snapshots): {price}"
