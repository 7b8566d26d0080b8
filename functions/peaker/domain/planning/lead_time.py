"""How long a replica takes from the decision to serving, now, for this cluster: the median and the p90. Pure.

Each part of the lead time is the median and the p90 of the cluster's last ten runs of that kind; before the first one
it is predicted from the settings (bytes over rate, instance start, backlog over speed). The forecast must reach at
least the p90 of the whole.

AWS, "Initialize Amazon EBS volumes": time = snapshot data / rate, the average rate being within 10 % of the provisioned
one 99 % of the time; the default rate "fluctuates".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from peaker.domain.replicas.parked import CATCH_UP_WITHIN_SECONDS
from peaker.domain.runs.past_runs import (
    MOST_RUNS,
    SAME_WORK,
    PastSteps,
    measured_return_speed,
    part_seconds,
    reading_seconds,
    replay_seconds,
    return_seconds,
    usable_speeds,
)
from peaker_contract.catalogue import parts_of
from peaker_contract.steps import Method, Part

MIB = 1024 * 1024
# From the shortage to the start of the run; no step of it.
_TRIGGER = "trigger"
# EBS sells initialization from 100 MiB/s on, so that the default rate, which "fluctuates", is expected to bring no
# more than that.
_DEFAULT_MIB_PER_S = 100.0
# The p90 of a rate above its median. Paid: AWS promises 10 % in 99 % of cases. Default: half as long again.
_PAID_SPREAD, _DEFAULT_SPREAD = 0.06, 0.5
# Fewer runs than ten show too little of how runs vary: as if the slowest of ten had taken 30 % longer than the
# median. An assumption.
_FEW_RUNS_VARY = 0.3
# EC2 user guide, "Amazon EBS-optimized instance types": a burst lasts for 30 minutes, once a day.
_BURST_SECONDS = 1800.0


@dataclass(frozen=True)
class VolumeToHydrate:
    """One data volume: the bytes that are read before it serves, and the volume's own throughput in bytes/s."""

    name: str
    data_bytes: float
    throughput_bytes_per_s: float


@dataclass(frozen=True)
class LeadTimeInputs:
    """The facts of a cluster before a run. Times in seconds, sizes in bytes, rates in bytes per second.

    The defaults are the usual figures of EC2 and MySQL; measured runs replace them. `hot_share` of the hydration is
    read before the database starts: all of it where the hot pages are unknown. The volumes of a set are copied side
    by side, each at the snapshot rate: `snapshot_widest_share` of the bytes are of one volume. An increment may
    copy up to `snapshot_most_bytes`; it is None for a full copy. `paid_mib_per_s` is the initialization rate of each
    volume, 0 without one. `instance_mib_per_s` is the bandwidth of the instance type to all its volumes,
    `instance_burst_mib_per_s` for half an hour a day; None where EC2 does not say.
    """

    volumes: tuple[VolumeToHydrate, ...]
    paid_mib_per_s: float = 0.0
    instance_mib_per_s: float | None = None
    instance_burst_mib_per_s: float | None = None
    hot_share: float = 1.0
    trigger_seconds: float = 360.0
    snapshot_copied_bytes: float = 0.0
    snapshot_most_bytes: float | None = None
    snapshot_widest_share: float = 1.0
    snapshot_basis: str = "all bytes"
    snapshot_rate_bytes_per_s: float = 100.0 * MIB
    snapshot_overhead_seconds: float = 60.0
    instance_start_seconds: float = 90.0
    attach_seconds: float = 45.0
    benchmark_seconds: float = 120.0
    database_start_seconds: float = 30.0
    apply_speed: float = 4.0
    buffer_pool_bytes: float = 0.0
    buffer_pool_rate_bytes_per_s: float = 200.0 * MIB
    register_seconds: float = 60.0
    ramp_seconds: float = 0.0

    @property
    def bytes_to_read(self) -> float:
        return sum(one.data_bytes for one in self.volumes)


@dataclass(frozen=True)
class Component:
    """One part of the lead time: its median and p90 in seconds, and where the figures come from."""

    name: str
    p50_seconds: float
    p90_seconds: float
    runs: int = 0
    basis: str = ""


@dataclass(frozen=True)
class LeadTime:
    """The whole lead time. p90_seconds is the horizon at which the forecast triggers.

    Some components pass side by side, so that their sum may be more than the whole.
    """

    p50_seconds: float
    p90_seconds: float
    components: tuple[Component, ...]
    reason: str

    def component(self, name: str) -> Component:
        return {component.name: component for component in self.components}[name]


_SIDE_BY_SIDE = (Part.SNAPSHOT, Part.INSTANCE)


