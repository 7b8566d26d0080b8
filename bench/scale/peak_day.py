"""A day of many clusters of one account and region, with a common peak; what is decided is decided by the product.

Drawn from a seed: the clusters, when each needs a replica more, and how long each part of its build really takes. Of
the product: the turn to start, the reservation, its patience and its end (peaker.domain.limits, rate_reservation). EBS
keeps its own account of the rates in use and refuses what is above its quota.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from peaker.domain.limits.account_limits import INITIALIZATION_RATE
from peaker.domain.limits.admission import Admission, admitted
from peaker.domain.limits.reservations import Reservations, Reserved, Wanted, reserve
from peaker.domain.limits.start_slots import StartSlots, next_slot
from peaker.domain.planning.methods.choice import MethodChoice
from peaker.domain.planning.methods.rate_reservation import rate_of, rate_wanted, rates_of, seconds_in_use
from peaker.domain.planning.methods.situation import GIB, MIB, MethodEstimate, MethodName
from peaker.domain.planning.plan import LeadTimeEstimate, PlannedVolume

MIDNIGHT = datetime(2026, 11, 23, tzinfo=UTC)
PEAK_HOUR, PEAK_SPREAD_SECONDS = 20.0, 1_800.0
# Besides the peak, so many of the clusters build a replica at any other time of the day.
OTHER_BUILDS = 0.2
# What a build takes before its volumes are there and after they are warm, in seconds (docs/plan.md's first principles).
SNAPSHOT, INSTANCE, STORAGE, AFTER_WARM = 150.0, 90.0, 45.0, 600.0
DEFAULT_SPREAD, RATED_SPREAD = 0.5, 0.06
CHECK_SECONDS = 300.0


@dataclass(frozen=True)
class Build:
    """One build of a cluster: its volumes, what of them is used, and when its forecast asks for it.

    `needed` and `asked` are seconds of the day. The last four are what chance makes of it: seconds, and shares.
    """

    cluster: str
    run_id: str
    volumes: tuple[PlannedVolume, ...]
    used_share: float
    needed: float
    asked: float
    until_volumes: float
    rated_speed: float
    default_speed: float

    @property
    def bytes_by_name(self) -> dict[str, float]:
        return {one.name: one.size_gib * GIB * self.used_share for one in self.volumes}

    def warm_seconds(self, rated: bool) -> float:
        """Until all that is used has been read, at the drawn speed."""
        return max(_reading(one, self.used_share, rated) for one in self.volumes) / (
            self.rated_speed if rated else self.default_speed
        )


@dataclass
class Ended:
    """How a build went: when it began, and whether its volumes had their rates."""

    build: Build
    admission: Admission
    began: float
    rated: bool = False

    @property
    def waited(self) -> float:
        """Seconds from the question to the begin."""
        return self.began - self.build.asked

    @property
    def served(self) -> float:
        """The second of the day in which it serves."""
        return self.began + self.build.until_volumes + self.build.warm_seconds(self.rated) + AFTER_WARM


@dataclass
class Ebs:
    """The rates that are really in use, and how often a volume set was refused for them."""

    in_use: list[tuple[float, float]] = field(default_factory=list)
    rejected: int = 0
    most: float = 0.0

    def create(self, now: float, amount: float, seconds: float) -> None:
        while self.in_use and self.in_use[0][0] <= now:
            heapq.heappop(self.in_use)
        used = sum(one for _, one in self.in_use)
        if used + amount > INITIALIZATION_RATE.capacity:
            self.rejected += 1
            return
        heapq.heappush(self.in_use, (now + seconds, amount))
        self.most = max(self.most, used + amount)


@dataclass
class Day:
    """What became of every build, what EBS saw, and the most reservations that stood at a time."""

    ended: list[Ended]
    ebs: Ebs
    most_reservations: int
    writes: int


def _reading(volume: PlannedVolume, used_share: float, rated: bool) -> float:
    speed = float(volume.throughput_mib_per_s)
    if rated and volume.initialization_rate_mib_per_s:
        speed = min(speed, float(volume.initialization_rate_mib_per_s))
    return volume.size_gib * GIB * used_share / (speed * MIB)


def builds(seed: int, clusters: int) -> list[Build]:
    """In the order in which they ask."""
    dice = random.Random(seed)
    found = []
    for number in range(clusters):
        volumes = _volumes(dice)
        peak = PEAK_HOUR * 3600 + dice.gauss(0, PEAK_SPREAD_SECONDS)
        needs = [peak] + ([dice.uniform(2 * 3600, 17 * 3600)] if dice.random() < OTHER_BUILDS else [])
        offset, used = dice.uniform(0, CHECK_SECONDS), dice.uniform(0.4, 0.9)
        for count, needed in enumerate(needs):
            found.append(_build(dice, number, count, volumes, used, needed, offset))
    return sorted(found, key=lambda one: (one.asked, one.run_id))


def _volumes(dice: random.Random) -> tuple[PlannedVolume, ...]:
    """One to four, 200 GiB in the middle; half of the clusters pay for a rate."""
    gib = min(4_000, max(20, int(dice.lognormvariate(math.log(200), 1.0))))
    throughput, rate = dice.choice((125, 250, 500)), dice.choice((None, None, None, 100, 200, 300))
    return tuple(
        PlannedVolume(
            name=f"data{number}",
            device=f"/dev/sd{'fghi'[number]}",
            mount_point=f"/data{number}",
            filesystem="xfs",
            size_gib=gib,
            volume_type="gp3",
            iops=3_000,
            throughput_mib_per_s=throughput,
            initialization_rate_mib_per_s=rate,
        )
        for number in range(dice.choice((1, 1, 2, 4)))
    )


def _build(
    dice: random.Random,
    number: int,
    count: int,
    volumes: tuple[PlannedVolume, ...],
    used: float,
    needed: float,
    offset: float,
) -> Build:
    """A check asks for it as soon as the p90 of its lead time is all that is left."""
    rated = any(one.initialization_rate_mib_per_s for one in volumes)
    spread = RATED_SPREAD if rated else DEFAULT_SPREAD
    warm = max(_reading(one, used, rated) for one in volumes)
    lead = max(SNAPSHOT, INSTANCE) * 1.2 + STORAGE + warm * (1 + spread) + AFTER_WARM
    run_id = f"scale-out-cluster-{number:05d}-{count}"
    latest = needed - lead
    return Build(
        cluster=f"cluster-{number:05d}",
        run_id=run_id,
        volumes=volumes,
        used_share=used,
        needed=needed,
        asked=math.floor((latest - offset) / CHECK_SECONDS) * CHECK_SECONDS + offset,
        until_volumes=(max(SNAPSHOT, INSTANCE) + STORAGE) * dice.lognormvariate(0, 0.15),
        # 10 % around the rate in 99 % of cases.
        rated_speed=max(0.85, dice.gauss(1, 0.1 / 2.576)),
        default_speed=1 / dice.uniform(0.9, 1 + DEFAULT_SPREAD * 1.2),
    )


def wanted_of(build: Build, slot: datetime) -> Wanted:
    """As ReserveLimits asks by a plan of these figures."""
    warm = max(_reading(one, build.used_share, True) for one in build.volumes)
    slower = max(_reading(one, build.used_share, False) for one in build.volumes)
    parts = {"snapshot": SNAPSHOT, "instance": INSTANCE, "storage": STORAGE, "hydration": warm}
    methods = (
        MethodEstimate(
            name=MethodName.PROVISIONED_RATE, carried_out=True, p90_seconds=warm * (1 + RATED_SPREAD)
        ),
        MethodEstimate(
            name=MethodName.USED_BLOCKS, carried_out=True, p90_seconds=slower * (1 + DEFAULT_SPREAD)
        ),
    )
    choice = MethodChoice(chosen=MethodName.PROVISIONED_RATE, reason="drawn", methods=methods)
    lead = LeadTimeEstimate(seconds=sum(parts.values()), parts=parts)
    return rate_wanted(build.run_id, build.cluster, build.volumes, lead, choice, slot)


def simulate(
    seed: int,
    clusters: int,
    *,
    reserving: bool = True,
) -> Day:
    """The day; without `reserving` each run asks EBS at once, as if it were alone."""
    day, reservations, slots = Day([], Ebs(), 0, 0), Reservations(), StartSlots()
    coming = builds(seed, clusters)
    queue: list[tuple[float, int, Ended | None]] = [
        (one.asked, number, None) for number, one in enumerate(coming)
    ]
    heapq.heapify(queue)
    while queue:
        second, number, made = heapq.heappop(queue)
        now = MIDNIGHT + timedelta(seconds=second)
        if made is None:
            build = coming[number]
            admission, reservations, slots = _asked(build, reservations, slots, now, reserving)
            began = (admission.begins_at - MIDNIGHT).total_seconds()
            ended = Ended(build, admission, began)
            day.ended.append(ended)
            day.writes += 1 + bool(admission.rate_mib_per_s)
            if admission.rate_mib_per_s:
                heapq.heappush(queue, (began + build.until_volumes, number, ended))
        else:
            reservations = _created(made, reservations, now, day, reserving)
        day.most_reservations = max(day.most_reservations, len(reservations.made))
    return day


def _asked(
    build: Build, there: Reservations, slots: StartSlots, now: datetime, reserving: bool
) -> tuple[Admission, Reservations, StartSlots]:
    amount = rate_of(rates_of(build.volumes))
    if not reserving:
        return Admission(asked_at=now, begins_at=now, rate_mib_per_s=amount), there, slots
    slot, slots = next_slot(slots, now)
    answer = reserve(there, INITIALIZATION_RATE, wanted_of(build, slot), now) if amount else None
    left = answer.reservations if isinstance(answer, Reserved) else there
    return admitted(now, slot, answer), left, slots


def _created(made: Ended, there: Reservations, now: datetime, day: Day, reserving: bool) -> Reservations:
    """CreateVolumes: the reservation begins anew for as long as the bytes need, or there is no rate."""
    build, rates = made.build, rates_of(made.build.volumes)
    second = (now - MIDNIGHT).total_seconds()
    if reserving:
        seconds = seconds_in_use(build.bytes_by_name, rates)
        anew = Wanted(build.run_id, build.cluster, rate_of(rates), seconds, now, 0.0)
        answer = reserve(there.without(build.run_id), INITIALIZATION_RATE, anew, now)
        day.writes += 1
        if not isinstance(answer, Reserved):
            return there
        there = answer.reservations
    before = day.ebs.rejected
    day.ebs.create(second, rate_of(rates), max(_hydrated(build)))
    made.rated = day.ebs.rejected == before
    return there


def _hydrated(build: Build) -> Iterator[float]:
    """Seconds until EBS has all that the snapshots hold, whether or not anybody reads it."""
    for one in build.volumes:
        if one.initialization_rate_mib_per_s:
            rate = one.initialization_rate_mib_per_s * MIB * build.rated_speed
            yield build.bytes_by_name[one.name] / rate
