"""The simulated day: what is drawn is drawn once, EBS refuses, and the product keeps it from having to."""

from __future__ import annotations

import pytest

from bench.scale import monthly_cost
from bench.scale.peak_day import Ebs, builds, simulate
from bench.scale.simulation import percentile, unfairness, waits

CLUSTERS = 400


def test_the_same_seed_is_the_same_day() -> None:
    assert builds(3, 20) == builds(3, 20)
    assert builds(3, 20) != builds(4, 20)


def test_a_run_that_asks_as_if_it_were_alone_is_refused_and_one_that_reserves_is_not() -> None:
    assert simulate(3, CLUSTERS, reserving=False).ebs.rejected > 10
    day = simulate(3, CLUSTERS)
    assert (day.ebs.rejected, len(day.ended)) == (0, len(builds(3, CLUSTERS)))
    assert day.ebs.most > 4_000
    assert any(one.rated for one in day.ended)


def test_ebs_refuses_what_is_above_its_quota_and_has_room_again_later() -> None:
    ebs = Ebs()
    for second in (0.0, 1.0, 61.0):
        ebs.create(second, 3_000, 60)
    assert (ebs.rejected, ebs.most) == (1, 3_000)


def test_nobody_begins_before_it_asked_and_a_wait_has_its_reason() -> None:
    day = simulate(3, CLUSTERS)
    # A datetime has microseconds.
    assert all(one.waited > -1e-5 for one in day.ended)
    assert {bool(one.admission.waits_for) for one in day.ended if one.waited >= 1} == {True}


def test_fairness_is_of_those_that_wait() -> None:
    day = simulate(3, CLUSTERS)
    assert 0 < len(waits(day.ended)) < len(day.ended)
    assert unfairness([]) == 1.0
    assert unfairness([60.0] * 98 + [600.0, 600.0]) == 10.0
    assert percentile([], 0.99) == 0.0


def test_what_a_month_costs_is_mostly_metrics() -> None:
    found = monthly_cost.parts()
    assert max(found, key=lambda name: found[name]) == "custom metrics"
    assert sum(found.values()) == pytest.approx(14.41, abs=0.01)
    assert monthly_cost.distributed_map() > 10 * monthly_cost.schedule_each()
