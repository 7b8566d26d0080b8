"""The ways into service: which are offered, which is taken, and for which reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.document.plan import Choice, Method, Option, Way
from peaker.domain.limits.account_limits import RegionRate
from peaker.domain.planning.lead_time import (
    MIB,
    LeadTimeInputs,
    VolumeToHydrate,
    predict_lead_time,
    predict_return,
)
from peaker.domain.planning.options import MARGIN, choose, ways_of
from peaker.domain.planning.plan_facts import PlanFacts
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.runs.past_runs import PastSteps

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import data_volumes_of, fleet_with, orders, parked, plan_facts, replica

BASE, PEAK, OTHER = "i-00000000000000b01", "i-00000000000000c01", "i-00000000000000d01"
TIB = 1024.0**4
INPUTS = LeadTimeInputs((VolumeToHydrate("data", TIB, 250 * MIB),))
REGION = RegionRate(5_000.0, "AWS's default")
DONOR = replica(BASE, volumes=(replace(data_volumes_of(BASE)[0], size_gib=1024),))
VOLUMES = [{"name": "data", "device": "/dev/sdf", "mount_point": "/var/lib/mysql"}]


def facts(fleet: FleetState | None = None, rate: int | None = 200, **changes: object) -> PlanFacts:
    """A tebibyte on a volume of 250 MiB/s; 200 MiB/s are paid."""
    known = {"inputs": INPUTS, "region": REGION, **changes}
    settings = orders(initialization_rate_mib_per_s=rate, volumes=VOLUMES)
    return plan_facts(fleet or fleet_with(DONOR), settings, **known)


def way(hours: float | None = None, **given: object) -> Way:
    by = None if hours is None else NOON + timedelta(hours=hours)
    return ways_of(facts(**given), 1, by)[0]  # type: ignore[arg-type]


def choice(found: Way) -> Choice:
    assert found.choice is not None
    return found.choice


def options(found: Way) -> list[tuple[str, int | None]]:
    return [(one.action, one.rate_mib_per_s) for one in choice(found).options]


def taken(found: Way) -> Option:
    return choice(found).taken


def method(found: Way) -> Method:
    assert found.method is not None
    return found.method


def test_each_has_its_lead_time_and_its_dollars_until_it_serves() -> None:
    """A tebibyte at $0.00360 a GiB for the rate, and the hours of instance and volume."""
    found = taken(way())
    lead = predict_lead_time(replace(INPUTS, paid_mib_per_s=200.0))
    assert (found.p50_seconds, found.p90_seconds) == (round(lead.p50_seconds, 1), round(lead.p90_seconds, 1))
    hourly = 0.126 + 1024 * 0.08 / 730
    assert found.usd == pytest.approx(1024 * 200 * 0.000012 + hourly * lead.p50_seconds / 3600, abs=5e-3)


def test_without_a_deadline_a_parked_replica_returns_where_that_is_quicker_than_a_build() -> None:
    back = way(fleet=fleet_with(DONOR, parked(PEAK, 2)))
    assert (method(back).action, back.returns) == ("return", PEAK)
    assert f"{PEAK} is back in 49 min, one built anew in" in method(back).reason
    # Thirty hours of log take longer to replay than a tebibyte to read.
    anew = way(fleet=fleet_with(DONOR, parked(PEAK, 12)))
    assert (method(anew).action, anew.returns) == ("build", None)
    assert "building is as quick" in method(anew).reason


def test_a_return_of_which_no_run_waits_for_the_catch_up_is_not_taken() -> None:
    """Twenty hours at three times the source's speed: it would be given up after six of ten hours."""
    stands = fleet_with(DONOR, parked(PEAK, 20))
    slow = PastSteps({"ReportPrewarm": [90_000.0] * 10}, [TIB] * 10, return_speeds=[3.0] * 10)
    found = way(fleet=stands, past=slow)
    assert method(found).action == "build"
    assert "it would replay for 10.0 h, and a run waits for 6 h at most" in method(found).reason
    quicker = replace(slow, return_speeds=[6.0] * 10)
    assert way(fleet=stands, past=quicker).returns == PEAK


def test_with_time_enough_nothing_is_paid_for_a_rate() -> None:
    found = way(hours=24)
    assert taken(found).rate_mib_per_s is None
    assert choice(found).in_time is True
    assert "the cheapest of those that are ready in time" in choice(found).reason


def test_a_rate_is_paid_where_the_default_is_too_uncertain() -> None:
    """The default may take half as long again; AWS promises a paid rate within 10 %."""
    slow = LeadTimeInputs((VolumeToHydrate("data", TIB, 200 * MIB),))
    default, paid = (
        predict_lead_time(replace(slow, paid_mib_per_s=rate)).p90_seconds for rate in (0.0, 200.0)
    )
    assert paid < default
    assert taken(way(hours=(paid * (1 + MARGIN) + 60) / 3600, inputs=slow)).rate_mib_per_s == 200


def test_the_margin_counts() -> None:
    exact = Option(action="build", p50_seconds=3000, p90_seconds=3600, usd=1.0)
    for more, met in ((0.1, True), (-0.1, False)):
        by = NOON + timedelta(seconds=3600 * (1 + MARGIN) + more)
        assert choose([exact], None, NOON, by).in_time is met


def test_a_rate_above_the_regions_quota_is_not_taken() -> None:
    found = way(region=RegionRate(150.0, "the account's quota"))
    assert "200 MiB/s of the 150 of the region" in str(choice(found).options[-1].why_not)
    assert found.rate_mib_per_s is None


@pytest.mark.parametrize(("count", "rate"), [(25, 200), (26, None)])
def test_a_batch_asks_together_for_no_more_than_the_regions_rate(count: int, rate: int | None) -> None:
    assert {one.rate_mib_per_s for one in ways_of(facts(), count, None)} == {rate}


def test_of_a_batch_parked_replicas_return_first_each_of_them_once() -> None:
    stands = fleet_with(DONOR, parked(PEAK, 2), parked(OTHER, 1))
    found = ways_of(facts(stands), 4, None)
    assert [one.returns for one in found] == [OTHER, PEAK, None, None]
    assert found[1].lead_time is not None
    assert found[1].lead_time.seconds == pytest.approx(predict_return(INPUTS, 2 * 3600).p50_seconds, abs=0.1)


def test_where_no_donor_shows_the_volumes_only_a_return_has_options() -> None:
    found = way(fleet=fleet_with())
    assert (found.choice, found.method) == (None, None)
    assert way(fleet=fleet_with(parked(PEAK, 2))).returns == PEAK
