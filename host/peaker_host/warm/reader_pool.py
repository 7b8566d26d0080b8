"""Reads one device's blocks around the page cache with as many readers as the device rewards.

Each reader is a thread with an aligned buffer of its own; preadv gives the interpreter lock away while the
device works, so the readers run in parallel. Requests are as large as the device is fast: small ones on a slow
device, so that a kill repeats little; large ones on a fast device, so that a request's cost counts less.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Iterable, Iterator, List, Optional, Sequence, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range

MAX_DEPTH = 64
START_DEPTH = 8
LARGEST_READ_BLOCKS = 4
_BLOCKS_PER_READ_FROM_BYTES_PER_S = ((500e6, LARGEST_READ_BLOCKS), (250e6, 2))
# What a database's read waits for behind one of these, on a volume of the limit's rate; a device takes 256 KiB at once.
_LIMITED_READ_SECONDS = 0.001
_SMALLEST_LIMITED_READ, _LARGEST_LIMITED_READ = 128 * 1024, 512 * 1024
_BURST_SECONDS = 0.25
_TRIES = 4
_RETRY_SECONDS = 0.25
_WINDOW_SECONDS = 0.5
_GAIN = 1.12
_PROBE_WINDOWS = 20

Request = Tuple[int, int, int]
"""(tier, first block, count)"""


@dataclass
class PoolProgress:
    """The progress counts one pool's reads; only the pool writes it.

    `bytes_delivered` has parts of requests under way too. `failed`: blocks that could not be read after several tries,
    and why.
    """

    bytes_read: int = 0
    bytes_delivered: int = 0
    blocks_read: int = 0
    retries: int = 0
    depth: int = START_DEPTH
    blocks_per_read: int = 1
    tier_blocks: List[int] = field(default_factory=list)
    failed: List[Tuple[int, str]] = field(default_factory=list)


class DepthController:
    """Decides how many readers run: doubles while throughput rises by 12 %, else returns to the best depth seen.

    Pure: `observe` is told the throughput of each window; the first one at a new depth is not counted, since
    its reads began at the old one. From time to time more is tried again, because a device that hydrates gets
    faster.
    """

    def __init__(self, found_before: Optional[int] = None) -> None:
        """`found_before`: a depth to stay on, where none is to be found."""
        self.depth = found_before or START_DEPTH
        self._best_depth = self.depth
        self._best_rate = 0.0
        self._climbing = found_before is None
        self._settling = True
        self._held = 0

    @property
    def best_depth(self) -> int:
        """The depth that has proved itself, also while another is tried."""
        return self._best_depth

    def observe(self, bytes_per_second: float) -> int:
        """Take in one window's throughput at the current depth; returns the depth for the next."""
        if self._settling:
            self._settling = False
        elif self._climbing:
            self._climb(bytes_per_second)
        else:
            self._hold(bytes_per_second)
        return self.depth

    def _climb(self, rate: float) -> None:
        if rate > self._best_rate * _GAIN:
            self._best_rate, self._best_depth = rate, self.depth
            if self.depth < MAX_DEPTH:
                self._try_more()
                return
        self.depth = self._best_depth
        self._climbing = False
        self._held = 0

    def _hold(self, rate: float) -> None:
        self._held += 1
        self._best_rate += (rate - self._best_rate) * 0.2
        if self._held >= _PROBE_WINDOWS and self.depth < MAX_DEPTH:
            self._best_depth = self.depth
            self._climbing = True
            self._try_more()

    def _try_more(self) -> None:
        self.depth = min(MAX_DEPTH, self.depth * 2)
        self._settling = True


