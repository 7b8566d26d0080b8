"""How long a replica takes from the decision to serving, now, for this cluster; with a spread.

Each part has a prediction from first principles (bytes / rate, instance start, lag / rate of catching up) and
is then drawn towards what past runs really took. The forecast must look at least the p90 of the sum ahead.

Source of the arithmetic: AWS, "Initialize Amazon EBS volumes": time = snapshot data / rate, the average rate being
within 10 % of the provisioned one 99 % of the time; the prewarm article: 200 GB at 50 MB/s takes 4,000 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from peaker.domain.planning.learning.batch_size import for_batch
from peaker.domain.planning.learning.catching_up import catch_up_seconds, replay_times
from peaker.domain.planning.learning.drawing import MOST_RUNS, Times, draw_usual
from peaker.domain.planning.learning.elsewhere import Elsewhere, Usual
from peaker.domain.planning.learning.overlap import Overlap
from peaker.domain.planning.learning.past_steps import (
    SAME_WORK,
    PastSteps,
    by_run,
    measured_apply_speed,
    measured_return_speed,
    part_seconds,
    part_sizes,
)
from peaker.domain.planning.learning.reading import past_readings, scaled_readings, usable
from peaker_contract.steps import Method, Part
from peaker_contract.way_into_service import parts_of, states_of

MIB = 1024 * 1024
# From the shortage to the start of the run; no step of it.
_TRIGGER = "trigger"


class Hydration(StrEnum):
    """How the blocks of a restored volume arrive."""

    PROVISIONED_RATE = "provisioned_rate"
    DEFAULT = "default"
    FAST_RESTORE = "fast_restore"


# Relative distance from median to p90 of the rate. Provisioned: AWS promises 10 % in 99 % of cases.
# Default: "fluctuates, unpredictable" (AWS), so half as long again.
_RATE_SPREAD = {Hydration.PROVISIONED_RATE: 0.06, Hydration.DEFAULT: 0.5, Hydration.FAST_RESTORE: 0.1}


def hydration_seconds(data_bytes: float, rate_bytes_per_s: float, stripes: int = 1) -> float:
    """Seconds until `data_bytes` have arrived at a rate per volume, spread evenly over `stripes` volumes."""
    if data_bytes < 0 or rate_bytes_per_s <= 0 or stripes < 1:
        raise ValueError(
            f"bytes {data_bytes} must be >= 0, rate {rate_bytes_per_s} > 0, stripes {stripes} >= 1"
        )
    return data_bytes / stripes / rate_bytes_per_s


@dataclass(frozen=True)
class VolumeToHydrate:
    """One data volume: bytes written in its snapshot, and the rate at which its blocks arrive (bytes/s)."""

    name: str
    data_bytes: float
    rate_bytes_per_s: float


@dataclass(frozen=True)
class LeadTimeInputs:
    """What is known about the cluster before a run. Times in seconds, sizes in bytes, rates in bytes per second.

    The defaults are the usual figures of EC2 and MySQL; measured runs replace them. `hot_share` of the hydration is
    read before the database starts: all of it until a run has shown what is hot. The volumes of a set are copied side
    by side, each at the snapshot rate: `snapshot_widest_share` of the bytes are of one volume. `snapshot_most_bytes` is
    what the set copies at most, where that is more than is expected. `paid_mib_per_s` is the initialization rate of
    each volume, 0 without one, None where nobody says. `endpoint`: the kind of the read endpoint.
    `members`: of the batch, all at work side by side.
    """

    volumes: tuple[VolumeToHydrate, ...]
    hydration: Hydration = Hydration.DEFAULT
    paid_mib_per_s: float | None = None
    hot_share: float = 1.0
    trigger_seconds: float = 360.0
    snapshot_copied_bytes: float = 0.0
    snapshot_most_bytes: float = 0.0
    snapshot_widest_share: float = 1.0
    snapshot_basis: str = "all bytes"
    snapshot_rate_bytes_per_s: float = 100.0 * MIB
    snapshot_overhead_seconds: float = 60.0
    instance_start_seconds: float = 90.0
    attach_seconds: float = 45.0
    benchmark_seconds: float = 120.0
    redo_bytes: float = 0.0
    redo_rate_bytes_per_s: float = 50.0 * MIB
    database_start_seconds: float = 30.0
    apply_speed: float = 4.0
    buffer_pool_bytes: float = 0.0
    buffer_pool_rate_bytes_per_s: float = 200.0 * MIB
    register_seconds: float = 60.0
    ramp_seconds: float = 0.0
    endpoint: str = ""
    members: int = 1


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

    `overlap`: what of the components passes side by side, so that their sum is more than the whole.
    `behind_seconds`: by how much a build is behind when it begins to catch up.
    """

    p50_seconds: float
    p90_seconds: float
    components: tuple[Component, ...]
    reason: str
    overlap: Overlap = field(default_factory=Overlap)
    behind_seconds: float = 0.0

    def component(self, name: str) -> Component:
        return {component.name: component for component in self.components}[name]


