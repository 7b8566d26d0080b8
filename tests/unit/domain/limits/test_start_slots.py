"""Starts in turn: a few at once, then one a second."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.limits.start_slots import StartSlots, next_slot

from tests.support.fakes import NOON


def seconds_of(count: int, slots: StartSlots | None = None) -> tuple[list[float], StartSlots]:
    """When so many runs may begin that all ask at noon."""
    found, left = [], slots or StartSlots()
    for _ in range(count):
        at, left = next_slot(left, NOON)
        found.append((at - NOON).total_seconds())
    return found, left


def test_a_few_begin_at_once_and_then_one_a_second() -> None:
    assert seconds_of(8)[0] == [0, 0, 0, 0, 0, 1, 2, 3]


def test_whoever_asks_later_begins_later() -> None:
    found, _ = seconds_of(500)
    assert found == sorted(found)


def test_after_a_quiet_while_a_few_begin_at_once_again() -> None:
    _, slots = seconds_of(8)
    at, _ = next_slot(slots, NOON + timedelta(minutes=1))
    assert at == NOON + timedelta(minutes=1)


def test_ten_thousand_that_ask_at_once_have_begun_after_ten_thousand_seconds() -> None:
    assert seconds_of(10_000)[0][-1] == 9_995
