"""Throttling holds the engine's reads back while a database is at work on the volume that it reads.

A volume with a limit answers in turn: each read of the database waits for the bytes that the engine has under way
(Little's law: bytes under way / throughput). An engine that asks for a little less than the volume gives leaves nothing
under way. So the throttle is a share of the rate that the engine has without it, decided by the latency of single reads
of warm pages against their latency before the engine read. A database that starts while the last urgent blocks are read
gets room at once: those are read within a minute, too short to measure the volume first.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, nth_blocks, total
from peaker_host.blocks.timed_reads import PAGE_BYTES, read_latencies_ms
from peaker_host.machine.devices import BlockDevice, disk_counters
from peaker_host.machine.errors import WrongDevice

WINDOW_SECONDS = 1.0
# A reader that waits twice as long for each read gets half as many: what is slower than that is slow.
SLOW_RATIO = 2.0
# What a busy host adds to a read now and then is not the volume's.
_SLOW_BY_AT_LEAST_MS = 0.5
FIRST_SHARE = 0.9
MOST_SHARE = 0.95
LEAST_SHARE = 0.82
_LESS, _MORE = 0.05, 0.01
# Between "quick enough for more" and "slow" nothing is changed.
_QUICK_PART = 0.7
_REMEMBERED = 10
# The first window without a limit began under one.
_SETTLED_AFTER = 3
# Where nobody else was at work the engine takes all, and asks again; at once when somebody writes.
_NOBODY_AFTER, _ASKED_AGAIN_AFTER = 5, 30
_NOBODY_BYTES_PER_S = 256 * 1024
_NOBODY_WRITES_PER_S = 1.0
# What the volume gives may change, and under a limit nobody sees it.
_MEASURED_ANEW_AFTER = 120
_MISSED_SINCE = 30
_REACHED_PART = 0.95
_MISSED_PART = 0.9
# Under a limit reads are smaller, and each reader has one under way.
_FIRST_READERS, _MORE_READERS, _MOST_READERS = 2.0, 1.5, 64.0
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Window:
    """A window measures one second: rates per second, those of `others` without the engine's; None is unknown.

    `await_ms`: the median of single reads of warm pages, one after the other. `others_bytes_per_s` is read, and may be
    below 0 by what was just under way.
    """

    at_work: bool
    engine_bytes_per_s: float
    await_ms: Optional[float] = None
    others_bytes_per_s: Optional[float] = None
    others_writes_per_s: Optional[float] = None


@dataclass(frozen=True)
class Throttle:
    """A throttle limits the engine in the next window to `share` of `full_bytes_per_s`; None is no limit.

    `readers`: how many times the readers that the device has rewarded. `recent` and `windows` are of the time since the
    engine was last throttled or released. `held_windows` and `slowest_ms` are of the whole reading.
    """

    share: Optional[float] = None
    full_bytes_per_s: float = 0.0
    readers: float = 1.0
    recent: Tuple[Window, ...] = ()
    windows: int = 0
    asks_after: int = _SETTLED_AFTER
    held_windows: int = 0
    slowest_ms: float = 0.0
    reason: str = "no database is at work"

    @property
    def bytes_per_s(self) -> Optional[float]:
        return None if self.share is None else self.share * self.full_bytes_per_s


def slow_above_ms(baseline_ms: float) -> float:
    """Returns the limit above which a warm page's read is slow, from its time without the engine."""
    return max(SLOW_RATIO * baseline_ms, baseline_ms + _SLOW_BY_AT_LEAST_MS)


def decide(throttle: Throttle, window: Window, baseline_ms: Optional[float]) -> Throttle:
    """Decides the throttle after this window. Where its latency or the baseline is unknown only the reason changes."""
    seen = _with(throttle, window)
    if not window.at_work:
        nobody = "no database is at work"
        return replace(seen, reason=nobody) if seen.share is None else _all(seen, nobody)
    if window.await_ms is None or baseline_ms is None:
        return replace(seen, reason="unknown: no read of a warm page was timed")
    if seen.share is None:
        return _while_all(seen, window.await_ms, baseline_ms)
    return _while_held(seen, window.await_ms, baseline_ms)


def _with(throttle: Throttle, window: Window) -> Throttle:
    held = throttle.share is not None
    return replace(
        throttle,
        recent=(*throttle.recent, window)[-_REMEMBERED:],
        windows=throttle.windows + 1,
        held_windows=throttle.held_windows + held,
        slowest_ms=max(throttle.slowest_ms, window.await_ms or 0.0),
    )


