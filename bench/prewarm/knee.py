"""The search for the knee on volumes whose knee is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from peaker_host.machine.settings import Processes
from peaker_host.prove.knee import find_knee
from peaker_host.prove.knee_search import KneeSettings

from bench.prewarm.cold_volumes import MIB, Laboratory
from localcloud.dataplane import VolumeLimits

SETTINGS = KneeSettings(max_concurrency=192, settle_seconds=1.0, window_seconds=2.0)


@dataclass(frozen=True)
class KneeError:
    """Readers at which await crosses a limit, as found and by Little's law. The error is a share."""

    iops: int
    await_ms: float
    readers: float
    expected: float

    @property
    def error(self) -> float:
        """How far the search is off."""
        return abs(self.readers / self.expected - 1)


def knee_errors(lab: Laboratory, iops: Sequence[int], say: Callable[[str], None]) -> list[KneeError]:
    """One search per volume, one after the other: readers = IOPS * await, once the volume is at its cap."""
    found = []
    for cap in iops:
        volume_id = lab.new_id("vol")
        limits = VolumeLimits(iops=cap, throughput_mib_per_s=0, fetch_latency_ms=0.0)
        lab.store.create_volume(volume_id, 256 * MIB, limits)
        try:
            path = lab.store.attach(volume_id).path
            result = find_knee(path, SETTINGS, Processes(), lambda _: None, with_throughput=False)
        finally:
            lab.store.delete_volume(volume_id)
        say(f"knee at {cap} IOPS: {len(result['steps'])} steps, {result['seconds']} s, {result['ended']}")
        found += [_error(cap, crossing) for crossing in result["crossings"]]
    return found


def _error(cap: int, crossing: dict[str, float | None]) -> KneeError:
    limit = crossing["await_limit_ms"]
    assert limit is not None
    readers = crossing["concurrency"]
    return KneeError(cap, limit, math.inf if readers is None else readers, cap * limit / 1000)
