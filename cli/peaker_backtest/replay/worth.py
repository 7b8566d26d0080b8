"""Whether scaling ahead was worth it over a past load: courses side by side, judged by cost and shortage together.

A replica-hour short weighs as many spare ones as the served quantile stands for (`short_weight`). Without that weight a
fleet of nothing would be the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting.forecaster import SCALE_OUT_ONLY_BELOW_DAYS

Floats = NDArray[np.float64]

# Until then nothing may be removed, so it says nothing about the time after it.
WARM_UP_DAYS = SCALE_OUT_ONLY_BELOW_DAYS
# A whole week, so that every weekday counts once.
LEAST_COMPARED_DAYS = 7.0
# Totals closer than this are no difference: one replica for a quarter of an hour a day, of ten.
EVEN_WITHIN = 0.01


class Answer(StrEnum):
    PAYS = "pays"
    EVEN = "even"
    DOES_NOT_PAY = "does_not_pay"
    TOO_SHORT = "too_short"


@dataclass(frozen=True)
class Course:
    """One policy per step: replica-hours paid for, and replica-hours that were missing."""

    name: str
    replica_hours: Floats
    short_replica_hours: Floats

    def weighted(self, weight: float) -> Floats:
        """Replica-hours per step, each missing one counted `weight` times."""
        return self.replica_hours + weight * self.short_replica_hours


@dataclass(frozen=True)
class Worth:
    """The answer over the compared steps. Totals are weighted replica-hours, by policy, ours first.

    pays_from_step: the first step from which on ours stays below every rival, counted from the first step of the
    replay, so that it has earned back its warm-up; None when it does not pay, or not yet. unearned_replica_hours is
    what the warm-up still has to earn back at the end.
    """

    answer: Answer
    short_weight: float
    totals: dict[str, float]
    best_rival: str
    pays_from_step: int | None
    unearned_replica_hours: float


def short_weight(quantile: float) -> float:
    """Spare replica-hours that one missing replica-hour weighs, when `quantile` is the one worth serving.

    The newsvendor's ratio, solved for the costs: q = Cu / (Cu + Co), so Cu / Co = q / (1 - q). 0.95 gives 19.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile lies between 0 and 1, got {quantile}")
    return round(quantile / (1 - quantile), 6)


def days_needed(history_days: float, compared_days: float) -> float:
    """How many more days of load a judgement takes; 0 when it can be judged."""
    if compared_days >= LEAST_COMPARED_DAYS:
        return 0.0
    missing = WARM_UP_DAYS + LEAST_COMPARED_DAYS - history_days
    return max(0.0, math.ceil(10 * missing - 1e-6) / 10)


def judge_worth(ours: Course, rivals: Sequence[Course], quantile: float, compare_from: int) -> Worth:
    """Ours against the best of the rivals over the steps from `compare_from` on."""
    weight = short_weight(quantile)
    courses = {each.name: each.weighted(weight) for each in (ours, *rivals)}
    totals = {name: float(course[compare_from:].sum()) for name, course in courses.items()}
    best = min((each.name for each in rivals), key=lambda name: totals[name])
    gain = totals[best] - totals[ours.name]
    if abs(gain) <= EVEN_WITHIN * totals[best]:
        answer = Answer.EVEN
    else:
        answer = Answer.PAYS if gain > 0 else Answer.DOES_NOT_PAY
    since, unearned = None, 0.0
    if answer is Answer.PAYS:
        ahead = [np.cumsum(courses[ours.name] - courses[each.name]) for each in rivals]
        worst = np.max(ahead, axis=0)
        behind = np.flatnonzero(worst >= 0)
        first = int(behind[-1]) + 1 if len(behind) else 0
        if first < len(worst):
            since = max(compare_from, first)
        else:
            unearned = float(worst[-1])
    return Worth(answer, weight, totals, best, since, unearned)