def predict_lead_time(inputs: LeadTimeInputs, past: PastSteps | None = None) -> LeadTime:
    """The lead time of a build.

    The snapshot and the instance start pass side by side: the slower one counts. The database starts after the hot
    share of the reading, and passes during the rest of it; the catch-up is the part of it after the storage proof.
    """
    history = past or PastSteps()
    parts = {
        one.name: _measured(one, part_seconds(Part(one.name), history)) for one in _predicted_parts(inputs)
    }
    parts[Part.HYDRATION] = _hydration(inputs, history)
    parts[Part.SNAPSHOT] = _snapshot(inputs, history)
    seconds = {name: one.p50_seconds for name, one in parts.items()}
    hot_seconds = inputs.hot_share * seconds[Part.HYDRATION]
    overlap = min(seconds[Part.RECOVERY], seconds[Part.HYDRATION] - hot_seconds)
    behind = (
        max(seconds[name] for name in _SIDE_BY_SIDE)
        + seconds[Part.STORAGE]
        + seconds[Part.RECOVERY]
        + hot_seconds
    )
    hidden = seconds[Part.HYDRATION] - hot_seconds - overlap + seconds[Part.BENCHMARK]
    replayed = [max(0.0, replay_seconds(behind, one) - hidden) for one in usable_speeds(history.apply_speeds)]
    catch_up = _predicted_catch_up(behind, inputs.apply_speed, hidden)
    parts[Part.CATCH_UP] = _measured(catch_up, replayed or part_seconds(Part.CATCH_UP, history))
    slower = max(_SIDE_BY_SIDE, key=lambda name: parts[name].p90_seconds)
    trigger = _predicted(_TRIGGER, inputs.trigger_seconds, 0.5, "schedule and alarm evaluation")
    counted = [trigger, *(one for name, one in parts.items() if name not in _SIDE_BY_SIDE or name == slower)]
    return _whole((trigger, *parts.values()), counted, -overlap)


def predict_return(inputs: LeadTimeInputs, behind_seconds: float, past: PastSteps | None = None) -> LeadTime:
    """The lead time of a parked replica that stopped `behind_seconds` ago: the parts that a return passes.

    Nothing is hydrated and nothing proven anew. Builds stand in for a part that no return has shown, but for the
    recovery: a build's copy replays a log, and a database that was shut down has none.
    """
    history = past or PastSteps()
    first = {one.name: one for one in _predicted_parts(inputs)}
    names = [part for part in parts_of(Method.RETURN) if part != Part.CATCH_UP]
    trigger = _predicted(_TRIGGER, inputs.trigger_seconds, 0.5, "schedule and alarm evaluation")
    catch_up = _predicted_catch_up(behind_seconds, measured_return_speed(history, inputs.apply_speed))
    replayed = [replay_seconds(behind_seconds, one) for one in usable_speeds(history.return_speeds)]
    parts = [_measured(first[name], _return_or_build(Part(name), history)) for name in names]
    parts = [trigger, *parts, _measured(catch_up, replayed)]
    return _whole(tuple(parts), parts)


def why_too_far_behind(lead: LeadTime) -> str | None:
    """Returns why a return of this prediction would be given up; None where its catch-up is waited for."""
    seconds = lead.component(Part.CATCH_UP).p50_seconds
    if seconds <= CATCH_UP_WITHIN_SECONDS:
        return None
    hours = CATCH_UP_WITHIN_SECONDS / 3600
    return f"it would replay for {seconds / 3600:.1f} h, and a run waits for {hours:g} h at most"


def _return_or_build(part: Part, past: PastSteps) -> list[float]:
    if part in SAME_WORK:
        return part_seconds(part, past)
    returned = return_seconds(part, past)
    return returned if returned or part is Part.RECOVERY else part_seconds(part, past)


def _predicted_catch_up(behind_seconds: float, speed: float, hidden_seconds: float = 0.0) -> Component:
    """The backlog over the speed, less the seconds of it that pass during other parts."""
    whole = replay_seconds(behind_seconds, speed)
    basis = f"predicted: {behind_seconds / 60:.0f} min of log at {speed:.1f} times the write rate"
    slow = max(0.0, 2 * whole - hidden_seconds)
    return Component(Part.CATCH_UP, max(0.0, whole - hidden_seconds), slow, 0, basis)


def _whole(parts: tuple[Component, ...], counted: Sequence[Component], further: float = 0.0) -> LeadTime:
    """The sum of the medians, and above it the root of the sum of the squared spreads: parts are slow independently."""
    p50 = sum(part.p50_seconds for part in counted) + further
    spread = math.sqrt(sum((part.p90_seconds - part.p50_seconds) ** 2 for part in counted))
    largest = max(counted, key=lambda part: part.p50_seconds)
    reason = (
        f"{p50 / 60:.1f} min as a rule, {(p50 + spread) / 60:.1f} min in 9 of 10 cases; the longest part is "
        f"{largest.name} with {largest.p50_seconds / 60:.1f} min ({largest.basis})"
    )
    return LeadTime(p50, p50 + spread, parts, reason)


