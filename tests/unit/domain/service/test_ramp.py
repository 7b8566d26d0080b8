"""When a newcomer's share of the reads rises, waits, or falls back."""

from __future__ import annotations

import pytest
from peaker.domain.reading import Unknown
from peaker.domain.service.ramp import Expected, RampAction, RampVerdict, Service, judge_share, judge_step

from peaker_contract.endpoint_settings import RampSettings

POLICY = RampSettings(latency_margin=1.5, window_seconds=30)
PEER = Service(1000, 0, 0.40)


def test_as_fast_as_its_peers_it_advances_with_both_numbers() -> None:
    verdict = judge_step(Service(300, 0, 0.59), [PEER, Service(900, 0, 0.41)], POLICY)
    assert verdict.action is RampAction.ADVANCE
    assert verdict.reason == "mean 0.59 ms, peers 0.41 ms, margin 1.5"
    assert (verdict.numbers["queries"], verdict.numbers["peers"]) == (300, 2)


def test_slower_than_the_margin_goes_back() -> None:
    verdict = judge_step(Service(300, 0, 0.61), [PEER], POLICY)
    assert verdict.action is RampAction.BACK
    assert "slower than its peers: mean 0.61 ms, peers 0.40 ms" in verdict.reason


def test_more_failing_queries_than_its_peers_goes_back_even_when_fast() -> None:
    verdict = judge_step(Service(1000, 20, 0.1), [Service(1000, 5, 0.4)], POLICY)
    assert verdict.action is RampAction.BACK
    assert verdict.reason == "2.00% of its queries fail, 0.50% of its peers'"


@pytest.mark.parametrize("errors", [0, 2])
def test_a_failed_query_or_two_prove_nothing(errors: int) -> None:
    assert judge_step(Service(150, errors, 0.4), [PEER], POLICY).action is RampAction.ADVANCE


def test_too_few_queries_hold_and_say_how_many_are_needed() -> None:
    verdict = judge_step(Service(99, 0, 0.1), [PEER], POLICY)
    assert (verdict.action, verdict.reason) == (
        RampAction.HOLD,
        "99 queries on the newcomer, 100 needed to compare",
    )
    assert judge_step(Service(300, 0, 0.4), [Service(3, 0, 0.4)], POLICY).action is RampAction.HOLD


@pytest.mark.parametrize(
    ("newcomer", "peers"),
    [
        (Service(0, 0, None), [Service(3, 0, 0.4), Service(100, 0, 0.4)]),
        (Service(0, 0, None), [Service(3, 0, 0.4), Unknown("timed out")]),
        (Service(0, 0, None), [Service(0, 0, None, measurable=False), Service(3, 0, 0.4)]),
        (Service(9, 3, 0.1), [Service(3, 0, 0.4)]),
    ],
    ids=["one peer is busy", "one peer is unknown", "one peer keeps no statistics", "its few queries fail"],
)
def test_it_is_quiet_only_where_every_replica_is_known_to_be(
    newcomer: Service, peers: list[Service | Unknown]
) -> None:
    assert judge_step(newcomer, peers, POLICY).action is RampAction.HOLD


def test_unknown_holds_and_never_advances() -> None:
    assert (
        judge_step(Unknown("timed out"), [PEER], POLICY).reason
        == "the newcomer could not be measured: timed out"
    )
    assert judge_step(Unknown("timed out"), [PEER], POLICY).action is RampAction.HOLD
    assert judge_step(Service(300, 0, 0.4), [Unknown("timed out")], POLICY).action is RampAction.HOLD
    assert judge_step(Service(300, 0, None), [PEER], POLICY).action is RampAction.HOLD


def test_the_only_replica_advances_because_nothing_else_serves() -> None:
    verdict = judge_step(Unknown("no traffic yet"), [], POLICY)
    assert (verdict.action, verdict.reason) == (
        RampAction.ADVANCE,
        "no other replica serves: nothing to compare with",
    )


def test_servers_without_statistics_advance_by_time_and_say_so() -> None:
    off = Service(0, 0, None, measurable=False)
    verdict = judge_step(off, [off, off], POLICY)
    assert (verdict.action, verdict.reason) == (
        RampAction.ADVANCE,
        "by time alone: performance_schema is off on all replicas",
    )
    assert judge_step(off, [PEER], POLICY).action is RampAction.HOLD


def after(seconds: float, ratio: float = 0.2) -> Expected:
    return Expected(ratio, waited_seconds=seconds, overdue_seconds=600)


def judged(newcomer: Service, peer: Service, expected: Expected) -> RampVerdict:
    return judge_share(judge_step(newcomer, [peer], POLICY), newcomer, [peer], POLICY, expected)


def test_a_share_that_has_not_arrived_yet_is_waited_for() -> None:
    verdict = judged(Service(150, 0, 0.4), Service(3000, 0, 0.4), after(300))
    assert verdict.action is RampAction.WAIT
    assert verdict.reason == "5% of a peer's reads arrive, 20% were expected: the endpoint acts late"
    assert (verdict.numbers["measured_ratio"], verdict.numbers["expected_ratio"]) == (0.05, 0.2)


def test_half_of_what_a_share_should_bring_is_enough() -> None:
    assert judged(Service(300, 0, 0.4), Service(3000, 0, 0.4), after(0)).action is RampAction.ADVANCE


def test_clients_that_keep_their_connections_hold_nothing_up_for_ever() -> None:
    verdict = judged(Service(150, 0, 0.4), Service(3000, 0, 0.4), after(600))
    assert verdict.action is RampAction.ADVANCE
    assert verdict.reason.endswith("after 600 s: clients keep their connections")


@pytest.mark.parametrize(
    "newcomer", [Service(150, 0, 9.0), Service(99, 0, 0.4)], ids=["slow", "too few reads"]
)
def test_a_share_that_has_not_arrived_changes_no_other_verdict(newcomer: Service) -> None:
    alone = judge_step(newcomer, [PEER], POLICY)
    assert judge_share(alone, newcomer, [PEER], POLICY, after(0)) == alone


def test_a_cluster_that_nobody_reads_waits_for_no_share() -> None:
    assert judged(Service(0, 0, None), Service(99, 0, 0.4), after(0)).action is RampAction.ADVANCE
