"""How much the engine takes beside a database, on a volume that is simulated window by window."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from peaker_host.warm.throttling import LEAST_SHARE, Throttle, Window, decide, slow_above_ms

MIB = 1024 * 1024
BASELINE_MS = 1.0


@dataclass
class Volume:
    """Answers in turn. Its `readers` want a page of 16 KiB each, all the time or so many MiB a second.

    The engine has `under_way` MiB under way where it is not held back; a store may give it less than the volume takes.
    """

    gives: float = 125.0
    store: float = 1e9
    readers: int = 4
    wants: float = 1e9
    writes: float = 0.0
    under_way: float = 4.0
    at_work: bool = True

    def window(self, throttle: Throttle) -> Window:
        limit = 1e9 if throttle.bytes_per_s is None else throttle.bytes_per_s / MIB
        asked = min(limit, self.store)
        engine = min(asked, self.gives)
        queue_ms = self.under_way / self.gives * 1000 if asked > self.gives else 0.0
        await_ms = BASELINE_MS + queue_ms
        reads = min(self.wants, self.readers / 64 / await_ms * 1000)
        if engine + reads > self.gives:
            # They have what the engine leaves; what they wait for is each other.
            reads = max(self.gives - engine, self.readers / 64 / await_ms * 1000 if queue_ms else 0.1)
            await_ms = max(await_ms, self.readers / 64 / reads * 1000)
        return Window(self.at_work, engine * MIB, await_ms, reads * MIB, self.writes)


def after(volume: Volume, windows: int, throttle: Throttle | None = None) -> Throttle:
    throttle = throttle or Throttle()
    for _ in range(windows):
        throttle = decide(throttle, volume.window(throttle), BASELINE_MS)
    return throttle


NOBODY = Volume(readers=0, wants=0.0)


def test_where_no_database_is_at_work_the_engine_takes_all() -> None:
    throttle = after(Volume(at_work=False), 500)
    assert (throttle.bytes_per_s, throttle.held_windows, throttle.reason) == (
        None,
        0,
        "no database is at work",
    )


def test_a_database_that_waits_behind_the_engine_gets_room_at_the_first_look() -> None:
    throttle = after(Volume(), 1, after(Volume(at_work=False), 30))
    assert throttle.bytes_per_s == pytest.approx(0.9 * 125 * MIB)
    assert throttle.reason == "112 of 125 MiB/s: a warm read takes 33.0 ms, 1.0 ms without the engine"


def test_readers_that_want_more_than_is_left_get_no_more_than_the_least_share_leaves() -> None:
    throttle = after(Volume(readers=64), 60, after(Volume(at_work=False), 30))
    assert throttle.share == LEAST_SHARE
    assert "102 of 125 MiB/s, no less: " in throttle.reason


def test_where_the_store_binds_warm_reads_wait_for_nobody_and_the_engine_takes_all() -> None:
    throttle = after(Volume(store=50.0), 500)
    assert throttle.held_windows == 0
    assert throttle.reason == "all: a warm read takes 1.0 ms, 1.0 ms without the engine"


def test_on_an_idle_volume_the_engine_asks_now_and_then_and_takes_all_between() -> None:
    throttle = after(NOBODY, 30, after(Volume(at_work=False), 30))
    assert (throttle.share, throttle.held_windows) == (None, 5)
    assert throttle.reason == "all: nobody else read or wrote in five seconds"
    assert after(NOBODY, 700, throttle).held_windows <= 5 + 700 * 5 // 35


def test_who_comes_to_a_volume_that_was_idle_waits_half_a_minute_at_most() -> None:
    idle = after(NOBODY, 8, after(Volume(at_work=False), 30))
    assert idle.share is None
    assert after(Volume(), 30, idle).share is not None


def test_a_database_that_only_writes_is_somebody() -> None:
    throttle = after(Volume(readers=0, wants=0.0, writes=20.0), 100)
    assert throttle.share is not None


@pytest.mark.parametrize("unknown", ["await", "alone"])
def test_without_a_timed_read_nothing_is_changed(unknown: str) -> None:
    look = Window(True, 125.0 * MIB, None if unknown == "await" else 50.0, 0.0, 0.0)
    for before in (Throttle(), after(Volume(), 20, after(Volume(at_work=False), 30))):
        throttle = decide(before, look, None if unknown == "alone" else BASELINE_MS)
        assert (throttle.share, throttle.bytes_per_s) == (before.share, before.bytes_per_s)
        assert throttle.reason == "unknown: no read of a warm page was timed"


def test_who_else_is_there_being_unknown_is_not_nobody() -> None:
    throttle = after(NOBODY, 1, after(Volume(at_work=False), 30))
    for _ in range(50):
        throttle = decide(throttle, Window(True, 110.0 * MIB, 1.0), BASELINE_MS)
    assert throttle.share is not None


def test_a_volume_that_gives_less_than_before_is_measured_anew() -> None:
    throttle = after(Volume(), 40, after(Volume(at_work=False), 30))
    slower = after(Volume(gives=60.0), 40, throttle)
    assert slower.share is not None
    assert slower.full_bytes_per_s == 60 * MIB


def test_a_volume_that_gives_more_than_before_is_found_out_in_minutes() -> None:
    throttle = after(Volume(), 40, after(Volume(at_work=False), 30))
    faster = after(Volume(gives=250.0), 130, throttle)
    assert faster.share is not None
    assert faster.full_bytes_per_s == 250 * MIB


def test_an_engine_that_falls_short_while_reads_are_quick_gets_more_readers() -> None:
    throttle = after(Volume(), 1, after(Volume(at_work=False), 30))
    short = Window(True, 60.0 * MIB, BASELINE_MS, 5.0 * MIB, 1.0)
    assert throttle.readers == 2.0
    assert decide(throttle, short, BASELINE_MS).readers == 3.0
    assert decide(throttle, Window(True, 60.0 * MIB, 9.0, 5.0 * MIB, 1.0), BASELINE_MS).readers == 2.0


def test_when_the_database_is_gone_the_engine_takes_all_again() -> None:
    held = after(Volume(), 40, after(Volume(at_work=False), 30))
    throttle = after(Volume(at_work=False), 1, held)
    assert (throttle.share, throttle.readers) == (None, 1.0)


@pytest.mark.parametrize("gives", [40.0, 125.0, 250.0, 1000.0])
@pytest.mark.parametrize("readers", [1, 4, 16])
def test_on_a_volume_that_binds_readers_keep_half_and_the_engine_four_fifths(
    gives: float, readers: int
) -> None:
    """As far as the least share can leave it to them."""
    volume = Volume(gives=gives, readers=readers)
    throttle = after(Volume(gives=gives, at_work=False), 30)
    reads, engine = [], []
    for _ in range(300):
        throttle = decide(throttle, volume.window(throttle), BASELINE_MS)
        seen = volume.window(throttle)
        reads.append((seen.others_bytes_per_s or 0.0) / MIB)
        engine.append(seen.engine_bytes_per_s / MIB)
    alone = min(readers / 64 * 1000, gives)
    left = (1 - LEAST_SHARE) * gives
    assert sum(reads) / 300 >= 0.95 * min(0.5 * alone, left)
    assert sum(engine) / 300 >= 0.8 * gives


def test_a_read_is_slow_at_twice_its_time_and_noise_of_half_a_millisecond_is_not_slow() -> None:
    assert [slow_above_ms(alone) for alone in (0.2, 1.0, 20.0)] == [0.7, 2.0, 40.0]
