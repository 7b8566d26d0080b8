"""What an alarm says of its last periods: a pure decision, with CloudWatch's sentence for it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from localcloud.extensions.cloudwatch.metric_store import MetricKey, MetricStore, metric_key, statistic

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
EVALUATION_SECONDS = 60
EXTRA_PERIODS = 2  # how far beyond the evaluation periods CloudWatch looks for points when some are missing


@dataclass(frozen=True)
class AlarmRule:
    """What an alarm asks of its metric."""

    key: MetricKey
    statistic: str
    period: int
    evaluation_periods: int
    datapoints_to_alarm: int
    threshold: float
    comparison: str
    missing: str

    def breaches(self, value: float) -> bool:
        return COMPARISONS[self.comparison][0](value, self.threshold)


@dataclass(frozen=True)
class Verdict:
    """The state that follows from the data, and the points (oldest first, None is missing) that say so."""

    state: State
    points: tuple[float | None, ...]


def judge(rule: AlarmRule, window: Sequence[float | None], current: State) -> Verdict:
    """The state of an alarm. window: values of the evaluation range, oldest first, None where data is missing."""
    recent = [value for value in window if value is not None]
    if len(recent) >= rule.evaluation_periods:
        points = recent[-rule.evaluation_periods :]
        breaching = sum(rule.breaches(value) for value in points)
        return Verdict("ALARM" if breaching >= rule.datapoints_to_alarm else "OK", tuple(points))
    points_shown = tuple(window[-rule.evaluation_periods :])
    breaching = sum(rule.breaches(value) for value in recent)
    absent = rule.evaluation_periods - len(recent)
    if rule.missing == "breaching":
        breaching += absent
    if breaching >= rule.datapoints_to_alarm:
        return Verdict("ALARM", points_shown)
    if rule.missing in ("breaching", "notBreaching"):
        return Verdict("OK", points_shown)
    if any(not rule.breaches(value) for value in recent):
        return Verdict("OK", points_shown)
    if rule.missing == "ignore":
        return Verdict(current, points_shown)
    if not recent:
        return Verdict("INSUFFICIENT_DATA", points_shown)
    oldest = next(index for index, value in enumerate(window) if value is not None)
    old_enough = len(window) - oldest >= rule.datapoints_to_alarm
    return Verdict("ALARM" if old_enough else current, points_shown)


def window_of(store: MetricStore, rule: AlarmRule, now: float) -> tuple[list[float | None], float]:
    """The values of the evaluation range, oldest first, and when it ends."""
    step = min(rule.period, EVALUATION_SECONDS)
    end = now // step * step
    values: list[float | None] = []
    for index in range(rule.evaluation_periods + EXTRA_PERIODS, 0, -1):
        start = end - index * rule.period
        samples = store.between(rule.key, start, start + rule.period)
        values.append(statistic(samples, rule.statistic) if samples else None)
    return values, end


def rule_of(alarm: Any) -> AlarmRule:
    """Understand moto's record of an alarm. Raises ValueError when the local cloud cannot evaluate it."""
    if alarm.rule is not None or alarm.metric_data_queries or not alarm.statistic:
        raise ValueError("alarms on a statistic of one metric alone are evaluated")
    if alarm.comparison_operator not in COMPARISONS:
        raise ValueError(f"comparison operator {alarm.comparison_operator} is not evaluated")
    periods = int(alarm.evaluation_periods)
    return AlarmRule(
        metric_key(alarm.namespace, alarm.metric_name, dimension_pairs(alarm.dimensions)),
        alarm.statistic,
        int(alarm.period),
        periods,
        int(alarm.datapoints_to_alarm or periods),
        float(alarm.threshold),
        alarm.comparison_operator,
        alarm.treat_missing_data or "missing",
    )


def dimension_pairs(dimensions: Any) -> dict[str, str]:
    return {dimension.name: dimension.value for dimension in dimensions or []}


def reason_of(rule: AlarmRule, verdict: Verdict) -> str:
    """The sentence that CloudWatch writes into StateReason."""
    known = [value for value in verdict.points if value is not None]
    if verdict.state == "INSUFFICIENT_DATA" or not known:
        missing = "no datapoints were received"
        return (
            f"Insufficient Data: {missing}."
            if verdict.state == "INSUFFICIENT_DATA"
            else f"Threshold: {missing}."
        )
    breaching = sum(rule.breaches(value) for value in known)
    word = COMPARISONS[rule.comparison][1]
    if verdict.state == "ALARM":
        count = (
            f"{breaching} out of the last {rule.evaluation_periods} datapoints [{', '.join(map(str, known))}]"
        )
        compared = f"{'was' if breaching == 1 else 'were'} {word} the threshold ({rule.threshold})"
    else:
        count = f"{len(known)} datapoint(s) [{', '.join(map(str, known))}]"
        compared = (
            f"did not breach: {rule.datapoints_to_alarm} must be {word} the threshold ({rule.threshold})"
        )
    return f"Threshold Crossed: {count} {compared}."
