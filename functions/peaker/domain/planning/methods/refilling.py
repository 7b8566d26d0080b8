"""Whether an expired parked replica can be refilled by the blocks that have changed, how much that is, and how long it
stands for that. Pure.

Two lists tell what differs from the donor's newest snapshot: what the donor changed since the set that the replica was
made from, and what the replica wrote itself. AWS compares snapshots of one lineage alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from peaker.domain.instants import to_iso
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.parking import ParkingFigures, why_expired, why_not_refilled
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.donor import DonorChoice, data_volumes
from peaker.domain.replicas.fleet import FleetState, Parking, Replica
from peaker.domain.replicas.inventory import Snapshot, Volume
from peaker.domain.runs.batch import Member
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.run_memory import Donor
from peaker.domain.storage.set_manifest import SINGLE
from peaker.domain.storage.snapshot_sets import SnapshotSet, expected_copy
from peaker_contract.cluster import ClusterSettings


def why_none_refilled(settings: ClusterSettings, past: PastSteps, now: datetime) -> str | None:
    """Why no run of this cluster may refill any; None where one may."""
    return why_settings_forbid_refills(settings) or past.refills.why_not_again(now)


def why_settings_forbid_refills(settings: ClusterSettings) -> str | None:
    """Why none is ever refilled with these settings; None where one may be."""
    if not settings.retirement.refill_expired:
        return "retirement.refill_expired is false: what it was made from is not kept"
    if not settings.prewarm.direct_fill:
        return "prewarm.direct_fill is false: the replicas' role may not read blocks of snapshots"
    sets = [one.name for one in settings.volumes if one.layout != SINGLE]
    if sets:
        return f"{', '.join(sets)} are of a set (md, LVM), which a host does not write over"
    return None


def standing_for_a_refill(parking: Parking, figures: ParkingFigures) -> Parking:
    """The parking of one that may be refilled: it stands until that has cost as much as building anew (the ski-rental
    bound), not only while it can return. Where a price is unknown it cannot be compared (I4), and stays as it is.
    """
    hours = figures.break_even_hours
    if hours is None:
        return parking
    return replace(
        parking,
        stands_until=parking.parked_at + timedelta(hours=hours),
        standing_hourly_usd=figures.parked_hourly_usd,
        rebuild_usd=figures.rebuild_usd,
    )


@dataclass(frozen=True)
class StandsExpired:
    """Why a replica that has expired is not retired yet; the numbers in USD, and in USD an hour."""

    reason: str
    numbers: Mapping[str, Any]


def stands_expired(
    replica: Replica, environment: str, base_is_kept: bool, now: datetime
) -> StandsExpired | None:
    """Of a parked one that has expired and may still be refilled, until its standing has cost as much as building
    anew; None of any other. `base_is_kept`: the snapshots that it was made from are there, against which what has
    changed shows.
    """
    parking = None if replica.ledger_row is None else replica.ledger_row.parking
    if parking is None or parking.stands_until is None or now >= parking.stands_until or not base_is_kept:
        return None
    if why_not_refilled(replica, environment, now) is not None:
        return None
    until, hourly, build = to_iso(parking.stands_until), parking.standing_hourly_usd, parking.rebuild_usd
    costs = (
        ""
        if hourly is None or build is None
        else f"; standing costs ${hourly:.4f} an hour, a build ${build:.2f}"
    )
    return StandsExpired(
        f"parked, {why_expired(parking, now)}; stands until {until}: it may come back by its changed blocks{costs}",
        {"stands_until": until, "standing_hourly_usd": hourly, "rebuild_usd": build},
    )


def wrote_its_volumes(builder: RunRow) -> bool:
    """Whether its host wrote them from nothing, by a direct fill or a clone. Raises LedgerInconsistent."""
    member = builder.part(Member)
    if member is not None:
        return member.fills
    plan = builder.part(ScaleOutPlan)
    return plan is not None and plan.starts_empty


def donors_of_refills(
    settings: ClusterSettings, fleet: FleetState, bases: Mapping[str, SnapshotSet | str]
) -> dict[str, str]:
    """By the id of a donor, the expired replicas that only its snapshots can refill: those of its volumes of now are of
    one lineage with theirs. `bases` are their kept sets by their ids, or why one is not refilled.
    """
    found: dict[str, list[str]] = {}
    for name, kept in sorted(bases.items()):
        donor = None if isinstance(kept, str) else fleet.replica(kept.donor)
        replica = fleet.replica(name)
        if isinstance(kept, str) or donor is None or replica is None:
            continue
        if _why_of_other_volumes(settings, kept, donor, data_volumes(replica, settings)) is None:
            found.setdefault(donor.instance_id, []).append(name)
    return {donor: ", ".join(names) for donor, names in found.items()}


def why_of_another_lineage(kept: SnapshotSet | None, donor: Donor) -> str | None:
    """Why a run that takes its snapshots of `donor` cannot refill what was made from the kept set; None where it can.

    A plan's donor may be sick once the run chooses: another one's volumes have no lineage with the replica's.
    """
    if kept is None:
        return "the snapshots that it was made from are gone"
    if kept.donor != donor.instance_id:
        return f"it was made from {kept.donor}, and the donor of this run is {donor.instance_id}"
    others = sorted(name for name, one in donor.volumes.items() if kept.sources.get(name) != one)
    if others:
        return f"{donor.instance_id} has another volume {', '.join(others)} than when it was made from it"
    return None


def changed_bytes(
    settings: ClusterSettings,
    kept: SnapshotSet,
    choice: DonorChoice,
    replica: Replica,
    parked_at: datetime,
    snapshots: Sequence[Snapshot],
    used_bytes: Mapping[str, float],
    past: PastSteps,
    now: datetime,
) -> Known | Unknown:
    """Bytes that a refill writes: what the donor has changed since `kept`, which the replica was made from, and what
    the replica wrote until it was parked; together at most what is used. Unknown, with why, where they cannot be told.

    `snapshots` are those that the chosen donor's volumes have, `used_bytes` is of it, by the name of the volume.
    """
    own, donor = data_volumes(replica, settings), choice.donor
    if donor is None:
        return Unknown("no donor is known")
    if kept.donor != donor.instance_id:
        now_from = f"it was made from {kept.donor}, and the donor is {donor.instance_id} now"
        return Unknown(f"{now_from} ({kept.donor}: {choice.reason(kept.donor)})")
    why = _why_of_other_volumes(settings, kept, donor, own)
    if why is not None:
        return Unknown(why)
    bases = {one.snapshot_id: one for one in snapshots if one.state == "completed"}
    missing = sorted(one for one in kept.snapshot_ids if one not in bases)
    if missing:
        gone = "is gone" if len(missing) == 1 else "are gone"
        return Unknown(f"{', '.join(missing)}, which it was made from, {gone}")
    told = past.elsewhere.figure("changed_a_day")
    a_day = None if told is None else told.value
    used = {one.name: used_bytes.get(one.name, 0.0) for one in settings.volumes}
    of_set = {name: bases[kept.snapshots[name]] for name in used}
    by_donor = expected_copy(
        {kept.sources[name]: amount for name, amount in used.items()},
        list(of_set.values()),
        past.copies,
        now,
        a_day,
    )
    # What it wrote follows the same law: it applied the same log, from the same snapshots on.
    by_copy = expected_copy(
        {own[name].volume_id: amount for name, amount in used.items()},
        [replace(one, source_volume_id=own[name].volume_id) for name, one in of_set.items()],
        past.copies,
        parked_at,
        a_day,
    )
    return Known(min(sum(used.values()), by_donor.copied_bytes + by_copy.copied_bytes))


def _why_of_other_volumes(
    settings: ClusterSettings,
    kept: SnapshotSet,
    donor: Replica,
    own: Mapping[str, Volume],
) -> str | None:
    """Why two lists of changed blocks would not tell all that differs between the volumes of the set's donor and its
    own."""
    given = data_volumes(donor, settings)
    names = [one.name for one in settings.volumes]
    missing = [name for name in names if name not in own]
    if missing:
        return f"it has no volume {', '.join(missing)}"
    incomplete = [name for name in names if name not in kept.snapshots or name not in kept.sources]
    if incomplete:
        return f"the set of {kept.run_id} has no snapshot of {', '.join(incomplete)}"
    others = [name for name in names if name not in given or given[name].volume_id != kept.sources[name]]
    if others:
        return f"{donor.instance_id} has another volume {', '.join(others)} than when it was made from it"
    larger = [name for name in names if given[name].size_gib != own[name].size_gib]
    if larger:
        return f"the donor's volume {', '.join(larger)} has another size than its own"
    return None
