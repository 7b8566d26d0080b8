"""What a plan says of the room for the next event, and what becomes of a place in its record."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.planning.checks.verdict import Check
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.reserved_capacity.events import event_needs, next_need
from peaker.domain.reserved_capacity.outlook import room_ahead
from peaker.domain.reserved_capacity.places import (
    CapacityReservation,
    ReservedPlace,
    ReservedPlaces,
    held,
    seen,
)

from peaker_contract.tags import RESERVATION_TAG
from tests.support.builders import BASE, fleet_with, orders, replica
from tests.support.fakes import NOON

SALE = {
    "from": "2026-11-21T18:00:00Z",
    "until": "2026-11-21T22:00:00Z",
    "reason": "winter sale",
    "min_replicas": 3,
}
LEAD = Known(7200.0)
PLACE = ReservedPlace(
    name="orders-place-1", zone="us-east-1a", instance_type="r6i.large", platform="Linux/UNIX", event="winter sale",
    asked_at=NOON, ends_at=NOON + timedelta(hours=10), hourly_usd=0.126,
)  # fmt: skip


def said(
    places: ReservedPlaces | None = None, hour: int = 0, price: Reading = Known(0.126), **event: Any
) -> Check:
    """`hour` hours after noon; one base replica serves."""
    settings = orders(calendar=[{**SALE, **event}], capacity_reservations={"for_events": True})
    needs = event_needs(settings, Unknown("nothing was published"), LEAD)
    fleet = fleet_with(replica(BASE))
    return room_ahead(needs, places or ReservedPlaces(), fleet, price, NOON + timedelta(hours=hour))


def test_the_next_event_is_told_with_its_room_and_the_most_that_it_costs() -> None:
    check = said()
    assert check.verdict == "pass"
    assert check.detail == (
        "winter sale from 2026-11-21T18:00:00.000Z takes 3 replicas, 1 serve or come: room for 2 is kept from "
        "2026-11-21T15:00:00.000Z to 2026-11-21T22:00:00.000Z, at $0.126 an hour each while nothing runs in it, "
        "$1.76 at most; 0 reserved now"
    )
    assert check.numbers == {"wanted": 2, "reserved": 0, "hours": 7.0, "most_usd": 1.76}


def test_room_that_is_due_and_not_there_is_a_warning_with_its_runbook() -> None:
    check = said(hour=4)
    assert (check.verdict, check.remedy) == ("warn", "docs/runbooks/capacity-not-reserved.md")
    two = ReservedPlaces().with_place(PLACE).with_place(PLACE.model_copy(update={"name": "orders-place-2"}))
    assert said(two, hour=4).verdict == "pass"


def test_an_unknown_price_is_said() -> None:
    check = said(price=Unknown("no list has it"))
    assert "at an unknown price (no list has it)" in check.detail
    assert "most_usd" not in check.numbers


@pytest.mark.parametrize("event", [{"min_replicas": None, "factor": 2.0}, {"until": "2026-11-21T18:30:00Z"}])
def test_without_an_event_to_come_that_names_a_number_there_is_nothing_to_keep(event: dict[str, Any]) -> None:
    hour = 7 if "until" in event else 0
    assert said(hour=hour, **event).detail == "no event to come names a number of replicas"


def test_a_load_is_reckoned_with_the_settings_figure_until_one_is_published() -> None:
    """Of a capacity of 100 a tenth is left free."""
    event = {**SALE, "min_replicas": None, "load": 185.0}
    forecast = {"quantile": 0.95, "schedule_minutes": 15, "headroom": 0.1}
    settings = orders(calendar=[event], forecast=forecast)
    for capacity, replicas in ((Unknown("none"), 3), (Known(100.0), 2)):
        [need] = event_needs(settings, capacity, LEAD)
        assert need.replicas == replicas


def test_of_events_that_overlap_the_one_that_takes_most_counts() -> None:
    small = {**SALE, "min_replicas": 2, "until": "2026-11-22T02:00:00Z", "reason": "the week"}
    needs = event_needs(orders(calendar=[small, SALE]), Unknown("none"), LEAD)
    found = next_need(needs, NOON + timedelta(hours=8))
    later = next_need(needs, NOON + timedelta(hours=10))
    assert [one and one.reason for one in (found, later)] == ["winter sale", "the week"]


def test_what_was_given_back_long_ago_is_forgotten_and_its_number_is_not_given_again() -> None:
    old = PLACE.model_copy(update={"given_back_at": NOON})
    places = ReservedPlaces().with_place(old).kept_at(NOON + timedelta(days=93))
    assert (places.places, places.asked) == ((), 1)
    many = ReservedPlaces()
    for number in range(700):
        many = many.with_place(old.model_copy(update={"name": f"orders-place-{number}"}))
    assert many.kept_at(NOON).places[0].name == "orders-place-100"


def listed(state: str, available: int = 1) -> CapacityReservation:
    return CapacityReservation(
        "cr-1", state, "us-east-1a", "r6i.large", 1, available, {RESERVATION_TAG: PLACE.name}
    )


def test_what_ec2_ended_by_itself_is_gone_with_its_end() -> None:
    known = ReservedPlaces().with_place(PLACE.model_copy(update={"reservation_id": "cr-1"}))
    [ended] = seen(known, [listed("expired")], NOON + timedelta(hours=12)).places
    assert ended.given_back_at == PLACE.ends_at


def test_what_ec2_does_not_list_is_given_ten_minutes_to_show() -> None:
    known = ReservedPlaces().with_place(PLACE.model_copy(update={"reservation_id": "cr-1"}))
    assert held(seen(known, [], NOON + timedelta(minutes=9)), [])[0].is_free
    assert seen(known, [], NOON + timedelta(minutes=10)).open_ones == ()
    asked = ReservedPlaces().with_place(PLACE)
    assert seen(asked, [], NOON + timedelta(minutes=9)).open_ones == (PLACE,)
    assert seen(asked, [], NOON + timedelta(minutes=10)).places == ()


def test_time_counts_as_unused_while_nothing_runs_in_it() -> None:
    known = ReservedPlaces().with_place(PLACE)
    for minutes, available in ((15, 1), (30, 1), (45, 0), (60, 1)):
        known = seen(known, [listed("active", available)], NOON + timedelta(minutes=minutes))
    assert known.places[0].unused_seconds == 2700.0
    assert known.places[0].unused_usd == pytest.approx(0.126 * 0.75)
