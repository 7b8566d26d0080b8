"""The little statistics that the storage proof needs, with its sources. Pure, standard library only."""

from __future__ import annotations

import math
from typing import List, Sequence


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
    """Lower bound of the share, as `share_upper` of its complement."""
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
