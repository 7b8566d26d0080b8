"""Depth, rate, retries: the pool that reads one device."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.warm.reader_pool import (
    DepthController,
    PoolProgress,
    RateLimiter,
    ReaderPool,
    Request,
    blocks_per_read,
    requests_of,
)


@pytest.mark.parametrize(
    ("throughput", "depth"),
    [
        pytest.param(lambda depth: min(125e6, depth * 30e6), 8, id="eight readers saturate it"),
        pytest.param(lambda depth: min(1000e6, depth * 20e6), 64, id="it rewards more"),
        pytest.param({8: 100, 16: 190, 32: 195, 64: 190}.__getitem__, 16, id="it stops rising"),
        pytest.param(lambda depth: depth * 1e6, 64, id="never more than the limit"),
    ],
)
def test_the_depth_rests_where_the_device_rewards_no_more(
    throughput: Callable[[int], float], depth: int
) -> None:
    controller = DepthController()
    for _ in range(60 if depth == 64 else 15):
        controller.observe(throughput(controller.depth))
    assert controller.depth == depth


def test_a_device_that_becomes_faster_is_noticed() -> None:
    controller = DepthController()
    for _ in range(10):
        controller.observe(100.0)
    assert controller.depth == 8
    for _ in range(60):
        controller.observe(50.0 * controller.depth)
    assert controller.depth == 64


def test_an_engine_that_goes_on_keeps_the_depth_that_was_found() -> None:
    controller = DepthController(found_before=16)
    for _ in range(10):
        controller.observe(100.0)
    assert (controller.depth, controller.best_depth) == (16, 16)


def test_requests_grow_with_the_device_s_speed_and_never_shrink() -> None:
    assert [blocks_per_read(rate, 1) for rate in (131e6, 249e6, 250e6, 499e6, 2e9)] == [1, 1, 2, 2, 4]
    assert blocks_per_read(100e6, 4) == 4


class StoppedClock(threading.Event):
    """A clock on which nothing takes time but the waits for this event."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StoppedClock:
    clock = StoppedClock()
    monkeypatch.setattr("peaker_host.warm.reader_pool.time.monotonic", lambda: clock.now)
    return clock


def seconds_for(limiter: RateLimiter, megabytes: int, clock: StoppedClock) -> float:
    began = clock.now
    for _ in range(megabytes):
        limiter.take(1_000_000, clock)
    return clock.now - began


def test_a_changed_rate_limit_holds_from_then_on(clock: StoppedClock) -> None:
    limiter = RateLimiter(None)
    assert not limiter.limited
    assert seconds_for(limiter, 1000, clock) == 0
    limiter.change(10e6)
    assert seconds_for(limiter, 100, clock) == pytest.approx(10.0, abs=0.3)


