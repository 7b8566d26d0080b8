"""The quarter-hourly look at reserved room: before a known event it is there, after it it is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import TargetState
from peaker.usecases.create.tend_capacity_reservations import tend_capacity_reservations
from peaker.usecases.plan.refresh_prices import refresh_prices

from peaker_contract.errors import AwsCallRejected, AwsUnavailable
from peaker_contract.metrics import Metric
from peaker_contract.tags import CLUSTER_TAG, LOAD_TAG, OWNER_TAG, RESERVATION_TAG, RUN_TAG
from tests.support.builders import BASE, PEAK, instance, leased, orders, with_cluster
from tests.support.fakes import NOON, FakePorts, fake_ports

SALE = {
    "from": "2026-11-21T18:00:00Z",
    "until": "2026-11-21T22:00:00Z",
    "reason": "winter sale",
    "min_replicas": 3,
}
RESERVES = {"capacity_reservations": {"for_events": True, "minutes_before": 60}}
BUDGET = {"max_hourly_cost_usd": 0.2, "minimum_lifetime_minutes": 60, "prewarm_deadline_minutes": 2880}
ZONE_A, ZONE_B, FIRST, SECOND = "us-east-1a", "us-east-1b", "r6i.large", "r7i.large"
# The lead time's p90 is two hours: a run begins at four, and room is kept from three on.
BEFORE, DUE = NOON.replace(hour=14, minute=55), NOON.replace(hour=15)
DURING, OVER = NOON.replace(hour=20), NOON.replace(hour=22)


def world(at: datetime = DUE, **settings: Any) -> FakePorts:
    """A cluster with one base replica in zone b, and a sale that takes three replicas."""
    ports = with_cluster(fake_ports(orders(**{"calendar": [SALE], **RESERVES, **settings})))
    ports.clock.time = at
    ports.readings.metrics |= {Metric.OBSERVING: 0.0, Metric.LEAD_TIME_SECONDS: 7200.0}
    return ports


def looked(ports: FakePorts) -> str:
    return tend_capacity_reservations(ports).clusters["orders"]


def missing(ports: FakePorts) -> float | None:
    return tend_capacity_reservations(ports).figures.get("orders", {}).get(Metric.CAPACITY_NOT_RESERVED)


def serves(ports: FakePorts, *peak: str) -> None:
    for one in peak:
        ports.compute.add(instance(one, tags={LOAD_TAG: "peak", OWNER_TAG: "local", RUN_TAG: "r"}))
        ports.endpoint.set(one, TargetState.HEALTHY)


def change(ports: FakePorts, **settings: Any) -> None:
    ports.clusters.by_name["orders"] = orders(**{"calendar": [SALE], **RESERVES, **settings})  # type: ignore[attr-defined]


def test_before_the_event_two_replicas_have_room_in_two_zones() -> None:
    ports = world(BEFORE)
    assert looked(ports) == "no event of the calendar wants room now"
    assert ports.capacity_reservations.open_ones == []
    ports.clock.time = DUE
    said = looked(ports)
    assert ports.capacity_reservations.pools == [(ZONE_A, FIRST), (ZONE_B, FIRST)]
    assert (
        "winter sale until 2026-11-21T22:00:00.000Z takes 3 replicas, 1 serve or come: 2 places wanted"
        in said
    )
    for spec in ports.capacity_reservations.specs.values():
        assert (spec.ends_at, spec.platform) == (OVER, "Linux/UNIX")
        assert (spec.tags[OWNER_TAG], spec.tags[CLUSTER_TAG], spec.tags[LOAD_TAG]) == (
            "local",
            "orders",
            "peak",
        )


def test_the_same_look_again_reserves_nothing() -> None:
    ports = world()
    for _ in range(4):
        looked(ports)
        ports.clock.advance(minutes=15)
    assert len(ports.capacity_reservations.asked) == 2


def test_where_the_first_type_is_refused_the_next_one_is_reserved() -> None:
    ports = world(fallback_instance_types=[SECOND])
    ports.capacity_reservations.full = {(ZONE_A, FIRST), (ZONE_B, FIRST)}
    with_promises(ports, FIRST, SECOND)
    said = looked(ports)
    assert ports.capacity_reservations.pools == [(ZONE_A, SECOND), (ZONE_B, SECOND)]
    assert "r6i.large in us-east-1a: InsufficientInstanceCapacity" in said
    # What has refused is not asked again in the same look.
    assert ports.capacity_reservations.asked.count((ZONE_A, FIRST)) == 1


def with_promises(ports: FakePorts, *kinds: str) -> None:
    usual = ports.compute.ebs_promise(FIRST)
    alike = replace(usual, memory_mib=16_384.0, architectures=("x86_64",))
    ports.compute.promises |= dict.fromkeys(kinds, alike)


def test_room_that_nobody_has_is_told_as_a_figure_that_pages() -> None:
    ports = world()
    ports.capacity_reservations.full = {(ZONE_A, FIRST), (ZONE_B, FIRST)}
    assert missing(ports) == 2.0
    ports.capacity_reservations.full = {(ZONE_A, FIRST)}
    assert missing(ports) == 0.0
    assert ports.capacity_reservations.pools == [(ZONE_B, FIRST)] * 2


def test_a_cluster_that_reserves_nothing_has_no_figure() -> None:
    ports = world(capacity_reservations={"for_events": False})
    assert missing(ports) is None
    assert ports.capacity_reservations.asked == []


def test_an_event_that_is_taken_out_of_the_calendar_gives_its_room_back() -> None:
    ports = world()
    looked(ports)
    change(ports, calendar=[])
    ports.clock.advance(minutes=15)
    assert "was given back" in looked(ports)
    assert ports.capacity_reservations.open_ones == []


def test_after_the_event_its_room_is_given_back_also_while_a_run_is_at_work() -> None:
    ports = world()
    looked(ports)
    leased(ports, "DrainReplica", "scale_in")
    ports.clock.time = OVER.replace(minute=0)
    ports.capacity_reservations.specs.clear()  # EC2 may take an hour to end it by itself
    assert "no event of the calendar wants room now" in looked(ports)
    assert ports.capacity_reservations.open_ones == []


def test_a_cluster_that_is_not_deployed_any_more_keeps_no_room() -> None:
    ports = world()
    looked(ports)
    ports.clusters.by_name.clear()  # type: ignore[attr-defined]
    assert "the cluster is not in the settings any more" in looked(ports)
    assert ports.capacity_reservations.open_ones == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"capacity_reservations": {"for_events": False}}, "capacity_reservations.for_events is false"),
        ({"mode": "observe"}, "mode is observe: nothing is reserved"),
    ],
)
def test_settings_that_want_none_any_more_give_it_back(settings: dict[str, Any], why: str) -> None:
    ports = world()
    looked(ports)
    change(ports, **settings)
    ports.clock.advance(minutes=15)
    assert why in looked(ports)
    assert ports.capacity_reservations.open_ones == []


def test_a_look_that_ended_between_the_call_and_its_record_has_reserved_once() -> None:
    """Found by its tag, a quarter of an hour later."""
    ports = world()
    ports.capacity_reservations.lost = 1
    with pytest.raises(TimeoutError):
        looked(ports)
    [left] = ports.place_records.places("orders").places
    assert left.reservation_id is None
    ports.clock.advance(minutes=15)
    looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 2
    assert {one.reservation_id for one in ports.place_records.places("orders").places} == set(
        ports.capacity_reservations.made
    )


def test_a_look_that_is_repeated_before_ec2_lists_it_asks_with_the_same_token() -> None:
    ports = world()
    ports.capacity_reservations.lost, ports.capacity_reservations.shows = 1, False
    with pytest.raises(TimeoutError):
        looked(ports)
    ports.clock.advance(minutes=1)
    looked(ports)
    assert len(ports.capacity_reservations.made) == 2


def test_of_two_looks_at_the_same_time_the_second_reserves_nothing() -> None:
    ports = world()
    ports.place_records.before_a_write = lambda: looked(ports) and None
    assert "another look was first" in looked(ports)
    assert len(ports.capacity_reservations.made) == 2


def test_no_more_is_reserved_than_max_replicas_leaves() -> None:
    ports = world(max_replicas=2, calendar=[{**SALE, "min_replicas": 2}])
    looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 1


def test_no_more_is_reserved_than_the_budget_pays_for() -> None:
    ports = world(limits=BUDGET)
    said = looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 1
    assert "above the budget, max_hourly_cost_usd 0.2 (I12)" in said


def test_what_the_budget_cannot_be_held_against_is_not_reserved() -> None:
    ports = world(limits=BUDGET)
    refresh_prices(ports)  # a list that does not have the type
    assert "so the budget, max_hourly_cost_usd 0.2, cannot be checked (I4)" in looked(ports)
    assert ports.capacity_reservations.asked == []


def test_a_load_is_reckoned_with_what_a_replica_serves() -> None:
    event = {**SALE, "min_replicas": None, "load": 250.0}
    ports = world(calendar=[event])
    ports.readings.metrics[Metric.CAPACITY_PER_REPLICA] = 125.0
    looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 1


def test_an_event_that_multiplies_the_forecast_reserves_nothing() -> None:
    ports = world(calendar=[{**SALE, "min_replicas": None, "factor": 2.0}])
    assert looked(ports) == "no event of the calendar wants room now"


def test_where_the_lead_time_is_unknown_room_is_kept_from_when_it_certainly_would_be() -> None:
    ports = world(NOON.replace(hour=16, minute=59))
    del ports.readings.metrics[Metric.LEAD_TIME_SECONDS]
    looked(ports)
    assert ports.capacity_reservations.open_ones == []
    ports.clock.time = NOON.replace(hour=17)
    looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 2


def test_an_unknown_fleet_changes_nothing() -> None:
    ports = world()
    looked(ports)
    ports.endpoint.set(BASE, TargetState.UNAVAILABLE)
    ports.clock.advance(minutes=15)
    assert "unknown means hold (I4)" in looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 2


def test_an_image_that_ec2_reserves_no_room_for_is_said_and_counted() -> None:
    ports = world(instance_hourly_usd=0.2)
    ports.capacity_reservations.image_is = Unknown("ami-1 is billed as Windows")
    assert "nothing can be reserved: ami-1 is billed as Windows" in looked(ports)
    assert missing(ports) == 2.0


def test_what_ec2_rejects_is_no_room_and_no_open_question() -> None:
    ports = world()
    ports.capacity_reservations.refused = AwsCallRejected("UnauthorizedOperation")
    assert missing(ports) == 2.0
    assert ports.place_records.places("orders").places == ()


def test_what_ec2_does_not_answer_is_asked_again_and_refuses_no_other_cluster() -> None:
    ports = world()
    ports.capacity_reservations.refused = AwsUnavailable("no answer")
    assert "AwsUnavailable: no answer" in looked(ports)
    ports.capacity_reservations.refused = None
    ports.clock.advance(minutes=15)
    looked(ports)
    assert len(ports.capacity_reservations.made) == 2


def test_a_reservation_without_a_record_is_left_alone() -> None:
    """Somebody copied the tags onto one of theirs (I1)."""
    ports = world()
    looked(ports)
    one = next(iter(ports.capacity_reservations.made.values()))
    theirs = replace(one, reservation_id="cr-theirs", tags={**one.tags, RESERVATION_TAG: "of mine"})
    ports.capacity_reservations.made["cr-theirs"] = theirs
    ports.clock.time = OVER
    ports.capacity_reservations.specs.clear()
    assert "cr-theirs: tagged as ours, and no record of it is there: left alone (I1)" in looked(ports)
    assert [one.reservation_id for one in ports.capacity_reservations.open_ones] == ["cr-theirs"]


def test_a_base_replica_that_is_added_needs_a_place_less() -> None:
    ports = world()
    looked(ports)
    ports.compute.add(instance("i-000000000000b0002"))
    ports.endpoint.set("i-000000000000b0002", TargetState.HEALTHY)
    ports.clock.advance(minutes=15)
    looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 1


def test_while_a_run_is_at_work_none_is_given_back_for_being_too_many() -> None:
    """EC2 tells late who runs in one: the one that looks free may be the one that a launch is on its way to."""
    ports = world()
    looked(ports)
    ports.compute.add(instance("i-000000000000b0002"))
    ports.endpoint.set("i-000000000000b0002", TargetState.HEALTHY)
    leased(ports, "LaunchReplica")
    ports.clock.advance(minutes=15)
    assert "a run is at work, none is given back before its end" in looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 2


def test_what_was_paid_for_unused_room_is_counted() -> None:
    ports = world()
    looked(ports)
    ports.clock.advance(minutes=30)
    looked(ports)
    first, second = ports.place_records.places("orders").places
    assert (first.unused_seconds, second.unused_seconds) == (1800.0, 1800.0)
    ports.capacity_reservations.enter(str(first.reservation_id), PEAK)
    serves(ports, PEAK)
    ports.clock.advance(minutes=15)
    looked(ports)
    first, second = ports.place_records.places("orders").places
    assert (first.unused_seconds, second.unused_seconds) == (1800.0, 2700.0)
    assert first.unused_usd == pytest.approx(0.126 / 2)


def test_a_reservation_that_somebody_cancelled_is_made_again() -> None:
    ports = world()
    looked(ports)
    ports.capacity_reservations.cancel(next(iter(ports.capacity_reservations.made)))
    ports.clock.advance(minutes=15)
    looked(ports)
    assert len(ports.capacity_reservations.open_ones) == 2
    assert len(ports.capacity_reservations.made) == 3


def test_a_lost_peak_replica_has_room_to_come_back_to() -> None:
    """Its reservation is free again: it stays, and nothing is made for it."""
    ports = world(DURING)
    looked(ports)
    for one in list(ports.capacity_reservations.made):
        ports.capacity_reservations.enter(one, f"i-of-{one}")
    serves(ports, "i-000000000000c0001", "i-000000000000c0003")
    assert "0 places wanted, 0 are free" in looked(ports)
    ports.compute.terminate("i-000000000000c0001")
    ports.capacity_reservations.leave(f"i-of-{next(iter(ports.capacity_reservations.made))}")
    ports.clock.advance(minutes=15)
    assert "1 places wanted, 1 are free" in looked(ports)
    assert len(ports.capacity_reservations.made) == 2