_SIDE_BY_SIDE = (Part.SNAPSHOT, Part.INSTANCE)


def predict_lead_time(inputs: LeadTimeInputs, past: PastSteps | None = None) -> LeadTime:
    """Predict from the inputs, learn from `past`; the snapshot and the instance start run side by side, and so do the
    rest of the hydration, the proof and the catch-up: of that what is left after the proof is counted.

    The spreads of the parts are taken as independent: p90 = sum of medians + root of the sum of squared spreads.
    """
    history = past or PastSteps()
    parts = {
        part.name: _learned(part, history, inputs.members)
        for part in _first_principles(inputs, history.elsewhere)
    }
    parts[Part.HYDRATION] = _learned_hydration(inputs, parts[Part.HYDRATION], history)
    parts[Part.SNAPSHOT] = _learned_snapshot(inputs, history)
    slower = max(_SIDE_BY_SIDE, key=lambda name: parts[name].p90_seconds)
    counted = [part for name, part in parts.items() if name not in _SIDE_BY_SIDE or name == slower]
    hydration = parts[Part.HYDRATION].p50_seconds
    overlap = Overlap(inputs.hot_share, parts[Part.RECOVERY].p50_seconds, parts[Part.BENCHMARK].p50_seconds)
    waits = (slower, Part.STORAGE, Part.RECOVERY)
    behind = sum(parts[name].p50_seconds for name in waits) + inputs.hot_share * hydration
    catch_up = _learned_catch_up(inputs, behind, overlap, hydration, history)
    counted.append(catch_up)
    p50 = sum(part.p50_seconds for part in counted) - overlap.beside(hydration)
    spread = math.sqrt(sum((part.p90_seconds - part.p50_seconds) ** 2 for part in counted))
    largest = max(counted, key=lambda part: part.p50_seconds)
    reason = (
        f"{p50 / 60:.1f} min as a rule, {(p50 + spread) / 60:.1f} min in 9 of 10 cases; the longest part is "
        f"{largest.name} with {largest.p50_seconds / 60:.1f} min ({largest.basis})"
    )
    return LeadTime(p50, p50 + spread, (*parts.values(), catch_up), reason, overlap, behind)


