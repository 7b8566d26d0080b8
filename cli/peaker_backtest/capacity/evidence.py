"""What observations prove of the highest load per replica at which a measure stays under its limit.

One assumption: more load per replica never makes the measure better. Then the share of a run of observations that is
over the limit bounds, from above, the share at the run's lowest load, and from below, the share at its highest. Each
run is tested by the binomial distribution; going up from low loads until the first test fails needs no correction for
testing often, because each claim holds only if all before it do (fixed-sequence testing: Maurer, Hothorn and
Lehmacher, 1995). Observations of one day resemble each other: a run counts for as many as it is worth (Kish's design
effect, by day).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peaker_backtest.capacity.observations import Floats, Ints, Observations

# The share of steps that may be over the limit, and how often a bound may be wrong.
OVER_SHARE = 0.05
WRONG_SHARE = 0.05
# Independent observations of a run: one of them over the limit still proves less than 5 % (59 if none is).
_RUN = 93
# With many observations a run is that share of them: a longer one is stopped less often by accident.
_RUN_SHARE = 0.03
# The lowest loads are left out: backups and other work of the night are slow for reasons of their own.
LOWEST_SHARE = 0.25
_STEPS_OF_A_RUN = 20
# What happened on one day, or on two, may be of those days.
LEAST_RUN_DAYS = 3
_EFFECT_WINDOW = 400
_EFFECT_QUANTILE = 0.9
_BINS = 20
# A day is odd that differs from the others at equal loads by that factor, and by so many robust standard deviations.
_ODD_FACTOR, _ODD_DEVIATIONS, _LEAST_DEVIATION = 1.3, 5.0, 0.05
_MAD_TO_DEVIATION = 1.4826


@dataclass(frozen=True)
class OddDay:
    """A whole day (since the epoch) on which the measure was `factor` times what other days had at the same loads."""

    day: int
    factor: float


@dataclass(frozen=True)
class Bounds:
    """Loads per replica; None where the observations do not prove one.

    holds_to: up to it the measure is proven under its limit. passed_at: from it on it is proven over it. low_passed:
    already the lowest runs are proven over it. run: observations that each test rests on; design_effect: how many of
    them are worth one independent one. estimate: the isotonic fit's crossing.
    """

    holds_to: float | None
    passed_at: float | None
    low_passed: bool
    estimate: float
    run: int
    design_effect: float
    tested: int


def bounds(seen: Observations, limit: float) -> Bounds:
    """The two bounds of the highest load per replica that keeps the limit in 95 % of the steps, each at 95 %."""
    order = np.argsort(seen.loads, kind="stable")
    first = math.floor(LOWEST_SHARE * len(order))
    loads, measures, days = seen.loads[order][first:], seen.measures[order][first:], seen.days[order][first:]
    over = measures > limit
    effect = _design_effect(measures, days)
    run = math.ceil(max(_RUN * effect, _RUN_SHARE * len(loads)))
    estimate = crossing(loads, over)
    if len(loads) < run:
        return Bounds(None, None, False, estimate, run, effect, len(loads))
    counts = np.concatenate([[0], np.cumsum(over)])
    starts = range(0, len(loads) - run + 1, max(1, run // _STEPS_OF_A_RUN))
    holds_to = None
    for at in starts:
        many_days = len(np.unique(days[at : at + run])) >= LEAST_RUN_DAYS
        if not many_days or not _is_under(int(counts[at + run] - counts[at]), run, effect):
            break
        holds_to = float(loads[at])
    passed_at = None
    for end in (len(loads) - start for start in starts):
        many_days = len(np.unique(days[end - run : end])) >= LEAST_RUN_DAYS
        if not many_days or not _is_over(int(counts[end] - counts[end - run]), run, effect):
            break
        passed_at = float(loads[end - 1])
    return Bounds(
        holds_to, passed_at, _is_over(int(counts[run]), run, effect), estimate, run, effect, len(loads)
    )


def _is_under(over: int, run: int, effect: float) -> bool:
    """Whether so few over the limit would be an accident if 5 % or more were."""
    count = math.floor(run / effect)
    return _at_most(min(count, math.ceil(over / effect - 1e-9)), count) <= WRONG_SHARE


def _is_over(over: int, run: int, effect: float) -> bool:
    """Whether so many over the limit would be an accident if 5 % or fewer were."""
    count = math.ceil(run / effect)
    found = math.floor(over / effect + 1e-9)
    return found > 0 and 1 - _at_most(found - 1, count) <= WRONG_SHARE


def _at_most(found: int, count: int) -> float:
    """The probability of at most `found` of `count` where each comes with OVER_SHARE: the binomial distribution."""
    if found >= count:
        return 1.0
    chosen, left = math.log(OVER_SHARE), math.log1p(-OVER_SHARE)
    total = math.fsum(
        math.exp(
            math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
            + k * chosen + (count - k) * left
        )
        for k in range(found + 1)
    )  # fmt: skip
    return min(1.0, total)


def _design_effect(measures: Floats, days: Ints) -> float:
    """How many observations of neighbouring loads are worth one: the median over runs along the load, 1 at least.

    In each run those above its 90th percentile are counted by day, and their variance is held against that of
    independent ones.
    """
    size = min(_EFFECT_WINDOW, max(2, len(measures) // 6))
    found = []
    for at in range(0, len(measures) - size + 1, max(1, size // 2)):
        part, day = measures[at : at + size], np.unique(days[at : at + size], return_inverse=True)[1]
        high = part > np.quantile(part, _EFFECT_QUANTILE)
        share, count = float(high.mean()), int(day.max()) + 1
        if 0 < share < 1 and count > 1:
            sums = np.bincount(day, weights=high - share)
            found.append(float((sums**2).sum()) / (size * share * (1 - share)) * count / (count - 1))
    return max(1.0, float(np.median(found))) if found else 1.0


def crossing(loads: Floats, over: NDArray[np.bool_], share: float = OVER_SHARE) -> float:
    """The load at which the isotonic fit of "over the limit" reaches `share`; loads ascend.

    It is where the sum of (share - over) is greatest (the switching relation of isotonic regression, Groeneboom and
    Jongbloed, 2014), and so the crossing of the isotonic fit of the measure's 1 - share quantile.
    """
    if not len(loads):
        return math.nan
    sums = np.concatenate([[0.0], np.cumsum(share - over)])
    last = len(sums) - 1 - int(np.argmax(sums[::-1]))
    return float(loads[max(0, last - 1)])


def odd_days(seen: Observations) -> list[OddDay]:
    """Days on which the measure was far from what the same loads had on the others: slow queries, a broken metric."""
    if seen.day_count < 3:
        return []
    edges = np.quantile(seen.loads, np.linspace(0, 1, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, seen.loads)
    logs = np.log(seen.measures)
    usual = np.array(
        [np.median(logs[bins == one]) if (bins == one).any() else np.nan for one in range(_BINS)]
    )
    residuals = logs - usual[bins]
    days = np.unique(seen.days)
    scores = np.array([np.median(residuals[seen.days == day]) for day in days])
    middle = float(np.median(scores))
    spread = max(_LEAST_DEVIATION, _MAD_TO_DEVIATION * float(np.median(np.abs(scores - middle))))
    far = np.abs(scores - middle) > max(_ODD_DEVIATIONS * spread, math.log(_ODD_FACTOR))
    return [
        OddDay(int(day), math.exp(score - middle)) for day, score in zip(days[far], scores[far], strict=True)
    ]


def rank_correlation(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Spearman's: 1 where both rise together, 0 where they have nothing to do with each other."""
    ranks = [_ranks(np.asarray(one, dtype=np.float64)) for one in (first, second)]
    if any(float(one.std()) == 0 for one in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Floats) -> Floats:
    """Ranks, those of equal values averaged."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts, dtype=np.float64)
    middle: Floats = ends - (counts - 1) / 2
    ranked: Floats = middle[inverse]
    return ranked
