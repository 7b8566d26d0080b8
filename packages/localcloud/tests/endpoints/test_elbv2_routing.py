"""How a listener spreads connections over weighted target groups: the effective weights, without I/O."""

from __future__ import annotations

import pytest

from localcloud.extensions.elbv2.routing import ForwardedGroup, GroupMember, Routing, Standing, route


def group(weight: int, **standings: Standing) -> ForwardedGroup:
    members = tuple(
        GroupMember(name, f"10.77.1.{ord(name[0])}", 3306, standing) for name, standing in standings.items()
    )
    return ForwardedGroup(weight, members)


def shares(routing: Routing) -> dict[str, float]:
    """Each target's part of new connections; `-` are those that are refused."""
    weights = {target.instance_id: target.weight for target in routing.targets}
    weights["-"] = routing.refused_weight
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items() if weight}


def test_targets_of_one_group_are_alike() -> None:
    routing = route([group(1, a="healthy", b="healthy", c="waiting")])
    assert {t.instance_id: (t.weight, t.up) for t in routing.targets} == {
        "a": (100, True),
        "b": (100, True),
        "c": (0, False),
    }


def test_the_smallest_share_is_not_nothing() -> None:
    found = route([group(999, a="healthy"), group(1, a="healthy", n="healthy")])
    assert {t.instance_id: t.weight for t in found.targets} == {"a": 256, "n": 1}


def test_a_waiting_newcomer_takes_nothing_while_its_group_has_a_healthy_target() -> None:
    found = route([group(1, a="healthy"), group(999, a="healthy", n="waiting")])
    assert shares(found) == {"a": 1.0}
    assert [(t.instance_id, t.up) for t in found.targets] == [("a", True), ("n", False)]


def test_a_group_fails_open_alone() -> None:
    found = route([group(1, a="healthy", b="waiting"), group(1, n="waiting")])
    assert shares(found) == {"a": 0.5, "n": 0.5}
    assert {t.instance_id: t.up for t in found.targets} == {"a": True, "b": False, "n": True}


def test_without_any_taker_there_is_nothing_to_weigh() -> None:
    assert route([group(1)]) == Routing((), 0)
    assert route([group(1), group(0, a="healthy")]).refused_weight == 0


def test_a_target_that_leaves_one_group_lives_on_in_the_other() -> None:
    found = route([group(1, a="healthy", b="leaving"), group(1, a="healthy", b="healthy")])
    assert shares(found) == pytest.approx({"a": 0.75, "b": 0.25}, abs=0.003)
    assert not any(target.draining for target in found.targets)
