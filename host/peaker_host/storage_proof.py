"""Is the volume warm? A random sample of the blocks in use, read twice around every cache.

The journal of the prewarm is not looked at: the sample comes from the filesystem's own map. The first read of a
cold block waits for the snapshot store, the second does not; noise of the machine hits both alike. So a block
counts as slow when a read takes longer than the median of the second reads plus a margin, and the verdict
compares how many first reads were slow with how many second reads were. The sample grows until the verdict is
certain or all allowed looks are used up; then it is `unknown`, never `warm`.
"""

from __future__ import annotations

import mmap
import os
import random
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from peaker_host.block_ranges import BLOCK_BYTES, Range, nth_blocks, total
from peaker_host.statistics_of_samples import (
    binomial_lower,
    binomial_upper,
    drawn_upper,
    quantile,
    sample_size_to_see,
    trimmed_mean,
)

COLD_SHARE_LIMIT = 0.02
"""A volume with this share of cold blocks must not be called warm."""
MISS_PROBABILITY = 1e-3
"""How often, at most, a volume at the limit may be called warm, over all looks together."""
_LOOKS = 4
_ALPHA = MISS_PROBABILITY / _LOOKS
_NOISE_ALPHA = 0.005
_READ_BYTES = 16384
_CHUNK_BLOCKS = 64
_CALM_NEIGHBOURS = 4
_MARGINS_MS = (2.0, 4.0, 8.0)
_NOISE_SHARE = 0.003
_REAL_TIME_PRIORITY = 10
_TRIM = 0.1


@dataclass(frozen=True)
class Warmth:
    """What the sample says. Latencies in ms; shares between 0 and 1."""

    verdict: str
    reason: str
    blocks_used: int
    blocks_sampled: int
    blocks_calm: int
    await_first_ms: Optional[float]
    await_second_ms: Optional[float]
    ratio: Optional[float]
    slow_limit_ms: Optional[float]
    slow_first: int
    slow_second: int
    cold_share_lower: Optional[float]
    cold_share_upper: Optional[float]
    percentiles_ms: Dict[str, float] = field(default_factory=dict)


def sample_warmth(
    path: str,
    size_bytes: int,
    used_blocks: List[Range],
    first_sample: int,
    ratio_limit: float,
    generator: random.Random,
    say: Callable[[str], None],
) -> Warmth:
    """Draw blocks without replacement, read each twice, judge; draw more while the verdict is open."""
    blocks = total(used_blocks)
    wanted = max(first_sample, sample_size_to_see(COLD_SHARE_LIMIT, _ALPHA / 2))
    order = generator.sample(range(blocks), min(blocks, wanted * 2 ** (_LOOKS - 1)))
    first: List[float] = []
    second: List[float] = []
    verdict = judge(first, second, blocks, ratio_limit)
    for look in range(_LOOKS):
        picked = order[len(first) : min(blocks, wanted * 2**look)]
        for start in range(0, len(picked), _CHUNK_BLOCKS):
            chunk = nth_blocks(used_blocks, sorted(picked[start : start + _CHUNK_BLOCKS]))
            generator.shuffle(chunk)
            offsets = [_offset_in(block, size_bytes, generator) for block in chunk]
            with _undisturbed():
                latencies = read_latencies_ms(path, [offset for offset in offsets for _ in range(2)])
            first += latencies[0::2]
            second += latencies[1::2]
        verdict = judge(first, second, blocks, ratio_limit)
        say(f"{len(first)} of {blocks} blocks read twice: {verdict.verdict}, {verdict.reason}")
        if verdict.verdict != "unknown" or len(first) >= blocks:
            break
    return verdict


