"""Warms one volume: tiers, read rate and readers."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from typing import Any, Dict, Iterator, Optional

from peaker_host.blocks.ranges import total
from peaker_host.machine.devices import mount_points
from peaker_host.machine.manifest import is_proven
from peaker_host.machine.settings import Settings
from peaker_host.warm.first_touch import READERS, FirstTouch
from peaker_host.warm.planned import PlannedVolume
from peaker_host.warm.progress import MIB, MeanRate, expected_mib_per_s
from peaker_host.warm.reader_pool import (
    START_DEPTH,
    PoolProgress,
    RateLimiter,
    ReaderPool,
    Request,
    requests_of,
)
from peaker_host.warm.reading_order import REMAINDER, URGENT_TIERS, PrewarmRequest
from peaker_host.warm.throttling import LatencyMeter, Throttle, Throttling, throttle_at_start, watched

_BASELINE_MIB_PER_S = 125.0
_REMAINDER_READERS = 2
# What a late reader may catch up on is a burst that a database waits behind.
_HELD_BURST_SECONDS = 0.02
_DATABASE_POLL_SECONDS = 1.0
# Reads are smaller under a limit, and each reader has one under way.
_READERS_UNDER_A_LIMIT = 2.0
# A replica that is not at work a day after its volumes were warm will not be.
_DATABASE_WAIT_SECONDS = 86400.0


class VolumeWork:
    def __init__(
        self,
        settings: Settings,
        planned: PlannedVolume,
        request: PrewarmRequest,
        stop: threading.Event,
    ) -> None:
        self.planned = planned
        self._settings = settings
        self._request = request
        self._stop = stop
        self._limiter = RateLimiter(None)
        self.pool = self._pool(self._limiter)
        done = planned.journal.done
        self._tier_done_before = [
            sum(1 for start, n in tier.ranges for block in range(start, start + n) if block in done)
            for tier in planned.tiers
        ]
        self._tier_blocks = [total(tier.ranges) for tier in planned.tiers]
        self.mean_rate = MeanRate(time.monotonic())
        meter = LatencyMeter(planned.device, self._is_mounted, self._delivered, random.SystemRandom())
        self.throttling = Throttling(meter, self._hold)
        self._first_touch: Optional[FirstTouch] = None
        self._urgent = threading.Lock()
        self._is_urgent = True

    @property
    def volume_id(self) -> str:
        return self.planned.member.volume_id

    @property
    def blocks_total(self) -> int:
        return sum(self._tier_blocks)

    @property
    def blocks_done(self) -> int:
        return sum(self._tier_done_before) + self.pool.progress.blocks_read

    @property
    def is_touched_first(self) -> bool:
        """Tells whether urgent blocks are warmed by touches: where the read of one page brings its whole block."""
        probe, touch = self.planned.probe, self._first_touch
        return probe is not None and probe.brings_blocks and not (touch is not None and touch.has_failed)

    def left(self, urgent_only: bool) -> int:
        """Blocks that have not been read, of the urgent tiers or of all but the remainder; of the urgent ones those
        that were not touched, where a touch brings them."""
        if urgent_only and self._first_touch is not None and self.is_touched_first:
            return self._first_touch.left
        progress = zip(
            self.planned.tiers, self._tier_blocks, self._tier_done_before, self.pool.progress.tier_blocks
        )
        return sum(
            blocks - before - done
            for tier, blocks, before, done in progress
            if (tier.name in URGENT_TIERS if urgent_only else tier.name != REMAINDER)
        )

    def warm(self) -> None:
        if self._request.background_rate_mib_per_s:
            watch = partial(throttle_at_start, self._is_mounted, self._delivered, self._hold_urgent)
        else:
            self.throttling.measure_baseline(self.planned.journal.done.ranges())
            watch = partial(self.throttling.watch)
        self._touch_urgent()
        with watched(watch):
            self.pool.run(self._requests(remainder=False))
        if self.planned.tiers[-1].name == REMAINDER:
            self._warm_remainder()

    def urgent_rate_mib_per_s(self, now: float, read_mib_per_s: float) -> float:
        """Returns the rate at which urgent blocks get warm: by touches or by whole reads. Before the first of
        either it follows from the look at the cold volume; 0 where that is not known.
        """
        await_ms = self._await_cold_ms
        if not self.is_touched_first:
            # Of no volume more is expected than a gp3's baseline (EBS user guide, General Purpose SSD volumes).
            return read_mib_per_s or expected_mib_per_s(START_DEPTH, await_ms, _BASELINE_MIB_PER_S)
        touched = 0.0 if self._first_touch is None else self._first_touch.rate_mib_per_s(now)
        return touched or expected_mib_per_s(READERS, await_ms)

    @property
    def _await_cold_ms(self) -> Optional[float]:
        return None if self.planned.probe is None else self.planned.probe.await_ms

    def progress(self) -> Dict[str, Any]:
        progress = self.pool.progress
        return {
            "name": self.planned.member.name,
            "volume_id": self.volume_id,
            "blocks_total": self.blocks_total,
            "blocks_done": self.blocks_done,
            "bytes_read": self.planned.bytes_read + progress.bytes_read,
            "depth": progress.depth,
            "retries": progress.retries,
            "failed_ranges": [[block, 1, reason] for block, reason in progress.failed[:50]],
            "tiers": [
                {"name": tier.name, "blocks": blocks, "done": before + done}
                for tier, blocks, before, done in zip(
                    self.planned.tiers, self._tier_blocks, self._tier_done_before, progress.tier_blocks
                )
            ],
            "map_unreadable": self.planned.note,
            "await_cold_ms": self._await_cold_ms,
            "touched": 0 if self._first_touch is None else self._first_touch.touched,
            "throttled": self.throttling.progress(),
        }

    def _delivered(self) -> int:
        return self.pool.progress.bytes_delivered

    def _hold(self, throttle: Throttle) -> None:
        self.pool.hold_readers(throttle.readers)
        self._limiter.change(throttle.bytes_per_s, _HELD_BURST_SECONDS)

    def _hold_urgent(self, bytes_per_s: float) -> None:
        """Limits the urgent reads; the rest has a rate of its own."""
        with self._urgent:
            if self._is_urgent:
                self.pool.hold_readers(_READERS_UNDER_A_LIMIT)
                self._limiter.change(bytes_per_s, _HELD_BURST_SECONDS)

    def _touch_urgent(self) -> None:
        if not self.is_touched_first:
            return
        volume = self.planned
        urgent = [tier.ranges for tier in volume.tiers if tier.name in URGENT_TIERS]
        is_done = volume.journal.done.__contains__
        self._first_touch = FirstTouch(
            volume.device.path, volume.device.size_bytes, urgent, is_done, self._stop
        )
        self._first_touch.run()
        # What follows has a rate of its own, by which it is judged.
        self.mean_rate = MeanRate(time.monotonic())

    def _warm_remainder(self) -> None:
        """Reads the remainder slowly behind the working database, so that the first write into a block is fast."""
        if self._await_database():
            limiter = RateLimiter(self._request.remainder_rate_mib_per_s * MIB)
            self.pool = self._pool(limiter, _REMAINDER_READERS, self.pool.progress)
            self.pool.run(self._requests(remainder=True))

    def _pool(
        self, limiter: RateLimiter, depth: Optional[int] = None, progress: Optional[PoolProgress] = None
    ) -> ReaderPool:
        volume = self.planned
        return ReaderPool(
            volume.device.path,
            volume.device.size_bytes,
            len(volume.tiers),
            limiter,
            volume.journal.append,
            self._stop,
            depth,
            progress,
        )

    def _await_database(self) -> bool:
        """Waits for a database on the proven volume. False when that does not come.

        So that the server's start has the volume to itself, and the proof measures no reads of this engine.
        """
        deadline = time.monotonic() + _DATABASE_WAIT_SECONDS
        while not self._is_at_work():
            if time.monotonic() >= deadline or self._stop.wait(_DATABASE_POLL_SECONDS):
                return False
        return True

    def _is_at_work(self) -> bool:
        return self._is_mounted() and is_proven(self._settings, self._request.run_id)

    def _is_mounted(self) -> bool:
        return self.planned.member.mount_point in mount_points(self.planned.top)

    def _requests(self, remainder: bool) -> Iterator[Request]:
        """Yields the blocks that are left, in order; slows down where the tiers stop being urgent."""
        background = 0.0 if remainder else self._request.background_rate_mib_per_s
        tiers = self.planned.tiers
        ranges = [tier.ranges if (tier.name == REMAINDER) is remainder else [] for tier in tiers]
        done = self.planned.journal.done.__contains__
        is_touched = self._first_touch is not None and not self.left(urgent_only=True)
        for request in requests_of(ranges, done, self.pool.blocks_per_read):
            if background and (is_touched or tiers[request[0]].name not in URGENT_TIERS):
                with self._urgent:
                    self._is_urgent = False
                    self.pool.hold_readers(None)
                    self._limiter.change(background * MIB)
                background = 0.0
            yield request
