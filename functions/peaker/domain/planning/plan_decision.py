"""The plan of a scale-out names its members, their zones and prices, with every reason against it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from peaker.domain.document.plan import (
    BatchPrice,
    LeadTimeEstimate,
    PlannedMember,
    Price,
    ScaleOutPlan,
    Way,
    planned_build,
)
from peaker.domain.instants import require_utc
from peaker.domain.planning.capacity_order import capacity_order
from peaker.domain.planning.plan_facts import PlanFacts
from peaker.domain.planning.plan_refusals import (
    above_batch,
    above_ceiling,
    no_donor,
    over_budget,
    peak_hourly,
    running_operation,
    source_unknown,
    unequal_layout,
)
from peaker.domain.prices.price_table import PriceTable, total, usd, volumes_hourly
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.data_volumes import PlannedVolume, data_volumes, planned_volumes
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import HOURS_PER_MONTH


def plan_scale_out(facts: PlanFacts, ways: Sequence[Way]) -> ScaleOutPlan:
    """The plan, with refusals instead of exceptions, so that plan mode shows all of them at once.

    `ways` are those of the members by their numbers, at least one. With one that returns a parked replica, layout and
    price are that replica's, and no donor is needed.
    """
    fleet, settings, prices, choice = facts.fleet, facts.settings, facts.prices, facts.donor
    first, count = ways[0], len(ways)
    _, zone_reason = spread_zones(fleet, settings)
    members = _members(ways, facts)
    returned = [found for way in ways if (found := _returned(fleet, way)) is not None]
    built = [member for member, way in zip(members, ways, strict=True) if _returned(fleet, way) is None]
    volumes, price = members[0].volumes, members[0].price
    parked = _parked_hourly(fleet, returned, prices)
    dearer = _dearer(fleet, settings.instance_type, prices)
    return ScaleOutPlan(
        cluster=settings.name,
        planned_at=require_utc(facts.now),
        count=count,
        serving=len(fleet.serving),
        building=len(fleet.building),
        max_replicas=settings.max_replicas,
        donor=choice.donor.instance_id if choice.donor else None,
        donor_reasons=tuple(f"{verdict.instance_id}: {verdict.reason}" for verdict in choice.verdicts),
        zones=members[0].zones,
        zone_reason=zone_reason,
        instance_type=settings.instance_type,
        image_id=settings.image_id,
        volumes=volumes,
        lead_time=first.lead_time,
        ready_at=_later(facts.now, first.lead_time),
        price=price,
        refusals=tuple(
            refusal
            for refusal in (
                running_operation(facts.lease),
                above_ceiling(fleet, settings, count),
                above_batch(count),
                source_unknown(fleet),
                no_donor(choice) if built else None,
                unequal_layout(built[-1].volumes) if built else None,
                over_budget(fleet, settings, members, parked, dearer),
            )
            if refusal is not None
        ),
        method=first.method,
        choice=first.choice,
        build=planned_build(settings),
        members=members,
        batch_price=_batch_price(members),
        types=capacity_order(
            settings,
            facts.promises,
            prices,
            price,
            len(fleet.peak) + count,
            parked,
            lambda kind: _dearer(fleet, kind, prices),
        ),
        replicas_after=len(fleet.under_ceiling) + count,
        peak_hourly_usd=usd(peak_hourly(fleet, members, parked, dearer), 4),
    )


def _members(ways: Sequence[Way], facts: PlanFacts) -> tuple[PlannedMember, ...]:
    """Each in the zone that then has the fewest replicas, those of the members before it counted too.

    Of zones that are alike the one with the fewest members: a zone that is lost takes as little of a batch as can be.
    """
    fleet, settings = facts.fleet, facts.settings
    counts, of_batch = Counter(fleet.by_zone), Counter[str]()
    members = []
    for number, way in enumerate(ways, 1):
        returned = _returned(fleet, way)
        rate, kind = way.rate_mib_per_s, settings.instance_type
        if returned is not None:
            rate, kind = None, returned.instance.instance_type
        volumes = _layout(returned or facts.donor.donor, settings, rate)
        zones = _fewest_first(counts, settings, of_batch)
        zone = returned.instance.zone if returned is not None else next(iter(zones), "")
        counts[zone] += 1
        of_batch[zone] += 1
        members.append(
            PlannedMember(
                number=number,
                method=way.method,
                zones=zones,
                volumes=volumes,
                lead_time=way.lead_time,
                ready_at=_later(facts.now, way.lead_time),
                price=_price(volumes, kind, facts.prices, facts.kept_gib),
                choice=way.choice,
            )
        )
    return tuple(members)


def _batch_price(members: Sequence[PlannedMember]) -> BatchPrice:
    prices = [one.price for one in members]
    return BatchPrice(
        hourly=_sum([one.hourly for one in prices], 4),
        once=_sum([one.once for one in prices], 4),
        per_month_if_kept=_sum([one.per_month_if_kept for one in prices], 2),
    )


def _sum(amounts: Sequence[float | None], digits: int) -> float | None:
    known = [one for one in amounts if one is not None]
    return round(sum(known), digits) if len(known) == len(amounts) else None


def _returned(fleet: FleetState, way: Way) -> Replica | None:
    return None if way.returns is None else fleet.replica(way.returns)


def _parked_hourly(fleet: FleetState, returned: Sequence[Replica], prices: PriceTable) -> Reading:
    """USD per hour of the parked replicas' volumes; those of one that returns are in its own price."""
    staying = [one for one in fleet.parked if one not in returned]
    return total(volumes_hourly(one.volumes, prices) for one in staying)


