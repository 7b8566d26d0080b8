"""The rules of one cluster's scaling: the quantile that is served, a replica's capacity, its minimum lifetime."""

from __future__ import annotations

import math
from dataclasses import dataclass

from peaker.domain.planning.lead_time import LeadTime

# A replica given up and needed again within twice the lead time was not worth giving up.
KEEP_LEAD_TIMES = 2.0
# The quantile of the load that a replica is kept for, beyond the time in which a new one would serve.
KEEP_QUANTILE = 0.75
# A day's hold costs 8 to 24 % more replica-hours on real traces and saves nothing at equal cost; an hour does.
HOLD_AFTER_SHIFT_SECONDS = 3600.0


def replicas_for(load: float, capacity_per_replica: float) -> int:
    """Whole replicas that serve `load`; a hair above a whole number is that number."""
    if capacity_per_replica <= 0:
        raise ValueError(f"capacity per replica must be positive, got {capacity_per_replica}")
    return max(0, math.ceil(load / capacity_per_replica - 1e-9))


def minimum_lifetime_minutes(
    hydration_cost_usd: float | None, replica_hour_usd: float | None, configured_minutes: float
) -> float:
    """A replica is kept at least as long as its hydration is worth in replica-hours, and as the settings say.

    1 TiB on an r7g.4xlarge: 3.69 USD against 1.11 USD per hour, about 3.3 hours. None is an unknown price.
    """
    if hydration_cost_usd is None or not replica_hour_usd:
        return configured_minutes
    return max(configured_minutes, 60 * hydration_cost_usd / replica_hour_usd)


@dataclass(frozen=True)
class Capacity:
    """Load units that one warm replica serves safely, and where the figure comes from."""

    per_replica: float
    basis: str


def measured_capacity(configured: float, knee_share: float | None) -> Capacity:
    """The capacity from the settings, as far as measurement bears it out.

    configured: the settings' capacity; the start value, and the ceiling: measurement never plans with more than a
    person has answered for. knee_share: the IOPS that the storage proofs reached at the volumes' knee, over the
    IOPS promised; a replica whose volumes give less serves that much less.
    """
    if knee_share is None or knee_share >= 1:
        reason = "nothing was measured yet" if knee_share is None else "its volumes reach what they promise"
        return Capacity(configured, f"from the settings; {reason}")
    by_knee = configured * max(0.0, knee_share)
    knee = f"the volumes reached {knee_share:.0%} of their IOPS at the knee"
    return Capacity(by_knee, f"{knee}, so that much of the settings' {configured:g}")


def with_headroom(capacity: Capacity, headroom: float) -> Capacity:
    """The capacity to plan with, when the share `headroom` of it is to stay free."""
    if headroom <= 0:
        return capacity
    return Capacity(
        capacity.per_replica * (1 - headroom),
        f"{capacity.basis}; {headroom:.0%} of {capacity.per_replica:g} stay free",
    )


@dataclass(frozen=True)
class ScalingPolicy:
    """The rules of one cluster. Times in seconds unless the name says otherwise."""

    min_replicas: int
    max_replicas: int
    capacity: Capacity
    quantile: float = 0.95
    period_seconds: float = 300.0
    minimum_lifetime_seconds: float = 3600.0
    low_checks_needed: int = 3
    # Whether the measured load alone decides, as where nothing can be forecast.
    is_reactive: bool = False
    # A cluster's lease lets one run, and so one batch, build at a time; rivals of a backtest have no such limit.
    batches_overlap: bool = False
    hold_after_trouble_seconds: float = 1800.0


def keep_seconds(lead_time: LeadTime) -> float:
    """The seconds for which the forecast must stay low before a replica is given up: an hour at least."""
    return max(KEEP_LEAD_TIMES * lead_time.p90_seconds, 3600.0)


def horizon_needed_seconds(lead_time: LeadTime, period_seconds: float) -> float:
    """How far a forecast must reach for decisions until a period after its issue: the lead time and the keep window.

    An hour more, for the step that has not ended at the time of issue.
    """
    return keep_seconds(lead_time) + 2 * period_seconds + 3600.0
