"""Throttling holds the engine's reads back while a database is at work on the volume that it reads.

Beside the catch-up the throttle follows single reads of warm pages (throttle.py). A database that starts while the last
urgent blocks are read gets room at once: those are read within a minute, too short to measure the volume first.
"""

import contextlib
import random
import statistics
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, nth_blocks, total
from peaker_host.blocks.timed_reads import PAGE_BYTES, read_latencies_ms
from peaker_host.machine.devices import BlockDevice, disk_counters
from peaker_host.machine.errors import WrongDevice
from peaker_host.warm.throttle import LEAST_SHARE, WINDOW_SECONDS, Throttle, Window, decide

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
        """Throttles window by window until `ended`."""
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
        """Returns the report of held-back reads; None where the engine was never held back."""
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


class StartThrottle:
    """Throttles the engine once when a database starts. `delivered`: bytes that the engine has read so far."""

    def __init__(
        self,
        is_at_work: Callable[[], bool],
        delivered: Callable[[], int],
        hold: Callable[[float], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_at_work = is_at_work
        self._delivered = delivered
        self._hold = hold
        self._now = now

    def watch(self, ended: threading.Event) -> None:
        """Watches until a database works and the engine's share is known, or until `ended`."""
        began, before = self._now(), self._delivered()
        while not ended.wait(_START_POLL_SECONDS):
            seconds, got = self._now() - began, self._delivered() - before
            if seconds >= _MEASURED_SECONDS and got > 0 and self._is_at_work():
                self._hold(LEAST_SHARE * got / seconds)
                return
