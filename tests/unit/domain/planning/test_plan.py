"""What a scale-out would do, and every reason against it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.document.plan import LeadTimeEstimate, ScaleOutPlan, Way
from peaker.domain.planning.plan_decision import plan_scale_out, spread_zones
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import FleetState, ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.runs.ledger import LeaseRow

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import fleet_with, orders, plan_facts, replica

BASE, PEAK = "i-00000000000000b01", "i-00000000000000c01"
LEASE = LeaseRow("orders", "scale-in-orders-7", "scale_in", 3, NOON + timedelta(hours=1))
BUILDING = replica(
    PEAK, peak_of="r", row_state=ReplicaState.BUILDING, health=TargetHealth(TargetState.ABSENT)
)


def plan(fleet: FleetState, count: int = 1, lease: LeaseRow | None = None, **settings: Any) -> ScaleOutPlan:
    lead = LeadTimeEstimate(seconds=1800, parts={"hydration": 1200})
    return plan_scale_out(plan_facts(fleet, orders(**settings), lease=lease), [Way(lead_time=lead)] * count)


def test_the_plan_names_donor_zone_layout_price_and_time() -> None:
    found = plan(fleet_with(replica(BASE)))
    assert found.refusals == ()
    assert (found.donor, found.zones) == (BASE, ("us-east-1a", "us-east-1b"))
    assert [(volume.name, volume.size_gib, volume.device) for volume in found.volumes] == [
        ("data", 4, "/dev/sdf"),
        ("log", 4, "/dev/sdg"),
    ]
    # r6i.large 0.126 and 8 GiB of gp3 at 0.08 per month.
    assert found.price.hourly == pytest.approx(0.126 + 8 * 0.08 / 730, abs=1e-4)
    assert found.ready_at == NOON + timedelta(minutes=30)


ONE = fleet_with(replica(BASE))
SICK = fleet_with(replica(BASE, health=TargetHealth(TargetState.UNHEALTHY)))
A_DIME = {"max_hourly_cost_usd": 0.1, "minimum_lifetime_minutes": 0, "prewarm_deadline_minutes": 15}
REFUSED: dict[str, tuple[FleetState, dict[str, Any], str, str]] = {
    "ceiling": (ONE, {"count": 3}, "ceiling", "1 serving + 0 building + 3 wanted exceeds"),
    "ceiling-counts-what-is-being-built": (
        fleet_with(replica(BASE), BUILDING),
        {"max_replicas": 2},
        "ceiling",
        "1 serving + 1 building + 1 wanted exceeds max_replicas 2",
    ),
    "more-than-are-built-side-by-side": (
        ONE,
        {"count": 41, "max_replicas": 60},
        "batch",
        "41 wanted, and one run brings 40 at most side by side: ask for 40",
    ),
    "no-replica": (fleet_with(), {}, "no_donor", "has no replica"),
    "only-a-sick-replica": (SICK, {}, "no_donor", "unhealthy"),
    "source-unknown": (replace(ONE, source=Unknown("none found")), {}, "source_unknown", "none found"),
    "budget": (ONE, {"limits": A_DIME}, "budget", "0 peak replicas + 1 wanted"),
    "price-unknown": (ONE, {"instance_type": "x9.huge"}, "price_unknown", "x9.huge"),
    "operation-running": (ONE, {"lease": LEASE}, "operation_running", "scale-in-orders-7"),
}


@pytest.mark.parametrize("situation", REFUSED)
def test_refused(situation: str) -> None:
    fleet, changes, code, reason = REFUSED[situation]
    found = plan(fleet, **changes)
    assert [one.reason for one in found.refusals if one.code == code and reason in one.reason]


def test_all_reasons_are_given_at_once() -> None:
    found = plan(fleet_with(), count=9, lease=LEASE, instance_type="x9.huge")
    assert {one.code for one in found.refusals} == {
        "ceiling",
        "no_donor",
        "operation_running",
        "price_unknown",
    }


def test_zones_with_fewer_replicas_come_first() -> None:
    fleet = fleet_with(replica(BASE, zone="us-east-1a"), replica(PEAK, zone="us-east-1a"))
    assert spread_zones(fleet, orders()) == (
        ("us-east-1b", "us-east-1a"),
        "fewest replicas first: us-east-1b 0, us-east-1a 2",
    )
