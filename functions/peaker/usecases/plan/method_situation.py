"""What the choice of a method depends on, gathered from the plan's own inputs, EC2 and the ledger."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from peaker.domain.limits.account_limits import MOST_RATE, Limit
from peaker.domain.planning.lead_time import MIB, Hydration, LeadTimeInputs, predict_lead_time, predict_return
from peaker.domain.planning.learning.past_steps import PastSteps, measured_apply_speed
from peaker.domain.planning.methods.refilling import (
    changed_bytes,
    donors_of_refills,
    why_none_refilled,
    wrote_its_volumes,
)
from peaker.domain.planning.methods.situation import (
    DataVolume,
    ExpiredReplica,
    ParkedReplica,
    ReadingRate,
    Situation,
)
from peaker.domain.planning.methods.timing import frame_of, refill_frame
from peaker.domain.planning.parking import (
    not_returned,
    parked_seconds,
    returnable,
    why_expired,
    why_not_refilled,
    why_too_far_behind,
)
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.planning.plan_decision import spread_zones
from peaker.domain.planning.prices import PriceTable
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.donor import DonorChoice, choose_donor
from peaker.domain.replicas.fleet import FleetState, Parking, Replica, ReplicaRow
from peaker.domain.runs.batch import batch_of
from peaker.domain.storage.io_findings import InstancePromise
from peaker.domain.storage.set_manifest import SINGLE
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker.ports import Ports
from peaker.usecases.plan.lead_time_inputs import GIB, SnapshotHistory
from peaker.usecases.plan.shared_limits import rate_free
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import LedgerInconsistent, PeakerError, Retryable
from peaker_contract.steps import Part


def instance_promise(ports: Ports, instance_type: str) -> InstancePromise | Unknown:
    """What the type carries. Raises Retryable errors only."""
    try:
        return ports.compute.ebs_promise(instance_type)
    except Retryable:
        raise
    except PeakerError as error:
        return Unknown(f"EC2 does not say what {instance_type} carries: {error}")


def method_situation(
    ports: Ports,
    settings: ClusterSettings,
    fleet: FleetState,
    inputs: LeadTimeInputs,
    past: PastSteps,
    build: ScaleOutPlan,
    prices: PriceTable,
    promise: InstancePromise | Unknown,
    history: SnapshotHistory | None,
    ready_by: datetime | None,
    limit: Limit,
    donor: DonorChoice,
    bases: Mapping[str, SnapshotSet | str],
) -> Situation:
    """`build` is the plan of a build by the settings; `limit` is the initialization rate that all runs share. `bases`
    are those of the expired replicas."""
    now = ports.clock.now()
    lead = predict_lead_time(inputs, past)
    hourly = build.price.hourly
    zones, _ = spread_zones(fleet, settings)
    default, provisioned = _reading_rates(settings, inputs, past)
    rejected = not_returned(fleet, ports.environment, now)
    catch_up_per_second = 1 / (measured_apply_speed(past, inputs.apply_speed) - 1)
    volumes = _volumes(settings, inputs, build, history)
    used = {one.name: one.used_bytes for one in volumes}
    return Situation(
        frame=frame_of(lead, catch_up_per_second),
        volumes=volumes,
        hourly_usd=Unknown("; ".join(build.price.unknown) or "no price is known")
        if hourly is None
        else Known(hourly),
        prices=prices,
        now=now,
        ready_by=ready_by,
        serve_when=settings.prewarm.serve_when,
        default_rate=default,
        provisioned_rate=provisioned,
        rate_ceiling_mib_per_s=settings.initialization_rate_mib_per_s,
        rate_free_mib_per_s=rate_free(ports, limit, lead.p90_seconds),
        instance_mib_per_s=_baseline(promise),
        instance_burst_mib_per_s=_burst(promise),
        local_zones=any(not re.fullmatch(rf"{re.escape(settings.region)}[a-z]", zone) for zone in zones),
        zone=zones[0] if zones else None,
        donor_zone=None if donor.donor is None else donor.donor.instance.zone,
        engine=settings.engine,
        parked=_parked(ports, fleet, inputs, past, prices, now),
        why_none_parked="; ".join(f"{name} {why}" for name, why in rejected.items())
        or "no replica is parked",
        expired=_expired(settings, fleet, past, prices, history, used, donor, bases, now),
        refill_frame=refill_frame(lead, predict_return(inputs, 0.0, past), catch_up_per_second),
        why_no_fill=_why_no_fill(settings, past, now),
        past_fills=past.fills.readings,
        why_no_clone=_why_no_clone(settings, past, now),
        clone_mib_per_s=float(settings.prewarm.clone_mib_per_s or math.inf),
        past_clones=past.clones.readings,
    )


def _why_no_fill(settings: ClusterSettings, past: PastSteps, now: datetime) -> str | None:
    """Why a run may not fill volumes directly; None where it may."""
    if not settings.prewarm.direct_fill:
        return "prewarm.direct_fill is false: the replicas' role may not read blocks of snapshots"
    return past.fills.why_not_again(now)


def _why_no_clone(settings: ClusterSettings, past: PastSteps, now: datetime) -> str | None:
    """Why a run may not clone its donor; None where it may."""
    if settings.prewarm.clone_mib_per_s is None:
        return "prewarm.clone_mib_per_s is not set: nobody said how much a donor may give"
    sets = [one.name for one in settings.volumes if one.layout != SINGLE]
    if sets:
        return f"{', '.join(sets)} are of a set (md, LVM): a clone makes none"
    return past.clones.why_not_again(now)


def _volumes(
    settings: ClusterSettings, inputs: LeadTimeInputs, build: ScaleOutPlan, history: SnapshotHistory | None
) -> tuple[DataVolume, ...]:
    """With serve_when hot, the last prewarm told how much is hot, and what is used is at most what is held."""
    sizes = {one.name: one.size_gib for one in build.volumes}
    awaited = {one.name: one.data_bytes for one in inputs.volumes}
    held = {} if history is None else history.held_bytes
    waits_for_hot = settings.prewarm.serve_when == "hot"
    found = []
    for volume in build.volumes:
        whole = held.get(volume.name, sizes[volume.name] * GIB)
        expected = min(whole, awaited.get(volume.name, whole))
        found.append(
            DataVolume(
                volume.name,
                volume.size_gib,
                whole,
                whole if waits_for_hot else expected,
                float(volume.throughput_mib_per_s),
                expected if waits_for_hot and expected < whole else None,
            )
        )
    return tuple(found)


def _reading_rates(
    settings: ClusterSettings, inputs: LeadTimeInputs, past: PastSteps
) -> tuple[ReadingRate, ReadingRate]:
    """The default rate and a paid one, each as past prewarms of its kind teach it, else as AWS promises."""
    paid = settings.initialization_rate_mib_per_s or MOST_RATE
    return (
        _reading_rate(settings, inputs, past, Hydration.DEFAULT, None, ReadingRate(1.0, 0.5)),
        _reading_rate(settings, inputs, past, Hydration.PROVISIONED_RATE, paid, ReadingRate(1.0, 0.06)),
    )


def _reading_rate(
    settings: ClusterSettings,
    inputs: LeadTimeInputs,
    past: PastSteps,
    kind: Hydration,
    paid: int | None,
    promised: ReadingRate,
) -> ReadingRate:
    given = {one.name: min(paid or math.inf, one.throughput_mib_per_s) for one in settings.volumes}
    volumes = tuple(replace(one, rate_bytes_per_s=given[one.name] * MIB) for one in inputs.volumes)
    of_kind = replace(inputs, volumes=volumes, hydration=kind, paid_mib_per_s=float(paid or 0))
    first = predict_lead_time(of_kind).component(Part.HYDRATION)
    learned = predict_lead_time(of_kind, past).component(Part.HYDRATION)
    if first.p50_seconds <= 0 or learned.p50_seconds <= 0:
        return promised
    own = bool(past.hydrated_bytes) and learned.runs > 0
    if not own and learned.basis == first.basis:
        return promised
    spread = max(0.0, learned.p90_seconds / learned.p50_seconds - 1)
    return ReadingRate(learned.p50_seconds / first.p50_seconds, spread, measured=own)


def _baseline(promise: InstancePromise | Unknown) -> Reading:
    if isinstance(promise, Unknown):
        return promise
    if promise.baseline_mib_per_s is None:
        return Unknown("EC2 names no baseline of the type")
    return Known(promise.baseline_mib_per_s)


def _burst(promise: InstancePromise | Unknown) -> Reading:
    if isinstance(promise, Unknown):
        return promise
    if promise.maximum_mib_per_s is None:
        return Unknown("EC2 names no burst of the type")
    return Known(promise.maximum_mib_per_s)


def _parked(
    ports: Ports,
    fleet: FleetState,
    inputs: LeadTimeInputs,
    past: PastSteps,
    prices: PriceTable,
    now: datetime,
) -> tuple[ParkedReplica, ...]:
    found = []
    for one in returnable(fleet, ports.environment, now):
        back = predict_return(inputs, parked_seconds(one, now), past)
        if why_too_far_behind(back) is not None:
            continue
        hour = prices.instance_hour(one.instance.instance_type)
        usd = replace(hour, value=hour.value * back.p50_seconds / 3600) if isinstance(hour, Known) else hour
        found.append(ParkedReplica(one.instance_id, back.p50_seconds, back.p90_seconds, usd))
    return tuple(found)


def bases_of_expired(
    ports: Ports, settings: ClusterSettings, fleet: FleetState, past: PastSteps
) -> dict[str, SnapshotSet | str]:
    """Of each parked replica that has expired the kept set against which it may be refilled, or why it is not."""
    now = ports.clock.now()
    expired = [(one, row) for one, row, _, _ in _expired_ones(fleet, now)]
    refused = why_none_refilled(settings, past, now)
    sets = {one.run_id: one for one in ports.ledger.snapshot_sets(settings.name)} if expired else {}
    found: dict[str, SnapshotSet | str] = {}
    for one, row in expired:
        why_not = refused or why_not_refilled(one, ports.environment, now)
        found[one.instance_id] = _made_from(ports, row, sets) if why_not is None else why_not
    return found


def planned_donor(
    settings: ClusterSettings,
    fleet: FleetState,
    bases: Mapping[str, SnapshotSet | str],
    past: PastSteps,
    now: datetime,
    taken: str | None,
) -> DonorChoice:
    """The donor of a plan: the one that the run has `taken` already; else one that a refill needs, where a run may fill
    at all."""
    needed = {} if _why_no_fill(settings, past, now) else donors_of_refills(settings, fleet, bases)
    return choose_donor(fleet, settings, needed, taken)


def _expired_ones(fleet: FleetState, now: datetime) -> list[tuple[Replica, ReplicaRow, Parking, str]]:
    """Each with its row, how it stands, and why it has expired."""
    parked = [
        (one, one.ledger_row, one.ledger_row.parking)
        for one in fleet.parked
        if one.ledger_row is not None and one.ledger_row.parking is not None
    ]
    return [(*one, why) for one in parked if (why := why_expired(one[2], now)) is not None]


def _expired(
    settings: ClusterSettings,
    fleet: FleetState,
    past: PastSteps,
    prices: PriceTable,
    history: SnapshotHistory | None,
    used_bytes: Mapping[str, float],
    donor: DonorChoice,
    bases: Mapping[str, SnapshotSet | str],
    now: datetime,
) -> tuple[ExpiredReplica, ...]:
    """Each with the bytes that have changed, or why no run can refill it. `used_bytes` of the donor, by volume name."""
    found = []
    for one, _, parking, why in _expired_ones(fleet, now):
        changed: Known | Unknown
        kept = bases[one.instance_id]
        if isinstance(kept, str):
            changed = Unknown(kept)
        elif donor.donor is not None and history is None:
            changed = Unknown("its donor's snapshots cannot be read")
        else:
            snapshots = () if history is None else history.snapshots
            changed = changed_bytes(
                settings, kept, donor, one, parking.parked_at, snapshots, used_bytes, past, now
            )
        if isinstance(changed, Unknown):
            changed = Unknown(f"{one.instance_id} {why}; it is not refilled: {changed.why}")
        hourly = prices.instance_hour(one.instance.instance_type)
        found.append(ExpiredReplica(one.instance_id, changed, hourly))
    return tuple(found)


def _made_from(ports: Ports, row: ReplicaRow, sets: Mapping[str, SnapshotSet]) -> SnapshotSet | str:
    """The kept set that its volumes were made from, or why there is none."""
    try:
        builder = ports.ledger.run(row.run_id)
        if wrote_its_volumes(builder):
            return "its volumes were made empty: AWS compares no snapshot of theirs with the donor's"
    except LedgerInconsistent as error:
        return f"what it was built from cannot be read: {error}"
    batch = batch_of(builder)
    return sets.get(batch) or f"the snapshots of {batch}, which it was made from, are not kept"
