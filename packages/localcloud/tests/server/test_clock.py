"""The cloud clock: scaled, continuous, settable, shared through its file."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from localcloud.clock import CloudClock


class RealTime:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_cloud_time_runs_scale_times_as_fast() -> None:
    real = RealTime()
    clock = CloudClock(scale=180, real_now=real)
    before = clock.epoch()
    real.now += 10
    assert clock.epoch() - before == 1800
    assert clock.real_seconds(1800) == 10


def test_a_change_of_scale_leaves_no_gap() -> None:
    real = RealTime()
    clock = CloudClock(scale=100, real_now=real)
    real.now += 5
    before = clock.epoch()
    clock.set(scale=1)
    assert clock.epoch() == before
    real.now += 5
    assert clock.epoch() == before + 5


@pytest.mark.parametrize("scale", [0, -1, 1e9, float("nan"), float("inf"), True, "fast"])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        CloudClock().set(scale=scale)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        CloudClock().set(now=datetime(2026, 3, 1))


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "clock.json"
    clock = CloudClock(path)
    stop = threading.Event()
    broken: list[str] = []

    def read() -> None:
        while not stop.is_set():
            text = path.read_text()
            if set(json.loads(text)) != {"anchor_real", "anchor_cloud", "scale"}:
                broken.append(text)

    reader = threading.Thread(target=read)
    reader.start()
    for scale in range(1, 200):
        clock.set(scale=scale)
    stop.set()
    reader.join()
    assert not broken
    assert [file.name for file in tmp_path.iterdir()] == ["clock.json"]


def test_a_wait_follows_a_change_of_scale() -> None:
    clock = CloudClock(scale=1)
    threading.Timer(0.1, lambda: clock.set(scale=10_000)).start()
    started = time.monotonic()
    assert clock.sleep(600)
    assert time.monotonic() - started < 300


def test_a_wait_ends_when_told_to_stop() -> None:
    clock = CloudClock(scale=1)
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        clock.wake()

    threading.Timer(0.1, stop).start()
    started = time.monotonic()
    assert not clock.sleep(600, stop=stopped.is_set)
    assert time.monotonic() - started < 300
