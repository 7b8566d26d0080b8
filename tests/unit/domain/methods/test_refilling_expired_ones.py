"""The refill of an expired parked replica among the other methods."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.planning.methods.choice import by_settings, choose, returned_expired
from peaker.domain.planning.methods.situation import ExpiredReplica, MethodName, ParkedReplica, Situation
from peaker.domain.planning.methods.timing import LeadTimeFrame
from peaker.domain.planning.prices import PriceTable
from peaker.domain.reading import Known, Unknown

from tests.support.fakes import NOON
from tests.unit.domain.methods.test_choosing_a_method import PLAIN, TIB, situation

LITTLE = ExpiredReplica("i-little", Known(0.01 * TIB), Known(0.4))
MORE = ExpiredReplica("i-more", Known(0.2 * TIB), Known(0.4))


def allowed(*expired: ExpiredReplica, **changes: object) -> Situation:
    """Fills are allowed, no rate is paid."""
    return situation(expired=expired, why_no_fill=None, rate_ceiling_mib_per_s=None, **changes)


def test_it_is_taken_where_it_is_in_time_and_costs_less_and_says_what_follows_its_refusal() -> None:
    """Ten minutes and 23 seconds for ten GiB; a build reads for 35 min at least."""
    choice = choose(allowed(LITTLE, ready_by=NOON + timedelta(hours=2)))
    assert (choice.chosen, choice.in_time) == (MethodName.RETURN_EXPIRED, True)
    assert choice.falls_back_to is MethodName.USED_BLOCKS
    assert choice.taken is not None
    assert (choice.taken.replica, choice.taken.carried_out) == ("i-little", True)
    assert choice.taken.rates_mib_per_s == {}, "its volumes are there already"


def test_of_several_the_one_with_the_fewest_changed_bytes_is_refilled() -> None:
    unknown = ExpiredReplica("i-a", Unknown("no lineage"))
    assert returned_expired(allowed(unknown, MORE, LITTLE)).replica == "i-little"
    assert returned_expired(allowed(unknown)).why_not == "no lineage"


def test_it_costs_its_requests_snapshots_of_its_own_meanwhile_and_the_hours_of_its_instance() -> None:
    """Of 10.24 GiB at $0.05 a GiB and month, until it serves."""
    found = returned_expired(allowed(LITTLE))
    assert found.p50_seconds is not None
    assert found.once_usd is not None
    hours = found.p50_seconds / 3600
    own = 10.24 * 0.05 / 730 * hours
    assert found.once_usd == pytest.approx(0.01 * 6.29 + own, abs=0.001)
    assert f"snapshots of its own until it serves ${own:.4f}" in found.basis
    assert found.usd == pytest.approx(found.once_usd + 0.4 * hours, abs=1e-4)


def test_snapshots_that_cost_next_to_nothing_are_not_said_to_cost_nothing() -> None:
    found = returned_expired(allowed(ExpiredReplica("i-still", Known(1e6), Known(0.4))))
    assert "snapshots of its own until it serves less than $0.0001" in found.basis


def test_where_nobody_knows_what_a_snapshot_costs_nobody_knows_what_it_costs() -> None:
    nothing = PriceTable("us-east-1", "nobody", "no table")
    found = returned_expired(allowed(LITTLE, prices=nothing))
    assert found.usd is None
    assert "an hour of a snapshot" in str(found.usd_unknown)


def test_its_time_is_that_of_its_own_frame() -> None:
    own = LeadTimeFrame(rest_seconds=1000, spread_squared=0)
    usual, longer = (
        returned_expired(allowed(LITTLE, refill_frame=frame)).p50_seconds for frame in (None, own)
    )
    assert usual is not None
    assert longer == pytest.approx(usual + 1000 - PLAIN.rest_seconds)


@pytest.mark.parametrize("why", ["prewarm.direct_fill is false", "a fill failed in this run"])
def test_where_no_fill_may_be_it_may_not_be_either(why: str) -> None:
    found = choose(replace(allowed(LITTLE), why_no_fill=why, ready_by=NOON + timedelta(hours=2)))
    assert found.chosen is MethodName.USED_BLOCKS
    assert found.estimate(MethodName.RETURN_EXPIRED).why_not == why


def test_one_that_returns_as_it_is_is_taken_before_it_where_it_costs_less() -> None:
    back = ParkedReplica("i-parked", 900, 1200, Known(0.01))
    assert (
        choose(allowed(MORE, parked=(back,), ready_by=NOON + timedelta(hours=2))).chosen is MethodName.RETURN
    )


def test_without_a_deadline_it_is_what_the_plan_found_and_falls_back_to_what_the_settings_say() -> None:
    found = by_settings(allowed(LITTLE), "i-little", MethodName.RETURN_EXPIRED)
    assert (found.chosen, found.falls_back_to) == (MethodName.RETURN_EXPIRED, MethodName.USED_BLOCKS)
    rated = situation(expired=(LITTLE,), why_no_fill=None)
    assert (
        by_settings(rated, "i-little", MethodName.RETURN_EXPIRED).falls_back_to is MethodName.PROVISIONED_RATE
    )
    assert by_settings(allowed(LITTLE), "i-parked").falls_back_to is None
