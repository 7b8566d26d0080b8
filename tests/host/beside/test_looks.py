"""One window of a volume: warm reads that are timed, and what of the device's traffic is not the engine's."""

from __future__ import annotations

import random
import threading

import pytest
from peaker_host.beside import looks
from peaker_host.beside.leaving_room import LeavingRoom
from peaker_host.beside.looks import VolumeLooks
from peaker_host.beside.room import Room
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import WrongDevice

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
    monkeypatch.setattr(looks, "disk_counters", volume.counters)
    monkeypatch.setattr(looks, "read_latencies_ms", volume.read_pages)
    return volume


def looks_at(volume: Volume) -> VolumeLooks:
    return VolumeLooks(
        DEVICE, lambda: volume.at_work, volume.delivered, random.Random(3), lambda: volume.seconds
    )


def test_a_window_tells_what_the_engine_gets_and_what_others_do(volume: Volume) -> None:
    seen = looks_at(volume)
    assert seen.alone_ms([(10, 4)]) == 1.0
    volume.others_mib_per_s, volume.writes_per_s, volume.page_ms = 12.0, 40.0, 3.0
    look = seen.look(volume)
    assert look.at_work
    assert look.await_ms == 3.0
    assert look.engine_bytes_per_s == pytest.approx(100 * MIB, rel=0.001)
    assert look.others_bytes_per_s == pytest.approx(12 * MIB, rel=0.001)
    assert look.others_writes_per_s == pytest.approx(40, rel=0.05)


def test_only_pages_of_warm_blocks_are_read(volume: Volume) -> None:
    seen = looks_at(volume)
    seen.alone_ms([(10, 2), (500, 1)])
    seen.look(volume)
    assert {offset // BLOCK_BYTES for offset in volume.pages} == {10, 11, 500}
    assert len({offset % BLOCK_BYTES for offset in volume.pages}) > 10
    assert len(volume.pages) <= 16 + 20


def test_a_block_that_the_device_ends_in_is_not_read(volume: Volume) -> None:
    assert looks_at(volume).alone_ms([(1000, 1)]) is None


def test_where_no_database_is_at_work_nothing_is_read(volume: Volume) -> None:
    seen = looks_at(volume)
    seen.alone_ms([(10, 4)])
    before, volume.at_work = len(volume.pages), False
    look = seen.look(volume)
    assert (look.at_work, look.await_ms, len(volume.pages)) == (False, None, before)
    assert look.engine_bytes_per_s == pytest.approx(100 * MIB, rel=0.001)


def test_before_anything_is_warm_no_read_can_be_timed(volume: Volume) -> None:
    seen = looks_at(volume)
    assert seen.alone_ms([]) is None
    assert seen.look(volume).await_ms is None


def test_a_page_that_cannot_be_read_is_unknown(volume: Volume) -> None:
    seen = looks_at(volume)
    seen.alone_ms([(10, 4)])
    volume.page_ms = None
    assert seen.look(volume).await_ms is None


def test_counters_that_cannot_be_read_are_unknown(volume: Volume) -> None:
    seen = looks_at(volume)
    seen.alone_ms([(10, 4)])
    volume.counted = False
    look = seen.look(volume)
    assert (look.others_bytes_per_s, look.others_writes_per_s, look.await_ms) == (None, None, 1.0)


def test_what_was_decided_is_held_and_told_with_its_numbers(volume: Volume) -> None:
    held: list[Room] = []
    room = LeavingRoom(looks_at(volume), held.append)
    volume.at_work = False
    room.look_alone([(10, 4)])
    with room.left():
        pass
    assert (room.progress(), room.told()) == (None, "")
    volume.at_work, volume.page_ms = True, 40.0
    for _ in range(5):
        room.window(volume)
    assert [round(one.bytes_per_s or 0.0, -6) for one in held] == [94e6, 89e6, 86e6]
    assert held[0].readers == 2.0
    assert room.told() == (
        "held back for 2 s (82 of 100 MiB/s, no less: a warm read takes 40.0 ms, 1.0 ms without the engine)"
    )
    assert room.progress() == {
        "limit_mib_per_s": 82.0,
        "full_mib_per_s": 100.0,
        "held_seconds": 2,
        "await_alone_ms": 1.0,
        "await_slowest_ms": 40.0,
        "reason": "82 of 100 MiB/s, no less: a warm read takes 40.0 ms, 1.0 ms without the engine",
    }


def test_a_host_that_was_busy_before_the_engine_read_is_not_taken_for_a_slow_volume(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([5.0, 1.0, 1.1, 9.0] * 4)
    monkeypatch.setattr(looks, "read_latencies_ms", lambda *_: [next(times)])
    assert looks_at(volume).alone_ms([(10, 4)]) == 1.1


def test_a_window_of_quicker_reads_than_before_is_believed(volume: Volume) -> None:
    room = LeavingRoom(looks_at(volume), lambda _: None)
    volume.page_ms = 4.0
    room.look_alone([(10, 4)])
    with room.left():
        pass
    for page_ms in (1.0, 1.0, 1.0, 3.0):
        volume.page_ms = page_ms
        room.window(volume)
    room.window(volume)
    assert "a warm read takes 3.0 ms, 1.0 ms without the engine" in room.told()


def test_a_window_that_is_cut_short_decides_nothing(volume: Volume) -> None:
    held: list[Room] = []
    room = LeavingRoom(looks_at(volume), held.append)
    volume.page_ms = 40.0
    volume.set()
    for _ in range(5):
        room.window(volume)
    assert held == []