def _while_all(throttle: Throttle, await_ms: float, baseline_ms: float) -> Throttle:
    shown = _shown(await_ms, baseline_ms)
    full = _full_bytes_per_s(throttle.recent)
    if await_ms <= slow_above_ms(baseline_ms) or full <= 0:
        return replace(throttle, reason=f"all: {shown}")
    may_ask = throttle.asks_after == _SETTLED_AFTER or throttle.windows >= throttle.asks_after
    if not may_ask and not _writes(throttle.recent[-1:]):
        return throttle
    if throttle.windows < _SETTLED_AFTER:
        return replace(throttle, reason=f"all, until it is known what the volume gives: {shown}")
    began = replace(throttle, full_bytes_per_s=full, readers=_FIRST_READERS, recent=(), windows=0)
    return _held(began, FIRST_SHARE, shown)


def _while_held(throttle: Throttle, await_ms: float, baseline_ms: float) -> Throttle:
    share, limit = throttle.share or MOST_SHARE, throttle.bytes_per_s or 0.0
    rate = sum(one.engine_bytes_per_s for one in throttle.recent) / len(throttle.recent)
    if throttle.windows >= _NOBODY_AFTER and _is_nobody(throttle.recent[-_NOBODY_AFTER:]):
        return _all(throttle, "all: nobody else read or wrote in five seconds", _ASKED_AGAIN_AFTER)
    missed = throttle.windows >= _MISSED_SINCE and rate < _MISSED_PART * limit
    if missed or throttle.windows >= _MEASURED_ANEW_AFTER:
        return _all(throttle, "all: what the volume gives is measured anew")
    if await_ms > slow_above_ms(baseline_ms):
        return _held(throttle, max(LEAST_SHARE, share - _LESS), _shown(await_ms, baseline_ms))
    if rate < _REACHED_PART * limit:
        # Its reads are quick, so that it is not the volume that it waits for.
        throttle = replace(throttle, readers=min(_MOST_READERS, throttle.readers * _MORE_READERS))
    if await_ms < _QUICK_PART * slow_above_ms(baseline_ms):
        share = min(MOST_SHARE, share + _MORE)
    return _held(throttle, share, _shown(await_ms, baseline_ms))


def _held(throttle: Throttle, share: float, shown: str) -> Throttle:
    share = round(share, 4)
    held = f"{share * throttle.full_bytes_per_s / _MIB:.0f} of {throttle.full_bytes_per_s / _MIB:.0f} MiB/s"
    least = ", no less" if share <= LEAST_SHARE else ""
    return replace(throttle, share=share, reason=f"{held}{least}: {shown}")


def _all(throttle: Throttle, reason: str, asks_after: int = _SETTLED_AFTER) -> Throttle:
    return replace(
        throttle, share=None, readers=1.0, recent=(), windows=0, asks_after=asks_after, reason=reason
    )


def _full_bytes_per_s(windows: Sequence[Window]) -> float:
    return statistics.median(one.engine_bytes_per_s for one in (windows[1:] or windows))


def _is_nobody(windows: Sequence[Window]) -> bool:
    """False also where it is unknown."""
    read = [one.others_bytes_per_s for one in windows if one.others_bytes_per_s is not None]
    if len(read) < len(windows) or any(one.others_writes_per_s is None for one in windows):
        return False
    return sum(read) / len(read) < _NOBODY_BYTES_PER_S and not _writes(windows)


def _writes(windows: Sequence[Window]) -> bool:
    """Tells whether somebody writes (the engine never does). False where it is unknown."""
    return sum(one.others_writes_per_s or 0.0 for one in windows) >= _NOBODY_WRITES_PER_S * len(windows)


def _shown(await_ms: float, baseline_ms: float) -> str:
    return f"a warm read takes {await_ms:.1f} ms, {baseline_ms:.1f} ms without the engine"


_BLOCKS = 64
_BASELINE_READS = 16
_PAUSE_SECONDS = 0.05
_START_POLL_SECONDS = 0.1
# The first reads of a cold volume say little of its rate.
_MEASURED_SECONDS = 0.5


