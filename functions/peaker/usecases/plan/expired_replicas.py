"""Which expired parked replicas a run could refill by the blocks that have changed, and how much that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.methods.situation import ExpiredReplica
from peaker.domain.planning.parking import why_expired, why_not_refilled
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.planning.prices import PriceTable
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.donor import choose_donor, data_volumes
from peaker.domain.replicas.fleet import FleetState, Parking, Replica
from peaker.domain.replicas.inventory import Volume
from peaker.domain.runs.batch import Member, batch_of
from peaker.domain.runs.ledger import RunRow
from peaker.domain.storage.set_manifest import SINGLE
from peaker.domain.storage.snapshot_sets import SnapshotSet, expected_copy
from peaker.ports import Ports
from peaker.usecases.plan.lead_time_inputs import SnapshotHistory
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import LedgerInconsistent


def expired_replicas(
    ports: Ports,
    settings: ClusterSettings,
    fleet: FleetState,
    past: PastSteps,
    prices: PriceTable,
    history: SnapshotHistory | None,
    used_bytes: Mapping[str, float],
) -> tuple[ExpiredReplica, ...]:
    """Each with the bytes that have changed, or why no run can refill it. `used_bytes` of the donor, by volume name."""
    now = ports.clock.now()
    expired = [
        (one, one.ledger_row.parking, why)
        for one in fleet.parked
        if one.ledger_row is not None
        and one.ledger_row.parking is not None
        and (why := why_expired(one.ledger_row.parking, now)) is not None
    ]
    if not expired:
        return ()
    refused = why_none_refilled(settings, past, now)
    sets = {} if refused else {one.run_id: one for one in ports.ledger.snapshot_sets(settings.name)}
    found = []
    for one, parking, why in expired:
        changed = (
            refused
            or why_not_refilled(one, ports.environment, now)
            or _changed(ports, settings, fleet, past, history, used_bytes, one, parking, sets)
        )
        if isinstance(changed, str):
            changed = Unknown(f"{one.instance_id} {why}; it is not refilled: {changed}")
        hourly = prices.instance_hour(one.instance.instance_type)
        found.append(ExpiredReplica(one.instance_id, changed, hourly))
    return tuple(found)


def why_none_refilled(settings: ClusterSettings, past: PastSteps, now: datetime) -> str | None:
    """Why no run of this cluster may refill any; None where one may."""
    if not settings.retirement.refill_expired:
        return "retirement.refill_expired is false: what it was made from is not kept"
    if not settings.prewarm.direct_fill:
        return "prewarm.direct_fill is false: the replicas' role may not read blocks of snapshots"
    sets = [one.name for one in settings.volumes if one.layout != SINGLE]
    if sets:
        return f"{', '.join(sets)} are of a set (md, LVM), which a host does not write over"
    return past.refills.why_not_again(now)


def _changed(
    ports: Ports,
    settings: ClusterSettings,
    fleet: FleetState,
    past: PastSteps,
    history: SnapshotHistory | None,
    used_bytes: Mapping[str, float],
    replica: Replica,
    parking: Parking,
    sets: Mapping[str, SnapshotSet],
) -> Reading | str:
    """Bytes, or why they cannot be told."""
    kept = _made_from(ports, replica, sets)
    if isinstance(kept, str):
        return kept
    own, donor = data_volumes(replica, settings), choose_donor(fleet, settings).donor
    if donor is None or history is None:
        return "the snapshots of its donor cannot be read" if donor else "no donor is known"
    why = _why_of_other_volumes(settings, kept, donor, data_volumes(donor, settings), own)
    if why is not None:
        return why
    bases = {one.snapshot_id: one for one in history.snapshots if one.state == "completed"}
    missing = sorted(one for one in kept.snapshot_ids if one not in bases)
    if missing:
        return f"{', '.join(missing)}, which it was made from, {'is' if len(missing) == 1 else 'are'} gone"
    told = past.elsewhere.figure("changed_a_day")
    a_day = None if told is None else told.value
    used = {one.name: used_bytes.get(one.name, 0.0) for one in settings.volumes}
    of_set = {name: bases[kept.snapshots[name]] for name in used}
    # What the copy wrote follows the same law: it applied the same log, from the same snapshots on.
    of_copy = [replace(one, source_volume_id=own[name].volume_id) for name, one in of_set.items()]
    by_donor = expected_copy(
        {kept.sources[name]: amount for name, amount in used.items()},
        list(of_set.values()),
        past.copies,
        history.now,
        a_day,
    )
    by_copy = expected_copy(
        {own[name].volume_id: amount for name, amount in used.items()},
        of_copy,
        past.copies,
        parking.parked_at,
        a_day,
    )
    return Known(min(sum(used.values()), by_donor.copied_bytes + by_copy.copied_bytes))


def _made_from(ports: Ports, replica: Replica, sets: Mapping[str, SnapshotSet]) -> SnapshotSet | str:
    """The kept set that its volumes were made from, or why there is none."""
    if replica.ledger_row is None:
        return "no run is known that built it"
    try:
        builder = ports.ledger.run(replica.ledger_row.run_id)
        if _wrote_its_volumes(builder):
            return "its volumes were made empty: AWS compares no snapshot of theirs with the donor's"
    except LedgerInconsistent as error:
        return f"what it was built from cannot be read: {error}"
    batch = batch_of(builder)
    return sets.get(batch) or f"the snapshots of {batch}, which it was made from, are not kept"


def _wrote_its_volumes(builder: RunRow) -> bool:
    """Whether its host wrote them from nothing, by a direct fill or a clone. Raises LedgerInconsistent."""
    member = builder.part(Member)
    if member is not None:
        return member.fills
    plan = builder.part(ScaleOutPlan)
    return plan is not None and plan.starts_empty


def _why_of_other_volumes(
    settings: ClusterSettings,
    kept: SnapshotSet,
    donor: Replica,
    given: Mapping[str, Volume],
    own: Mapping[str, Volume],
) -> str | None:
    """Why two lists of changed blocks would not tell all that differs between the donor's volumes and its own."""
    names = [one.name for one in settings.volumes]
    missing = [name for name in names if name not in own]
    if missing:
        return f"it has no volume {', '.join(missing)}"
    incomplete = [name for name in names if name not in kept.snapshots or name not in kept.sources]
    if incomplete:
        return f"the set of {kept.run_id} has no snapshot of {', '.join(incomplete)}"
    if kept.donor != donor.instance_id:
        return f"it was made from {kept.donor}, and the donor is {donor.instance_id} now"
    others = [name for name in names if name not in given or given[name].volume_id != kept.sources[name]]
    if others:
        return f"{donor.instance_id} has another volume {', '.join(others)} than when it was made from it"
    larger = [name for name in names if given[name].size_gib != own[name].size_gib]
    if larger:
        return f"the donor's volume {', '.join(larger)} has another size than its own"
    return None
