"""One window of a volume: warm reads that are timed, and what of the device's traffic is not the engine's."""

from __future__ import annotations

import random
import threading

import pytest
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import WrongDevice
from peaker_host.warm import throttling
from peaker_host.warm.throttling import (
    LEAST_SHARE,
    LatencyMeter,
    Throttle,
    Throttling,
    throttle_at_start,
    watched,
)

MIB = 1024 * 1024
DEVICE = BlockDevice("/dev/loop99", 7, 99, 1000 * BLOCK_BYTES + 4096, "loop99")


class Volume(threading.Event):
    """The volume and the time on it: waiting lets it pass, and traffic with it."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.at_work = True
        self.engine_mib_per_s = 100.0
        self.others_mib_per_s = 0.0
        self.writes_per_s = 0.0
        self.page_ms: float | None = 1.0
        self.counted = True
        self.pages: list[int] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds += timeout or 0.0
        return self.is_set()

    def delivered(self) -> int:
        return round(self.seconds * self.engine_mib_per_s * MIB)

    def counters(self, name: str) -> dict[str, int]:
        if not self.counted:
            raise WrongDevice(f"{name} is not in /proc/diskstats")
        read = self.delivered() + round(self.seconds * self.others_mib_per_s * MIB) + 16384 * len(self.pages)
        return {"read_bytes": read, "writes": round(self.seconds * self.writes_per_s)}

    def read_pages(self, path: str, offsets: list[int]) -> list[float]:
        assert path == DEVICE.path
        if self.page_ms is None:
            raise OSError(5, "Input/output error")
        self.pages += offsets
        self.seconds += self.page_ms / 1000
        return [self.page_ms]


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> Volume:
    volume = Volume()
    monkeypatch.setattr(throttling, "disk_counters", volume.counters)
    monkeypatch.setattr(throttling, "read_latencies_ms", volume.read_pages)
    return volume


def meter_of(volume: Volume) -> LatencyMeter:
    return LatencyMeter(
        DEVICE, lambda: volume.at_work, volume.delivered, random.Random(3), lambda: volume.seconds
    )


def test_a_window_tells_what_the_engine_gets_and_what_others_do(volume: Volume) -> None:
    meter = meter_of(volume)
    assert meter.baseline_ms([(10, 4)]) == 1.0
    volume.others_mib_per_s, volume.writes_per_s, volume.page_ms = 12.0, 40.0, 3.0
    window = meter.window(volume)
    assert window.at_work
    assert window.await_ms == 3.0
    assert window.engine_bytes_per_s == pytest.approx(100 * MIB, rel=0.001)
    assert window.others_bytes_per_s == pytest.approx(12 * MIB, rel=0.001)
    assert window.others_writes_per_s == pytest.approx(40, rel=0.05)


def test_only_pages_of_warm_blocks_are_read(volume: Volume) -> None:
    meter = meter_of(volume)
    meter.baseline_ms([(10, 2), (500, 1)])
    meter.window(volume)
    assert {offset // BLOCK_BYTES for offset in volume.pages} == {10, 11, 500}
    assert len({offset % BLOCK_BYTES for offset in volume.pages}) > 10
    assert len(volume.pages) <= 16 + 20


def test_a_block_that_the_device_ends_in_is_not_read(volume: Volume) -> None:
    assert meter_of(volume).baseline_ms([(1000, 1)]) is None


def test_where_no_database_is_at_work_nothing_is_read(volume: Volume) -> None:
    meter = meter_of(volume)
    meter.baseline_ms([(10, 4)])
    before, volume.at_work = len(volume.pages), False
    window = meter.window(volume)
    assert (window.at_work, window.await_ms, len(volume.pages)) == (False, None, before)
    assert window.engine_bytes_per_s == pytest.approx(100 * MIB, rel=0.001)


def test_before_anything_is_warm_no_read_can_be_timed(volume: Volume) -> None:
    meter = meter_of(volume)
    assert meter.baseline_ms([]) is None
    assert meter.window(volume).await_ms is None


def test_a_page_that_cannot_be_read_is_unknown(volume: Volume) -> None:
    meter = meter_of(volume)
    meter.baseline_ms([(10, 4)])
    volume.page_ms = None
    assert meter.window(volume).await_ms is None


def test_counters_that_cannot_be_read_are_unknown(volume: Volume) -> None:
    meter = meter_of(volume)
    meter.baseline_ms([(10, 4)])
    volume.counted = False
    window = meter.window(volume)
    assert (window.others_bytes_per_s, window.others_writes_per_s, window.await_ms) == (None, None, 1.0)


def test_what_was_decided_is_held_and_told_with_its_numbers(volume: Volume) -> None:
    held: list[Throttle] = []
    held_back = Throttling(meter_of(volume), held.append)
    volume.at_work = False
    held_back.measure_baseline([(10, 4)])
    with watched(held_back.watch):
        pass
    assert (held_back.progress(), held_back.clause()) == (None, "")
    volume.at_work, volume.page_ms = True, 40.0
    for _ in range(5):
        held_back.next_window(volume)
    assert [round(one.bytes_per_s or 0.0, -6) for one in held] == [94e6, 89e6, 86e6]
    assert held[0].readers == 2.0
    assert held_back.clause() == (
        "held back for 2 s (82 of 100 MiB/s, no less: a warm read takes 40.0 ms, 1.0 ms without the engine)"
    )
    assert held_back.progress() == {
        "held_seconds": 2,
        "await_baseline_ms": 1.0,
        "await_slowest_ms": 40.0,
        "reason": "82 of 100 MiB/s, no less: a warm read takes 40.0 ms, 1.0 ms without the engine",
    }


def test_a_host_that_was_busy_before_the_engine_read_is_not_taken_for_a_slow_volume(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([5.0, 1.0, 1.1, 9.0] * 4)
    monkeypatch.setattr(throttling, "read_latencies_ms", lambda *_: [next(times)])
    assert meter_of(volume).baseline_ms([(10, 4)]) == 1.1


def test_a_window_of_quicker_reads_than_before_is_believed(volume: Volume) -> None:
    held_back = Throttling(meter_of(volume), lambda _: None)
    volume.page_ms = 4.0
    held_back.measure_baseline([(10, 4)])
    with watched(held_back.watch):
        pass
    for page_ms in (1.0, 1.0, 1.0, 3.0):
        volume.page_ms = page_ms
        held_back.next_window(volume)
    held_back.next_window(volume)
    assert "a warm read takes 3.0 ms, 1.0 ms without the engine" in held_back.clause()


def test_a_window_that_is_cut_short_decides_nothing(volume: Volume) -> None:
    held: list[Throttle] = []
    held_back = Throttling(meter_of(volume), held.append)
    volume.page_ms = 40.0
    volume.set()
    for _ in range(5):
        held_back.next_window(volume)
    assert held == []


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
        throttle_at_start(
            lambda: self.seconds >= self.starts_at,
            lambda: round(max(0.0, self.seconds - self.first_block_at) * 100 * MIB),
            self.held.append,
            self,
            lambda: self.seconds,
        )
        return [one / MIB for one in self.held]


def test_it_is_held_once_to_a_share_of_what_it_got() -> None:
    [held] = Reading(starts_at=7.0).watched()
    assert round(held) == round(LEAST_SHARE * 100)


def test_where_the_database_begins_with_the_first_read_half_a_second_is_measured_before() -> None:
    reading = Reading(starts_at=0.0)
    assert len(reading.watched()) == 1
    assert 0.5 <= reading.seconds < 0.8


def test_no_database_no_limit() -> None:
    assert Reading(starts_at=50.0, ends_at=20.0).watched() == []
