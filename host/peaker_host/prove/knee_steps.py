"""Knee steps are the settings and the measurements of a search for the knee. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple


@dataclass(frozen=True)
class KneeSettings:
    """These settings bound a search. Seconds per step are settle + 2 to `max_windows` windows."""

    max_concurrency: int = 256
    settle_seconds: float = 2.0
    window_seconds: float = 2.0
    max_windows: int = 5
    await_limits_ms: Tuple[float, ...] = (20.0, 50.0)
    time_limit_seconds: float = 900.0


@dataclass(frozen=True)
class Member:
    """One device under an array or a logical volume, during a step."""

    device: str
    requests_per_s: float
    await_ms: Optional[float]


@dataclass(frozen=True)
class Step:
    """One concurrency, measured. Waits in ms; None is "nothing completed" or "no such witness"."""

    concurrency: int
    requests_per_s: float
    reads_per_s: float
    writes_per_s: float
    mib_per_s: float
    await_ms: float
    read_await_ms: Optional[float]
    write_await_ms: Optional[float]
    latency_ms: float
    queue: float
    util_percent: float
    others_share: float
    generator_cpu: float
    settled: bool
    seconds: float
    iostat: Optional[Dict[str, float]] = None
    nvme: Optional[Dict[str, int]] = None
    members: List[Member] = field(default_factory=list)


@dataclass(frozen=True)
class Crossing:
    """A crossing is the place where await reaches a limit. `concurrency` is interpolated between the two
    steps around it.
    """

    await_limit_ms: float
    concurrency: Optional[float]
    requests_per_s: Optional[float]
    between: Optional[Tuple[int, int]]


@dataclass(frozen=True)
class Search:
    """Steps by rising concurrency, crossings, and where the rate stops growing."""

    steps: List[Step]
    crossings: List[Crossing]
    full_rate_concurrency: int
    full_rate_per_s: float
    ended: str