def predict_return(inputs: LeadTimeInputs, behind_seconds: float, past: PastSteps | None = None) -> LeadTime:
    """Until a parked replica serves that stopped `behind_seconds` ago: the parts that a return passes.

    Nothing is hydrated and nothing proven anew. Each part is learned from past returns, most also from builds where
    there are none. The catch-up is learned as a speed alone, because builds were behind by less.
    """
    history = past or PastSteps()
    first = {
        part.name: part for part in _first_principles(replace(inputs, redo_bytes=0.0), history.elsewhere)
    }
    # A database that was shut down has no log to replay, as copies have elsewhere.
    first[Part.RECOVERY] = _recovery(replace(inputs, redo_bytes=0.0))
    names = (_TRIGGER, *(part for part in parts_of(Method.RETURN) if part != Part.CATCH_UP))
    parts = [_learned_return(first[name], history, inputs.members) for name in names]
    known = replace(inputs, apply_speed=measured_return_speed(history, inputs.apply_speed))
    whole = _catch_up(known, behind_seconds)
    parts.append(_draw(whole, replay_times(behind_seconds, history.return_speeds), "s for this backlog"))
    p50 = sum(part.p50_seconds for part in parts)
    spread = math.sqrt(sum((part.p90_seconds - part.p50_seconds) ** 2 for part in parts))
    reason = (
        f"{p50 / 60:.1f} min as a rule, {(p50 + spread) / 60:.1f} min in 9 of 10 cases, for a parked replica that is "
        f"{behind_seconds / 60:.0f} min behind and replays {known.apply_speed:.1f} times as fast as is written"
    )
    return LeadTime(p50, p50 + spread, tuple(parts), reason)


def _first_principles(inputs: LeadTimeInputs, elsewhere: Elsewhere) -> list[Component]:
    """From the inputs; what other clusters measured takes the place of the usual figures of EC2 and MySQL."""
    copied, read, loaded = (
        elsewhere.figure(name) for name in ("snapshot_mib_per_s", "default_mib_per_s", "pool_mib_per_s")
    )
    parts = [
        _predicted(_TRIGGER, inputs.trigger_seconds, 0.5, "schedule and alarm evaluation"),
        _predicted(Part.DONOR, 30.0, 1.0, "usual time to prepare a donor"),
        _snapshot(inputs, copied),
        _predicted(Part.INSTANCE, inputs.instance_start_seconds, 1.0, "usual instance start"),
        _predicted(Part.STORAGE, inputs.attach_seconds, 1.0, "usual time to attach"),
        _hydration(inputs, read if inputs.hydration is Hydration.DEFAULT else None),
        _predicted(Part.BENCHMARK, inputs.benchmark_seconds, 0.25, "length of the storage proof"),
        _recovery(inputs),
        _buffer_pool(inputs, loaded),
        _predicted(Part.REGISTRATION, inputs.register_seconds, 0.5, "health checks"),
        _predicted(Part.RAMP, inputs.ramp_seconds, 0.5, "steps of the ramp"),
    ]
    return [_as_elsewhere(part, inputs, elsewhere) for part in parts]


def _as_elsewhere(part: Component, inputs: LeadTimeInputs, elsewhere: Elsewhere) -> Component:
    """A part that takes other clusters of the environment as long, as far as they told."""
    told = (
        elsewhere.at_endpoint(part.name, inputs.endpoint)
        if part.name == Part.REGISTRATION
        else elsewhere.seconds(part.name)
    )
    return part if told is None else _predicted(part.name, told.value, told.spread, told.basis)


def _recovery(inputs: LeadTimeInputs) -> Component:
    seconds = inputs.database_start_seconds + inputs.redo_bytes / inputs.redo_rate_bytes_per_s
    return _predicted(Part.RECOVERY, seconds, 1.0, "start and redo log / rate")


def _buffer_pool(inputs: LeadTimeInputs, told: Usual | None) -> Component:
    rate, spread, basis = inputs.buffer_pool_rate_bytes_per_s, 0.5, "page list / rate"
    if told is not None:
        rate, spread, basis = told.value * MIB, told.spread, f"page list / rate of {told.basis}"
    return _predicted(Part.BUFFER_POOL, inputs.buffer_pool_bytes / rate, spread, basis)


