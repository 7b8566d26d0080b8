"""What the choice of a method depends on, gathered from the plan's own inputs, EC2 and the ledger."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import datetime

from peaker.domain.limits.account_limits import MOST_RATE, RegionRate
from peaker.domain.planning.lead_time import MIB, Hydration, LeadTimeInputs, predict_lead_time, predict_return
from peaker.domain.planning.learning.past_steps import PastSteps, measured_apply_speed
from peaker.domain.planning.methods.situation import (
    DataVolume,
    ParkedReplica,
    ReadingRate,
    Situation,
)
from peaker.domain.planning.methods.timing import frame_of
from peaker.domain.planning.parking import (
    not_returned,
    parked_seconds,
    returnable,
    why_too_far_behind,
)
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.planning.plan_decision import spread_zones
from peaker.domain.planning.prices import PriceTable
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.storage.io_findings import InstancePromise
from peaker.ports import Ports
from peaker.usecases.plan.lead_time_inputs import GIB, SnapshotHistory
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError, Retryable
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
    region: RegionRate,
) -> Situation:
    """`build` is the plan of a build by the settings; `region` is what the account may have of the rate."""
    now = ports.clock.now()
    lead = predict_lead_time(inputs, past)
    hourly = build.price.hourly
    zones, _ = spread_zones(fleet, settings)
    default, provisioned = _reading_rates(settings, inputs, past)
    rejected = not_returned(fleet, ports.environment, now)
    catch_up_per_second = 1 / (measured_apply_speed(past, inputs.apply_speed) - 1)
    volumes = _volumes(settings, inputs, build, history)
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
        rate_quota_mib_per_s=region.mib_per_s,
        instance_mib_per_s=_baseline(promise),
        instance_burst_mib_per_s=_burst(promise),
        local_zones=any(not re.fullmatch(rf"{re.escape(settings.region)}[a-z]", zone) for zone in zones),
        parked=_parked(ports, fleet, inputs, past, prices, now),
        why_none_parked="; ".join(f"{name} {why}" for name, why in rejected.items())
        or "no replica is parked",
    )


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
