"""A database that starts while the last urgent blocks are read: when the engine is held, and to what."""

from __future__ import annotations

import threading

from peaker_host.beside.room import LEAST_SHARE
from peaker_host.beside.start_room import RoomForStart

MIB = 1024 * 1024


class Reading(threading.Event):
    """An engine's reading and the time on it: waiting lets it pass. The database begins at `starts_at`."""

    def __init__(self, starts_at: float, ends_at: float = 100.0, first_block_at: float = 0.0) -> None:
        super().__init__()
        self.seconds = 0.0
        self.starts_at = starts_at
        self.ends_at = ends_at
        self.first_block_at = first_block_at
        self.held: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds += timeout or 0.0
        return self.seconds >= self.ends_at

    def watched(self) -> list[float]:
        """MiB a second that the engine was held to."""
        RoomForStart(
            lambda: self.seconds >= self.starts_at,
            lambda: round(max(0.0, self.seconds - self.first_block_at) * 100 * MIB),
            self.held.append,
            lambda: self.seconds,
        ).watch(self)
        return [one / MIB for one in self.held]


def test_it_is_held_once_to_a_share_of_what_it_got() -> None:
    [held] = Reading(starts_at=7.0).watched()
    assert round(held) == round(LEAST_SHARE * 100)


def test_where_the_database_begins_with_the_first_read_half_a_second_is_measured_before() -> None:
    reading = Reading(starts_at=0.0)
    assert len(reading.watched()) == 1
    assert 0.5 <= reading.seconds < 0.8


def test_without_a_byte_nothing_is_known_to_share() -> None:
    reading = Reading(starts_at=0.0, first_block_at=3.0)
    assert len(reading.watched()) == 1
    assert reading.seconds > 3.0


def test_no_database_no_limit() -> None:
    assert Reading(starts_at=50.0, ends_at=20.0).watched() == []