def test_reads_under_a_limit_are_a_millisecond_s_worth_and_no_larger_than_a_block() -> None:
    sizes = [RateLimiter(mib * 1024 * 1024).bytes_per_read // 1024 for mib in (8, 100, 200, 400, 2000)]
    assert sizes == [128, 128, 256, 512, 512]


def test_a_limit_that_goes_while_readers_wait_for_their_turn_ends_no_reader(file: Path) -> None:
    """What was decided for a database changes under way, from a thread of its own."""
    limiter = RateLimiter(50e6)
    seen: list[int] = []

    def one_read(first: int, count: int) -> None:
        seen.append(first)
        limiter.change(None if len(seen) % 2 else 50e6, 0.02)

    pool = ReaderPool(str(file), 8 * BLOCK_BYTES, 1, limiter, one_read, threading.Event())
    pool.run([(0, block, 1) for block in range(8)])
    assert sorted(seen) == list(range(8))
    assert pool.progress.bytes_delivered == pool.progress.bytes_read == 8 * BLOCK_BYTES


def test_readers_that_are_asked_for_under_a_limit_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No read ends before twice as many are under way as the pool began with."""
    path = tmp_path / "larger"
    path.write_bytes(b"\0" * 16 * BLOCK_BYTES)
    together, real = threading.Barrier(16), os.preadv

    def preadv(*arguments: Any) -> int:
        together.wait(60)
        return real(*arguments)

    monkeypatch.setattr("peaker_host.warm.reader_pool.os.preadv", preadv)
    monkeypatch.setattr("peaker_host.warm.reader_pool._WINDOW_SECONDS", 0.01)
    pool = ReaderPool(str(path), 16 * BLOCK_BYTES, 1, RateLimiter(1e9), lambda *_: None, threading.Event())
    pool.hold_readers(2.0)
    pool.run([(0, block, 1) for block in range(16)])
    assert (pool.progress.blocks_read, pool.progress.depth, pool.best_depth) == (16, 16, 8)


def test_a_burst_is_as_long_as_was_said_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("peaker_host.warm.reader_pool.time.monotonic", lambda: now[0])
    waits: list[float] = []
    stopped = threading.Event()
    monkeypatch.setattr(stopped, "wait", waits.append)
    limiter = RateLimiter(10e6)
    limiter.change(10e6, 0.02)
    now[0] += 60
    for _ in range(4):
        limiter.take(100_000, stopped)
    assert waits == [pytest.approx(0.01), pytest.approx(0.02)]


def test_requests_are_whole_blocks_at_most_two_and_skip_what_is_done() -> None:
    done = {2, 7}
    found = list(requests_of([[(0, 4)], [(6, 4)]], done.__contains__, lambda: 2))
    assert found == [(0, 0, 2), (0, 3, 1), (1, 6, 1), (1, 8, 2)]


def test_a_limited_reader_ends_its_wait_when_told() -> None:
    stop = threading.Event()
    limiter = RateLimiter(1.0)
    threading.Timer(0.1, stop.set).start()
    started = time.monotonic()
    limiter.take(1000, stop)
    assert time.monotonic() - started < 500, "of the thousand that the limit would have it wait"


class FlakyDevice:
    """preadv that fails for some blocks a number of times."""

    def __init__(self, failures: dict[int, int]) -> None:
        self.failures = failures
        self.real = os.preadv

    def __call__(self, descriptor: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        first = offset // BLOCK_BYTES
        last = (offset + len(buffers[0]) - 1) // BLOCK_BYTES
        for block in range(first, last + 1):
            if self.failures.get(block, 0) > 0:
                self.failures[block] -= 1
                raise OSError(5, "Input/output error")
        return self.real(descriptor, buffers, offset)


def read(path: Path, requests: list[Request], blocks: int) -> tuple[PoolProgress, list[tuple[int, int]]]:
    seen: list[tuple[int, int]] = []
    pool = ReaderPool(
        str(path),
        blocks * BLOCK_BYTES,
        1,
        RateLimiter(None),
        lambda first, count: seen.append((first, count)),
        threading.Event(),
    )
    pool.run(requests)
    return pool.progress, sorted(seen)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "device"
    path.write_bytes(b"\0" * 8 * BLOCK_BYTES)
    return path


def test_a_passing_error_is_retried_and_nothing_is_lost(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peaker_host.warm.reader_pool.os.preadv", FlakyDevice({3: 2}))
    progress, seen = read(file, [(0, 0, 2), (0, 2, 2), (0, 4, 2)], 8)
    assert progress.failed == []
    assert progress.retries == 1
    assert seen == [(0, 2), (2, 1), (3, 1), (4, 2)]


def test_a_lasting_error_is_reported_by_block_and_its_neighbour_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peaker_host.warm.reader_pool.os.preadv", FlakyDevice({3: 99}))
    monkeypatch.setattr("peaker_host.warm.reader_pool._RETRY_SECONDS", 0.01)
    progress, seen = read(file, [(0, 2, 2)], 8)
    assert progress.failed == [(3, "Input/output error")]
    assert seen == [(2, 1)]
    assert progress.blocks_read == 1


def test_a_device_that_ends_early_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peaker_host.warm.reader_pool._RETRY_SECONDS", 0.01)
    progress, _ = read(file, [(0, 9, 1)], 10)
    assert [block for block, _ in progress.failed] == [9]


def test_an_unexpected_failure_of_a_reader_ends_the_run(file: Path) -> None:
    def fail(first: int, count: int) -> None:
        raise ValueError("journal full")

    pool = ReaderPool(str(file), 8 * BLOCK_BYTES, 1, RateLimiter(None), fail, threading.Event())
    with pytest.raises(ValueError, match="journal full"):
        pool.run([(0, 0, 2), (0, 2, 2)])
