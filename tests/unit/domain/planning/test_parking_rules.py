"""Park or retire, return or build, until when: each figure by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.document.plan import Method as ReturnOrBuild
from peaker.domain.document.plan import Way
from peaker.domain.planning.lead_time import (
    LeadTimeInputs,
    VolumeToHydrate,
    predict_lead_time,
    predict_return,
)
from peaker.domain.planning.parking_figures import parking_figures
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.prices.price_table import US_EAST_1
from peaker.domain.replicas.inventory import Volume
from peaker.domain.replicas.parked import returnable, why_expired, why_not_returned
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.service.parking import decide_disposal, parked_until, why_not_worth_parking

from peaker_contract.catalogue import parts_of
from peaker_contract.names import OWNER_TAG
from peaker_contract.steps import Method
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import figures_of_parking, fleet_with, orders, parked, plan_facts, replica

BASE, PEAK, OTHER = "i-00000000000000b01", "i-00000000000000c01", "i-00000000000000d01"
RUN = "scale-out-orders-1"
TIB = 1024.0**4
MIB = 1024.0**2
RETURNS = Way(method=ReturnOrBuild(action="return", reason="", replica=PEAK))


def big_inputs() -> LeadTimeInputs:
    """1 TiB at 300 MiB/s: 3,495 s of hydration."""
    return LeadTimeInputs((VolumeToHydrate("data", TIB, 300 * MIB),))


def test_the_figures_of_a_tebibyte_by_hand() -> None:
    volume = Volume(
        "vol-1", "in-use", 1024, "gp3", "us-east-1a", 16_000, 1_000, tags={"peaker:volume": "data"}
    )
    root = Volume("vol-0", "in-use", 8, "gp3", "us-east-1a", 3_000, 125, tags={"peaker:volume": "root"})
    one = replica(PEAK, peak_of=RUN, volumes=(volume, root))
    settings = orders(initialization_rate_mib_per_s=300)
    found = parking_figures(one, settings, US_EAST_1, big_inputs(), PastSteps())
    # (1024 x 0.08 + 13,000 x 0.005 + 875 x 0.04 + 8 x 0.08) / 730 h
    assert found.parked_hourly_usd == pytest.approx(182.56 / 730, abs=1e-4)
    assert found.serving_hourly_usd == pytest.approx(182.56 / 730 + 0.126, abs=1e-4)
    # 3.6864 USD of initialization, and the hours of instance and volumes until it serves.
    build = predict_lead_time(big_inputs()).p50_seconds
    assert found.build_seconds == pytest.approx(build, abs=0.1)
    assert found.rebuild_usd == pytest.approx(3.6864 + (182.56 / 730 + 0.126) * build / 3600, abs=1e-3)
    # Four seconds of log per second: an hour of standing is replayed in 20 minutes.
    assert found.catch_up_per_hour == pytest.approx(1200)
    assert found.return_seconds == pytest.approx(predict_return(big_inputs(), 0).p50_seconds, abs=0.1)


def test_whatever_a_return_passes_is_in_its_prediction() -> None:
    """A part that is left out makes the alarm late by it, and a return look quicker than a build by it."""
    inputs = replace(big_inputs(), ramp_seconds=22 * 60.0)
    back, build = predict_return(inputs, 3600), predict_lead_time(inputs)
    assert {part.name for part in back.components} == {"trigger", *parts_of(Method.RETURN)}
    assert {part.name for part in build.components} == {"trigger", *parts_of(Method.BUILD)}
    without = replace(inputs, ramp_seconds=0.0)
    assert back.p50_seconds - predict_return(without, 3600).p50_seconds == 22 * 60.0
    assert build.p50_seconds - predict_lead_time(without).p50_seconds == 22 * 60.0


DISPOSALS = {
    "auto-parks-while-it-pays": ({}, "auto", "park", "parking pays for 8.0 h"),
    "never": ({}, "never", "retire", "retirement.park is never"),
    "always": ({"rebuild_usd": None}, "always", "park", "retirement.park is always"),
    "unknown-price": ({"rebuild_usd": None}, "auto", "retire", "unknown"),
    "as-slow-as-building": ({"return_seconds": 5400}, "auto", "retire", "takes as long as building anew"),
    "volumes-too-dear": ({"parked_hourly_usd": 6.0}, "auto", "retire", "pays for 0.8 h only"),
    "replays-too-slowly": ({"catch_up_per_hour": 36_000}, "auto", "retire", "pays for 0.1 h only"),
}


@pytest.mark.parametrize("situation", DISPOSALS)
def test_disposal(situation: str) -> None:
    changes, policy, action, said = DISPOSALS[situation]
    found = decide_disposal(figures_of_parking(**changes), policy)  # type: ignore[arg-type]
    assert (found.action, said in found.reason) == (action, True), found.reason


def test_the_earliest_limit_counts() -> None:
    binlogs = parked_until(figures_of_parking(), NOON, 5 * 3600)
    assert binlogs.until == NOON + timedelta(hours=4)
    assert "80% of the 5.0 h that the source keeps binary logs" in binlogs.reason
    slower = parked_until(figures_of_parking(), NOON, 86_400)
    assert slower.until == NOON + timedelta(hours=8)
    assert "catching up" in slower.reason
    dearer = parked_until(figures_of_parking(parked_hourly_usd=1.0), NOON, 86_400)
    assert dearer.until == NOON + timedelta(hours=5)
    assert "$5.00 of rebuilding" in dearer.reason
    # 0 is MySQL's word for "never purged by age".
    assert parked_until(figures_of_parking(), NOON, 0).until == NOON + timedelta(hours=8)
    assert parked_until(figures_of_parking(rebuild_usd=None, catch_up_per_hour=0), NOON, None).until is None


def test_a_stopped_replica_is_retired_when_its_source_forgets_too_soon_or_nobody_knows() -> None:
    short = parked_until(figures_of_parking(), NOON, 3600)
    assert "0.8 h only" in str(why_not_worth_parking("auto", 3600, short, NOON))
    unknown = parked_until(figures_of_parking(), NOON, None)
    assert "I4" in str(why_not_worth_parking("auto", None, unknown, NOON))
    assert why_not_worth_parking("always", None, unknown, NOON) is None
    assert (
        why_not_worth_parking("auto", 86_400, parked_until(figures_of_parking(), NOON, 86_400), NOON) is None
    )


NOT_RETURNED = {
    "valid": (parked(PEAK, 5, NOON + timedelta(hours=1)), None),
    "no-limit": (parked(PEAK, 5), None),
    "expired": (parked(PEAK, 5, NOON), "expired at 21 Nov 12:00 UTC"),
    "spent": (parked(PEAK, 5, spent="binary logs gone"), "binary logs gone"),
    "tried-in-vain": (parked(PEAK, 5, failed_return="run-7"), "an earlier return failed: run-7"),
    "in-service": (replica(PEAK, peak_of=RUN), "is not parked"),
}


@pytest.mark.parametrize("situation", NOT_RETURNED)
def test_which_parked_replica_can_come_back(situation: str) -> None:
    one, said = NOT_RETURNED[situation]
    found = why_not_returned(one, "local", NOON)
    assert (found is None) if said is None else (found is not None and said in found)


def test_a_parked_replica_of_another_owner_or_that_runs_does_not_come_back() -> None:
    one = parked(PEAK, 5)
    foreign = replace(one, instance=replace(one.instance, tags={**one.instance.tags, OWNER_TAG: "prod"}))
    assert "I1" in str(why_not_returned(foreign, "local", NOON))
    runs = replace(one, instance=replace(one.instance, state="running"))
    assert "its instance is running" in str(why_not_returned(runs, "local", NOON))
    assert one.ledger_row is not None
    assert one.ledger_row.parking is not None
    assert why_expired(one.ledger_row.parking, NOON) is None


def test_the_one_that_stopped_last_comes_back_first() -> None:
    fleet = fleet_with(replica(BASE), parked(PEAK, 9), parked(OTHER, 2))
    assert [one.instance_id for one in returnable(fleet, "local", NOON)] == [OTHER, PEAK]


def test_a_parked_replica_serves_nobody_gives_nothing_and_takes_no_place() -> None:
    stands = parked(PEAK, 2)
    fleet = fleet_with(replica(BASE), stands)
    plan = plan_scale_out(plan_facts(fleet, orders(max_replicas=2)), [Way()])
    assert (plan.serving, plan.donor, plan.refusals) == (1, BASE, ())
    assert f"{PEAK}: is parked" in plan.donor_reasons
    assert fleet.by_zone == {"us-east-1b": 1}


def test_its_volumes_count_in_the_budget_until_it_returns() -> None:
    stands = parked(PEAK, 2)
    fleet = fleet_with(replica(BASE), stands)
    hourly = plan_scale_out(plan_facts(fleet, orders()), [Way()]).price.hourly
    assert hourly is not None
    limits = {
        "max_hourly_cost_usd": hourly + 1e-4,
        "minimum_lifetime_minutes": 0,
        "prewarm_deadline_minutes": 15,
    }
    tight = orders(limits=limits, keep_snapshots=False)
    refused = plan_scale_out(plan_facts(fleet, tight), [Way()])
    assert [one.code for one in refused.refusals] == ["budget"]
    assert "of parked volumes" in refused.refusal_text
    back = plan_scale_out(plan_facts(fleet, tight), [RETURNS])
    assert (back.refusals, back.returns, back.price.once) == ((), PEAK, 0.0)
