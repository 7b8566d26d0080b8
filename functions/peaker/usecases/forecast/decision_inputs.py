"""What a decision takes into account beside load and forecast: trouble, known events, measured capacity, observation.

Trouble comes from two places: the markers `Deploy` and `Failover` of `events_namespace`, dimension Cluster, which a
person or a pipeline writes with one `aws cloudwatch put-metric-data`; and the source itself: another instance in its
place is a failover.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

from peaker.domain.issued import CheckState
from peaker.domain.planning.needed_replicas import Trouble
from peaker.domain.planning.scaling_policy import Capacity, measured_capacity
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.past_runs import PastSteps
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import LoadMetricSettings
from peaker_contract.metrics import CLUSTER_DIMENSION, EventMetric, events_namespace

_MARKER_PERIOD_SECONDS = 60
_PROOFS_COUNTED = 5


@dataclass(frozen=True)
class Observation:
    """Whether the cluster is only observed, why, for how long still, and whether these are its first days."""

    observing: bool
    reason: str
    days_left: float = 0.0
    is_new: bool = False


def observation(settings: ClusterSettings, state: CheckState, now: datetime) -> Observation:
    """A cluster in mode observe, and one that is younger than its days of observation."""
    first = now.timestamp() if state.first_check_seconds is None else state.first_check_seconds
    seen = (now.timestamp() - first) / 86_400
    if settings.mode == "observe":
        is_new = seen < max(1.0, settings.observation_days)
        return Observation(True, "the cluster is in mode observe", is_new=is_new)
    left = settings.observation_days - seen
    if left <= 0:
        return Observation(False, f"observed for {seen:.1f} days")
    days = f"{seen:.1f} of {settings.observation_days:g} days"
    return Observation(True, f"observed for {days}; observation_days: 0 ends it", left, True)


def carried_over(state: CheckState, fleet: FleetState | None, now: datetime) -> CheckState:
    """The state with the first check's time and the source; another source than last time is a failover."""
    if state.first_check_seconds is None:
        state = replace(state, first_check_seconds=now.timestamp())
    source = fleet.source if fleet else None
    if not isinstance(source, Instance):
        return state
    if state.source_id not in (None, source.instance_id):
        state = replace(state, failover_seconds=now.timestamp())
    return replace(state, source_id=source.instance_id)


def troubles(ports: Ports, settings: ClusterSettings, state: CheckState, now: datetime) -> list[Trouble]:
    """All trouble within the hold, the newest of each kind. Raises Throttled, AwsUnavailable: no guess instead."""
    since = now - timedelta(minutes=settings.holds.minutes)
    found = [] if state.failover_seconds is None else [Trouble("failover", state.failover_seconds)]
    for name in EventMetric:
        points = ports.history.events(_marker(settings, name), since, now)
        written = [
            at
            for at, value in zip(points.times_seconds, points.values, strict=True)
            if value > 0 and at <= now.timestamp()
        ]
        if written:
            # The trouble may have lasted to the end of its period, or to now.
            ended = min(max(written) + points.period_seconds, now.timestamp())
            found.append(Trouble(name.value.lower(), ended))
    limit = since.timestamp()
    return [one for one in found if one.at_seconds > limit]


def _marker(settings: ClusterSettings, name: EventMetric) -> LoadMetricSettings:
    return LoadMetricSettings(
        namespace=events_namespace(settings.environment),
        name=name.value,
        statistic="Sum",
        period_seconds=_MARKER_PERIOD_SECONDS,
        dimensions={CLUSTER_DIMENSION: settings.name},
    )


def capacity(settings: ClusterSettings, past: PastSteps) -> Capacity:
    """The settings' figure, as far as the last storage proofs bear it out."""
    shares = list(past.knee_shares)[-_PROOFS_COUNTED:]
    return measured_capacity(settings.capacity_per_replica, median(shares) if shares else None)
