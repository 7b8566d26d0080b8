"""What one replica serves: proposed for services whose capacity is known, unknown where evidence does not reach."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from peaker.domain.reading import Unknown
from peaker_backtest.capacity.observations import Limit, observe
from peaker_backtest.capacity.proposal import (
    CapacityProposal,
    SettingNow,
    Standing,
    propose_capacity,
)
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import PastLoad

from tests.support.queueing import DAY, Seen, Service, drawn, watched

USUAL = Service()
DRAWN_FROM = 20_261_122


def proposal(seen: Seen, now: float | None = None, serving: PastLoad | int | None = None) -> CapacityProposal:
    replicas = seen.past(seen.serving) if serving is None else serving
    observed = observe(seen.past(seen.load), seen.past(seen.latency_ms), replicas)
    return propose_capacity(observed, seen.service.limit, now)


@cache
def usual() -> Seen:
    return watched(USUAL)


def within(found: CapacityProposal, service: Service) -> bool:
    """Whether it is measured, on the safe side of the truth, and near it."""
    assert found.capacity is not None, found.reason
    assert found.passed_at is not None, found.reason
    return 0.7 * service.capacity <= found.capacity <= service.capacity <= found.passed_at


# --- where the limit was reached


def test_the_capacity_lies_between_what_holds_and_what_does_not() -> None:
    found = proposal(usual())
    assert found.standing is Standing.MEASURED
    assert within(found, USUAL)
    assert found.estimate == pytest.approx(USUAL.capacity, rel=0.03)
    assert found.evidence is not None
    assert (found.evidence.days, found.evidence.replicas) == (28, (4, 4))


@pytest.mark.parametrize(
    ("share", "setting", "changes"),
    [(0.5, SettingNow.HOLDS, True), (0.999, SettingNow.NOT_SHOWN, True), (1.3, SettingNow.TOO_HIGH, True)],
)
def test_the_capacity_of_now_is_held_against_it(share: float, setting: SettingNow, changes: bool) -> None:
    found = proposal(usual(), now=share * USUAL.capacity)
    assert found.setting is setting
    assert (found.proposed == found.capacity) is changes


def test_a_fleet_that_changes_in_number_is_counted_as_it_was() -> None:
    service = replace(USUAL, scales_at=0.9, reach=1.4)
    seen = watched(service)
    found = proposal(seen)
    assert found.evidence is not None
    assert found.evidence.replicas[1] > found.evidence.replicas[0]
    assert any("at a change of the number of replicas" in note for note in found.evidence.notes)
    assert found.capacity is not None
    assert 0.7 * service.capacity <= found.capacity <= service.capacity


def test_a_constant_number_of_replicas_is_taken_as_given() -> None:
    assert proposal(usual(), serving=4) == proposal(usual())


def test_cpu_is_held_to_its_limit_in_the_same_way() -> None:
    seen = usual()
    each = seen.load / seen.serving
    cpu = np.minimum(
        100.0, each / USUAL.saturation * 100 * np.exp(np.random.default_rng(3).normal(0, 0.03, len(each)))
    )
    observed = observe(seen.past(seen.load), seen.past(cpu), 4)
    found = propose_capacity(observed, Limit(60, "%", "CPU", "--cpu-limit-percent"), 460.0)
    truth = 0.6 * USUAL.saturation / np.exp(1.645 * 0.03)
    assert found.standing is Standing.MEASURED
    assert found.capacity is not None
    assert 0.9 * truth <= found.capacity <= truth
    assert found.setting is SettingNow.TOO_HIGH


# --- what disturbs it


def test_a_day_of_slow_queries_is_left_out_and_named() -> None:
    found = proposal(usual().slower(usual().day == 12, 3.0))
    assert within(found, USUAL)
    assert found.evidence is not None
    (odd,) = found.evidence.odd
    assert odd.day == usual().times[0] // DAY + 12
    assert odd.factor == pytest.approx(3.0, rel=0.2)


def test_a_day_of_a_broken_metric_does_not_raise_the_capacity() -> None:
    found = proposal(usual().slower(usual().day == 5, 0.05))
    assert within(found, USUAL)
    assert found.evidence is not None
    assert len(found.evidence.odd) == 1


def test_a_backup_at_the_lowest_loads_is_no_matter() -> None:
    seen = usual()
    quiet = replace(seen, load=np.where((seen.hours >= 1) & (seen.hours < 6), 0.4, 1.0) * seen.load)
    found = proposal(quiet.slower((seen.hours >= 2) & (seen.hours < 4), 8.0))
    assert within(found, USUAL)


def test_a_backup_at_usual_loads_is_told_from_the_load() -> None:
    found = proposal(usual().slower((usual().hours >= 2) & (usual().hours < 4), 8.0))
    assert found.standing is Standing.UNKNOWN
    assert "something else than the load is slow" in found.reason


def test_a_jump_of_a_counter_is_not_a_load_that_was_served() -> None:
    seen = watched(replace(USUAL, reach=0.85))
    honest = proposal(seen)
    load = seen.load.copy()
    load[[500, 4000, 7000]] *= 1e6
    found = proposal(replace(seen, load=load))
    assert found.standing is honest.standing is Standing.AT_LEAST
    assert found.capacity is not None
    assert found.capacity <= USUAL.capacity


def test_missing_hours_and_days_are_left_out() -> None:
    gone = (usual().day % 7 == 3) | ((usual().hours > 9) & (usual().hours < 11))
    seen = replace(usual(), latency_ms=np.where(gone, np.nan, usual().latency_ms))
    found = proposal(seen)
    assert within(found, USUAL)
    assert found.evidence is not None
    assert found.evidence.days == 24
    assert any("have no measure" in note for note in found.evidence.notes)


def test_a_measure_by_the_hour_is_compared_by_the_hour() -> None:
    seen = usual()
    hourly = PastLoad(
        seen.times[::12].tolist(), seen.latency_ms.reshape(-1, 12).mean(axis=1).tolist(), 3600.0
    )
    observed = observe(seen.past(seen.load), hourly, 4)
    assert observed.step_seconds == 3600
    found = propose_capacity(observed, USUAL.limit, None)
    assert found.capacity is None or found.capacity <= 1.02 * USUAL.capacity


# --- unknown, with its reason


def test_a_limit_that_was_never_near_leaves_only_at_least() -> None:
    service = replace(USUAL, reach=0.9)
    found = proposal(watched(service), now=1.2 * service.capacity)
    assert found.standing is Standing.AT_LEAST
    assert found.capacity is not None
    assert found.capacity <= 0.98 * service.capacity
    assert found.passed_at is None
    assert "nobody knows" in found.reason
    assert found.setting is SettingNow.NOT_SHOWN
    assert found.proposed is None, "what was never seen says nothing against the capacity of now"


def test_more_than_the_capacity_of_now_was_served() -> None:
    found = proposal(watched(replace(USUAL, reach=0.9)), now=100.0)
    assert found.setting is SettingNow.HOLDS
    assert found.proposed == found.capacity


def test_nothing_is_claimed_beyond_what_was_seen() -> None:
    for reach in (0.6, 0.8, 0.95, 1.0):
        found = proposal(watched(replace(USUAL, reach=reach)))
        if found.capacity is not None:
            assert found.evidence is not None
            assert found.capacity <= found.evidence.highest_load


def test_a_few_days_say_nothing() -> None:
    found = proposal(watched(replace(USUAL, days=6)))
    assert found.standing is Standing.UNKNOWN
    assert "known together on 6 days, and 7 are needed" in found.reason


def test_a_measure_of_something_else_says_nothing() -> None:
    other = np.random.default_rng(4).lognormal(1.0, 0.4, len(usual().load))
    found = proposal(replace(usual(), latency_ms=other))
    assert found.standing is Standing.UNKNOWN
    assert "does not rise with the load per replica" in found.reason


def test_a_measure_over_the_limit_at_any_load_says_nothing() -> None:
    found = proposal(usual().slower(usual().load > 0, 10.0))
    assert found.standing is Standing.UNKNOWN
    assert "already at the lowest loads" in found.reason


def test_days_that_differ_from_each_other_say_nothing() -> None:
    found = proposal(usual().slower(usual().day % 5 == 0, 4.0))
    assert found.standing is Standing.UNKNOWN
    assert "depends on more than the load" in found.reason


def test_few_observations_say_nothing() -> None:
    found = proposal(watched(replace(USUAL, days=8, step_seconds=21_600)))
    assert found.standing is Standing.UNKNOWN
    assert "one test takes" in found.reason


def test_without_the_number_of_replicas_nothing_is_known() -> None:
    found = propose_capacity(Unknown("nobody counted"), USUAL.limit, 460.0)
    assert (found.standing, found.reason) == (Standing.UNKNOWN, "nobody counted")
    assert found.setting is SettingNow.UNKNOWN


def test_series_of_other_days_are_refused() -> None:
    later = replace(usual().past(usual().latency_ms), times_seconds=[at + 60 * DAY for at in usual().times])
    with pytest.raises(BadInput, match="no time in common"):
        observe(usual().past(usual().load), later, 4)


# --- over many truths


@cache
def over_many_truths() -> list[tuple[Standing, float]]:
    """(standing, proposed share of the true capacity) of services that are drawn from the wide space."""
    random = np.random.default_rng(DRAWN_FROM)
    found = []
    for _ in range(220):
        service = drawn(random, wide=True)
        seen = watched(service, int(random.integers(1 << 30)))
        one = proposal(seen)
        found.append((one.standing, 0.0 if one.capacity is None else one.capacity / service.capacity))
    return found


def test_a_proposed_capacity_holds_as_often_as_is_said() -> None:
    shares = [share for standing, share in over_many_truths() if standing is not Standing.UNKNOWN]
    assert len(shares) >= 100
    assert np.mean([share <= 1 for share in shares]) >= 0.95


def test_a_measured_capacity_is_not_uselessly_low() -> None:
    shares = [share for standing, share in over_many_truths() if standing is Standing.MEASURED]
    assert len(shares) >= 40
    assert np.quantile(shares, 0.05) >= 0.7
    assert np.median(shares) >= 0.85