class RateLimiter:
    """A token bucket in bytes that holds a quarter of a second's worth, or what is said with a change of the limit.

    Zero or None means no limit.
    """

    def __init__(self, bytes_per_second: Optional[float]) -> None:
        self._rate = bytes_per_second or 0.0
        self._burst_seconds = _BURST_SECONDS
        self._lock = threading.Lock()
        self._next = time.monotonic()

    @property
    def limited(self) -> bool:
        return self._rate > 0

    @property
    def bytes_per_read(self) -> int:
        """Returns the bytes of one request under the limit: about a millisecond's worth, a power of two."""
        wanted, size = self._rate * _LIMITED_READ_SECONDS, _SMALLEST_LIMITED_READ
        while size < min(wanted, _LARGEST_LIMITED_READ):
            size *= 2
        return size

    def change(self, bytes_per_second: Optional[float], burst_seconds: float = _BURST_SECONDS) -> None:
        """Another limit from now on; waits that have begun keep theirs."""
        with self._lock:
            self._rate = bytes_per_second or 0.0
            self._burst_seconds = burst_seconds
            self._next = time.monotonic()

    def take(self, amount: int, stopped: threading.Event) -> None:
        """Wait until `amount` bytes may be read, or until the pool is stopped."""
        with self._lock:
            if self._rate <= 0:
                return
            now = time.monotonic()
            self._next = max(self._next, now - self._burst_seconds) + amount / self._rate
            wait = self._next - now
        if wait > 0:
            stopped.wait(wait)


