"""Who gets which share of new connections."""

from __future__ import annotations

from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.service.read_shares import shares_of_groups, shares_of_records

HEALTHY, SICK = TargetHealth(TargetState.HEALTHY), TargetHealth(TargetState.UNHEALTHY)
DRAINING = TargetHealth(TargetState.DRAINING)


def test_a_newcomer_gets_what_the_warming_group_deals_out() -> None:
    shares = shares_of_groups([(700, {"a": HEALTHY}), (300, {"a": HEALTHY, "new": HEALTHY})])
    assert shares == {"a": 0.7 + 0.15, "new": 0.15}


def test_when_nobody_is_healthy_the_registered_share_the_load() -> None:
    assert shares_of_groups([(1, {"a": SICK, "b": SICK, "gone": DRAINING})]) == {
        "a": 0.5,
        "b": 0.5,
        "gone": 0.0,
    }


def test_the_share_of_an_empty_group_is_nobody_s() -> None:
    assert shares_of_groups([(500, {"a": HEALTHY}), (500, {})]) == {"a": 0.5}
    assert shares_of_groups([]) == {}


def test_a_name_is_answered_by_weight() -> None:
    targets = {"a": HEALTHY, "b": HEALTHY, "new": HEALTHY}
    shares = shares_of_records({"a": 100, "b": 100, "new": 50}, targets)
    assert shares == {"a": 0.4, "b": 0.4, "new": 0.2}


def test_a_record_of_weight_0_or_of_a_sick_replica_is_not_answered() -> None:
    targets = {"a": HEALTHY, "sick": SICK, "out": HEALTHY}
    assert shares_of_records({"a": 100, "sick": 100, "out": 0}, targets) == {
        "a": 1.0,
        "sick": 0.0,
        "out": 0.0,
    }