def judge(first: Sequence[float], second: Sequence[float], blocks_used: int, ratio_limit: float) -> Warmth:
    """The verdict from paired latencies (ms) of a sample of `blocks_used` blocks. Pure."""
    if not first:
        return Warmth(
            "unknown", "no block was sampled", blocks_used, 0, 0, None, None, None, None, 0, 0, None, None
        )
    median = quantile(second, 0.5)
    limit = slow_limit_ms(second)
    calm = _calm_reads(second, limit)
    slow_calm = sum(1 for index in calm if first[index] > limit)
    slow_first = sum(1 for latency in first if latency > limit)
    slow_second = sum(1 for latency in second if latency > limit)
    noise_high = binomial_upper(slow_second, len(second), _NOISE_ALPHA)
    lower = max(0.0, binomial_lower(slow_calm, len(calm), _NOISE_ALPHA) - noise_high)
    upper = min(
        drawn_upper(slow_first, len(first), blocks_used, _ALPHA / 2),
        drawn_upper(slow_calm, len(calm), blocks_used, _ALPHA / 2),
    )
    mean_first, mean_second = trimmed_mean(first, _TRIM), trimmed_mean(second, _TRIM)
    ratio = mean_first / mean_second if mean_second > 0 else 1.0
    verdict, reason = _verdict(lower, upper, ratio, ratio_limit, slow_first, slow_second, len(first))
    return Warmth(
        verdict,
        reason,
        blocks_used,
        len(first),
        len(calm),
        round(mean_first, 3),
        round(mean_second, 3),
        round(ratio, 3),
        round(limit, 3),
        slow_first,
        slow_second,
        round(lower, 5),
        round(upper, 5),
        {
            "first_p50": round(quantile(first, 0.5), 3),
            "first_p99": round(quantile(first, 0.99), 3),
            "second_p50": round(median, 3),
            "second_p99": round(quantile(second, 0.99), 3),
        },
    )


def slow_limit_ms(second: Sequence[float]) -> float:
    """Above this a read counts as slow. Depends on the second reads alone, so that it cannot favour a verdict."""
    median = quantile(second, 0.5)
    limits = [median + max(margin, median / 2) for margin in _MARGINS_MS]
    allowed = max(1.0, _NOISE_SHARE * len(second))
    for limit in limits:
        if sum(1 for latency in second if latency > limit) <= allowed:
            return limit
    return limits[-1]


def read_latencies_ms(path: str, offsets: Sequence[int]) -> List[float]:
    """Time of one direct read of 16 KiB at each offset, one after the other."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    buffer = mmap.mmap(-1, _READ_BYTES)
    view = memoryview(buffer)
    latencies = []
    try:
        for offset in offsets:
            started = time.perf_counter_ns()
            os.preadv(descriptor, [view], offset)
            latencies.append((time.perf_counter_ns() - started) / 1e6)
    finally:
        view.release()
        buffer.close()
        os.close(descriptor)
    return latencies


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Real-time priority for this thread, so that waiting for a processor is not taken for a slow device.

    The thread sleeps while the device works, so it starves nobody. Without the right it goes on as it is.
    """
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_REAL_TIME_PRIORITY))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def _offset_in(block: int, size_bytes: int, generator: random.Random) -> int:
    """A 16 KiB page inside the block and inside the device."""
    end = min((block + 1) * BLOCK_BYTES, size_bytes)
    pages = max(1, (end - block * BLOCK_BYTES) // _READ_BYTES)
    return block * BLOCK_BYTES + generator.randrange(pages) * _READ_BYTES


def _calm_reads(second: Sequence[float], limit: float) -> List[int]:
    """Positions of the blocks whose own second read and those next to it in time were not slow.

    Second reads know nothing of coldness, so that choosing by them favours no verdict.
    """
    calm: List[int] = []
    disturbed_until = -1
    slow = [index for index, latency in enumerate(second) if latency > limit]
    for index in range(len(second)):
        while slow and slow[0] <= index + _CALM_NEIGHBOURS:
            disturbed_until = slow.pop(0) + _CALM_NEIGHBOURS
        if index > disturbed_until:
            calm.append(index)
    return calm


def _verdict(
    lower: float,
    upper: float,
    ratio: float,
    ratio_limit: float,
    slow_first: int,
    slow_second: int,
    sampled: int,
) -> Tuple[str, str]:
    counts = f"{slow_first} first and {slow_second} second reads of {sampled} were slow"
    if upper < COLD_SHARE_LIMIT and ratio <= ratio_limit:
        return "warm", f"at most {upper:.2%} of the blocks are cold; {counts}"
    if lower > 0 and upper >= COLD_SHARE_LIMIT:
        return "not_warm", f"between {lower:.2%} and {upper:.2%} of the blocks are cold; {counts}"
    if ratio > ratio_limit and lower > 0:
        return "not_warm", f"first reads take {ratio:.2f} times as long as second ones; {counts}"
    return "unknown", f"up to {upper:.2%} of the blocks may be cold; {counts}"
