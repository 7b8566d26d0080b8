"""How often the builds of a day call EC2, against the buckets of an account and region.

The calls of one build, and when it makes them, are those of a run of the deployed workflows in the hostile cloud
(bench/faults/world). EC2 developer guide, "Request throttling for the Amazon EC2 API": each call has its own bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.faults.world.world import World, settings
from bench.scale.peak_day import Ended

_DESCRIBE, _MAKE, _MUTATE = (100.0, 20.0), (100.0, 5.0), (50.0, 5.0)
# Tokens that a bucket holds, and how many come back each second.
BUCKETS: Mapping[str, tuple[float, float]] = {
    "DescribeInstances": _DESCRIBE,
    "DescribeVolumes": _DESCRIBE,
    "DescribeSnapshots": _DESCRIBE,
    "DescribeInstanceTypes": _DESCRIBE,
    "DescribeImages": _DESCRIBE,
    "RunInstances": (5.0, 2.0),
    "CreateSnapshots": _MAKE,
    "CreateVolume": _MAKE,
    "CreateTags": (100.0, 10.0),
    "AttachVolume": _MUTATE,
}
CALLED: Mapping[str, str] = {
    "compute.instances_of_cluster": "DescribeInstances",
    "compute.instances_of_run": "DescribeInstances",
    "compute.instance": "DescribeInstances",
    "compute.ebs_promise": "DescribeInstanceTypes",
    "compute.image_keys": "DescribeImages",
    "compute.launch": "RunInstances",
    "storage.volumes_of_instance": "DescribeVolumes",
    "storage.volumes_of_run": "DescribeVolumes",
    "storage.snapshots_of_run": "DescribeSnapshots",
    "storage.snapshots_of_volumes": "DescribeSnapshots",
    "storage.create_snapshots": "CreateSnapshots",
    "storage.name_snapshot": "CreateTags",
    "storage.create_volume": "CreateVolume",
    "storage.attach": "AttachVolume",
}
_OF_EACH_VOLUME = frozenset({"storage.create_volume", "storage.attach", "storage.name_snapshot"})


@dataclass(frozen=True)
class Call:
    """One call of a build: seconds from its question (`asked`), its begin (`began`) or its warm volumes (`warm`)."""

    since: str
    seconds: float
    name: str
    each_volume: bool


def calls_of_a_build(seed: int = 7) -> list[Call]:
    """Watched in one run; a prewarm's reports are commands, not calls of EC2."""
    world = World(seed, settings(initialization_rate_mib_per_s=300))
    world.load(250, 2)
    try:
        world.finish(world.start("scale_out"))
        made = [one for one in world.functions.invocations if one.execution is not None]
        began = max(one.started for one in made if one.state == "ReserveLimits")
        warm = max(one.started for one in made if one.state == "ReportPrewarm")
        found = []
        for one in made:
            since, start = ("asked", began) if one.started < began else ("began", began)
            if one.started > warm:
                since, start = "warm", warm
            # Once for each of its volumes: one of them is kept, and stands for each of another build's.
            seen: set[str] = set()
            for call in one.calls:
                if call in CALLED and call not in seen:
                    found.append(Call(since, one.started - start, CALLED[call], call in _OF_EACH_VOLUME))
                seen |= {call} & _OF_EACH_VOLUME
        return found
    finally:
        world.close()


def refused(ended: Sequence[Ended]) -> dict[str, int]:
    """How many calls of the day find their bucket empty, by the call; one that comes back is not counted again."""
    calls = calls_of_a_build()
    times: dict[str, list[float]] = {name: [] for name in BUCKETS}
    for one in ended:
        for name, second in _times(one, calls):
            times[name].append(second)
    return {name: refused_of(sorted(found), *BUCKETS[name]) for name, found in times.items()}


def _times(one: Ended, calls: Sequence[Call]) -> Iterator[tuple[str, float]]:
    warm = one.began + one.build.until_volumes + one.build.warm_seconds(one.rated)
    starts = {"asked": one.build.asked, "began": one.began, "warm": warm}
    for call in calls:
        for _ in range(len(one.build.volumes) if call.each_volume else 1):
            yield call.name, starts[call.since] + call.seconds


def refused_of(times: Sequence[float], holds: float, per_second: float) -> int:
    """How many calls find no token in a bucket that is full at first; `times` in order."""
    tokens, before, found = holds, times[0] if times else 0.0, 0
    for second in times:
        tokens = min(holds, tokens + (second - before) * per_second)
        before = second
        if tokens >= 1:
            tokens -= 1
        else:
            found += 1
    return found