def _hydration(inputs: LeadTimeInputs, told: Usual | None) -> Component:
    """At the volumes' rates; at the default one as other clusters' volumes have it, no faster than these give."""
    if told is not None:
        slower = tuple(
            replace(one, rate_bytes_per_s=min(one.rate_bytes_per_s, told.value * MIB))
            for one in inputs.volumes
        )
        inputs = replace(inputs, volumes=slower)
    seconds = max((hydration_seconds(v.data_bytes, v.rate_bytes_per_s) for v in inputs.volumes), default=0.0)
    basis = _hydration_basis(inputs)
    if told is not None:
        return _predicted(Part.HYDRATION, seconds, told.spread, f"{basis}, as in {told.basis}")
    return _predicted(Part.HYDRATION, seconds, _RATE_SPREAD[inputs.hydration], basis)


def _predicted(name: str, seconds: float, relative_spread: float, basis: str) -> Component:
    return Component(name, seconds, seconds * (1 + relative_spread), 0, f"predicted: {basis}")


def _snapshot(inputs: LeadTimeInputs, told: Usual | None) -> Component:
    """Overhead and the copy of the volume that has the most to copy; the p90 covers all that may have to be copied."""
    each = inputs.snapshot_rate_bytes_per_s if told is None else told.value * MIB
    rate = each / inputs.snapshot_widest_share
    usual, most = (
        inputs.snapshot_overhead_seconds + amount / rate
        for amount in (inputs.snapshot_copied_bytes, inputs.snapshot_most_bytes)
    )
    basis = _snapshot_basis(inputs) + ("" if told is None else f", at the rate of {told.basis}")
    part = _predicted(Part.SNAPSHOT, usual, 1.0 if told is None else told.spread, basis)
    return replace(part, p90_seconds=max(part.p90_seconds, most))


def _hydration_basis(inputs: LeadTimeInputs) -> str:
    if not inputs.volumes:
        return "nothing to hydrate"
    slowest = max(inputs.volumes, key=lambda v: v.data_bytes / v.rate_bytes_per_s)
    size, rate = slowest.data_bytes / 1e9, slowest.rate_bytes_per_s / 1e6
    return f"{size:.1f} GB of volume {slowest.name} at {rate:.0f} MB/s"


def _catch_up(inputs: LeadTimeInputs, behind_seconds: float) -> Component:
    seconds = catch_up_seconds(behind_seconds, inputs.apply_speed)
    basis = f"{behind_seconds / 60:.0f} min of log at {inputs.apply_speed:.1f} times the write rate"
    return _predicted(Part.CATCH_UP, seconds, 1.0, basis)


def _left_to_catch_up(
    inputs: LeadTimeInputs, behind_seconds: float, overlap: Overlap, hydration_seconds: float
) -> Component:
    """What is left of the catch-up when the volumes are proven. Its spread is that of the whole, which may be twice."""
    whole = _catch_up(inputs, behind_seconds)
    left, slow = (
        overlap.left(seconds, hydration_seconds) for seconds in (whole.p50_seconds, whole.p90_seconds)
    )
    beside = (
        f"{whole.basis}, {(whole.p50_seconds - left) / 60:.0f} min of it beside the reading and the proof"
    )
    return Component(Part.CATCH_UP, left, slow, 0, beside)


def _learned_catch_up(
    inputs: LeadTimeInputs, behind: float, overlap: Overlap, hydration: float, past: PastSteps
) -> Component:
    """Learned as a speed, because the backlog differs: each past replica would have taken this long for this one.

    One that had caught up before it was waited for would have again: what it waited counts as it was. Durations of
    before speeds were measured count as they were.
    """
    known = replace(inputs, apply_speed=measured_apply_speed(past, inputs.apply_speed))
    part = _left_to_catch_up(known, behind, overlap, hydration)
    if not past.apply_speeds and not past.caught_up_waits:
        return _learned(part, past, inputs.members)
    left = [overlap.left(one, hydration) for one in replay_times(behind, past.apply_speeds)]
    waits = [one for one in list(past.caught_up_waits)[-MOST_RUNS:] if math.isfinite(one)]
    return _draw(part, [*left, *waits], "s for this backlog")


