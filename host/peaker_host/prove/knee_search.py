"""The course of a search for the knee, and what it found. Pure: what measures a step is an argument."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

_GROWS = 1.05
_FULL_RATE = 0.95
_REFINEMENTS = 4
_FINE = 0.05
_OTHERS_SHARE = 0.05
_GENERATOR_FULL = 0.9
_REACHES_DEVICE = 0.7
_ENOUGH_TO_TELL = 8


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


@dataclass(frozen=True)
class Crossing:
    """The place where await reaches a limit, interpolated between the two steps around it."""

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


def search(
    measure: Callable[[int], Step],
    settings: KneeSettings,
    on_step: Callable[[Step], None],
    clock: Callable[[], float] = time.monotonic,
) -> Search:
    """Double the concurrency until the rate stops growing, go on to each limit by Little's law, then refine.

    `measure` is called with each concurrency at most once. Ends early, and says so, at the time limit, at the
    highest concurrency allowed, or when the generator itself has no processor time left.
    """
    seen: Dict[int, Step] = {}
    deadline = clock() + settings.time_limit_seconds

    def take(concurrency: int) -> bool:
        if concurrency in seen or clock() > deadline:
            return False
        step = measure(concurrency)
        seen[concurrency] = step
        on_step(step)
        return True

    ended = _climb(seen, take, settings)
    for limit in settings.await_limits_ms:
        for _ in range(_REFINEMENTS):
            finer = _between_crossing(seen, limit)
            if finer is None or not take(finer):
                break
    for _ in range(_REFINEMENTS):
        finer = _below_full_rate(seen)
        if finer is None or not take(finer):
            break
    if clock() > deadline:
        ended = "time limit"
    steps = [seen[concurrency] for concurrency in sorted(seen)]
    full = _full_rate_step(steps)
    crossings = [_crossing(steps, limit) for limit in settings.await_limits_ms]
    return Search(steps, crossings, full.concurrency, full.requests_per_s, ended)


def _climb(seen: Dict[int, Step], take: Callable[[int], bool], settings: KneeSettings) -> str:
    highest_limit = max(settings.await_limits_ms)
    concurrency = 1
    last: Optional[Step] = None
    while take(concurrency):
        step = seen[concurrency]
        if _generator_is_the_limit(step):
            return "generator limited"
        flat = last is not None and step.requests_per_s < last.requests_per_s * _GROWS
        if step.await_ms >= highest_limit and (flat or concurrency == settings.max_concurrency):
            return "found"
        if concurrency >= settings.max_concurrency:
            return "highest concurrency"
        concurrency = min(settings.max_concurrency, _next(step, flat, settings.await_limits_ms))
        last = step
    return "time limit"


def _generator_is_the_limit(step: Step) -> bool:
    """Tells whether it has no processor time left, or far fewer requests reach the device than threads ask."""
    missing = step.concurrency >= _ENOUGH_TO_TELL and step.queue < _REACHES_DEVICE * step.concurrency
    return missing or step.generator_cpu >= _GENERATOR_FULL


def _next(step: Step, flat: bool, limits: Sequence[float]) -> int:
    """Where the rate no longer grows, await = concurrency / rate tells the place of the next limit."""
    open_limits = [limit for limit in sorted(limits) if limit > step.await_ms]
    if not flat or not open_limits:
        return step.concurrency * 2
    predicted = math.ceil(open_limits[0] / 1000 * step.requests_per_s)
    return max(step.concurrency + 1, predicted)


def _bracket(steps: Sequence[Step], limit: float) -> Optional[Tuple[Step, Step]]:
    for low, high in zip(steps, steps[1:]):
        if low.await_ms < limit <= high.await_ms:
            return low, high
    return None


def _between_crossing(seen: Dict[int, Step], limit: float) -> Optional[int]:
    """The concurrency that narrows a crossing best; None when it is narrow enough or not there."""
    pair = _bracket([seen[concurrency] for concurrency in sorted(seen)], limit)
    if pair is None:
        return None
    low, high = pair
    gap = high.concurrency - low.concurrency
    if gap <= max(1, int(low.concurrency * _FINE)):
        return None
    guess = round(_interpolated(low, high, limit))
    return min(high.concurrency - 1, max(low.concurrency + 1, guess))


def _below_full_rate(seen: Dict[int, Step]) -> Optional[int]:
    steps = [seen[concurrency] for concurrency in sorted(seen)]
    full = _full_rate_step(steps)
    below = [step.concurrency for step in steps if step.concurrency < full.concurrency]
    if not below or full.concurrency - below[-1] <= max(1, int(full.concurrency * _FINE * 2)):
        return None
    return (full.concurrency + below[-1]) // 2


def _full_rate_step(steps: Sequence[Step]) -> Step:
    """The first step that does 95 % of the most that any step did."""
    best = max(step.requests_per_s for step in steps)
    return next(step for step in steps if step.requests_per_s >= best * _FULL_RATE)


def _crossing(steps: Sequence[Step], limit: float) -> Crossing:
    pair = _bracket(steps, limit)
    if pair is None:
        if steps[0].await_ms >= limit:
            return Crossing(limit, float(steps[0].concurrency), steps[0].requests_per_s, None)
        return Crossing(limit, None, None, None)
    low, high = pair
    return Crossing(
        limit,
        round(_interpolated(low, high, limit), 2),
        round((low.requests_per_s + high.requests_per_s) / 2, 1),
        (low.concurrency, high.concurrency),
    )


def _interpolated(low: Step, high: Step, limit: float) -> float:
    share = (limit - low.await_ms) / (high.await_ms - low.await_ms)
    return low.concurrency + share * (high.concurrency - low.concurrency)


def warnings_about(found: Search) -> List[str]:
    """Returns warnings about figures that are less certain than they look."""
    said = []
    unsettled = [step.concurrency for step in found.steps if not step.settled]
    if unsettled:
        said.append(f"did not settle at concurrency {', '.join(map(str, unsettled))}")
    others = max(step.others_share for step in found.steps)
    if others > _OTHERS_SHARE:
        said.append(f"up to {others:.0%} of the device's requests were those of others")
    if found.ended == "generator limited":
        said.append(
            "the generator, not the device, was at its limit: the device can do more than was asked of it"
        )
    elif found.ended != "found":
        said.append(f"the search ended early: {found.ended}")
    disagreeing = [step.concurrency for step in found.steps if _witness_disagrees(step)]
    if disagreeing:
        said.append(f"iostat disagrees by more than 10 % at concurrency {', '.join(map(str, disagreeing))}")
    return said


def _witness_disagrees(step: Step) -> bool:
    if step.iostat is None or not step.settled or step.read_await_ms is None or step.read_await_ms < 1:
        return False
    return abs(step.iostat["r_await"] - step.read_await_ms) > 0.1 * step.read_await_ms
