"""Which settings are proposed for a cluster, on what evidence, and when none are."""

from __future__ import annotations

import pytest
from peaker_backtest.replay.settings_proposal import Advice, Choice, Trial, Week, propose_settings

NOW = Choice(0.95, 0.0)


def trial(hours: list[float], short: list[float], choice: Choice = NOW) -> Trial:
    return Trial(choice, tuple(Week(h, s) for h, s in zip(hours, short, strict=True)))


def other(hours: list[float], short: list[float], quantile: float = 0.9) -> Trial:
    return trial(hours, short, Choice(quantile, 0.0))


USUAL = trial([100.0, 100.0], [60.0, 40.0])


def test_the_cheapest_that_is_short_no_longer_is_proposed_with_its_dollars() -> None:
    cheap, cheaper = other([95.0, 95.0], [50.0, 50.0]), other([90.0, 92.0], [50.0, 50.0], 0.85)
    found = propose_settings(USUAL, [cheap, cheaper], replica_hour_usd=2.0)
    assert found.advice is Advice.CHANGE
    assert found.proposed is cheaper
    assert found.saved_replica_hours == pytest.approx(9.0)
    assert found.saved_usd == pytest.approx(18.0)
    assert "cheapest of 3 settings" in found.reason


def test_what_is_short_for_longer_than_accepted_is_never_proposed() -> None:
    found = propose_settings(USUAL, [other([50.0, 50.0], [51.0, 50.0])])
    assert found.advice is Advice.STAY
    assert found.proposed is None
    assert found.accepted_short_minutes == 50.0


def test_an_operator_who_accepts_more_shortage_is_proposed_what_it_saves() -> None:
    short = other([50.0, 50.0], [300.0, 300.0])
    assert propose_settings(USUAL, [short], accepted_short_minutes=299.0).proposed is None
    assert propose_settings(USUAL, [short], accepted_short_minutes=300.0).proposed is short


@pytest.mark.parametrize(
    ("hours", "why"),
    [
        ([98.5, 98.5], "a gain within the noise"),
        ([101.0, 60.0], "one week paid for another"),
        ([100.0, 60.0], "once"),
    ],
)
def test_weak_evidence_changes_nothing(hours: list[float], why: str) -> None:
    found = propose_settings(USUAL, [other(hours, [0.0, 0.0])])
    assert found.advice is Advice.STAY, why
    assert found.saved_replica_hours == 0.0


def test_more_shortage_than_accepted_is_worth_paying_for() -> None:
    dear, dearer = other([110.0, 110.0], [5.0, 5.0], 0.975), other([130.0, 130.0], [0.0, 0.0], 0.99)
    found = propose_settings(USUAL, [dear, dearer], accepted_short_minutes=10.0, replica_hour_usd=1.0)
    assert found.proposed is dear
    assert found.saved_usd == pytest.approx(-10.0)
    assert "longer than the 10 min a week that are accepted" in found.reason


def test_a_shortage_that_no_settings_reach_is_said_with_the_least_there_is() -> None:
    found = propose_settings(USUAL, [other([110.0, 110.0], [30.0, 20.0], 0.99)], accepted_short_minutes=10.0)
    assert found.advice is Advice.STAY
    assert "the least was 25 min with quantile 0.99" in found.reason


@pytest.mark.parametrize("weeks", [0, 1])
def test_one_week_is_no_evidence(weeks: int) -> None:
    found = propose_settings(trial([100.0] * weeks, [0.0] * weeks), [other([1.0] * weeks, [0.0] * weeks)])
    assert found.advice is Advice.UNKNOWN
    assert found.proposed is None


def test_a_price_that_is_not_known_is_no_price() -> None:
    found = propose_settings(USUAL, [other([90.0, 90.0], [0.0, 0.0])])
    assert found.saved_replica_hours == pytest.approx(10.0)
    assert found.saved_usd is None
