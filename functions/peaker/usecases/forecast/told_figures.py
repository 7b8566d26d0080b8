"""What a cluster's own runs tell the other clusters of its environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from statistics import median

from peaker.domain.planning.lead_time import MIB
from peaker.domain.planning.learning.elsewhere import ClusterFigures
from peaker.domain.planning.learning.past_steps import PastSteps, part_seconds
from peaker.domain.replicas.fleet import FleetState
from peaker.usecases.plan.lead_time_inputs import SnapshotHistory, volume_bytes
from peaker_contract.cluster import ClusterSettings
from peaker_contract.steps import Part

_TOLD_PARTS = (Part.DONOR, Part.INSTANCE, Part.STORAGE, Part.RECOVERY, Part.REGISTRATION)
# The rate of a copy that ended sooner is that of its overhead, which a copy has before its bytes.
_LEAST_COPY_SECONDS, _COPY_OVERHEAD_SECONDS = 600.0, 60.0
_DAY_SECONDS = 86_400.0


def told_figures(
    settings: ClusterSettings,
    fleet: FleetState | None,
    snapshots: SnapshotHistory | None,
    past: PastSteps,
    today: date,
) -> ClusterFigures:
    """The medians of its past runs; empty where none has served. Pure."""
    sizes = volume_bytes(settings, fleet)
    held = {} if snapshots is None else snapshots.held_bytes
    used = [held.get(one.name, sizes.get(one.name, 0.0)) for one in settings.volumes]
    whole = sum(used)
    widest = max(used, default=0.0) / whole if whole > 0 else 1.0
    seconds = {part.value: part_seconds(part, past) for part in _TOLD_PARTS}
    seconds[Part.BENCHMARK.value] = list(past.first_looks) or part_seconds(Part.BENCHMARK, past)
    return ClusterFigures(
        as_of=today,
        endpoint=settings.read_endpoint.kind,
        seconds={name: round(median(took), 1) for name, took in seconds.items() if took},
        snapshot_mib_per_s=_middle(_copy_rates(past, widest)),
        default_mib_per_s=_middle(_default_rates(past, widest)),
        pool_mib_per_s=_middle(_pool_rates(past)),
        apply_speed=_middle(past.apply_speeds),
        hot_over_pool=_middle(_hot_over_pool(past)),
        changed_a_day=_middle(_changed_a_day(past, whole)),
    )


def _middle(values: Sequence[float]) -> float | None:
    good = [one for one in values if math.isfinite(one) and 0 < one < 1e12]
    return round(median(good), 4) if good else None


def _copy_rates(past: PastSteps, widest: float) -> list[float]:
    return [
        one.copied_bytes * widest / (one.seconds - _COPY_OVERHEAD_SECONDS) / MIB
        for one in past.copies
        if one.seconds >= _LEAST_COPY_SECONDS
    ]


def _default_rates(past: PastSteps, widest: float) -> list[float]:
    took = part_seconds(Part.HYDRATION, past)
    read = zip(reversed(past.hydrated_bytes), reversed(took), reversed(past.hydrated_rates), strict=False)
    return [amount * widest / seconds / MIB for amount, seconds, rate in read if rate == 0 and seconds > 0]


def _pool_rates(past: PastSteps) -> list[float]:
    took = [one for one in part_seconds(Part.BUFFER_POOL, past) if one > 0]
    return [past.pool_bytes[-1] / median(took) / MIB] if took and past.pool_bytes else []


def _hot_over_pool(past: PastSteps) -> list[float]:
    """Of clusters that read on after their hot blocks; of the others the share is 1."""
    shares = [one for one in past.hot_shares if one < 1]
    if not shares or not past.pool_bytes or not past.hydrated_bytes:
        return []
    return [median(shares) * past.hydrated_bytes[-1] / max(1.0, past.pool_bytes[-1])]


def _changed_a_day(past: PastSteps, whole_bytes: float) -> list[float]:
    if whole_bytes <= 0:
        return []
    return [
        one.copied_bytes / whole_bytes / math.sqrt(one.since_seconds / _DAY_SECONDS)
        for one in past.copies
        if one.since_seconds
    ]
