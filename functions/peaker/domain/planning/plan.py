"""What a scale-out would do, where, at what price, and every reason against it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from peaker.domain.instants import require_utc, to_iso
from peaker.domain.planning.checks.verdict import Check
from peaker.domain.planning.methods.choice import MethodChoice
from peaker.domain.planning.parking import Method, volumes_hourly
from peaker.domain.planning.prices import HOURS_PER_MONTH, PriceTable, total, usd
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.donor import DonorChoice, choose_donor, data_volumes
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.runs.ledger import LeaseRow, RunPart
from peaker.domain.storage.prewarm_progress import ServeWhen
from peaker.domain.storage.set_manifest import unequal_members
from peaker_contract.cluster import ClusterSettings
from peaker_contract.storage_settings import VolumeSettings

RefusalCode = Literal[
    "ceiling",
    "no_donor",
    "source_unknown",
    "budget",
    "price_unknown",
    "operation_running",
    "layout",
    "key",
    "image",
    "check",
]


class PlanPart(BaseModel):
    """Base of the plan's parts: immutable, written to the ledger as JSON."""

    model_config = ConfigDict(frozen=True)


class Refusal(PlanPart):
    """A rule that the run would break, with its numbers."""

    code: RefusalCode
    reason: str


class PlannedVolume(PlanPart):
    """One volume to make. The size is the donor's; the settings give the rest."""

    name: str
    device: str
    mount_point: str
    filesystem: str
    size_gib: int
    volume_type: str
    iops: int
    throughput_mib_per_s: int
    initialization_rate_mib_per_s: int | None
    layout: str = "single"


class PlannedPrewarm(PlanPart):
    """What is read before the replica serves, in which order, and how fast, in MiB/s; 0 is as fast as it goes.

    With `serve_when` hot the rest of what is used follows behind the database at `background_rate_mib_per_s`. What the
    snapshot holds beyond that follows at `remainder_rate_mib_per_s`: a first write into a cold block fetches it first.
    """

    # A reading order of the host package. A host without a readable map falls back to the whole device, one without a
    # page list to the plain order, both by themselves.
    method: str
    serve_when: ServeWhen
    rate_limit_mib_per_s: int = 0
    background_rate_mib_per_s: int
    remainder_rate_mib_per_s: int = 8


class PlannedBuild(PlanPart):
    """How the replica is built: where its instance stands, how it is warmed, and for how long its knee is sought."""

    subnets: dict[str, str]
    security_group_ids: tuple[str, ...]
    instance_profile: str | None
    prewarm: PlannedPrewarm
    knee_seconds: int


class Price(PlanPart):
    """USD; None where a price is not known, and `unknown` says which and why.

    `hourly` is one replica's. `snapshots_hourly` is the cluster's: what its kept snapshot sets cost after the run.
    """

    hourly: float | None
    instance_hourly: float | None
    volumes_hourly: float | None
    once: float | None
    per_month_if_kept: float | None
    source: str
    unknown: tuple[str, ...] = ()
    snapshots_hourly: float | None = 0.0
    snapshots_gib: float = 0.0


class LeadTimeEstimate(PlanPart):
    """Seconds from the decision to serving: the expectation, and its parts by step."""

    seconds: float
    parts: dict[str, float]


class ScaleOutPlan(RunPart):
    """One replica to build; `count` says how many runs follow one another. `notes` refuse nothing.

    What is built is built by this document, whatever the settings are by then. Plans are read for as long as their
    replicas live, which may be parked for weeks: a new field has a default. `build` is None where it was not planned.
    `comparison` has the figures of every method, and why this one.
    """

    ledger_name = "plan"

    cluster: str
    planned_at: datetime
    count: int
    serving: int
    building: int
    max_replicas: int
    donor: str | None
    donor_reasons: tuple[str, ...]
    zones: tuple[str, ...]
    zone_reason: str
    instance_type: str
    image_id: str
    volumes: tuple[PlannedVolume, ...]
    lead_time: LeadTimeEstimate | None
    ready_at: datetime | None
    price: Price
    refusals: tuple[Refusal, ...]
    method: Method | None = None
    notes: tuple[str, ...] = ()
    build: PlannedBuild | None = None
    comparison: MethodChoice | None = None
    checks: tuple[Check, ...] = ()

    @property
    def returns(self) -> str | None:
        """The parked replica that comes back instead of a new one."""
        return self.method.replica if self.method is not None and self.method.action == "return" else None

    @property
    def refusal_text(self) -> str:
        return "; ".join(f"{refusal.code}: {refusal.reason}" for refusal in self.refusals)


