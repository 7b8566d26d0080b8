"""Whether scaling ahead was worth it over a past load: policies judged by cost and shortage together.

A replica-hour short weighs as many spare ones as the served quantile stands for (`short_weight`). Without that weight a
fleet of nothing would be the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from peaker.domain.forecasting.forecaster import SCALE_OUT_ONLY_BELOW_DAYS

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
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True)
class Worth:
    """The answer over the compared steps, and weighted replica-hours by policy, ours first."""

    answer: Answer
    totals: dict[str, float]
    best_rival: str


def short_weight(quantile: float) -> float:
    """Returns the spare replica-hours that one missing replica-hour weighs, when `quantile` is worth serving.

    The newsvendor's ratio, solved for the costs: q = Cu / (Cu + Co), so Cu / Co = q / (1 - q). 0.95 gives 19.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile lies between 0 and 1, got {quantile}")
    return round(quantile / (1 - quantile), 6)


def days_needed(history_days: float, compared_days: float) -> float:
    """Returns how many more days of load a judgement takes; 0 when it can be judged."""
    if compared_days >= LEAST_COMPARED_DAYS:
        return 0.0
    missing = WARM_UP_DAYS + LEAST_COMPARED_DAYS - history_days
    return max(0.0, math.ceil(10 * missing - 1e-6) / 10)


def judge_worth(ours: str, weighted: Mapping[str, float], *, capacity_is_known: bool = True) -> Worth:
    """Judges our policy against the best of the others by their weighted replica-hours.

    Of replicas whose capacity is assumed no answer says anything.
    """
    best = min((name for name in weighted if name != ours), key=lambda name: weighted[name])
    gain = weighted[best] - weighted[ours]
    answer = Answer.PAYS if gain > 0 else Answer.DOES_NOT_PAY
    if abs(gain) <= EVEN_WITHIN * weighted[best]:
        answer = Answer.EVEN
    if not capacity_is_known:
        answer = Answer.NO_CAPACITY
    return Worth(answer, dict(weighted), best)
