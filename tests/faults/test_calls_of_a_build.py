"""How often a build calls EC2 is what the pace of starts was made for."""

from __future__ import annotations

from collections import Counter

from peaker.domain.limits.account_limits import DESCRIBE_INSTANCES_OF_A_BUILD

from bench.scale.call_rates import BUCKETS, calls_of_a_build, refused_of

MOST_COMMANDS_OF_A_BUILD = 20


def test_a_build_looks_at_instances_as_often_as_the_pace_of_starts_takes_for_granted() -> None:
    counted = Counter(one.name for one in calls_of_a_build().calls if one.name in BUCKETS)
    assert counted["DescribeInstances"] <= DESCRIBE_INSTANCES_OF_A_BUILD
    assert counted["RunInstances"] == counted["CreateSnapshots"] == 1
    assert max(counted, key=lambda name: counted[name] / BUCKETS[name][1]) == "DescribeInstances"


def test_an_empty_bucket_refuses_and_fills_again() -> None:
    assert refused_of([0.0] * 5, 5, 2) == 0
    assert refused_of([0.0] * 7, 5, 2) == 2
    assert refused_of([0.0] * 5 + [1.0, 1.0, 1.0], 5, 2) == 1
    assert refused_of([-90.0, -90.0], 5, 2) == 0


def test_a_build_sends_few_commands_besides_its_looks_at_the_prewarm() -> None:
    found = calls_of_a_build()
    counted = Counter(one.name for one in found.calls)
    assert 0 < counted["SendCommand"] <= MOST_COMMANDS_OF_A_BUILD
    assert found.report["SendCommand"] == 1
    assert found.report["GetCommandInvocation"] >= 1
