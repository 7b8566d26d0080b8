"""Starts in turn: a few at once, then one every four seconds."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.limits.account_limits import (
    DESCRIBE_INSTANCES_OF_A_BUILD,
    DESCRIBE_INSTANCES_PER_SECOND,
    STARTS_PER_SECOND,
)
from peaker.domain.limits.start_slots import StartSlots, next_slot

from tests.support.fakes import NOON


def seconds_of(count: int, slots: StartSlots | None = None) -> tuple[list[float], StartSlots]:
    """When so many runs may begin that all ask at noon."""
    found, left = [], slots or StartSlots()
    for _ in range(count):
        at, left = next_slot(left, NOON)
        found.append((at - NOON).total_seconds())
    return found, left


def test_a_few_begin_at_once_and_then_one_every_four_seconds() -> None:
    assert seconds_of(8)[0] == [0, 0, 0, 0, 0, 4, 8, 12]


def test_whoever_asks_later_begins_later() -> None:
    found, _ = seconds_of(500)
    assert found == sorted(found)


def test_after_a_quiet_while_a_few_begin_at_once_again() -> None:
    _, slots = seconds_of(8)
    at, _ = next_slot(slots, NOON + timedelta(minutes=1))
    assert at == NOON + timedelta(minutes=1)


def test_nine_hundred_that_ask_at_once_have_begun_within_an_hour() -> None:
    assert seconds_of(900)[0][-1] == (900 - 5) * 4


def test_less_than_half_of_the_narrowest_bucket_goes_to_builds() -> None:
    assert STARTS_PER_SECOND * DESCRIBE_INSTANCES_OF_A_BUILD < DESCRIBE_INSTANCES_PER_SECOND / 2
