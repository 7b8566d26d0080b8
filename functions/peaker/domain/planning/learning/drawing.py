"""A predicted time and measured ones, weighed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

# Distance from the median to the 90th percentile of a normal distribution, in standard deviations.
_P90 = 1.2816
_MAD_TO_DEVIATION = 1.4826
# The first-principles prediction weighs as much as this many measured runs at most.
_PRIOR_RUNS = 1.5
# By what share of their median the runs of one cluster vary as a rule, from the median to the p90: an assumption.
_RUNS_VARY = 0.25
# Older runs say little of a cluster as it is.
MOST_RUNS = 20


@dataclass(frozen=True)
class Times:
    """Seconds: the median and the p90; `runs` past ones, whose median is `measured`, stand behind them."""

    p50: float
    p90: float
    runs: int = 0
    measured: float = 0.0


def draw(predicted: Times, durations: Sequence[float]) -> Times:
    """Prediction and measurement weighed. Median and MAD, so one odd run moves little.

    The prediction counts as the fewer runs the wider it is itself, by the squares of the spreads, as in the mean of
    two normal distributions: 1.5 at most. One that measured runs contradict by a factor counts that much less: its
    assumptions do not hold on this cluster. How much such a time varies is another matter: a few runs that agree by
    chance show little of it, so that the predicted spread, as a share, counts as before.
    """
    good = [value for value in durations if math.isfinite(value) and value >= 0]
    if not good:
        return predicted
    middle = median(good)
    weight = len(good) / (len(good) + _prior_runs(predicted) / _contradiction(middle, predicted.p50))
    p50 = weight * middle + (1 - weight) * predicted.p50
    deviation = _MAD_TO_DEVIATION * median(abs(value - middle) for value in good)
    measured_spread = max(_P90 * deviation, 0.1 * middle)
    spread = max(
        weight * measured_spread + (1 - weight) * (predicted.p90 - predicted.p50),
        _few_runs_spread(predicted, p50, measured_spread, len(good)),
    )
    return Times(p50, max(p50 + spread, _slow_run(good)), len(good), middle)


def draw_usual(predicted: Times, durations: Sequence[float], usual: Sequence[float]) -> Times:
    """The same where `usual` is what each run took without what was done once more: the p90 alone has that.

    Unless most runs, of two at least, did it once more: then it is usual.
    """
    found = draw(predicted, durations)
    pairs = list(zip(reversed(durations), reversed(usual), strict=False))
    more = sum(1 for whole, first in pairs if first < whole - 1)
    if not usual or (len(pairs) > 1 and 2 * more > len(pairs)):
        return found
    once = draw(predicted, usual)
    return replace(once, p90=max(once.p90, found.p90))


def _prior_runs(predicted: Times) -> float:
    share = _spread_share(predicted)
    return _PRIOR_RUNS if share <= 0 else min(_PRIOR_RUNS, (_RUNS_VARY / share) ** 2)


def _spread_share(predicted: Times) -> float:
    """Of the median; 1 at most."""
    return min(1.0, (predicted.p90 - predicted.p50) / max(predicted.p50, 1.0))


def _few_runs_spread(predicted: Times, p50: float, measured_spread: float, runs: int) -> float:
    weight = runs / (runs + _PRIOR_RUNS)
    return weight * measured_spread + (1 - weight) * _spread_share(predicted) * p50


def _contradiction(measured_seconds: float, predicted_seconds: float) -> float:
    """By what factor measurement and prediction differ, 1 when they agree; a second apart is agreement."""
    low, high = sorted((measured_seconds + 1.0, predicted_seconds + 1.0))
    return high / low


def _slow_run(durations: Sequence[float]) -> float:
    """The duration that only a tenth of the runs pass: being late costs more than being early.

    Up to three runs: the slowest. Four to nine: the second slowest, so that one odd run does not stay.
    """
    ordered = sorted(durations)
    if len(ordered) <= 3:
        return ordered[-1]
    return ordered[min(len(ordered) - 2, math.ceil(0.9 * len(ordered)) - 1)]
