"""Which plan waits for a person's yes, and whether a later one still is what was approved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.planning.approval import asked, beyond_approval, held_against, with_approval
from peaker.domain.planning.plan import LeadTimeEstimate, ScaleOutPlan, Way
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.planning.prices import US_EAST_1
from peaker.domain.runs.approval import ApprovalAsked

from peaker_contract.limit_settings import LimitSettings
from tests.support.builders import fleet_with, orders, replica
from tests.support.fakes import NOON

BASE = "i-00000000000000b01"


def limits(approval: str, **more: Any) -> LimitSettings:
    return LimitSettings(
        approval=approval, minimum_lifetime_minutes=60, prewarm_deadline_minutes=2880, **more
    )


def plan(count: int = 1, *, fleet: Any = None, seconds: float = 1800, **settings: Any) -> ScaleOutPlan:
    way = Way(
        lead_time=LeadTimeEstimate(seconds=seconds, parts={"hydration": 1200, "ramp": 600}, p90_seconds=2400)
    )
    fleet = fleet_with(replica(BASE)) if fleet is None else fleet
    return plan_scale_out(fleet, orders(**settings), US_EAST_1, NOON, count=count, ways=[way])


ABOVE_THE_CEILING = plan(max_replicas=1)
BUDGET = limits("never", max_hourly_cost_usd=0.1)
WITHIN = plan()


def test_where_nobody_is_asked_the_plan_stays_as_it_is() -> None:
    for one in (WITHIN, ABOVE_THE_CEILING):
        assert with_approval(one, limits("never")) == one


def test_a_plan_within_the_limits_is_asked_for_only_where_each_is() -> None:
    assert with_approval(WITHIN, limits("above_limits")).approval is None
    need = with_approval(WITHIN, limits("always")).approval
    assert need is not None
    assert (need.reasons, need.above_limits) == (("limits.approval is always",), False)


@pytest.mark.parametrize("approval", ["above_limits", "always"])
def test_above_the_ceiling_a_person_may_lift_it(approval: str) -> None:
    found = with_approval(ABOVE_THE_CEILING, limits(approval))
    assert found.refusals == ()
    assert found.approval is not None
    assert found.approval.above_limits
    assert found.approval.reasons[0].startswith(
        "ceiling: 1 serving + 0 building + 1 wanted exceeds max_replicas 1"
    )


def test_above_the_budget_a_person_may_lift_it() -> None:
    found = with_approval(plan(limits=BUDGET), limits("above_limits"))
    assert found.approval is not None
    assert found.approval.reasons[0].startswith("budget: 0 peak replicas + 1 wanted at $0.127/h")


def test_what_is_unknown_or_impossible_nobody_is_asked_for() -> None:
    unpriced = plan(limits=BUDGET, instance_type="r6i.metal", max_replicas=1)
    assert {one.code for one in unpriced.refusals} == {"ceiling", "price_unknown"}
    assert with_approval(unpriced, limits("always")) == unpriced
    no_donor = plan(fleet=fleet_with())
    assert with_approval(no_donor, limits("always")).approval is None


def test_without_a_yes_the_plan_is_refused_for_what_it_would_have_asked() -> None:
    refused = held_against(with_approval(WITHIN, limits("always")), None)
    assert refused.refusal_text == "approval: limits.approval is always; nobody has approved it"


def test_a_plan_that_needs_no_yes_goes_on_whatever_was_approved() -> None:
    assert held_against(WITHIN, None) == WITHIN
    assert held_against(WITHIN, question(hourly_usd=0.01)) == WITHIN


def test_a_plan_beyond_what_was_approved_is_refused_and_one_within_it_goes_on() -> None:
    needs = with_approval(WITHIN, limits("always"))
    assert held_against(needs, question()) == needs
    refused = held_against(needs, question(replicas_after=1))
    assert refused.refusal_text == (
        "approval: what was approved has changed meanwhile: 2 replicas in all, 1 were approved"
    )


def question(of: ScaleOutPlan = WITHIN, **more: Any) -> ApprovalAsked:
    rules = limits("always", approval_minutes=30)
    need = with_approval(of, rules).approval
    assert need is not None
    return asked(of, need, "build one", rules).model_copy(update=more)


def test_what_is_asked_has_the_numbers_of_the_plan_and_its_end() -> None:
    found = question(plan(2))
    assert (found.count, found.replicas_after, found.what) == (2, 3, "build one")
    assert found.hourly_usd == pytest.approx(2 * 0.1269, abs=1e-4)
    assert found.peak_hourly_usd == pytest.approx(2 * 0.1269, abs=1e-3)
    assert (found.lead_p50_seconds, found.steps["hydration"]) == (1800, 1200)
    assert found.lead_p90_seconds == 2400
    assert (found.waits_until, found.wait_seconds) == (NOON + timedelta(minutes=30), 1800)


def test_the_same_plan_is_what_was_approved() -> None:
    assert beyond_approval(WITHIN, question()) == ()
    assert beyond_approval(WITHIN, question(plan(2))) == (), "fewer than approved"


def test_a_price_within_the_tolerance_passes_and_one_above_it_does_not() -> None:
    hourly = question().hourly_usd
    assert hourly is not None
    assert beyond_approval(WITHIN, question(hourly_usd=hourly / 1.05)) == ()
    [said] = beyond_approval(WITHIN, question(hourly_usd=hourly / 1.06))
    assert (
        said
        == f"{hourly:.4f} USD an hour for the batch, {hourly / 1.06:.4f} were approved (5% more is let pass)"
    )


BEYOND = [
    ("more of the run", plan(2), {"count": 1, "hourly_usd": 9.0, "peak_hourly_usd": 9.0, "replicas_after": 9},
     "2 replicas of the run, 1 were approved"),
    ("a fleet that has grown", WITHIN, {"replicas_after": 1}, "2 replicas in all, 1 were approved"),
    ("all peak replicas dearer", WITHIN, {"peak_hourly_usd": 0.05},
     "0.1269 USD an hour for all peak replicas, 0.0500 were approved (5% more is let pass)"),
    ("slower than 9 of 10", WITHIN, {"lead_p90_seconds": 1500.0},
     "30 min to service, at most 25 min in 9 of 10 cases were approved"),
]  # fmt: skip


@pytest.mark.parametrize(("now", "then", "said"), [one[1:] for one in BEYOND], ids=[one[0] for one in BEYOND])
def test_what_goes_beyond_is_told_with_both_numbers(
    now: ScaleOutPlan, then: dict[str, Any], said: str
) -> None:
    assert beyond_approval(now, question(**then)) == (said,)


def test_a_price_that_was_known_must_be_known_now() -> None:
    unpriced = plan(instance_type="r6i.metal", limits=limits("never"))
    said = beyond_approval(unpriced, question())
    assert (
        "an unknown number of USD an hour for the batch, 0.1269 were approved (5% more is let pass)" in said
    )
    assert beyond_approval(WITHIN, question(unpriced)) == (), "whoever approved knew that it was not known"