def _measured(predicted: Component, took: Sequence[float]) -> Component:
    """The median and the p90 of the last ten runs; the prediction before the first one."""
    good = sorted(one for one in list(took)[-MOST_RUNS:] if math.isfinite(one) and one >= 0)
    if not good:
        return predicted
    middle = median(good)
    slow = good[math.ceil(0.9 * len(good)) - 1]
    if len(good) < MOST_RUNS:
        slow = max(slow, middle * (1 + _FEW_RUNS_VARY))
    return Component(predicted.name, middle, slow, len(good), f"{len(good)} past runs")


def _predicted(name: str, seconds: float, relative_spread: float, basis: str) -> Component:
    return Component(name, seconds, seconds * (1 + relative_spread), 0, f"predicted: {basis}")


def _predicted_parts(inputs: LeadTimeInputs) -> list[Component]:
    """From first principles, all but those that grow with the data."""
    pool_seconds = inputs.buffer_pool_bytes / inputs.buffer_pool_rate_bytes_per_s
    return [
        _predicted(Part.DONOR, 30.0, 1.0, "usual time to prepare a donor"),
        _predicted(Part.INSTANCE, inputs.instance_start_seconds, 1.0, "usual instance start"),
        _predicted(Part.STORAGE, inputs.attach_seconds, 1.0, "usual time to attach"),
        _predicted(Part.BENCHMARK, inputs.benchmark_seconds, 0.25, "length of the storage proof"),
        _predicted(Part.RECOVERY, inputs.database_start_seconds, 1.0, "usual database start"),
        _predicted(Part.BUFFER_POOL, pool_seconds, 0.5, "page list / rate"),
        _predicted(Part.REGISTRATION, inputs.register_seconds, 0.5, "health checks"),
        _predicted(Part.RAMP, inputs.ramp_seconds, 0.5, "steps of the ramp"),
    ]


def _hydration(inputs: LeadTimeInputs, past: PastSteps) -> Component:
    """Bytes over the rate of past prewarms; before one at this initialization rate, over the least of that rate and
    the throughput of volume and instance.

    The volumes are read side by side, through one instance, whose burst is promised to nobody: the p90 is without it.
    """
    rate = inputs.paid_mib_per_s or _DEFAULT_MIB_PER_S
    slowest = max(
        (one.data_bytes / min(rate * MIB, one.throughput_bytes_per_s) for one in inputs.volumes), default=0.0
    )
    burst, steady = _through_the_instance(inputs)
    spread = _PAID_SPREAD if inputs.paid_mib_per_s else _DEFAULT_SPREAD
    basis = f"{inputs.bytes_to_read / 1e9:.1f} GB at {rate:.0f} MiB/s a volume"
    part = _predicted(Part.HYDRATION, max(slowest, burst), spread, basis)
    part = replace(part, p90_seconds=max(part.p90_seconds, steady))
    return _measured(part, reading_seconds(past, inputs.bytes_to_read, inputs.paid_mib_per_s))


def _through_the_instance(inputs: LeadTimeInputs) -> tuple[float, float]:
    """Seconds that all bytes take through the instance, with its burst first, and without; 0 where that is unknown."""
    baseline, burst = inputs.instance_mib_per_s, inputs.instance_burst_mib_per_s
    if not baseline:
        return 0.0, 0.0
    mib = inputs.bytes_to_read / MIB
    if burst is None or burst <= baseline:
        return mib / baseline, mib / baseline
    in_burst = min(mib, burst * _BURST_SECONDS)
    return in_burst / burst + (mib - in_burst) / baseline, mib / baseline


def _snapshot(inputs: LeadTimeInputs, past: PastSteps) -> Component:
    """Full copies and increments are learned apart; before the first one it is overhead, and bytes over the rate."""
    most, overhead = inputs.snapshot_most_bytes, inputs.snapshot_overhead_seconds
    rate = inputs.snapshot_rate_bytes_per_s / inputs.snapshot_widest_share
    basis = f"{inputs.snapshot_copied_bytes / 1e9:.1f} GB to copy ({inputs.snapshot_basis})"
    part = _predicted(Part.SNAPSHOT, overhead + inputs.snapshot_copied_bytes / rate, 1.0, basis)
    slow = max(part.p90_seconds, overhead + (most or 0.0) / rate)
    return _measured(replace(part, p90_seconds=slow), past.full_copies if most is None else past.increments)
