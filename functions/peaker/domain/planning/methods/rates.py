"""Provisioned initialization rates: the cheapest of all combinations of rates that is ready in time. Pure, exact.

A rate is a whole number of MiB/s for each volume, or none, which is free. A dearer rate can be the cheaper build: the
instance is paid for while it waits. What is given is searched by its bottleneck: for each time that one volume can
take, the others take the lowest rate that is no slower.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from peaker.domain.limits.account_limits import LEAST_RATE
from peaker.domain.planning.methods.situation import MIB, DataVolume, Situation
from peaker.domain.planning.prices import total
from peaker.domain.reading import Known, Reading, Unknown

# EC2 user guide, "Amazon EBS-optimized instance types": a burst lasts for 30 minutes, once a day.
_BURST_SECONDS = 1800.0
# A method is in time when its p90, and this share of it, passes before the replica is to serve.
MARGIN = 0.1

Rates = tuple[int | None, ...]


@dataclass(frozen=True)
class Reading50and90:
    """Seconds that the volumes take to be warm: median and p90."""

    p50: float
    p90: float


@dataclass(frozen=True)
class RatedBuild:
    """One combination of rates, None where a volume takes the default; times from the decision to serving.

    `warm_seconds` is the median of the part in which the volumes become warm, `warm_p90_seconds` its p90.
    """

    rates: Rates
    warm_seconds: float
    warm_p90_seconds: float
    p50_seconds: float
    p90_seconds: float
    usd: Reading


def in_time(p90_seconds: float, seconds_left: float | None) -> bool:
    """Whether it makes the deadline with the margin; without a deadline everything does."""
    return seconds_left is None or p90_seconds * (1 + MARGIN) <= seconds_left


def reading_seconds(situation: Situation, volume: DataVolume, rate: int | None) -> Reading50and90:
    """One volume: its awaited bytes at its initialization rate, but no faster than the volume gives."""
    kind = situation.default_rate if rate is None else situation.provisioned_rate
    speed = min(float(rate or math.inf), volume.throughput_mib_per_s) * MIB
    p50 = situation.awaited_bytes(volume) / speed * kind.factor
    return Reading50and90(p50, p50 * (1 + kind.spread))


def built_with(situation: Situation, rates: Rates) -> RatedBuild:
    """The build with these rates, a rate per volume. All are read side by side, through one instance."""
    times = [reading_seconds(situation, *pair) for pair in zip(situation.volumes, rates, strict=True)]
    least = through_the_instance(situation)
    if _measured(situation, rates):
        least = Reading50and90(0.0, 0.0)
    p50 = max([least.p50, *(time.p50 for time in times)])
    p90 = max([least.p90, *(time.p90 for time in times)])
    seconds = situation.frame.p50(p50)
    once = total(
        situation.prices.initialization(volume.size_gib, rate)
        for volume, rate in zip(situation.volumes, rates, strict=True)
    )
    return RatedBuild(
        rates, p50, p90, seconds, situation.frame.p90(p50, p90), total((once, running(situation, seconds)))
    )


def running(situation: Situation, seconds: float) -> Reading:
    """USD of the instance and its volumes until they serve."""
    hourly = situation.hourly_usd
    return hourly if isinstance(hourly, Unknown) else Known(hourly.value * seconds / 3600)


def _measured(situation: Situation, rates: Rates) -> bool:
    """Whether past prewarms show what each of these volumes takes through this instance."""
    kinds = {rate is None for rate in rates}
    return all((situation.default_rate if free else situation.provisioned_rate).measured for free in kinds)


def through_the_instance(situation: Situation) -> Reading50and90:
    """Seconds that all awaited bytes take through the instance, with its burst first, and without; 0 if unknown."""
    baseline, burst = situation.instance_mib_per_s, situation.instance_burst_mib_per_s
    if isinstance(baseline, Unknown) or baseline.value <= 0:
        return Reading50and90(0.0, 0.0)
    mib = sum(situation.awaited_bytes(one) for one in situation.volumes) / MIB
    steady = mib / baseline.value
    if isinstance(burst, Unknown) or burst.value <= baseline.value:
        return Reading50and90(steady, steady)
    in_burst = min(mib, burst.value * _BURST_SECONDS)
    return Reading50and90(in_burst / burst.value + (mib - in_burst) / baseline.value, steady)


def cheapest_rates(situation: Situation) -> RatedBuild | None:
    """Of all combinations with a rate for at least one volume: the cheapest that is in time, or else the quickest.

    None where none is within the ceiling and the region's quota.
    """
    best: RatedBuild | None = None
    for rates in _candidates(situation):
        if sum(rate or 0 for rate in rates) > situation.rate_quota_mib_per_s:
            continue
        build = built_with(situation, rates)
        if best is None or better(build, best, situation.seconds_left):
            best = build
    return best


def better(one: RatedBuild, other: RatedBuild, seconds_left: float | None) -> bool:
    """In time before late; of two in time the cheaper, of two late the sooner. An unknown price is the dearest."""
    return rank(one.p90_seconds, one.usd, seconds_left) < rank(other.p90_seconds, other.usd, seconds_left)


def rank(p90_seconds: float, usd: Reading, seconds_left: float | None) -> tuple[bool, float, float]:
    """Lower is better."""
    price = math.inf if isinstance(usd, Unknown) else usd.value
    if in_time(p90_seconds, seconds_left):
        return (False, price, p90_seconds)
    return (True, p90_seconds, price)


def _candidates(situation: Situation) -> Iterator[Rates]:
    """For each bottleneck, and each bound on the p90 of what is left to the default, the lowest rates that fit."""
    volumes, ceiling = situation.volumes, situation.rate_ceiling_mib_per_s or 0
    if ceiling < LEAST_RATE:
        return
    free = [reading_seconds(situation, volume, None) for volume in volumes]
    times = {one.p50 for one in free}
    for volume in volumes:
        useful = min(ceiling, max(LEAST_RATE, math.ceil(volume.throughput_mib_per_s)))
        times |= {reading_seconds(situation, volume, rate).p50 for rate in range(LEAST_RATE, useful + 1)}
    for bound in {-1.0, *(one.p90 for one in free)}:
        for longest in times:
            yield from _lowest(situation, free, longest, bound, ceiling)


def _lowest(
    situation: Situation, free: list[Reading50and90], longest: float, bound: float, ceiling: int
) -> Iterator[Rates]:
    """The lowest rates with which no volume takes longer; where none is needed, one volume at a time is given one."""
    needed = [_lowest_rate(situation, volume, longest, ceiling) for volume in situation.volumes]
    chosen: list[int | None] = []
    for time, rate in zip(free, needed, strict=True):
        left_free = time.p50 <= longest and time.p90 <= bound
        if rate is None and not left_free:
            return
        chosen.append(None if left_free else rate)
    if any(rate is not None for rate in chosen):
        yield tuple(chosen)
        return
    for index, rate in enumerate(needed):
        if rate is not None:
            yield (*chosen[:index], rate, *chosen[index + 1 :])


def _lowest_rate(situation: Situation, volume: DataVolume, longest: float, ceiling: int) -> int | None:
    """The lowest rate with which the volume takes no longer; None where even the ceiling's takes longer."""
    if longest <= 0:
        return LEAST_RATE if situation.awaited_bytes(volume) <= 0 else None
    wanted = situation.awaited_bytes(volume) * situation.provisioned_rate.factor / MIB / longest
    # What is searched are times of whole rates: a last digit must not ask for the next one.
    rate = max(LEAST_RATE, math.ceil(wanted * (1 - 1e-12) - 1e-9))
    slower = wanted > volume.throughput_mib_per_s * (1 + 1e-12) + 1e-9
    return None if rate > ceiling or slower else rate
