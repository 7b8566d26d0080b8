"""How many requests a second are sent."""

from __future__ import annotations

from peaker_host.fill.request_pace import RequestPace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def sent_within(pace: RequestPace, clock: Clock, seconds: float) -> int:
    """Requests of one reader that waits for each turn."""
    until, count = clock.now + seconds, 0
    while True:
        clock.now += pace.turn()
        if clock.now > until:
            return count
        count += 1


def test_no_more_than_the_rate_is_sent() -> None:
    clock = Clock()
    pace = RequestPace(900, clock)
    assert 8_900 <= sent_within(pace, clock, 10) <= 9_100


def test_a_throttling_lowers_the_rate_and_all_of_one_moment_count_once() -> None:
    clock = Clock()
    pace = RequestPace(900, clock)
    for _ in range(64):
        pace.refused()
    assert pace.per_second == 630
    clock.now += 0.6
    pace.refused()
    assert pace.per_second == 441
    assert pace.throttled == 65


def test_the_rate_rises_again_to_its_ceiling() -> None:
    clock = Clock()
    pace = RequestPace(900, clock)
    pace.refused()
    clock.now += 5
    pace.turn()
    assert round(pace.per_second) == 720
    clock.now += 60
    pace.turn()
    assert pace.per_second == 900


def test_the_rate_never_ends() -> None:
    clock = Clock()
    pace = RequestPace(900, clock)
    for _ in range(100):
        clock.now += 1
        pace.refused()
    assert pace.per_second >= 10
