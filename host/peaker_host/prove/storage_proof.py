"""Proves a volume warm by a random sample of its live blocks, each read twice around every cache.

The journal of the prewarm is not looked at. The first read of a cold block waits for the snapshot store; whether the
second does too is not known, so nothing is ever excused by the second read of the same block. Noise is told apart by
reads that know nothing of the block: second reads of blocks sampled before it, and controls, which are reads of pages
that an earlier part of the sample has warmed. Where those were slow just before a block's first read, the block is
left out: what happened before cannot know whether the next random block is cold.

A first read is slow above the median of the controls plus a margin. The sample grows until the verdict is certain or
all allowed looks are used up; then it is `unknown`, never `warm`.
"""

from __future__ import annotations

import math
import os
import random
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Callable, Iterator, List, Optional, Sequence, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, nth_blocks, total
from peaker_host.blocks.timed_reads import PAGE_BYTES, read_latencies_ms


def share_upper(successes: int, drawn: int, population: int, alpha: float) -> float:
    """Upper bound of a share, from a sample drawn without replacement from a population of known size.

    Hypergeometric: the largest share under which so few successes have a probability above alpha; exact when all is
    drawn.
    """
    low, high = successes, population - drawn + successes
    while low < high:
        middle = (low + high + 1) // 2
        if _at_most_drawn(successes, drawn, middle, population) > alpha:
            low = middle
        else:
            high = middle - 1
    return low / population


def share_lower(successes: int, drawn: int, population: int, alpha: float) -> float:
    return 1.0 - share_upper(drawn - successes, drawn, population, alpha)


def sample_size_to_see(share: float, alpha: float) -> int:
    """Sample in which a share of at least `share` goes unseen with probability <= alpha (rule of three, exact)."""
    return math.ceil(math.log(alpha) / math.log(1.0 - share))


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (type 7)."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * share
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def trimmed_mean(values: Sequence[float], share: float) -> float:
    """Mean without the lowest and highest `share` of the values: a few spikes do not move it."""
    ordered = sorted(values)
    cut = int(len(ordered) * share)
    kept: List[float] = ordered[cut : len(ordered) - cut] or ordered
    return sum(kept) / len(kept)


def _at_most_drawn(successes: int, drawn: int, marked: int, population: int) -> float:
    """P(X <= successes) when `drawn` of `population` are taken, `marked` of which count."""
    whole = _log_choose(population, drawn)
    return sum(
        math.exp(_log_choose(marked, k) + _log_choose(population - marked, drawn - k) - whole)
        for k in range(max(0, drawn - population + marked), min(successes, marked) + 1)
    )


def _log_choose(things: int, taken: int) -> float:
    if not 0 <= taken <= things:
        return -math.inf
    return math.lgamma(things + 1) - math.lgamma(taken + 1) - math.lgamma(things - taken + 1)


COLD_SHARE_LIMIT = 0.02
"""A volume with this share of cold blocks must not be called warm."""
MISS_PROBABILITY = 1e-3
"""How often, at most, a volume at the limit may be called warm, over all looks together."""
_LOOKS = 4
_ALPHA = MISS_PROBABILITY / _LOOKS
_NOISE_ALPHA = 0.005
_CHUNK_BLOCKS = 64
_CALM_NEIGHBOURS = 4
_MARGINS_MS = (2.0, 4.0, 8.0)
_NOISE_SHARE = 0.003
_REAL_TIME_PRIORITY = 10
_TRIM = 0.1
_CONTROLS_AT_LEAST = 256
# Reads of warm pages that there could be.
_MANY = 10**6


@dataclass(frozen=True)
class Warmth:
    """Warmth is the sample's result. Latencies in ms; shares between 0 and 1."""

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
    slow_blocks: List[int] = field(default_factory=list)


@dataclass
class Sample:
    """Latencies in ms. `first` and `second` are pairs in the order in which the blocks were read.

    `control`: the read of a warm page right before each pair; None where there was none yet.
    """

    first: List[float] = field(default_factory=list)
    second: List[float] = field(default_factory=list)
    control: List[Optional[float]] = field(default_factory=list)
    blocks: List[int] = field(default_factory=list)


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
    sample, warm_offsets = Sample(), [0] * 0
    verdict = judge_sample(sample, blocks, ratio_limit)
    for look in range(_LOOKS):
        goal = min(blocks, wanted * 2**look)
        while (drawn := len(sample.first)) < goal:
            chunk = nth_blocks(used_blocks, sorted(order[drawn : min(drawn + _CHUNK_BLOCKS, goal)]))
            generator.shuffle(chunk)
            _read_chunk(path, size_bytes, chunk, sample, warm_offsets, generator)
        verdict = judge_sample(sample, blocks, ratio_limit)
        say(f"{goal} of {blocks} blocks read twice: {verdict.verdict}, {verdict.reason}")
        if verdict.verdict != "unknown" or goal == len(order):
            break
    return verdict