def plan_scale_out(
    fleet: FleetState,
    settings: ClusterSettings,
    prices: PriceTable,
    now: datetime,
    *,
    count: int = 1,
    lease: LeaseRow | None = None,
    lead_time: LeadTimeEstimate | None = None,
    method: Method | None = None,
    kept_gib: float = 0.0,
    rates: Mapping[str, int | None] | None = None,
) -> ScaleOutPlan:
    """The plan, with refusals instead of exceptions, so that plan mode shows all of them at once.

    `lease` is another run's lease, if one is held. `lead_time` is None when there is nothing to estimate from.
    With a `method` that returns a parked replica, layout and price are that replica's, and no donor is needed.
    `kept_gib` is what the cluster's kept snapshot sets store when the run has ended. `rates` are the initialization
    rates by volume name; without them, the settings' for all.
    """
    choice = choose_donor(fleet, settings)
    returned = _returned(fleet, method)
    volumes = _layout(returned or choice.donor, settings, rates or {})
    if returned is not None:
        volumes = tuple(
            volume.model_copy(update={"initialization_rate_mib_per_s": None}) for volume in volumes
        )
    price = _price(volumes, settings, prices, kept_gib)
    zones, zone_reason = spread_zones(fleet, settings)
    return ScaleOutPlan(
        cluster=settings.name,
        planned_at=require_utc(now),
        count=count,
        serving=len(fleet.serving),
        building=len(fleet.building),
        max_replicas=settings.max_replicas,
        donor=choice.donor.instance_id if choice.donor else None,
        donor_reasons=tuple(f"{verdict.instance_id}: {verdict.reason}" for verdict in choice.verdicts),
        zones=zones,
        zone_reason=zone_reason,
        instance_type=settings.instance_type,
        image_id=settings.image_id,
        volumes=volumes,
        lead_time=lead_time,
        ready_at=_later(now, lead_time),
        price=price,
        refusals=tuple(
            refusal
            for refusal in (
                _running_operation(lease),
                _ceiling(fleet, settings, count),
                _source(fleet),
                None if returned is not None else _no_donor(choice),
                None if returned is not None else _unequal(volumes),
                *_budget(fleet, settings, price, count, _parked_hourly(fleet, returned, prices)),
            )
            if refusal is not None
        ),
        method=method,
        build=planned_build(settings),
    )


def planned_build(settings: ClusterSettings) -> PlannedBuild:
    """What these settings say about building."""
    prewarm = settings.prewarm
    return PlannedBuild(
        subnets=settings.subnets,
        security_group_ids=settings.security_group_ids,
        instance_profile=settings.instance_profile,
        prewarm=PlannedPrewarm(
            method=prewarm.method,
            serve_when=prewarm.serve_when,
            background_rate_mib_per_s=prewarm.background_rate_mib_per_s if prewarm.serve_when == "hot" else 0,
        ),
        knee_seconds=settings.gates.knee_seconds,
    )


def _returned(fleet: FleetState, method: Method | None) -> Replica | None:
    if method is None or method.action != "return" or method.replica is None:
        return None
    return fleet.replica(method.replica)


def _parked_hourly(fleet: FleetState, returned: Replica | None, prices: PriceTable) -> Reading:
    """USD per hour of the parked replicas' volumes; those of the one that returns are in its own price."""
    staying = [one for one in fleet.parked if one is not returned]
    return total(volumes_hourly(one.volumes, prices) for one in staying)


def spread_zones(fleet: FleetState, settings: ClusterSettings) -> tuple[tuple[str, ...], str]:
    """The cluster's zones, the one with the fewest replicas first (then by name), and the count per zone."""
    counts = fleet.by_zone
    zones = tuple(sorted(settings.subnets, key=lambda zone: (counts[zone], zone)))
    shown = ", ".join(f"{zone} {counts[zone]}" for zone in zones)
    return zones, f"fewest replicas first: {shown}"


def _layout(
    like: Replica | None, settings: ClusterSettings, rates: Mapping[str, int | None]
) -> tuple[PlannedVolume, ...]:
    if like is None:
        return ()
    sizes = {name: volume.size_gib for name, volume in data_volumes(like, settings).items()}
    wanted = [volume for volume in settings.volumes if volume.name in sizes]
    usual = settings.initialization_rate_mib_per_s
    return tuple(_planned(one, sizes[one.name], rates.get(one.name, usual)) for one in wanted)


def _planned(volume: VolumeSettings, size_gib: int, rate: int | None) -> PlannedVolume:
    return PlannedVolume(**dict(volume), size_gib=size_gib, initialization_rate_mib_per_s=rate)


