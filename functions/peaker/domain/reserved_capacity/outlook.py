"""What a plan says of the room that is kept for the next event, with its price. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from peaker.domain.instants import seconds_between, to_iso
from peaker.domain.planning.checks.verdict import Check
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.reserved_capacity.decision import covered
from peaker.domain.reserved_capacity.events import EventNeed, next_need
from peaker.domain.reserved_capacity.places import ReservedPlaces

ROOM_FOR_EVENTS = "room for events"


def room_ahead(
    needs: Sequence[EventNeed],
    places: ReservedPlaces,
    fleet: FleetState,
    instance_hour: Reading,
    now: datetime,
) -> Check:
    """The event that room is kept for now, or the next one. `instance_hour`: USD for an hour of the usual type.

    Room costs what an instance costs, while none runs in it: at most that from its first to its last moment.
    """
    need = next_need(needs, now)
    if need is None:
        return Check(
            name=ROOM_FOR_EVENTS, verdict="pass", detail="no event to come names a number of replicas"
        )
    wanted, held = max(0, need.replicas - covered(fleet)), len(places.open_ones)
    hours = max(0.0, seconds_between(max(now, need.reserved_from), need.ends_at)) / 3600
    detail = (
        f"{need.reason} from {to_iso(need.starts_at)} takes {need.replicas} replicas, {covered(fleet)} serve or come: "
        f"room for {wanted} is kept from {to_iso(need.reserved_from)} to {to_iso(need.ends_at)}, "
        f"{_price(instance_hour)}"
    )
    numbers: dict[str, float | int | None] = {"wanted": wanted, "reserved": held, "hours": round(hours, 2)}
    if not isinstance(instance_hour, Unknown):
        numbers["most_usd"] = round(instance_hour.value * hours * wanted, 2)
        detail += f", ${numbers['most_usd']:,.2f} at most"
    detail += f"; {held} reserved now"
    if held < wanted and need.reserved_from <= now:
        remedy = "docs/runbooks/capacity-not-reserved.md"
        return Check(name=ROOM_FOR_EVENTS, verdict="warn", detail=detail, remedy=remedy, numbers=numbers)
    return Check(name=ROOM_FOR_EVENTS, verdict="pass", detail=detail, numbers=numbers)


def _price(instance_hour: Reading) -> str:
    if isinstance(instance_hour, Unknown):
        return f"at an unknown price ({instance_hour.why})"
    return f"at ${instance_hour.value:g} an hour each while nothing runs in it"