def _read_chunk(
    path: str,
    size_bytes: int,
    chunk: List[int],
    sample: Sample,
    warm_offsets: List[int],
    generator: random.Random,
) -> None:
    """Control, first and second read of each block; controls are of pages that an earlier chunk has read."""
    offsets = [_offset_in(block, size_bytes, generator) for block in chunk]
    controls = [generator.choice(warm_offsets) for _ in chunk] if warm_offsets else []
    plan = [
        one for index, offset in enumerate(offsets) for one in (*controls[index : index + 1], offset, offset)
    ]
    with _undisturbed():
        latencies = read_latencies_ms(path, plan)
    step = 3 if controls else 2
    for index, block in enumerate(chunk):
        at = index * step
        sample.control.append(latencies[at] if controls else None)
        sample.first.append(latencies[at + step - 2])
        sample.second.append(latencies[at + step - 1])
        sample.blocks.append(block)
    warm_offsets += offsets


def after_reading_all(warmth: Warmth) -> Warmth:
    """The verdict once every block has been read whole: noise can no longer hide a cold one."""
    if warmth.verdict != "unknown":
        return warmth
    reason = f"all {warmth.blocks_used} blocks were read whole just before; of a sample {warmth.reason}"
    return replace(warmth, verdict="warm", reason=reason)


def judge_sample(sample: Sample, blocks_used: int, ratio_limit: float) -> Warmth:
    """The verdict from a sample of `blocks_used` blocks. Pure."""
    first, second = sample.first, sample.second
    if not first:
        return Warmth(
            "unknown", "no block was sampled", blocks_used, 0, 0, None, None, None, None, 0, 0, None, None
        )
    controls = [latency for latency in sample.control if latency is not None]
    quiet = controls if len(controls) >= _CONTROLS_AT_LEAST else second
    limit = slow_limit_ms(quiet)
    calm = _calm_reads(sample, limit)
    slow_calm = sum(1 for index in calm if first[index] > limit)
    slow_first = sum(1 for latency in first if latency > limit)
    slow_second = sum(1 for latency in second if latency > limit)
    noise_high = share_upper(sum(1 for latency in quiet if latency > limit), len(quiet), _MANY, _NOISE_ALPHA)
    lower = max(0.0, share_lower(slow_calm, len(calm), _MANY, _NOISE_ALPHA) - noise_high)
    upper = min(
        share_upper(slow_first, len(first), blocks_used, _ALPHA / 2),
        share_upper(slow_calm, len(calm), blocks_used, _ALPHA / 2),
    )
    mean_first, mean_quiet = trimmed_mean(first, _TRIM), trimmed_mean(quiet, _TRIM)
    ratio = mean_first / mean_quiet if mean_quiet > 0 else 1.0
    verdict, reason = _verdict(lower, upper, ratio, ratio_limit, slow_first, slow_second, len(first))
    return Warmth(
        verdict,
        reason,
        blocks_used,
        len(first),
        len(calm),
        round(mean_first, 3),
        round(trimmed_mean(second, _TRIM), 3),
        round(ratio, 3),
        round(limit, 3),
        slow_first,
        slow_second,
        round(lower, 5),
        round(upper, 5),
        [block for block, latency in zip(sample.blocks, first) if latency > limit],
    )


def slow_limit_ms(second: Sequence[float]) -> float:
    """Returns the limit above which a read counts as slow, from controls (or second reads) alone."""
    median = quantile(second, 0.5)
    limits = [median + max(margin, median / 2) for margin in _MARGINS_MS]
    allowed = max(1.0, _NOISE_SHARE * len(second))
    for limit in limits:
        if sum(1 for latency in second if latency > limit) <= allowed:
            return limit
    return limits[-1]


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
    pages = max(1, (end - block * BLOCK_BYTES) // PAGE_BYTES)
    return block * BLOCK_BYTES + generator.randrange(pages) * PAGE_BYTES


def _calm_reads(sample: Sample, limit: float) -> List[int]:
    """Positions of the blocks before whose first read nothing was slow.

    Only reads that came before, of other blocks, may leave a block out. Its own second read may not, nor one that came
    later: where hydration makes them slow too, the cold blocks would be the ones left out.
    """
    calm: List[int] = []
    disturbed_until = -1
    for index, control in enumerate(sample.control):
        if control is not None and control > limit:
            disturbed_until = index + _CALM_NEIGHBOURS
        if index > disturbed_until:
            calm.append(index)
        if sample.second[index] > limit:
            disturbed_until = index + _CALM_NEIGHBOURS
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