@contextlib.contextmanager
def watched(watch: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `watch` in a thread of its own until the block ends; it returns soon after its event is set."""
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class LatencyMeter:
    """Measures windows of one volume. `delivered`: bytes that the engine has got from it, to the read."""

    def __init__(
        self,
        device: BlockDevice,
        is_at_work: Callable[[], bool],
        delivered: Callable[[], int],
        dice: random.Random,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._is_at_work = is_at_work
        self._delivered = delivered
        self._dice = dice
        self._now = now
        self._warm_blocks: List[int] = []

    def baseline_ms(self, warm: Sequence[Range]) -> Optional[float]:
        """Measures a warm page's read time while the engine reads nothing; None where no warm block can be read.

        The lower quartile: a busy host makes reads longer, never shorter. Later windows read pages of the same blocks,
        some of `warm`.
        """
        positions = self._dice.sample(range(total(warm)), min(_BLOCKS, total(warm)))
        last = self._device.size_bytes // BLOCK_BYTES
        self._warm_blocks = [block for block in nth_blocks(list(warm), sorted(positions)) if block < last]
        found = [one for one in (self._page_ms() for _ in range(_BASELINE_READS)) if one is not None]
        return sorted(found)[len(found) // 4] if found else None

    def window(self, stop: threading.Event) -> Window:
        """Measures the next window, or the part of it that passes until `stop`."""
        began, before, own = self._now(), self._counters(), self._delivered()
        at_work, latencies = self._is_at_work(), []
        while self._now() - began < WINDOW_SECONDS and not stop.wait(_PAUSE_SECONDS):
            if at_work:
                latencies.append(self._page_ms())
        after, got = self._counters(), self._delivered() - own
        seconds = max(self._now() - began, _PAUSE_SECONDS)
        known = [one for one in latencies if one is not None]
        await_ms = statistics.median(known) if known else None
        if before is None or after is None:
            return Window(at_work, got / seconds, await_ms)
        others = after["read_bytes"] - before["read_bytes"] - got - PAGE_BYTES * len(latencies)
        writes = after["writes"] - before["writes"]
        return Window(at_work, got / seconds, await_ms, others / seconds, writes / seconds)

    def _page_ms(self) -> Optional[float]:
        if not self._warm_blocks:
            return None
        block = self._dice.choice(self._warm_blocks)
        page = self._dice.randrange(BLOCK_BYTES // PAGE_BYTES)
        try:
            return read_latencies_ms(self._device.path, [block * BLOCK_BYTES + page * PAGE_BYTES])[0]
        except OSError:
            return None

    def _counters(self) -> Optional[Dict[str, int]]:
        try:
            return disk_counters(self._device.kernel_name)
        except (OSError, WrongDevice):
            return None


class Throttling:
    """Measures and decides once a window. `hold` gets each changed throttle, from the watching thread."""

    def __init__(self, meter: LatencyMeter, hold: Callable[[Throttle], None]) -> None:
        self._meter = meter
        self._hold = hold
        self._throttle = Throttle()
        self._baseline_ms: Optional[float] = None

    def measure_baseline(self, warm: Sequence[Range]) -> None:
        """Measures while neither the engine nor a database is at work; `warm` are blocks that were read."""
        self._baseline_ms = self._meter.baseline_ms(warm)

    def watch(self, ended: threading.Event) -> None:
        while not ended.is_set():
            self.next_window(ended)

    def next_window(self, ended: threading.Event) -> None:
        """Measures one window and holds the engine to the decision; a window that is cut short decides nothing."""
        before, window = self._throttle, self._meter.window(ended)
        if ended.is_set():
            return
        if self._baseline_ms is not None and window.await_ms is not None:
            # No read is faster beside the engine than without it: what was timed then was the host's noise.
            self._baseline_ms = min(self._baseline_ms, window.await_ms)
        self._throttle = decide(before, window, self._baseline_ms)
        if (self._throttle.share, self._throttle.readers) != (before.share, before.readers):
            self._hold(self._throttle)

    def progress(self) -> Optional[Dict[str, Any]]:
        throttle, baseline = self._throttle, self._baseline_ms
        if not throttle.held_windows:
            return None
        return {
            "held_seconds": round(throttle.held_windows * WINDOW_SECONDS),
            "await_baseline_ms": None if baseline is None else round(baseline, 2),
            "await_slowest_ms": round(throttle.slowest_ms, 2),
            "reason": throttle.reason,
        }

    def clause(self) -> str:
        """One clause for people; empty where the engine was never held back."""
        seen = self.progress()
        return "" if seen is None else f"held back for {seen['held_seconds']} s ({seen['reason']})"


def throttle_at_start(
    is_at_work: Callable[[], bool],
    delivered: Callable[[], int],
    hold: Callable[[float], None],
    ended: threading.Event,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Holds the engine back once, when a database has started and the engine's share is known, or until `ended`.

    `delivered`: bytes that the engine has read so far.
    """
    began, before = now(), delivered()
    while not ended.wait(_START_POLL_SECONDS):
        seconds, got = now() - began, delivered() - before
        if seconds >= _MEASURED_SECONDS and got > 0 and is_at_work():
            hold(LEAST_SHARE * got / seconds)
            return
