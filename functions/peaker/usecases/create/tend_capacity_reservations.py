"""TendCapacityReservations: room for the replicas that a known event takes, reserved before it and given back after it.

Scheduled, without an execution and without a lease: a run may be at work for hours, and room that nobody needs costs
money meanwhile. What is asked for is written down first, under the version that was read: of two looks at the same time
the second reserves nothing, and what a look that ended early asked for is found by its tag, or asked for again with the
same token (I10). Each place ends by itself with the event, whatever becomes of Peaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from peaker.domain.instants import to_iso
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.planning.prices import PriceTable, usd
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.reserved_capacity.decision import (
    RoomDecision,
    allowance,
    decide_room,
    give_all_back,
    pools_in_order,
    why_no_room,
)
from peaker.domain.reserved_capacity.events import EventNeed, event_needs, need_at
from peaker.domain.reserved_capacity.places import (
    CapacityReservation,
    HeldPlace,
    Pool,
    ReservationSpec,
    ReservedPlace,
    ReservedPlaces,
    held,
    seen,
    unanswered,
    unrecorded,
)
from peaker.domain.runs.run import Summary, client_token
from peaker.ports import Ports
from peaker.usecases.plan.cluster_prices import cluster_prices
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.plan.method_situation import instance_promise
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected, CapacityUnavailable, PeakerError
from peaker_contract.metrics import Metric
from peaker_contract.tags import (
    CLUSTER_TAG,
    ENVIRONMENT_TAG,
    LOAD_TAG,
    OWNER_TAG,
    RESERVATION_TAG,
    ROLE_TAG,
)

_NOT_DEPLOYED = "the cluster is not in the settings any more"


class ReservationsTended(Summary):
    """`clusters` says what was found of each, also of those that are not in the settings any more.

    `figures` are the metrics of the clusters that reserve room: the places that no zone and no type gave.
    """

    clusters: dict[str, str]
    figures: dict[str, dict[Metric, float]]


class _OvertakenError(Exception):
    """Another look wrote first."""


@dataclass
class _Look:
    """One look at one cluster: its record as it was read or written last, and what EC2 lists of it."""

    ports: Ports
    cluster: str
    listed: Sequence[CapacityReservation]
    places: ReservedPlaces = field(default_factory=ReservedPlaces)
    said: list[str] = field(default_factory=list)

    def keep(self, changed: ReservedPlaces) -> None:
        """Raises _OvertakenError where another look wrote first."""
        if changed == self.places:
            return
        if not self.ports.place_records.keep_places(self.cluster, changed):
            raise _OvertakenError
        self.places = changed.model_copy(update={"version": changed.version + 1})

    @property
    def held(self) -> list[HeldPlace]:
        return held(self.places, self.listed)

    @property
    def free(self) -> list[Pool]:
        """Where there is room, as far as EC2 says."""
        used = {one.place.name for one in self.held if not one.is_free}
        return [one.pool for one in self.places.open_ones if one.name not in used]


def tend_capacity_reservations(ports: Ports) -> ReservationsTended:
    """One look at all clusters of the environment; what one of them refuses keeps no other from its look."""
    names = ports.clusters.names()
    ours = ports.capacity_reservations.of_environment()
    removed = {one.tags.get(CLUSTER_TAG, "") for one in ours if one.is_open} - {"", *names}
    found: dict[str, str] = {}
    figures: dict[str, dict[Metric, float]] = {}
    for name in (*names, *sorted(removed)):
        look = _Look(ports, name, [one for one in ours if one.tags.get(CLUSTER_TAG) == name])
        try:
            missing = _look_at(look, deployed=name not in removed)
            if missing is not None:
                figures[name] = {Metric.CAPACITY_NOT_RESERVED: float(missing)}
        except _OvertakenError:
            look.said.append("another look was first")
        except PeakerError as error:
            look.said.append(f"{type(error).__name__}: {error}")
        found[name] = "; ".join(look.said)
    text = "; ".join(f"{name}: {what}" for name, what in found.items()) or "there is no cluster"
    return ReservationsTended(text=text, clusters=found, figures=figures)


def _look_at(look: _Look, *, deployed: bool) -> int | None:
    """Places that were wanted and that nobody gave; None for a cluster that reserves nothing."""
    ports = look.ports
    look.places = ports.place_records.places(look.cluster)
    look.keep(seen(look.places, look.listed, ports.clock.now()))
    if not deployed:
        _give_back(look, give_all_back(look.held, _NOT_DEPLOYED))
        return None
    settings = ports.clusters.settings(look.cluster)
    if not settings.capacity_reservations.for_events:
        _give_back(look, give_all_back(look.held, "capacity_reservations.for_events is false"))
        return None
    return _tend(look, settings)


def _tend(look: _Look, settings: ClusterSettings) -> int:
    ports, now = look.ports, look.ports.clock.now()
    observing = ports.readings.published(settings, Metric.OBSERVING, now)
    needs = event_needs(
        settings,
        ports.readings.published(settings, Metric.CAPACITY_PER_REPLICA, now),
        ports.readings.published(settings, Metric.LEAD_TIME_SECONDS, now),
    )
    need = need_at(needs, now)
    why = why_no_room(settings, need, observing)
    if need is None or why is not None:
        _give_back(look, give_all_back(look.held, str(why)))
        return 0
    fleet = gather_fleet(ports, settings, with_volumes=True)
    promises = {kind: instance_promise(ports, kind) for kind in settings.instance_types}
    prices = cluster_prices(ports, settings)
    allowed = allowance(need, fleet, settings, prices, promises, now)
    _ask_again(look)
    at_work = ports.lease.current(settings.name, now) is not None
    decision = decide_room(need, observing, fleet, allowed, look.held, at_work)
    _give_back(look, decision)
    return _make(look, decision, allowed.plan, fleet, prices)


def _give_back(look: _Look, decision: RoomDecision) -> None:
    """Only what the record and the tags both say is ours (I1)."""
    now = look.ports.clock.now()
    look.said.append(decision.reason)
    if left := unrecorded(look.places, look.listed):
        names = ", ".join(one.reservation_id for one in left)
        look.said.append(f"{names}: tagged as ours, and no record of it is there: left alone (I1)")
    for one in decision.give_back:
        reservation_id = str(one.place.reservation_id)
        if one.reservation is None:
            look.said.append(f"{reservation_id} is not listed by its tag yet")
            continue
        look.ports.capacity_reservations.cancel(reservation_id)
        look.keep(look.places.with_place(one.place.model_copy(update={"given_back_at": now})))
        look.said.append(f"{reservation_id} ({_pool(one.place.pool)}) was given back")


def _ask_again(look: _Look) -> None:
    """Whatever a look that ended early asked for: the same token gives the same reservation."""
    for one in unanswered(look.places):
        _reserved(look, one)


def _make(
    look: _Look,
    decision: RoomDecision,
    plan: ScaleOutPlan,
    fleet: FleetState,
    prices: PriceTable,
) -> int:
    """Ask for one place after the other; the number of those that no pool has room for."""
    if decision.make == 0 or decision.event is None:
        return 0
    platform = look.ports.capacity_reservations.platform(plan.image_id)
    if isinstance(platform, Unknown):
        look.said.append(f"nothing can be reserved: {platform.why}")
        return decision.make
    full: set[Pool] = set()
    for number in range(decision.make):
        now = look.ports.clock.now()
        pools = pools_in_order(plan, fleet, look.free, look.ports.environment, now)
        if not _first_that_has_room(look, decision.event, platform, pools, full, prices):
            return decision.make - number
    return 0


def _first_that_has_room(
    look: _Look,
    event: EventNeed,
    platform: str,
    pools: Sequence[Pool],
    full: set[Pool],
    prices: PriceTable,
) -> bool:
    for pool in pools:
        if pool in full:
            continue
        place = ReservedPlace(
            name=f"{look.cluster}-place-{look.places.asked + 1}",
            zone=pool.zone,
            instance_type=pool.instance_type,
            platform=platform,
            event=event.reason,
            asked_at=look.ports.clock.now(),
            ends_at=event.ends_at,
            hourly_usd=usd(prices.instance_hour(pool.instance_type), 6),
        )
        look.keep(look.places.with_place(place))
        if _reserved(look, place):
            return True
        full.add(pool)
    return False


def _reserved(look: _Look, place: ReservedPlace) -> bool:
    """Ask EC2 for it. What was refused never was, and its number is not given again."""
    ports = look.ports
    spec = ReservationSpec(
        zone=place.zone,
        instance_type=place.instance_type,
        platform=place.platform,
        ends_at=place.ends_at,
        tags=_tags(ports, look.cluster, place),
    )
    token = client_token(f"{ports.environment}/{look.cluster}", place.name, to_iso(place.asked_at))
    try:
        reservation_id = ports.capacity_reservations.reserve(spec, token)
    except (CapacityUnavailable, AwsCallRejected) as refusal:
        look.keep(look.places.without(place.name))
        look.said.append(f"{_pool(place.pool)}: {refusal}")
        return False
    look.keep(look.places.with_place(place.model_copy(update={"reservation_id": reservation_id})))
    look.said.append(f"{reservation_id} ({_pool(place.pool)}) is reserved until {to_iso(place.ends_at)}")
    return True


def _tags(ports: Ports, cluster: str, place: ReservedPlace) -> dict[str, str]:
    return {
        OWNER_TAG: ports.environment,
        ENVIRONMENT_TAG: ports.environment,
        CLUSTER_TAG: cluster,
        ROLE_TAG: "replica",
        LOAD_TAG: "peak",
        RESERVATION_TAG: place.name,
    }


def _pool(pool: Pool) -> str:
    return f"{pool.instance_type} in {pool.zone}"
