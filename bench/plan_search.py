"""The chooser against a search of everything: situations drawn at random, each combination of rates tried.

Written from the definitions, not from the chooser: the lead time is the rest, the slowest volume and the catch-up; a
build costs its rates and the hours of what stands meanwhile. Vectors, because a situation has up to 40,000 builds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from peaker.domain.planning.learning.overlap import Overlap
from peaker.domain.planning.methods.choice import MethodChoice, choose
from peaker.domain.planning.methods.rates import MARGIN
from peaker.domain.planning.methods.situation import (
    GIB,
    MIB,
    DataVolume,
    MethodName,
    ParkedReplica,
    ReadingRate,
    Situation,
)
from peaker.domain.planning.methods.timing import LeadTimeFrame
from peaker.domain.planning.prices import US_EAST_1
from peaker.domain.reading import Known, Reading, Unknown

Floats = NDArray[np.float64]
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
# Relative: the search adds in another order than the chooser.
_SAME = 1e-9
# Methods that no run carries out must never be chosen, however good they look.
_OF_A_RUN = {
    MethodName.USED_BLOCKS,
    MethodName.HOT_FIRST,
    MethodName.PROVISIONED_RATE,
    MethodName.DIRECT_FILL,
    MethodName.CLONE,
    MethodName.RETURN,
}


@dataclass(frozen=True)
class Best:
    """The best of everything: whether it is in time, its dollars and its p90 in seconds."""

    in_time: bool
    usd: float
    p90_seconds: float


def drawn(seed: int) -> Situation:
    """A situation at random: one or two volumes (rarely three), any size, quota, ceiling, history and deadline."""
    dice = random.Random(seed)
    wait_for_hot = dice.random() < 0.4
    volumes = tuple(_volume(dice, name) for name in ("data", "log")[: dice.choice((1, 2, 2))])
    hourly: Reading = Known(dice.choice((0.05, 0.2, 0.45, 1.1, 2.3, 5.0)) * dice.uniform(0.8, 1.2))
    rest = dice.uniform(120, 5000)
    frame = LeadTimeFrame(
        rest_seconds=rest,
        spread_squared=dice.uniform(10, 1500) ** 2,
        reference_seconds=dice.uniform(0, 4000),
        catch_up_seconds=dice.uniform(0, 2000),
        catch_up_spread=dice.uniform(0, 2000),
        catch_up_per_second=dice.choice((0.01, 0.1, 1 / 3, 1.0, 10.0)),
        # A part of the rest.
        snapshot_seconds=dice.uniform(0, min(900, rest)),
        whole_catch_up_seconds=dice.uniform(0, 4000),
        overlap=Overlap(dice.choice((1.0, 1.0, 0.5, 0.05)), dice.uniform(0, 900), dice.uniform(0, 400)),
    )
    return Situation(
        frame=frame,
        volumes=volumes,
        hourly_usd=hourly if dice.random() > 0.03 else Unknown("nobody said"),
        prices=US_EAST_1,
        now=NOON,
        ready_by=None if dice.random() < 0.1 else NOON + timedelta(seconds=_deadline(dice, frame, volumes)),
        serve_when="hot" if wait_for_hot else "all",
        default_rate=ReadingRate(dice.uniform(0.5, 3), dice.uniform(0.1, 1.5)),
        provisioned_rate=ReadingRate(dice.uniform(0.9, 1.5), dice.uniform(0.0, 0.3)),
        rate_ceiling_mib_per_s=dice.choice((None, 100, 150, 200, 300, 300, 300)),
        rate_free_mib_per_s=dice.choice((5000.0, 5000.0, 450.0, 300.0, 210.0, 99.0, 0.0)),
        instance_mib_per_s=dice.choice((Unknown("not asked"), Known(75.0), Known(150.0), Known(600.0))),
        parked=_parked(dice, hourly),
        why_no_fill=dice.choice((None, "not allowed")),
        fills_at_once=dice.choice((1, 1, 3)),
        why_no_clone=dice.choice((None, "not allowed")),
        clone_mib_per_s=dice.choice((25.0, 100.0, 1000.0)),
        zone="us-east-1a",
        donor_zone=dice.choice(("us-east-1a", "us-east-1b")),
    )


def _volume(dice: random.Random, name: str) -> DataVolume:
    size = int(10 ** dice.uniform(0.6, 4))
    held = size * GIB * dice.uniform(0.02, 1)
    used = held * dice.uniform(0.1, 1)
    hot = None if dice.random() < 0.2 else used * dice.uniform(0.01, 1)
    return DataVolume(name, size, held, used, dice.choice((125.0, 250.0, 500.0, 1000.0)), hot)


def _parked(dice: random.Random, hourly: Reading) -> tuple[ParkedReplica, ...]:
    found = []
    for number in range(dice.choice((0, 0, 1, 2))):
        back = dice.uniform(100, 9000)
        usd = Known(hourly.value * back / 3600) if isinstance(hourly, Known) else hourly
        found.append(ParkedReplica(f"i-{number}", back, back * dice.uniform(1, 2), usd))
    return tuple(found)


def _deadline(dice: random.Random, frame: LeadTimeFrame, volumes: Sequence[DataVolume]) -> float:
    """Around what reading takes, so that some builds are in time and some are late."""
    amount = max(volume.used_bytes / MIB / min(300.0, volume.throughput_mib_per_s) for volume in volumes)
    return frame.p50(amount) * dice.uniform(0.2, 3)


def search(situation: Situation) -> Best | None:
    """The best of every parked replica, every combination of rates, a direct fill and a clone; None where a run can
    do nothing."""
    options = [
        (one.return_p90_seconds, one.usd.value if isinstance(one.usd, Known) else np.inf)
        for one in situation.parked
    ]
    for p90, usd in (*_builds(situation), *_fills(situation), *_clones(situation)):
        options += [_best_of(p90, usd, situation.seconds_left)]
    if not options:
        return None
    p90s, prices = (np.array(column, dtype=np.float64) for column in zip(*options, strict=True))
    soonest, cheapest = _best_of(p90s, prices, situation.seconds_left)
    return Best(bool(_makes(np.array([soonest]), situation.seconds_left)[0]), cheapest, soonest)


def _makes(p90: Floats, left: float | None) -> NDArray[np.bool_]:
    return np.full(p90.shape, True) if left is None else p90 * (1 + MARGIN) <= left


def _best_of(p90: Floats, usd: Floats, left: float | None) -> tuple[float, float]:
    """In time: the cheapest, then the soonest. Else the soonest, then the cheapest."""
    makes = _makes(p90, left)
    if makes.any():
        p90, usd = p90[makes], usd[makes]
        order = np.lexsort((p90, usd))
    else:
        order = np.lexsort((usd, p90))
    return float(p90[order[0]]), float(usd[order[0]])


def _builds(situation: Situation) -> Iterator[tuple[Floats, Floats]]:
    """p90 and USD of every build that the settings and the quota allow."""
    ceiling = situation.rate_ceiling_mib_per_s
    rates = [0] if ceiling is None else [0, *range(100, ceiling + 1)]
    grid = np.meshgrid(*[np.array(rates, dtype=np.float64) for _ in situation.volumes], indexing="ij")
    columns = [axis.ravel() for axis in grid]
    allowed = sum(columns) <= situation.rate_free_mib_per_s
    columns = [column[allowed | (sum(columns) == 0)] for column in columns]
    p50, p90 = np.zeros(columns[0].shape), np.zeros(columns[0].shape)
    once, awaited = np.zeros(columns[0].shape), 0.0
    unit = situation.prices.ebs.initialization_per_gib_per_mib_per_s or 0.0
    for volume, rate in zip(situation.volumes, columns, strict=True):
        waits_for_hot = situation.serve_when == "hot" and volume.hot_bytes is not None
        amount = (volume.hot_bytes or 0.0) if waits_for_hot else volume.used_bytes
        awaited += amount
        speed = np.where(
            rate == 0, volume.throughput_mib_per_s, np.minimum(rate, volume.throughput_mib_per_s)
        )
        free, paid = situation.default_rate, situation.provisioned_rate
        seconds = amount / MIB / speed * np.where(rate == 0, free.factor, paid.factor)
        p50 = np.maximum(p50, seconds)
        p90 = np.maximum(p90, seconds * (1 + np.where(rate == 0, free.spread, paid.spread)))
        once += rate * unit * volume.size_gib
    if isinstance(situation.instance_mib_per_s, Known):
        least = awaited / MIB / situation.instance_mib_per_s.value
        p50, p90 = np.maximum(p50, least), np.maximum(p90, least)
    yield _whole(situation, p50, p90, once)


def _fills(situation: Situation) -> Iterator[tuple[Floats, Floats]]:
    """p90 and USD of a direct fill, where one is allowed: 900 of 1,000 requests a second and snapshot, 512 KiB each."""
    if situation.why_no_fill is not None:
        return
    mib = [volume.snapshot_bytes / MIB for volume in situation.volumes]
    share = 450.0 / situation.fills_at_once
    speeds = [min(share, volume.throughput_mib_per_s) for volume in situation.volumes]
    least = sum(mib) * situation.fills_at_once / 2500.0
    if isinstance(situation.instance_mib_per_s, Known):
        least = max(least, sum(mib) / situation.instance_mib_per_s.value)
    seconds = np.array([max(least, *(amount / speed for amount, speed in zip(mib, speeds, strict=True)))])
    blocks = sum(mib) * 2
    once = np.array([blocks * 0.003 / 1000 + blocks / 10_000 * 0.0006 / 1000])
    whole_first = replace(situation, frame=situation.frame.before_database())
    yield _whole(whole_first, seconds, 1.3 * seconds, once)


def _clones(situation: Situation) -> Iterator[tuple[Floats, Floats]]:
    """p90 and USD of a clone, where one is allowed: of one replica alone, all that is used, without a snapshot."""
    if situation.why_no_clone is not None or situation.fills_at_once > 1:
        return
    speed = min(situation.clone_mib_per_s, sum(volume.throughput_mib_per_s for volume in situation.volumes))
    if isinstance(situation.instance_mib_per_s, Known):
        speed = min(speed, situation.instance_mib_per_s.value)
    seconds = np.array([sum(volume.used_bytes for volume in situation.volumes) / MIB / speed])
    frame = situation.frame.before_database()
    soon = replace(situation, frame=replace(frame, rest_seconds=frame.rest_seconds - frame.snapshot_seconds))
    gib = sum(volume.used_bytes for volume in situation.volumes) / GIB
    yield _whole(
        soon,
        seconds,
        1.5 * seconds,
        np.array([0.0 if situation.zone == situation.donor_zone else gib * 0.02]),
    )


def _left(frame: LeadTimeFrame, hydration: Floats) -> tuple[Floats, Floats]:
    """What is left of the catch-up, and of one that takes twice as long, once the volumes are proven."""
    share, whole = frame.overlap.hot_share, frame.whole_catch_up_seconds or 0.0
    needed = whole + (hydration - frame.reference_seconds) * share * frame.catch_up_per_second
    rest = np.maximum(0.0, hydration * (1 - share) - frame.overlap.recovery_seconds)
    beside = rest + frame.overlap.benchmark_seconds
    return np.maximum(0.0, needed - beside), np.maximum(0.0, 2 * needed - beside)


def _whole(situation: Situation, p50: Floats, p90: Floats, once: Floats) -> tuple[Floats, Floats]:
    frame = situation.frame
    then, reference = _left(frame, p50), _left(frame, np.array([frame.reference_seconds]))
    later = p50 * (1 - frame.overlap.hot_share)
    waited = np.maximum(0.0, frame.catch_up_seconds + then[0] - reference[0])
    median = frame.rest_seconds + p50 - np.minimum(frame.overlap.recovery_seconds, later) + waited
    further = (then[1] - then[0]) - (reference[1] - reference[0])
    squares = frame.spread_squared + (p90 - p50) ** 2
    squares = squares + np.maximum(0.0, frame.catch_up_spread + further) ** 2
    hourly = situation.hourly_usd.value if isinstance(situation.hourly_usd, Known) else np.inf
    return median + np.sqrt(squares), once + hourly * median / 3600


def why_worse(situation: Situation) -> str | None:
    """How the chooser's choice is dearer or later than the best of everything; None where it is not."""
    choice, best = choose(situation), search(situation)
    taken = choice.taken
    if taken is None or best is None:
        return None if taken is None and best is None else f"chose {choice.chosen}, the best is {best}"
    if taken.name not in _OF_A_RUN:
        return f"{taken.name} is no method of a run"
    return _compared(choice, best)


def _compared(choice: MethodChoice, best: Best) -> str | None:
    taken = choice.taken
    assert taken is not None
    assert taken.p90_seconds is not None
    makes_it = choice.in_time is not False
    usd = np.inf if taken.usd is None else taken.usd
    if best.in_time and not makes_it:
        return f"{taken.name} is late, {best} is not"
    if makes_it and usd > best.usd * (1 + _SAME):
        return f"{taken.name} costs {usd}, {best}"
    if not makes_it and taken.p90_seconds > best.p90_seconds * (1 + _SAME):
        return f"{taken.name} takes {taken.p90_seconds}, {best}"
    return None


def compared(count: int, first_seed: int = 0) -> list[str]:
    """Every situation in which the choice is worse than the best, as `seed: how`."""
    found = ((seed, why_worse(drawn(seed))) for seed in range(first_seed, first_seed + count))
    return [f"{seed}: {why}" for seed, why in found if why is not None]
