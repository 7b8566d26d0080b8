"""Replicas that get few reads: what counts, what is added, what only warns, what is never taken away for it.

Two base replicas a and b, 100 a second each; c and d are peak replicas.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker.domain.issued import CheckState
from peaker.domain.planning.needed_replicas import DecisionInputs, FleetCounts
from peaker.domain.planning.scaling import Action, Outcome, ScalingDecision

from tests.unit.domain.planning.test_scaling import HOUR, NOW, POLICY, check, forecast

OLD = {"c": NOW - 10 * HOUR, "d": NOW - 9 * HOUR}
NEWCOMERS = {"c": 0.05, "d": 0.06}


def fleet(
    few: dict[str, float], since: dict[str, float] | None = None, *, building: int = 0, **shares: float
) -> FleetCounts:
    peak = OLD if since is None else since
    known = {**dict.fromkeys(["a", "b", *peak], 1.0), **few, **shares}
    return FleetCounts(2 + len(peak), building, peak_in_service_since=peak, few_reads=few, read_shares=known)


def decided(load: float, counts: FleetCounts, state: CheckState | None = None) -> ScalingDecision:
    return check(DecisionInputs(NOW, load, counts), forecast(load), state)


def test_a_peak_that_only_the_number_covers_is_an_alarm_and_adds_no_third_newcomer() -> None:
    """200 connections that never close stay on a and b; the endpoint gives c and d the few that are new."""
    decision = decided(380.0, fleet(NEWCOMERS))
    assert (decision.action, decision.outcome, decision.shortage) == (Action.NONE, Outcome.ALARM, 0)
    assert decision.reason == (
        "the load of 380 now, takes 4 replicas; 4 serve or are being built; c takes 5% of a peer's reads, d takes 6% "
        "of a peer's reads: those that serve count as 2.1 of the 3.8 that the load takes; none is added for that, as "
        "the newest, d, takes 6%: clients keep their connections"
    )
    assert decision.numbers["counted_replicas"] == pytest.approx(2.11)
    assert decision.numbers["uncovered_replicas"] == pytest.approx(1.69)


def test_where_the_newest_gets_reads_another_one_makes_up_for_an_old_one_that_gets_none() -> None:
    """b was restarted, and its clients stayed with the others."""
    decision = decided(350.0, fleet({"b": 0.1}))
    assert (decision.action, decision.outcome, decision.shortage) == (Action.SCALE_OUT, Outcome.ACT, 1)
    assert decision.required == 5, "check_shortage and the plan go by it"
    assert "b takes 10% of a peer's reads: those that serve count as 3.1 of the 3.5" in decision.reason


def test_the_one_that_is_added_for_it_is_waited_for_before_the_next() -> None:
    being_built = decided(390.0, fleet({"a": 0.1, "b": 0.1}, building=1))
    assert (being_built.action, being_built.outcome) == (Action.NONE, Outcome.HOLD)
    assert "none is added for that before the newest has served for 15 min" in being_built.reason
    young = fleet({"a": 0.1, "b": 0.1}, {**OLD, "e": NOW - 600})
    assert (decided(390.0, young).outcome, decided(390.0, young).shortage) == (Outcome.HOLD, 0)
    shown = fleet({"a": 0.1, "b": 0.1}, {**OLD, "e": NOW - 1000})
    assert decided(390.0, shown).shortage == 1


def test_the_ceiling_is_the_ceiling() -> None:
    full = fleet({"a": 0.1, "b": 0.1}, dict.fromkeys("cdef", NOW - 10 * HOUR))
    decision = decided(550.0, full)
    assert (full.serving, decision.action, decision.outcome) == (
        POLICY.max_replicas,
        Action.NONE,
        Outcome.ALARM,
    )
    assert "max_replicas 6 is the ceiling (I12)" in decision.reason


def test_few_reads_make_no_replica_idle() -> None:
    """By number one could go at 240; c is the one that must stay, since b takes nothing."""
    ready = CheckState(low_checks=99)
    counts = fleet({"b": 0.05}, {"c": NOW - 10 * HOUR, "d": NOW - 9 * HOUR})
    assert decided(240.0, counts, ready).surplus == 0
    assert decided(240.0, replace(counts, few_reads={}), ready).surplus == 1
