"""Which replica goes and whether it may (I1 to I4, I8); every guard is tried by breaking its rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.host_results import DrainReport
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.fleet import FleetState, Replica, ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.service.retirement import (
    LoadEvidence,
    activity_since,
    choose_idle_replica,
    guard_lifetime,
    guard_load,
    guard_removal,
)

from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import SOURCE, fleet_with, instance, orders, parked, replica

BASE, OLD, YOUNG = "i-00000000000000b01", "i-00000000000000c01", "i-00000000000000d01"
RUN = "scale-out-orders-1"
OLD_PEAK = replica(OLD, peak_of=RUN, launched_at=NOON - timedelta(hours=9))
YOUNG_PEAK = replica(YOUNG, peak_of="scale-out-orders-2", launched_at=NOON - timedelta(hours=2))


def test_the_fullest_zone_gives_first_then_the_dearest_then_the_newest() -> None:
    alone = replica("i-00000000000000e01", peak_of=RUN, zone="us-east-1a", launched_at=NOON)
    fleet = fleet_with(replica(BASE), OLD_PEAK, YOUNG_PEAK, alone)
    # 1b has three replicas, 1a one: the newest of all stays, because its zone would be left empty.
    assert choose_idle_replica(fleet).replica is YOUNG_PEAK
    dear = {OLD: 0.5, YOUNG: 0.1, alone.instance_id: 9.0}
    choice = choose_idle_replica(fleet, None, dear, Known(200.0))
    assert choice.replica is OLD_PEAK
    numbers = {verdict.instance_id: verdict.numbers for verdict in choice.verdicts}
    # Four serve 200 units alike, so each serves 50: half a dollar an hour is a cent per unit.
    assert numbers[OLD]["usd_per_load_unit_hour"] == pytest.approx(0.01)
    assert (numbers[OLD]["zone"], numbers[OLD]["replicas_in_zone"]) == ("us-east-1b", 3)
    assert f"{OLD} goes before it" in choice.text


def test_the_only_one_of_ours_goes_whatever_its_zone() -> None:
    """Idle capacity must leave the bill although the base replicas of another zone outnumber it."""
    alone = replica(OLD, peak_of=RUN, zone="us-east-1a")
    fleet = fleet_with(replica(BASE), replica("i-00000000000000b02"), alone)
    assert choose_idle_replica(fleet).replica is alone


def test_an_expired_parked_replica_goes_before_all_others_and_a_valid_one_only_by_name() -> None:
    expired, valid = parked(OLD, 9, NOON), parked(YOUNG, 9, NOON + timedelta(hours=1))
    serving = replica("i-00000000000000e01", peak_of=RUN)
    assert choose_idle_replica(fleet_with(replica(BASE), expired, valid, serving)).replica is expired
    choice = choose_idle_replica(fleet_with(replica(BASE), valid))
    assert choice.replica is None
    assert "parked until 21 Nov 13:00 UTC" in choice.text
    assert choose_idle_replica(fleet_with(replica(BASE), valid), YOUNG).replica is valid
    spent = parked(YOUNG, 9, NOON + timedelta(hours=9), spent="the source has purged binary logs")
    assert choose_idle_replica(fleet_with(replica(BASE), spent, serving)).replica is spent


def test_a_parked_replica_may_go_at_any_load_but_only_ours() -> None:
    stands = parked(OLD, 9, NOON)
    assert guard_removal(stands, fleet_with(stands), orders(min_replicas=2), "local") == []
    assert guard_removal(stands, fleet_with(stands), orders(), "prod")[0].startswith("tag peaker:owner")


def drained(statements: int | None, connections: int = 0) -> DrainReport:
    return DrainReport(connections=connections, transactions=0, client_statements=statements)


ACTIVITY: dict[str, tuple[int | None, DrainReport, str | None]] = {
    "quiet": (7, drained(7), None),
    "a-client": (7, drained(7, connections=1), "1 client connections"),
    "came-and-went": (7, drained(9), "clients ran 2 statements"),
    "restarted": (7, drained(1), "clients ran -6"),
    "counter-gone": (7, drained(None), "does not count"),
    "never-counted": (None, drained(7), "does not count"),
}


@pytest.mark.parametrize("situation", ACTIVITY)
def test_activity_after_the_drain(situation: str) -> None:
    before, sample, said = ACTIVITY[situation]
    found = activity_since(before, sample)
    assert (found is None) if said is None else (found is not None and said in found)


def test_the_one_that_was_asked_for_goes_or_none() -> None:
    fleet = fleet_with(replica(BASE), OLD_PEAK, YOUNG_PEAK)
    assert choose_idle_replica(fleet, OLD).replica is OLD_PEAK
    assert choose_idle_replica(fleet, "i-0000000000000dead").replica is None
    assert "is not a replica of orders" in choose_idle_replica(fleet, "i-0000000000000dead").text


def ours(state: ReplicaState | None, **more: object) -> Replica:
    return replica(OLD, peak_of=RUN, row_state=state, **more)


NOT_ELIGIBLE = {
    "base": (replica(BASE), "base load, permanent"),
    "untagged-load-counts-as-base": (replica(OLD, peak_of=RUN, tags={LOAD_TAG: "other"}), "base load"),
    "no-owner-tag": (replica(OLD, tags={LOAD_TAG: "peak"}), "not made by Peaker"),
    "no-ledger-row": (ours(None), "not made by Peaker"),
    "still-building": (ours(ReplicaState.BUILDING), "the ledger says building"),
    "draining-already": (ours(ReplicaState.DRAINING), "the ledger says draining"),
}


@pytest.mark.parametrize("situation", NOT_ELIGIBLE)
def test_not_eligible(situation: str) -> None:
    one, reason = NOT_ELIGIBLE[situation]
    choice = choose_idle_replica(fleet_with(one))
    assert choice.replica is None
    assert reason in choice.text


SICK = replica(BASE, health=TargetHealth(TargetState.UNHEALTHY))
UNHEARD = replica(BASE, health=Unknown("throttled"))
TWO = fleet_with(replica(BASE), OLD_PEAK)
ITSELF_THE_SOURCE = replace(TWO, source=instance(OLD, "source"))


def beside_base(one: Replica) -> FleetState:
    return fleet_with(replica(BASE), one)


FORBIDDEN: dict[str, tuple[FleetState, dict[str, object], str]] = {
    "I1-the-ledger-says-retired": (beside_base(ours(ReplicaState.RETIRED)), {}, "the ledger says retired"),
    "I1-other-owner": (TWO, {"environment": "prod"}, "tag peaker:owner"),
    "I1-no-row": (beside_base(ours(None)), {}, "the ledger has no row"),
    "I1-other-run": (beside_base(replica(OLD, peak_of=RUN, tags={RUN_TAG: "x"})), {}, "the ledger's run"),
    "I1-base": (beside_base(replica(OLD, tags={OWNER_TAG: "local"})), {}, "it is tagged as base"),
    "I2-source": (ITSELF_THE_SOURCE, {}, "it is the source"),
    "I3-floor": (TWO, {"min_replicas": 2}, "1 other replicas serve"),
    "I3-unhealthy-does-not-serve": (fleet_with(SICK, OLD_PEAK), {}, "0 other replicas serve"),
    "I4-health-unknown": (fleet_with(UNHEARD, OLD_PEAK), {}, "health of"),
    "I4-source-unknown": (replace(TWO, source=Unknown("two found")), {}, "the source"),
    "I4-gone": (fleet_with(replica(BASE)), {}, "it is not among"),
}


@pytest.mark.parametrize("situation", FORBIDDEN)
def test_forbidden(situation: str) -> None:
    fleet, changes, reason = FORBIDDEN[situation]
    environment = str(changes.pop("environment", "local"))
    reasons = guard_removal(fleet.replica(OLD), fleet, orders(**changes), environment)
    assert [one for one in reasons if reason in one]


LOADS = {
    "fits": (Known(100), Known(1), None),
    "observed-too-high": (Known(100.1), Known(1), "the measured load 100.1 exceeds 100"),
    "forecast-needs-both": (Known(10), Known(2), "the forecast needs 2 replicas"),
    "no-load": (
        Unknown("stale"),
        Known(1),
        "the measured load is unknown (stale); what is unknown is held (I4)",
    ),
    "no-forecast": (Known(0), Unknown("none"), "the forecast's need is unknown (none)"),
}


@pytest.mark.parametrize("situation", LOADS)
def test_load(situation: str) -> None:
    load, required, reason = LOADS[situation]
    fleet = fleet_with(replica(BASE), OLD_PEAK)
    reasons = guard_load(LoadEvidence(load, required), fleet, orders(), OLD)
    assert (reasons == []) if reason is None else any(reason in one for one in reasons)


def test_a_replica_is_kept_for_its_minimum_lifetime() -> None:
    young = replica(YOUNG, peak_of=RUN, launched_at=NOON - timedelta(minutes=59))
    assert guard_lifetime(young, orders(), NOON) == ["it is 59 min old, minimum_lifetime_minutes is 60"]
    assert guard_lifetime(young, orders(), NOON + timedelta(minutes=1)) == []


def test_the_source_is_refused_even_when_everything_else_says_peak() -> None:
    impostor = replica(SOURCE, peak_of=RUN)
    reasons = guard_removal(impostor, fleet_with(replica(BASE), impostor), orders(), "local")
    assert reasons == ["it is the source, which is never retired (I2)"]