class ReaderPool:
    """Reads requests from one device. `on_read(first, count)` is called from the readers after each success."""

    def __init__(
        self,
        path: str,
        size_bytes: int,
        tiers: int,
        limiter: RateLimiter,
        on_read: Callable[[int, int], None],
        stop: threading.Event,
        depth_found_before: Optional[int] = None,
        progress: Optional[PoolProgress] = None,
    ) -> None:
        """`progress`: that of an earlier pool of the same tiers, which this one goes on with."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        self._size = size_bytes
        self._limiter = limiter
        self._on_read = on_read
        self._stop = stop
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._controller = DepthController(depth_found_before)
        self._requests: Iterator[Request] = iter(())
        self._exhausted = False
        self._readers_held: Optional[float] = None
        self._threads: List[threading.Thread] = []
        self._crash: Optional[BaseException] = None
        self.progress = progress or PoolProgress(tier_blocks=[0] * tiers)
        self.progress.depth = self._controller.depth

    @property
    def best_depth(self) -> int:
        """Returns the number of readers that this device has rewarded."""
        return self._controller.best_depth

    def blocks_per_read(self) -> int:
        return self.progress.blocks_per_read

    def hold_readers(self, times: Optional[float]) -> None:
        """Under a limit, so many times the readers that the device has rewarded; None for those that are there."""
        self._readers_held = times

    def run(self, requests: Iterable[Request]) -> None:
        """Read everything, or return early when stopped. Failed ranges are in `progress.failed`."""
        self._requests = iter(requests)
        try:
            self._adapt()
        finally:
            with self._wake:
                self._wake.notify_all()
            for thread in self._threads:
                thread.join()
            os.close(self._descriptor)
        if self._crash is not None:
            raise self._crash

    def _adapt(self) -> None:
        """Start readers as the controller asks until all is read."""
        self._grow(self._controller.depth)
        window_start, window_bytes = time.monotonic(), 0
        while not self._stop.is_set():
            with self._wake:
                if self._exhausted:
                    return
                self._wake.wait(_WINDOW_SECONDS)
            now = time.monotonic()
            if now - window_start < _WINDOW_SECONDS:
                continue
            done = self.progress.bytes_read
            rate = (done - window_bytes) / (now - window_start)
            self.progress.blocks_per_read = blocks_per_read(rate, self.progress.blocks_per_read)
            if not self._limiter.limited:
                self._grow(self._controller.observe(rate))
            elif self._readers_held is not None:
                self._grow(min(MAX_DEPTH, round(self.best_depth * self._readers_held)))
            window_start, window_bytes = now, done

    def _grow(self, depth: int) -> None:
        with self._wake:
            self.progress.depth = depth
            self._wake.notify_all()
        while len(self._threads) < depth:
            thread = threading.Thread(target=self._read_all, args=(len(self._threads),), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read_all(self, number: int) -> None:
        buffer = _new_buffer()
        view = memoryview(buffer)
        try:
            while True:
                request = self._next(number)
                if request is None:
                    return
                self._read(view, request)
        except BaseException as error:  # noqa: BLE001 - handed to run(), which raises it
            with self._wake:
                self._crash = self._crash or error
                self._exhausted = True
                self._wake.notify_all()
        finally:
            view.release()
            buffer.close()

    def _next(self, number: int) -> Optional[Request]:
        with self._wake:
            while number >= self.progress.depth and not self._exhausted and not self._stop.is_set():
                self._wake.wait()
            if self._exhausted or self._stop.is_set():
                return None
            request = next(self._requests, None)
            if request is None:
                self._exhausted = True
                self._wake.notify_all()
            return request

    def _read(self, view: memoryview, request: Request) -> None:
        tier, first, count = request
        length = min((first + count) * BLOCK_BYTES, self._size) - first * BLOCK_BYTES
        try:
            if not self._limiter.limited:
                self._read_fully(view, first * BLOCK_BYTES, length)
            elif not self._read_in_pieces(view, first * BLOCK_BYTES, length):
                return
        except OSError:
            for block in range(first, first + count):
                self._read_one_again(view, tier, block)
            return
        self._finish(tier, first, count, length)

    def _read_in_pieces(self, view: memoryview, offset: int, length: int) -> bool:
        """Under a limit somebody else may wait behind each request: small ones, evenly spaced. False when stopped."""
        start = 0
        while start < length:
            piece = min(self._limiter.bytes_per_read, length - start)
            self._limiter.take(piece, self._stop)
            if self._stop.is_set():
                return False
            self._read_fully(view[start : start + piece], offset + start, piece)
            start += piece
        return True

    def _read_one_again(self, view: memoryview, tier: int, block: int) -> None:
        """Retry a single block of a failed read, so that its neighbours are not lost with it."""
        length = min((block + 1) * BLOCK_BYTES, self._size) - block * BLOCK_BYTES
        reason = ""
        for attempt in range(_TRIES):
            try:
                self._read_fully(view, block * BLOCK_BYTES, length)
            except OSError as error:
                reason = error.strerror or str(error)
                with self._lock:
                    self.progress.retries += 1
                if self._stop.wait(_RETRY_SECONDS * (2**attempt)):
                    return
                continue
            self._finish(tier, block, 1, length)
            return
        with self._lock:
            self.progress.failed.append((block, reason))

    def _read_fully(self, view: memoryview, offset: int, length: int) -> None:
        done = os.preadv(self._descriptor, [view if length == len(view) else view[:length]], offset)
        while done < length:
            got = os.preadv(self._descriptor, [view[done:length]], offset + done)
            if got == 0:
                raise OSError(5, "the device ended before its size")
            done += got
        with self._lock:
            self.progress.bytes_delivered += length

    def _finish(self, tier: int, first: int, count: int, length: int) -> None:
        self._on_read(first, count)
        with self._lock:
            progress = self.progress
            progress.bytes_read += length
            progress.blocks_read += count
            progress.tier_blocks[tier] += count


def blocks_per_read(bytes_per_second: float, now: int) -> int:
    for rate, blocks in _BLOCKS_PER_READ_FROM_BYTES_PER_S:
        if bytes_per_second >= rate:
            return max(now, blocks)
    return now


def _new_buffer() -> mmap.mmap:
    """A reader's buffer; in huge pages where the kernel has them, which are cheaper to pin for the device."""
    buffer = mmap.mmap(-1, LARGEST_READ_BLOCKS * BLOCK_BYTES)
    with contextlib.suppress(OSError, AttributeError):
        buffer.madvise(mmap.MADV_HUGEPAGE)
    return buffer


def requests_of(
    tiers: Iterable[Sequence[Range]], is_done: Callable[[int], bool], blocks_per_read: Callable[[], int]
) -> Iterator[Request]:
    """The reads for block ranges in order, of the size asked for, leaving out blocks that are done."""
    for tier, ranges in enumerate(tiers):
        for start, count in ranges:
            block, end = start, start + count
            while block < end:
                if is_done(block):
                    block += 1
                    continue
                length, most = 1, min(blocks_per_read(), end - block)
                while length < most and not is_done(block + length):
                    length += 1
                yield tier, block, length
                block += length
