"""Reservations of a limit: never more than there is, and nobody is delayed by whoever asks later."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise

import pytest
from peaker.domain.limits.account_limits import INITIALIZATION_RATE, Limit
from peaker.domain.limits.reservations import (
    MOST_RESERVATIONS,
    Reservation,
    Reservations,
    Reserved,
    Wanted,
    WithoutReservation,
    reserve,
)

from tests.support.fakes import NOON

RATE = Limit("initialization rate", "MiB/s", 1_000.0, "a test")
HOUR = 3600.0


def wanted(
    run: str,
    amount: float = 400,
    *,
    cluster: str | None = None,
    hold: float = 600,
    after: float = 0,
    **more: float,
) -> Wanted:
    not_before = NOON + timedelta(seconds=after)
    return Wanted(run, cluster or run, amount, hold, not_before, more.get("patience", 24 * HOUR))


def after_all(*asked: Wanted, there: Reservations | None = None) -> Reservations:
    found = there or Reservations()
    for one in asked:
        answer = reserve(found, RATE, one, NOON)
        assert isinstance(answer, Reserved), answer
        found = answer.reservations
    return found


def begins(there: Reservations, run: str) -> float:
    own = there.of(run)
    assert own is not None
    return (own.begins_at - NOON).total_seconds()


def test_what_is_free_is_reserved_at_once() -> None:
    assert begins(after_all(wanted("a"), wanted("b")), "b") == 0


def test_who_comes_too_late_begins_when_enough_has_ended() -> None:
    there = after_all(wanted("a", hold=300), wanted("b", hold=600), wanted("c"))
    assert begins(there, "c") == 300


def test_a_reservation_does_not_begin_before_its_turn_to_start() -> None:
    assert begins(after_all(wanted("a", after=90)), "a") == 90


def test_a_run_starts_so_early_that_it_comes_to_its_reservation_in_time() -> None:
    there = after_all(wanted("a", 1_000, hold=600))
    early = Wanted("b", "b", 1_000, 600, NOON, 24 * HOUR, start_seconds=180)
    answer = reserve(there, RATE, early, NOON)
    assert isinstance(answer, Reserved)
    assert (answer.own.begins_at - NOON, answer.starts_at - NOON) == (
        timedelta(seconds=600), timedelta(seconds=420),
    )  # fmt: skip
    again = reserve(answer.reservations, RATE, early, NOON + timedelta(seconds=5))
    assert isinstance(again, Reserved)
    assert again.starts_at == answer.starts_at


def test_what_others_use_before_a_run_needs_it_is_not_waited_for() -> None:
    there = after_all(wanted("a", 1_000, hold=100))
    answer = reserve(there, RATE, Wanted("b", "b", 1_000, 600, NOON, 0, start_seconds=180), NOON)
    assert isinstance(answer, Reserved)
    assert answer.starts_at == NOON


def test_a_small_one_may_go_into_a_gap_but_only_where_it_delays_nobody() -> None:
    there = after_all(wanted("a", 600, hold=600), wanted("large", 1_000, hold=600))
    assert begins(there, "large") == 600
    there = after_all(wanted("short", 300, hold=600), wanted("long", 300, hold=601), there=there)
    assert begins(there, "short") == 0
    assert begins(there, "long") == 1_200
    assert begins(there, "large") == 600


def test_a_large_one_is_not_passed_by_for_ever() -> None:
    there = after_all(*(wanted(f"first-{one}", 300) for one in range(3)), wanted("large", 1_000))
    for number in range(50):
        there = after_all(wanted(f"small-{number}", 100), there=there)
    assert begins(there, "large") == 600


def batch(*amounts: float) -> list[Wanted]:
    return [wanted(f"orders-{number}", amount, cluster="orders") for number, amount in enumerate(amounts)]


def test_while_others_have_some_a_cluster_gets_half_of_it_at_most() -> None:
    there = after_all(wanted("carts", 100), *batch(250, 250, 250))
    assert [begins(there, f"orders-{number}") for number in range(3)] == [0, 0, 600]


def test_a_cluster_that_is_alone_may_have_all_of_it() -> None:
    there = after_all(*batch(250, 250, 250, 250))
    assert [begins(there, f"orders-{number}") for number in range(4)] == [0, 0, 0, 0]


def test_a_single_one_of_more_than_half_is_given_all_the_same() -> None:
    there = after_all(wanted("carts", 100), *batch(900, 100))
    assert [begins(there, f"orders-{number}") for number in range(2)] == [0, 600]


def test_more_than_there_is_is_never_given() -> None:
    answer = reserve(Reservations(), RATE, wanted("a", 1_001), NOON)
    assert isinstance(answer, WithoutReservation)
    assert answer.could_begin_at is None
    assert answer.why == "1,001 MiB/s are more than the 1,000 that there are"


def test_who_would_wait_for_longer_than_it_is_worth_goes_without_and_is_told_why() -> None:
    there = after_all(wanted("a", 1_000, hold=600))
    answer = reserve(there, RATE, wanted("b", patience=599), NOON)
    assert isinstance(answer, WithoutReservation)
    assert answer.could_begin_at == NOON + timedelta(minutes=10)
    assert "are free at 12:10:00; to wait for them for 10.0 min is worth it up to 10.0 min" in answer.why
    assert isinstance(reserve(there, RATE, wanted("b", patience=600), NOON), Reserved)


def test_the_same_run_asks_twice_and_gets_what_it_has() -> None:
    there = after_all(wanted("a"))
    again = reserve(there, RATE, wanted("a", 100, hold=5), NOON + timedelta(seconds=60))
    assert isinstance(again, Reserved)
    assert (again.own, again.reservations) == (there.of("a"), there)


def test_what_a_dead_run_had_ends_by_itself() -> None:
    there = after_all(wanted("dead", 1_000, hold=600))
    later = NOON + timedelta(seconds=600)
    answer = reserve(there, RATE, Wanted("b", "b", 1_000, 60, later, 0), later)
    assert isinstance(answer, Reserved)
    assert [one.run_id for one in answer.reservations.made] == ["b"]


def test_what_is_given_back_is_free_at_once() -> None:
    there = after_all(wanted("a", 1_000)).without("a")
    assert begins(after_all(wanted("b", 1_000), there=there), "b") == 0


def test_no_more_are_kept_than_one_item_holds() -> None:
    one = Reservation(run_id="x", cluster="x", amount=0.1, begins_at=NOON, ends_at=NOON + timedelta(hours=1))
    full = Reservations(
        made=tuple(one.model_copy(update={"run_id": f"{n}"}) for n in range(MOST_RESERVATIONS))
    )
    answer = reserve(full, RATE, wanted("late", 1), NOON)
    assert isinstance(answer, WithoutReservation)
    assert "1,000 reservations" in answer.why
    longest = one.model_copy(update={"run_id": "r" * 64, "cluster": "c" * 63})
    assert len(longest.model_dump_json()) * MOST_RESERVATIONS < 400_000


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_asked_the_quota_is_kept_at_every_moment(seed: int) -> None:
    dice = random.Random(seed)
    there, first, now = Reservations(), {}, NOON
    for number in range(200):
        now += timedelta(seconds=dice.uniform(0, 120))
        asked = Wanted(
            f"run-{number}",
            f"cluster-{dice.randrange(6)}",
            dice.choice((100, 300, 600, 900, 2_600, 5_000)),
            dice.uniform(60, 4_000),
            now + timedelta(seconds=dice.uniform(0, 30)),
            dice.choice((0, 600, 24 * HOUR)),
            dice.choice((0, 150)),
        )
        answer = reserve(there, INITIALIZATION_RATE, asked, now)
        if isinstance(answer, WithoutReservation):
            continue
        there = answer.reservations
        first[asked.run_id] = answer.own
        edges = sorted({at for one in there.made for at in (one.begins_at, one.ends_at)})
        for start, end in pairwise(edges):
            at_work = [one for one in there.made if one.begins_at < end and one.ends_at > start]
            assert sum(one.amount for one in at_work) <= INITIALIZATION_RATE.capacity
    assert len(first) > 50
    assert all(first[one.run_id] == one for one in there.made)