def _learned_return(part: Component, past: PastSteps, members: int) -> Component:
    """The part as past returns have it; as builds have it where no return was measured.

    No build teaches the recovery: its copy replays a log, and a database that was shut down has none to replay.
    """
    if part.name == _TRIGGER:
        return part
    if part.name in SAME_WORK:
        return _learned(part, past, members)
    states = states_of(Part(part.name), method=Method.RETURN)
    returned = for_batch(*by_run(states, past.returned, past.returned_sizes), members)
    return (
        _draw(part, returned, "s")
        if returned or part.name == Part.RECOVERY
        else _learned(part, past, members)
    )


def _learned(part: Component, past: PastSteps, members: int) -> Component:
    """The part drawn towards what its states took together in past runs, among so many members."""
    if part.name in (_TRIGGER, Part.HYDRATION):
        return part
    sizes = part_sizes(Part(part.name), past)
    usual = past.first_looks if part.name == Part.BENCHMARK else ()
    took = for_batch(part_seconds(Part(part.name), past), sizes, members)
    return _draw(part, took, "s", for_batch(usual, sizes, members))


def _learned_hydration(inputs: LeadTimeInputs, part: Component, past: PastSteps) -> Component:
    """Hydration is learned as a rate, because the bytes grow from run to run; without bytes, as a duration."""
    total = sum(volume.data_bytes for volume in inputs.volumes)
    took, sizes = part_seconds(Part.HYDRATION, past), list(past.hydrated_bytes)
    if not sizes or total <= 0:
        return _draw(part, took, "s")
    readings = past_readings(sizes, took, past.hydrated_rates)
    all_sizes = part_sizes(Part.HYDRATION, past)
    members = all_sizes[len(all_sizes) - len(readings) :]
    counted = usable(readings, inputs.paid_mib_per_s)
    of_counted = [size for one, size in zip(readings, members, strict=True) if one in counted]
    scaled = scaled_readings(counted, total, inputs.paid_mib_per_s)
    return _draw(part, for_batch(scaled, of_counted, inputs.members), "s for these bytes")


def _learned_snapshot(inputs: LeadTimeInputs, past: PastSteps) -> Component:
    """A set is learned as overhead and rate, because what it copies differs: all at first, then only changes.

    A measured set would have taken its overhead and the time of its bytes in proportion; sets of before bytes were
    measured count as they were.
    """
    part = _snapshot(inputs, past.elsewhere.figure("snapshot_mib_per_s"))
    copies = [one for one in list(past.copies)[-MOST_RUNS:] if one.copied_bytes > 0 and one.seconds >= 0]
    if not copies:
        return _draw(part, part_seconds(Part.SNAPSHOT, past), "s")
    unit = f"s for these bytes, {inputs.snapshot_basis}"
    overhead = inputs.snapshot_overhead_seconds

    def scaled(amount: float) -> list[float]:
        return [
            min(one.seconds, overhead) + max(0.0, one.seconds - overhead) * amount / one.copied_bytes
            for one in copies
        ]

    found = _draw(part, scaled(inputs.snapshot_copied_bytes), unit)
    if inputs.snapshot_most_bytes <= inputs.snapshot_copied_bytes:
        return found
    most = _draw(part, scaled(inputs.snapshot_most_bytes), unit)
    return replace(found, p90_seconds=max(found.p90_seconds, most.p50_seconds))


def _snapshot_basis(inputs: LeadTimeInputs) -> str:
    return f"{inputs.snapshot_copied_bytes / 1e9:.1f} GB to copy ({inputs.snapshot_basis})"


def _draw(part: Component, durations: Sequence[float], unit: str, usual: Sequence[float] = ()) -> Component:
    """The part drawn towards these durations."""
    drawn = draw_usual(Times(part.p50_seconds, part.p90_seconds), durations, usual[-MOST_RUNS:])
    if not drawn.runs:
        return part
    basis = f"{drawn.runs} past runs with a median of {drawn.measured:.0f} {unit}"
    return Component(part.name, drawn.p50, drawn.p90, drawn.runs, basis)
