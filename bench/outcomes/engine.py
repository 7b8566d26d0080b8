"""What a prewarm reads and when: each volume at its own rate, all together within the instance's bandwidth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.outcomes.laws import BURST_SECONDS
from bench.outcomes.truth import MIB, TYPES

_BLOCK = 512 * 1024


@dataclass(frozen=True)
class Cold:
    """One volume before it is read: bytes of its hot blocks and of all that is used, and MiB/s that come in."""

    hot_bytes: float
    used_bytes: float
    mib_per_s: float


@dataclass
class Reading:
    """The bytes read by all volumes as a broken line over the seconds since the engine's start."""

    total_bytes: float
    hot_seconds: float = 0.0
    used_seconds: float = 0.0
    seconds: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)

    def bytes_at(self, second: float) -> float:
        """Read so far."""
        index = bisect_right(self.seconds, second) - 1
        if index < 0:
            return 0.0
        if index == len(self.seconds) - 1:
            return self.bytes[-1]
        length = self.seconds[index + 1] - self.seconds[index]
        share = (second - self.seconds[index]) / length if length else 1.0
        return self.bytes[index] + share * (self.bytes[index + 1] - self.bytes[index])

    def report(self, elapsed: float) -> dict[str, Any]:
        """What report_prewarm prints so long after the start; what is left is told by the mean rate until then."""
        done = self.bytes_at(elapsed)
        rate = done / max(elapsed, 1.0)
        hot, used = elapsed >= self.hot_seconds, elapsed >= self.used_seconds
        hot_bytes = self.bytes_at(self.hot_seconds)
        left = None if rate <= 0 else (self.total_bytes - done) / rate
        hot_left = 0.0 if hot else (None if rate <= 0 else max(0.0, hot_bytes - done) / rate)
        return {
            "state": "running",
            "blocks_done": int(done / _BLOCK),
            "blocks_total": int(self.total_bytes / _BLOCK),
            "bytes_read": int(done),
            "rate_mib_per_s": round(rate / MIB, 1),
            "eta_seconds": 0.0 if used else (None if left is None else round(left, 1)),
            "elapsed_seconds": round(elapsed, 1),
            "hot_warm_seconds": round(self.hot_seconds, 1) if hot else None,
            "hot_eta_seconds": None if hot_left is None else round(hot_left, 1),
            "used_warm_seconds": round(self.used_seconds, 1) if used else None,
            "samples": [],
        }


def read(
    volumes: Sequence[Cold], instance_type: str, planning_seconds: float, behind_mib_per_s: float | None
) -> Reading:
    """Hot blocks first on each volume, then the rest; the rest of all at `behind_mib_per_s` a volume once all is hot.

    A type's burst lasts for half an hour of reading.
    """
    found = Reading(sum(one.used_bytes for one in volumes))
    now, got = planning_seconds, [0.0] * len(volumes)
    found.seconds, found.bytes = [0.0, now], [0.0, 0.0]
    hot_done = False
    while any(bytes_ < one.used_bytes - 1 for bytes_, one in zip(got, volumes, strict=True)):
        slow = behind_mib_per_s if hot_done else None
        rates = _rates(volumes, got, slow, _pipe(instance_type, now - planning_seconds))
        steps = [
            (goal - bytes_) / rate
            for one, bytes_, rate in zip(volumes, got, rates, strict=True)
            for goal in (one.hot_bytes, one.used_bytes)
            if rate > 0 and goal > bytes_ + 1
        ]
        until_burst_ends = BURST_SECONDS - (now - planning_seconds)
        step = min([*steps, *([until_burst_ends] if until_burst_ends > 0 else [])])
        got = [bytes_ + rate * step for bytes_, rate in zip(got, rates, strict=True)]
        now += step
        found.seconds.append(now)
        found.bytes.append(sum(got))
        if not hot_done and all(
            bytes_ >= one.hot_bytes - 1 for bytes_, one in zip(got, volumes, strict=True)
        ):
            hot_done, found.hot_seconds = True, now
    found.used_seconds = now
    return found


def _pipe(instance_type: str, second: float) -> float:
    """MiB/s through the instance to all its volumes."""
    promise = TYPES[instance_type]
    best = promise.maximum_mib_per_s if second < BURST_SECONDS - 1e-6 else promise.baseline_mib_per_s
    return best or 0.0


def _rates(volumes: Sequence[Cold], got: Sequence[float], slow: float | None, pipe: float) -> list[float]:
    """Bytes a second of each volume that has anything left."""
    wanted = [
        0.0 if bytes_ >= one.used_bytes - 1 else (one.mib_per_s if slow is None else min(slow, one.mib_per_s))
        for one, bytes_ in zip(volumes, got, strict=True)
    ]
    share = min(1.0, pipe / sum(wanted)) if sum(wanted) else 1.0
    return [rate * share * MIB for rate in wanted]
