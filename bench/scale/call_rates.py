"""How often the builds of a day call EC2 and Systems Manager, against the buckets of an account and region.

The calls of one build, and when it makes them, are those of a run of the deployed workflows in the hostile cloud
(bench/faults/world). EC2 developer guide, "Request throttling for the Amazon EC2 API": each call has its own bucket.
For Systems Manager's calls AWS publishes no rate, so theirs are counted and not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from peaker.domain.storage.prewarm_progress import pause_seconds

from bench.faults.workflows.functions import Invocation
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
COMMANDS: Mapping[str, str] = {
    "commands.send": "SendCommand",
    "commands.outcome": "GetCommandInvocation",
    "commands.find": "ListCommands",
    "commands.agent": "DescribeInstanceInformation",
}
_OF_EACH_VOLUME = frozenset({"storage.create_volume", "storage.attach", "storage.name_snapshot"})


@dataclass(frozen=True)
class Call:
    """One call of a build: seconds from its question (`asked`), its begin (`began`) or its warm volumes (`warm`)."""

    since: str
    seconds: float
    name: str
    each_volume: bool


@dataclass(frozen=True)
class CallsOfABuild:
    """`report`: how often each call of Systems Manager is made for one look at a prewarm, of which `calls` has none."""

    calls: list[Call]
    report: Mapping[str, float]


def calls_of_a_build(seed: int = 7) -> CallsOfABuild:
    """Watched in one run."""
    world = World(seed, settings(initialization_rate_mib_per_s=300))
    world.load(250, 2)
    try:
        world.finish(world.start("scale_out"))
        made = [one for one in world.functions.invocations if one.execution is not None]
        reports = [one for one in made if one.state == "ReportPrewarm"]
        asked = Counter(call for one in reports for call in one.calls)
        # A report that asks again for the answer to its command is the same look.
        looks = asked["commands.send"]
        return CallsOfABuild(
            list(_placed(made, began=max(one.started for one in made if one.state == "ReserveLimits"))),
            {name: asked[call] / looks for call, name in COMMANDS.items()},
        )
    finally:
        world.close()


def _placed(made: Sequence[Invocation], began: float) -> Iterator[Call]:
    warm = max(one.started for one in made if one.state == "ReportPrewarm")
    named = {**CALLED, **COMMANDS}
    for one in made:
        if one.state == "ReportPrewarm":
            continue
        since, start = ("asked", began) if one.started < began else ("began", began)
        if one.started > warm:
            since, start = "warm", warm
        # Once for each of its volumes: one of them is kept, and stands for each of another build's.
        seen: set[str] = set()
        for call in one.calls:
            if call in named and call not in seen:
                yield Call(since, one.started - start, named[call], call in _OF_EACH_VOLUME)
            seen |= {call} & _OF_EACH_VOLUME


def refused(ended: Sequence[Ended]) -> dict[str, int]:
    """How many calls of EC2 find their bucket empty, by the call; one that comes back is not counted again."""
    calls = calls_of_a_build().calls
    times: dict[str, list[float]] = {name: [] for name in BUCKETS}
    for one in ended:
        for name, second in _times(one, calls):
            if name in times:
                times[name].append(second)
    return {name: refused_of(sorted(found), *BUCKETS[name]) for name, found in times.items()}


def busiest_minute(ended: Sequence[Ended]) -> dict[str, float]:
    """Calls of Systems Manager a second that builds make in the busiest minute of the day, by the call."""
    watched = calls_of_a_build()
    minutes: dict[str, dict[int, float]] = {name: defaultdict(float) for name in COMMANDS.values()}
    for one in ended:
        for name, second in _times(one, watched.calls):
            if name in minutes:
                minutes[name][int(second // 60)] += 1
        for second in _looks(one):
            for name, times in watched.report.items():
                minutes[name][int(second // 60)] += times
    return {name: max(found.values(), default=0.0) / 60 for name, found in minutes.items()}


def _looks(one: Ended) -> Iterator[float]:
    """When the workflow asks how far the prewarm is; the engine knows its own remaining time."""
    warm_seconds = one.build.warm_seconds(one.rated)
    begun, passed = one.began + one.build.until_volumes, 0.0
    while passed < warm_seconds:
        yield begun + passed
        passed += pause_seconds(warm_seconds - passed, passed)
    yield begun + passed


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
