"""Figures of a check of all health responders of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from peaker.domain.host_results import HealthReport
from peaker.domain.reading import Unknown
from peaker_contract.metrics import Metric

HTTP_OK = 200


@dataclass(frozen=True)
class CheckFigures:
    """Counts over the replicas that are registered; `lag_seconds_max` is None when no replica knows its lag.

    `serves` says of each whether it may get reads, `lags` how many seconds those are behind that know it,
    `reads` the client statements a second of those whose host knows them. `draining_reads` are those of replicas that
    leave, on connections that were open before; None where one of them is not known.
    """

    registered: int
    serving: int
    held_by_floor: int
    unreported: int
    lag_seconds_max: float | None
    reason: str
    serves: Mapping[str, bool] = field(default_factory=dict)
    lags: Mapping[str, float] = field(default_factory=dict)
    reads: Mapping[str, float] = field(default_factory=dict)
    draining_reads: float | None = 0.0

    @property
    def reads_per_second(self) -> float | None:
        """What registered and draining replicas answer together; None when one is not known, and without replicas."""
        if not self.registered or len(self.reads) < self.registered or self.draining_reads is None:
            return None
        return sum(self.reads.values()) + self.draining_reads

    def metrics(self) -> dict[Metric, float]:
        """By metric name; a lag and reads that are not known are left out."""
        values: dict[Metric, float] = {
            Metric.REPLICAS_SERVING: float(self.serving),
            Metric.REPLICAS_HELD_BY_FLOOR: float(self.held_by_floor),
            Metric.REPLICAS_UNREPORTED: float(self.unreported),
        }
        if self.lag_seconds_max is not None:
            values[Metric.REPLICA_LAG_SECONDS_MAX] = self.lag_seconds_max
        if self.reads_per_second is not None:
            values[Metric.READ_QUERIES_PER_SECOND] = self.reads_per_second
        return values

    def replica_values(self) -> dict[str, dict[Metric, float]]:
        """By instance id and metric name: whether it answers good, by itself or by the floor, 0 of any other (I4); and
        its lag and its reads, which are left out where they are not known."""
        values: dict[str, dict[Metric, float]] = {
            name: {Metric.REPLICA_SERVES: float(serves)} for name, serves in self.serves.items()
        }
        for name, lag in self.lags.items():
            values[name][Metric.REPLICA_LAG_SECONDS] = lag
        for name, reads in self.reads.items():
            values[name][Metric.READ_QUERIES_PER_SECOND] = reads
        return values


Answers = Mapping[str, HealthReport | Unknown]


def summarize(answers: Answers, draining: Answers | Unknown) -> CheckFigures:
    """Counts the replicas that serve, those that the floor keeps in service, and those that did not report.

    `draining` are no capacity, but the clients that stayed with them are load; Unknown where nobody can say who drains.
    """
    reports = {name: answer for name, answer in answers.items() if isinstance(answer, HealthReport)}
    serving = [one for one in reports.values() if one.http_status == HTTP_OK]
    held = sorted(name for name, one in reports.items() if one.kept_by_floor)
    silent = {name: answer.why for name, answer in answers.items() if isinstance(answer, Unknown)}
    bad = {name: one.why for name, one in reports.items() if one.http_status != HTTP_OK}
    lags = {name: one.lag_seconds for name, one in reports.items() if one.lag_seconds is not None}
    notes = [f"{name} is held by the floor" for name in held]
    notes += [f"{name} does not serve: {why}" for name, why in sorted(bad.items())]
    notes += [f"{name} did not report: {why}" for name, why in sorted(silent.items())]
    notes += [
        f"the reads of {name} are unknown: {one.reads_unknown}"
        for name, one in sorted(reports.items())
        if one.reads_per_second is None and one.reads_unknown
    ]
    draining_reads, draining_notes = _of_draining(draining)
    notes += draining_notes
    return CheckFigures(
        registered=len(answers),
        serving=len(serving),
        held_by_floor=len(held),
        unreported=len(silent),
        lag_seconds_max=max(lags.values(), default=None),
        reason="; ".join(notes) or f"all {len(answers)} registered replicas serve",
        serves={
            name: isinstance(answer, HealthReport) and answer.http_status == HTTP_OK
            for name, answer in answers.items()
        },
        lags=lags,
        reads={
            name: one.reads_per_second for name, one in reports.items() if one.reads_per_second is not None
        },
        draining_reads=draining_reads,
    )


def _of_draining(draining: Answers | Unknown) -> tuple[float | None, list[str]]:
    """The reads of all that drain, None where one of them is not known, and why it is not."""
    if isinstance(draining, Unknown):
        return None, [f"who drains is unknown: {draining.why}"]
    total: float | None = 0.0
    notes = []
    for name, one in sorted(draining.items()):
        reads = None if isinstance(one, Unknown) else one.reads_per_second
        total = None if total is None or reads is None else total + reads
        if reads is None:
            why = one.why if isinstance(one, Unknown) else one.reads_unknown or "its host does not know them"
            notes.append(f"the reads of {name}, which drains, are unknown: {why}")
    return total, notes