def _price(
    volumes: tuple[PlannedVolume, ...], settings: ClusterSettings, prices: PriceTable, kept_gib: float
) -> Price:
    instance = prices.instance_hour(settings.instance_type)
    standing = total(
        prices.volume_hour(one.volume_type, one.size_gib, one.iops, one.throughput_mib_per_s)
        for one in volumes
    )
    once = total(
        prices.initialization(volume.size_gib, volume.initialization_rate_mib_per_s) for volume in volumes
    )
    hourly = total((instance, standing))
    snapshots = prices.snapshot_hour(kept_gib) if kept_gib > 0 else Known(0.0)
    return Price(
        hourly=usd(hourly, 4),
        instance_hourly=usd(instance, 6),
        volumes_hourly=usd(standing, 4),
        once=usd(once, 4),
        per_month_if_kept=None if isinstance(hourly, Unknown) else round(hourly.value * HOURS_PER_MONTH, 2),
        source=prices.source,
        unknown=tuple(one.why for one in (instance, standing, once, snapshots) if isinstance(one, Unknown)),
        snapshots_hourly=usd(snapshots, 4),
        snapshots_gib=round(kept_gib, 2),
    )


def _later(now: datetime, lead_time: LeadTimeEstimate | None) -> datetime | None:
    if lead_time is None:
        return None
    return datetime.fromtimestamp(require_utc(now).timestamp() + lead_time.seconds, require_utc(now).tzinfo)


def _running_operation(lease: LeaseRow | None) -> Refusal | None:
    if lease is None:
        return None
    return Refusal(
        code="operation_running",
        reason=f"{lease.operation} {lease.run_id} holds the lease until {to_iso(lease.held_until)}; "
        "one operation per cluster at a time (I6)",
    )


def _ceiling(fleet: FleetState, settings: ClusterSettings, count: int) -> Refusal | None:
    counted = fleet.under_ceiling
    if len(counted) + count <= settings.max_replicas:
        return None
    serving = sum(one.is_serving for one in counted)
    building = sum(one.is_building and not one.is_serving for one in counted)
    others = [one for one in counted if not one.is_serving and not one.is_building]
    standing = "".join(f" + {one.instance_id} ({_why_counted(one)})" for one in others)
    return Refusal(
        code="ceiling",
        reason=f"{serving} serving + {building} building{standing} + {count} wanted exceeds max_replicas "
        f"{settings.max_replicas}, the ceiling (I12)",
    )


def _why_counted(replica: Replica) -> str:
    row = replica.ledger_row
    return replica.health_text if row is None or not replica.is_standing else row.state.value


def _source(fleet: FleetState) -> Refusal | None:
    if not isinstance(fleet.source, Unknown):
        return None
    return Refusal(
        code="source_unknown",
        reason=f"the source is unknown: {fleet.source.why}; what is unknown is held (I4)",
    )


def _no_donor(choice: DonorChoice) -> Refusal | None:
    if choice.donor is not None:
        return None
    return Refusal(
        code="no_donor", reason=f"no replica can be snapshotted: {choice.text}; the source never is (I2)"
    )


def _unequal(volumes: tuple[PlannedVolume, ...]) -> Refusal | None:
    reasons = unequal_members(volumes, {one.name: one.size_gib for one in volumes})
    return Refusal(code="layout", reason="; ".join(reasons)) if reasons else None


def _budget(
    fleet: FleetState, settings: ClusterSettings, price: Price, count: int, parked: Reading
) -> tuple[Refusal | None, ...]:
    """Without a budget no price is needed; with one, an unknown price refuses (I4)."""
    limit = settings.limits.max_hourly_cost_usd
    if limit is None:
        return ()
    if price.hourly is None or price.snapshots_hourly is None or isinstance(parked, Unknown):
        why = [*price.unknown[:1], *([parked.why] if isinstance(parked, Unknown) else [])][0]
        reason = f"{why}; so the budget, max_hourly_cost_usd {limit:g}, cannot be checked (I4)"
        return (Refusal(code="price_unknown", reason=reason),)
    peak = len(fleet.peak)
    sum_usd = price.hourly * (peak + count) + parked.value + price.snapshots_hourly
    if sum_usd <= limit:
        return ()
    reason = (
        f"{peak} peak replicas + {count} wanted at ${price.hourly:.3f}/h"
        f"{_and_parked(parked.value)}{_and_snapshots(price.snapshots_hourly)} are ${sum_usd:.2f}/h, "
        f"above the budget, max_hourly_cost_usd {limit:g} (I12)"
    )
    return (Refusal(code="budget", reason=reason),)


def _and_parked(hourly_usd: float) -> str:
    return f" and ${hourly_usd:.3f}/h of parked volumes" if hourly_usd else ""


def _and_snapshots(hourly_usd: float) -> str:
    return f" and ${hourly_usd:.3f}/h of kept snapshots" if hourly_usd else ""


def as_document(plan: ScaleOutPlan) -> dict[str, Any]:
    """The plan as JSON values."""
    return plan.model_dump(mode="json")