def _dearer(fleet: FleetState, than: str, prices: PriceTable) -> Reading:
    """USD per hour of the peak replicas that were launched with another type, above the price of `than`."""
    usual = prices.instance_hour(than)
    others = [one.instance.instance_type for one in fleet.peak if one.instance.instance_type != than]
    own = [prices.instance_hour(kind) for kind in others]
    if isinstance(usual, Unknown):
        return Known(0.0)  # the type is refused for that price already
    return total(one if isinstance(one, Unknown) else Known(max(0.0, one.value - usual.value)) for one in own)


def spread_zones(fleet: FleetState, settings: ClusterSettings) -> tuple[tuple[str, ...], str]:
    """The cluster's zones, the one with the fewest replicas first (then by name), and the count per zone."""
    counts = fleet.by_zone
    zones = _fewest_first(counts, settings, Counter())
    shown = ", ".join(f"{zone} {counts[zone]}" for zone in zones)
    return zones, f"fewest replicas first: {shown}"


def _fewest_first(counts: Counter[str], settings: ClusterSettings, of_batch: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(settings.subnets, key=lambda zone: (counts[zone], of_batch[zone], zone)))


def _layout(like: Replica | None, settings: ClusterSettings, rate: int | None) -> tuple[PlannedVolume, ...]:
    found = {} if like is None else data_volumes(like, settings.volumes)
    return planned_volumes(found, settings, rate)


def _price(
    volumes: tuple[PlannedVolume, ...],
    instance_type: str,
    prices: PriceTable,
    kept_gib: float,
) -> Price:
    instance = prices.instance_hour(instance_type)
    standing = total(
        prices.volume_hour(one.volume_type, one.size_gib, one.iops, one.throughput_mib_per_s)
        for one in volumes
    )
    once = total(prices.initialization(one.size_gib, one.initialization_rate_mib_per_s) for one in volumes)
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


def build_hourly(facts: PlanFacts) -> Reading:
    """USD per hour of a replica that is built from this donor, rounded as the plan shows it."""
    volumes = planned_volumes(facts.donor_volumes, facts.settings, None)
    price = _price(volumes, facts.settings.instance_type, facts.prices, 0.0)
    return Unknown("no price is known") if price.hourly is None else Known(price.hourly)


def _later(now: datetime, lead_time: LeadTimeEstimate | None) -> datetime | None:
    if lead_time is None:
        return None
    return datetime.fromtimestamp(require_utc(now).timestamp() + lead_time.seconds, require_utc(now).tzinfo)
