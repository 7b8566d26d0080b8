"""An expired parked replica that is refilled: which one, when, in what time, and what its plan needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.planning.lead_time import (
    LeadTimeInputs,
    VolumeToHydrate,
    predict_lead_time,
    predict_return,
)
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.methods.choice import MethodChoice
from peaker.domain.planning.methods.situation import MethodName, estimate
from peaker.domain.planning.methods.timing import refill_frame, refill_lead
from peaker.domain.planning.parking import (
    Build,
    Method,
    Refill,
    choose_method,
    or_refilled,
    why_not_refilled,
    why_not_returned,
)
from peaker.domain.planning.plan import ScaleOutPlan, Way
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.planning.prices import US_EAST_1
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, Parking, Replica, ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState

from peaker_contract.steps import Method as MethodOfRun
from peaker_contract.steps import Part
from peaker_contract.way_into_service import parts_of
from tests.support.builders import data_volumes_of, fleet_with, orders, replica
from tests.support.fakes import NOON

BASE, PEAK, OTHER = "i-00000000000000b01", "i-00000000000000c01", "i-00000000000000d01"
GONE = "the source has purged binary logs that it lacks (gtid_purged)"
MIXED = f"{REFILL_DID_NOT_END}: run-9, FillVolumes: PrewarmFailed"
ABSENT = TargetHealth(TargetState.ABSENT)
# 1 TiB at 300 MiB/s: 3,495 s of hydration.
INPUTS = LeadTimeInputs((VolumeToHydrate("data", 1024.0**4, 300 * 1024.0**2),))
ANEW = Build(predict_lead_time(INPUTS).p50_seconds, 5.0)


def parked(instance_id: str, hours: float, expired: bool = True, **more: str) -> Replica:
    one = replica(instance_id, peak_of="run-1", row_state=ReplicaState.PARKED, health=ABSENT, state="stopped")
    assert one.ledger_row is not None
    until = NOON - timedelta(hours=1) if expired else NOON + timedelta(hours=1)
    stands = Parking(NOON - timedelta(hours=hours), "uuid:1-9", 86_400.0, until, "a limit", **more)
    return replace(one, ledger_row=replace(one.ledger_row, parking=stands))


SITUATIONS = {
    "expired by time": (parked(PEAK, 20), None),
    "its logs are gone": (parked(PEAK, 20, expired=False, spent=GONE), None),
    "a return of it found them gone": (
        parked(PEAK, 20, spent=GONE, failed_return="run-7, StartReplication: BinlogsGone"),
        None,
    ),
    "not expired": (parked(PEAK, 2, expired=False), "it has not expired"),
    "a mixture": (parked(PEAK, 20, spent=MIXED), REFILL_DID_NOT_END),
    "a refill of it failed": (
        parked(PEAK, 20, failed_return="run-7, FillVolumes: PrewarmFailed"),
        "an earlier return failed: run-7, FillVolumes",
    ),
    "a refill of it failed after its logs were gone": (
        parked(PEAK, 20, spent=GONE, failed_return="run-7, StartParkedReplica: NoCapacity"),
        "an earlier return failed: run-7, StartParkedReplica",
    ),
    "in service": (replica(PEAK, peak_of="run-1"), "is not parked"),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_which_parked_replica_can_be_refilled(situation: str) -> None:
    one, said = SITUATIONS[situation]
    found = why_not_refilled(one, "local", NOON)
    assert (found is None) if said is None else (found is not None and said in found)


def test_a_mixture_neither_returns_nor_is_refilled() -> None:
    one = parked(PEAK, 2, expired=False, spent=MIXED)
    assert one.ledger_row is not None
    assert one.ledger_row.parking is not None
    assert one.ledger_row.parking.mixed
    assert why_not_returned(one, "local", NOON) == why_not_refilled(one, "local", NOON) == MIXED
    assert not Parking(NOON, "", None, None, "", spent=GONE).mixed


# -- refill, return or build -------------------------------------------------------------------------------------


def chosen(*replicas: Replica, seconds: float | None = 900.0) -> Method:
    """PEAK is refilled in so many seconds; a build takes more than an hour."""
    refill = None if seconds is None else Refill(PEAK, seconds, 0.04)
    fleet = fleet_with(replica(BASE), *replicas)
    method = choose_method(fleet, "local", US_EAST_1, INPUTS, PastSteps(), NOON, ANEW)
    return or_refilled(method, refill, fleet, ANEW, NOON)


def test_an_expired_one_is_refilled_where_that_serves_before_a_build() -> None:
    found = chosen(parked(PEAK, 20))
    assert (found.action, found.replica, found.comes_back) == ("refill", PEAK, True)
    assert (found.return_seconds, found.return_usd, found.parked_hours) == (900.0, 0.04, 20.0)
    assert f"{PEAK}, expired and parked for 20.0 h, is refilled" in found.reason
    assert (found.build_usd, list(found.rejected)) == (5.0, [PEAK])


def test_one_that_would_serve_no_sooner_than_a_build_is_not_refilled_and_the_plan_says_so() -> None:
    slow = chosen(parked(PEAK, 20), seconds=20_000.0)
    assert (slow.action, slow.comes_back) == ("build", False)
    assert "is refilled with what has changed and serves in 333 min" in slow.reason
    assert chosen(parked(PEAK, 20), seconds=None).action == "build"


def test_one_that_is_back_as_it_is_before_a_build_goes_first() -> None:
    found = chosen(parked(PEAK, 20), parked(OTHER, 2, expired=False), seconds=1.0)
    assert (found.action, found.replica) == ("return", OTHER)


def test_one_that_is_back_later_than_a_build_does_not_keep_another_from_being_refilled() -> None:
    found = chosen(parked(PEAK, 20), parked(OTHER, 12, expired=False))
    assert (found.action, found.replica) == ("refill", PEAK)


# -- its lead time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill_seconds", [0.0, 60.0, 4000.0])
def test_its_lead_time_by_hand(fill_seconds: float) -> None:
    """Its own snapshots follow the start of its instance; it replays what was written until its database runs."""
    build, back = predict_lead_time(INPUTS), predict_return(INPUTS, 0.0)
    lead = refill_lead(build, back)
    assert {one.name for one in lead.components} == {"trigger", *parts_of(MethodOfRun.REFILL)}
    took = {one.name: one.p50_seconds for one in lead.components}
    behind = fill_seconds + sum(
        took[one] for one in (Part.INSTANCE, Part.SNAPSHOT, Part.STORAGE, Part.RECOVERY)
    )
    catch_up = max(0.0, behind / 3 - took[Part.BENCHMARK])
    rest = sum(took.values()) - took[Part.HYDRATION] - took[Part.CATCH_UP]
    frame = refill_frame(build, back, 1 / 3)
    assert frame.catch_up(fill_seconds) == pytest.approx(catch_up)
    assert frame.p50(fill_seconds) == pytest.approx(rest + fill_seconds + catch_up)
    assert frame.p90(fill_seconds, 2 * fill_seconds) > frame.p50(fill_seconds)


def test_its_instance_starts_as_past_returns_did_and_nothing_waits_for_a_limit() -> None:
    past = PastSteps(returned={"StartParkedReplica": [400.0] * 9}, seconds={"ReserveLimits": [300.0] * 9})
    build, back = predict_lead_time(INPUTS, past), predict_return(INPUTS, 0.0, past)
    slow = refill_frame(build, back, 1 / 3).p50(60.0)
    usual = refill_frame(predict_lead_time(INPUTS), predict_return(INPUTS, 0.0), 1 / 3).p50(60.0)
    longer = back.component(Part.INSTANCE).p50_seconds - 90.0
    assert longer > 0
    # A third more to replay: all of that is waited for, as the proof hides none of it any more.
    assert usual + longer <= slow <= usual + longer * 4 / 3 + 1


# -- its plan ----------------------------------------------------------------------------------------------------


def plan(
    *others: Replica, donor: Replica | None = None, count: int = 1, action: str = "refill"
) -> ScaleOutPlan:
    method = Method(
        action=action,
        reason="",
        build_seconds=9.0,
        build_usd=None,
        replica=PEAK,  # type: ignore[arg-type]
    )
    taken = estimate(MethodName.RETURN_EXPIRED, p50=900.0, p90=1200.0).model_copy(update={"once_usd": 0.25})
    choice = MethodChoice(chosen=MethodName.RETURN_EXPIRED, reason="", methods=(taken,))
    fleet = fleet_with(donor or replica(BASE), parked(PEAK, 20), *others)
    ways = [Way(method=method, choice=choice)]
    return plan_scale_out(fleet, orders(max_replicas=9), US_EAST_1, NOON, ways=ways, count=count)


def codes(found: ScaleOutPlan) -> list[str]:
    return [one.code for one in found.refusals]


def test_a_refill_needs_a_donor_as_a_build_does() -> None:
    sick = replica(BASE, health=TargetHealth(TargetState.UNHEALTHY))
    assert codes(plan(donor=sick)) == ["no_donor"]
    assert codes(plan(donor=sick, action="return")) == []
    assert codes(plan()) == []


def test_a_refill_makes_nothing_and_pays_for_the_blocks_that_it_reads() -> None:
    """Instance and volumes are its own: no initialization is paid for."""
    found = plan()
    assert (found.builds, found.copies_of_donor, found.returns, found.refills) == (0, 1, PEAK, True)
    assert (found.price.once, plan(action="return").price.once) == (0.25, 0.0)
    assert found.price.hourly == plan(action="return").price.hourly
    assert {one.initialization_rate_mib_per_s for one in found.volumes} == {None}
    assert [one.name for one in found.volumes] == [one.name for one in data_volumes_of(PEAK)]
