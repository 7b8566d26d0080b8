"""The load of a search for the knee: threads that read random pages around the page cache."""

from __future__ import annotations

import bisect
import errno
import mmap
import os
import random
import threading
import time
from dataclasses import dataclass
from typing import List, Optional, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range
from peaker_host.machine.errors import BenchmarkFailed, InvalidArgument


@dataclass(frozen=True)
class Target:
    """A target is a device to read."""

    path: str
    size_bytes: int
    kernel_name: str
    blocks: Tuple[Range, ...] = ()
    """Where on it; everywhere when empty."""


class Places:
    """Aligned offsets at which a request lies wholly inside the target, and inside its blocks if it names some."""

    def __init__(self, target: Target, request_bytes: int) -> None:
        self._bytes = request_bytes
        runs = target.blocks or ((0, (target.size_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES),)
        self._first: List[int] = []
        self._upto: List[int] = []
        for start, count in runs:
            first = start * BLOCK_BYTES // request_bytes
            end = min((start + count) * BLOCK_BYTES, target.size_bytes) // request_bytes
            if end > first:
                self._first.append(first)
                self._upto.append((self._upto[-1] if self._upto else 0) + end - first)
        if not self._upto:
            raise InvalidArgument(f"{target.path} has no room for a request of {request_bytes} bytes")

    def offset(self, generator: random.Random) -> int:
        place = generator.randrange(self._upto[-1])
        run = bisect.bisect_right(self._upto, place)
        before = self._upto[run - 1] if run else 0
        return (self._first[run] + place - before) * self._bytes


class Load:
    """Threads that read random pages; `run_with` sets how many are at it."""

    def __init__(self, target: Target, request_bytes: int, seed: int) -> None:
        self._target = target
        self._bytes = request_bytes
        self._places = Places(target, request_bytes)
        self._seed = seed
        self._descriptor = os.open(target.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        self._changed = threading.Condition()
        self._active = 0
        self._closing = False
        self._threads: List[threading.Thread] = []
        self._done: List[int] = []
        self._busy_ns: List[int] = []
        self._failure: Optional[OSError] = None

    def run_with(self, concurrency: int) -> None:
        """Let this many threads work from now on."""
        while len(self._threads) < concurrency:
            number = len(self._threads)
            self._done.append(0)
            self._busy_ns.append(0)
            thread = threading.Thread(target=self._work, args=(number,), name=f"knee-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()
        with self._changed:
            self._active = concurrency
            self._changed.notify_all()

    def counted(self) -> Tuple[int, float]:
        """Requests completed and ms waited for them so far. Raises BenchmarkFailed when a request failed."""
        if self._failure is not None:
            raise BenchmarkFailed(f"{self._target.path}: {self._failure.strerror or self._failure}")
        return sum(self._done), sum(self._busy_ns) / 1e6

    def close(self) -> None:
        """Stop all threads and wait for their last requests."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        os.close(self._descriptor)

    def _work(self, number: int) -> None:
        generator = random.Random(f"{self._seed}/{number}")
        buffer = mmap.mmap(-1, self._bytes)
        view = memoryview(buffer)
        try:
            while self._may_go_on(number):
                self._request(number, generator, view)
        except OSError as error:
            self._failure = error
        finally:
            view.release()
            buffer.close()

    def _may_go_on(self, number: int) -> bool:
        if number < self._active and not self._closing:
            return True
        with self._changed:
            self._changed.wait_for(lambda: self._closing or number < self._active)
        return not self._closing

    def _request(self, number: int, generator: random.Random, view: memoryview) -> None:
        offset = self._places.offset(generator)
        started = time.perf_counter_ns()
        moved = os.preadv(self._descriptor, [view], offset)
        if moved != self._bytes:
            raise OSError(errno.EIO, f"only {moved} of {self._bytes} bytes at {offset}")
        self._busy_ns[number] += time.perf_counter_ns() - started
        self._done[number] += 1
