"""How many replicas lag may take out of service at once, decided by each replica for itself."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from host_bench import answering
from peaker_host.health.policy import TIE_SECONDS, Peer, Standing, ask_peers, may_keep_serving, standing_from
from peaker_host.health.server import HealthServer, listen

OUT, AWAY = Standing("i-out", "out"), Standing("i-away", "unreachable")
# A look is a second old, was asked for a second ago, and lag is told in whole seconds.
MOST_VIEW_ERROR_SECONDS = 2.0


def good(name: str = "i-good") -> Standing:
    return Standing(name, "good")


def lagging(seconds: float, name: str = "i-late") -> Standing:
    return Standing(name, "lagging", seconds)


@pytest.mark.parametrize(
    ("own", "peers", "floor", "keep"),
    [
        (40, [good(), good()], 2, False),
        (40, [good()], 1, False),
        (40, [good(), OUT, AWAY], 2, True),
        (40, [lagging(60)], 1, True),
        (40, [lagging(20)], 1, False),
        (40, [lagging(20), lagging(90)], 2, True),
        (40, [good(), lagging(20), lagging(90)], 2, False),
        (40, [], 1, True),
        (40, [AWAY, AWAY], 1, True),
        (40, [OUT, OUT], 1, True),
        (40, [lagging(10), lagging(20), good()], 9, True),
        (40, [AWAY], 0, False),
        (0, [], 0, False),
    ],
)
def test_who_goes_on(own: float, peers: Sequence[Standing], floor: int, keep: bool) -> None:
    assert may_keep_serving(own, peers, floor).keep is keep


def test_replicas_that_lag_alike_all_go_on() -> None:
    for own, other in itertools.permutations((40.0, 40.0 + TIE_SECONDS), 2):
        assert may_keep_serving(own, [lagging(other)], 1).keep
    assert not may_keep_serving(40.1 + TIE_SECONDS, [lagging(40.0)], 1).keep


def test_the_reason_has_its_numbers() -> None:
    found = may_keep_serving(40, [good(), lagging(9), AWAY], 2)
    assert found.reason == "1 peers lag less and fill the 1 places"
    assert found.numbers == {
        "floor_replicas": 2,
        "peers": 3,
        "peers_good": 1,
        "peers_unreachable": 1,
        "less_lagging_peers": ["i-late"],
    }


@pytest.mark.parametrize("seed", range(40))
def test_however_the_views_differ_at_least_the_floor_goes_on(seed: int) -> None:
    """Every replica decides from its own, slightly wrong view of the others."""
    generator = random.Random(seed)
    count, floor = generator.randint(1, 8), generator.randint(0, 9)
    lags = [generator.uniform(30, 50) for _ in range(count)]
    good_peers = [good()] * generator.randint(0, 3)
    kept = 0
    for own in range(count):
        others = [
            lagging(lags[index] + generator.uniform(-1, 1) * MOST_VIEW_ERROR_SECONDS)
            for index in range(count)
            if index != own
        ]
        kept += may_keep_serving(lags[own], [*good_peers, *others], floor).keep
    assert kept >= min(count, max(0, floor - len(good_peers)))


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"state": "good", "only_lag": False}, "good"),
        ({"state": "good", "only_lag": True, "staleness_seconds": 7.0}, "lagging"),
        ({"state": "bad", "only_lag": True, "staleness_seconds": 7}, "lagging"),
        ({"state": "bad", "only_lag": True, "staleness_seconds": None}, "out"),
        ({"state": "bad", "only_lag": False, "staleness_seconds": 7.0}, "out"),
        ({"state": "maintenance"}, "out"),
        ({}, "out"),
    ],
)
def test_what_a_peer_s_answer_means(body: dict[str, Any], state: str) -> None:
    assert standing_from("i-1", body).state == state


def test_peers_are_asked_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    late = {"state": "bad", "only_lag": True, "staleness_seconds": 8}
    peers = [Peer("i-1", "127.0.0.1"), Peer("i-2", "127.255.255.254")]
    with answering(HealthServer(listen(["127.0.0.1"], 0), lambda: (503, late))) as port:
        assert ask_peers(peers, port, 60) == [Standing("i-1", "lagging", 8.0), Standing("i-2", "unreachable")]
        assert ask_peers([], port) == []
