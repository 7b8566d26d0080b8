"""How much room is kept now, and which places are given back; why, with the numbers. Pure.

Nothing is reserved without an event, and nothing after it. No more is reserved than a run would be allowed to use: the
plan of a scale-out says so, with max_replicas and the budget (I12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from peaker.domain.instants import to_iso
from peaker.domain.planning.capacity_order import Promises
from peaker.domain.planning.parking import returnable
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.planning.prices import PriceTable
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.reserved_capacity.events import EventNeed
from peaker.domain.reserved_capacity.places import HeldPlace, Pool
from peaker_contract.cluster import ClusterSettings

_CEILINGS = frozenset({"ceiling", "budget", "price_unknown"})


@dataclass(frozen=True)
class RoomDecision:
    """So many places more are asked for, for `event`; and these are given back."""

    make: int
    give_back: tuple[HeldPlace, ...]
    reason: str
    event: EventNeed | None = None
    numbers: dict[str, float] = field(default_factory=dict)


def why_no_room(settings: ClusterSettings, need: EventNeed | None, observing: Reading) -> str | None:
    """Why nothing is kept, whatever the fleet is; None where an event wants room now.

    `observing` is forecast_load's word, 0 when it is over.
    """
    if settings.mode == "observe":
        return "mode is observe: nothing is reserved"
    if isinstance(observing, Known) and observing.value > 0:
        return "the cluster is observed: nothing is reserved"
    if need is None:
        return "no event of the calendar wants room now"
    return None


def give_all_back(there: Sequence[HeldPlace], why: str) -> RoomDecision:
    """The end of every place, used or not: what runs in one goes on running, as any other instance."""
    return RoomDecision(0, tuple(there), why, numbers={"held": float(len(there))})


def decide_room(
    need: EventNeed,
    observing: Reading,
    fleet: FleetState,
    allowed: Allowance,
    there: Sequence[HeldPlace],
    at_work: bool,
) -> RoomDecision:
    """Free places for the replicas that the event takes beyond those that serve or come.

    While a run is `at_work` none is given back for being too many: EC2 says
    late who runs in one, and a launch of that run may be on its way. Unknown means hold (I4).
    """
    hold = _why_hold(observing, fleet)
    free = [one for one in there if one.is_free]
    numbers = {
        "replicas": float(need.replicas),
        "covered": float(covered(fleet)),
        "wanted": float(allowed.places),
        "free": float(len(free)),
        "used": float(len(there) - len(free)),
    }
    if hold is not None:
        return RoomDecision(0, (), hold, need, numbers)
    short = allowed.places - len(free)
    text = (
        f"{need.reason} until {to_iso(need.ends_at)} takes {need.replicas} replicas, {covered(fleet)} serve or come: "
        f"{allowed.places} places wanted{allowed.text}, {len(free)} are free"
    )
    if short >= 0:
        return RoomDecision(short, (), text, need, numbers)
    if at_work:
        return RoomDecision(
            0, (), f"{text}; a run is at work, none is given back before its end", need, numbers
        )
    newest_first = sorted(free, key=lambda one: (one.place.asked_at, one.place.name), reverse=True)
    return RoomDecision(0, tuple(newest_first[: min(-short, len(free))]), text, need, numbers)


@dataclass(frozen=True)
class Allowance:
    """Places that a run would be allowed to use, the plan of that run, and which rule allows no more."""

    places: int
    plan: ScaleOutPlan
    text: str = ""


def allowance(
    need: EventNeed,
    fleet: FleetState,
    settings: ClusterSettings,
    prices: PriceTable,
    promises: Promises,
    now: datetime,
    kept_gib: float = 0.0,
) -> Allowance:
    """As many of the missing replicas as a plan of them passes no ceiling; `kept_gib` as in the plan."""
    wanted = max(0, need.replicas - covered(fleet))
    why = ""
    for count in range(wanted, 0, -1):
        plan = plan_scale_out(fleet, settings, prices, now, count=count, kept_gib=kept_gib, promises=promises)
        above = [one.reason for one in plan.refusals if one.code in _CEILINGS]
        if not above:
            return Allowance(count, plan, why)
        why = why or f" ({wanted} are missing; {'; '.join(above)})"
    plan = plan_scale_out(fleet, settings, prices, now, promises=promises)
    return Allowance(0, plan, why)


def pools_in_order(
    plan: ScaleOutPlan, fleet: FleetState, free: Sequence[Pool], environment: str, now: datetime
) -> list[Pool]:
    """Where the next place is asked for: first where a parked replica stands that has none and would come back.

    Then as a run launches: all zones for the first type, the one with the fewest replicas and places first (of equal
    ones that with the fewest places), then the next type.
    """
    left = Counter(free)
    parked: list[Pool] = []
    for one in returnable(fleet, environment, now):
        pool = Pool(one.instance.zone, one.instance.instance_type)
        if left[pool] > 0:
            left[pool] -= 1
        else:
            parked.append(pool)
    places = Counter(one.zone for one in free)
    counts = fleet.by_zone + places
    zones = sorted(plan.zones, key=lambda zone: (counts[zone], places[zone], zone))
    return list(dict.fromkeys([*parked, *(Pool(zone, kind) for kind in plan.launch_order for zone in zones)]))


def covered(fleet: FleetState) -> int:
    """Replicas that serve and stay, and those that a run is at work on."""
    return len(fleet.staying) + len(fleet.coming)


def _why_hold(observing: Reading, fleet: FleetState) -> str | None:
    if isinstance(observing, Unknown):
        return f"whether it is observed is unknown ({observing.why}); unknown means hold (I4)"
    unknown = [
        one.instance_id for one in fleet.replicas if not one.is_parked and isinstance(one.health, Unknown)
    ]
    if unknown:
        return f"whether {', '.join(unknown)} serves is unknown; unknown means hold (I4)"
    return None
