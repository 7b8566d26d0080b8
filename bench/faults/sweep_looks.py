"""How old the oldest look of the sweep gets where some clusters do not answer: 200 clusters on virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from peaker_contract.metrics import Metric
from sim.workflows.functions import Invocation
from sim.workflows.interferences import LandsLate
from sim.world import World, settings

# A call that comes after the end of its function: Lambda kills it at its limit.
_NEVER_SECONDS = 10_000.0


def looks_of_others(clusters: int, silent: int, seconds: float) -> Mapping[str, Sequence[float]]:
    """When each cluster that answers was looked at, in seconds from the start; the first `silent` ones hang."""
    names = [f"cluster-{number:03d}" for number in range(clusters)]
    hanging = set(names[:silent])
    world = World(7, *(settings(name) for name in names))

    def hang(invocation: Invocation) -> LandsLate | None:
        if invocation.function != "sweep_orphans" or invocation.payload.get("cluster") not in hanging:
            return None
        return LandsLate(at=0, seconds=_NEVER_SECONDS, functions=world.functions)

    world.functions.interfere = hang
    try:
        world.run_for(seconds)
    finally:
        world.close()
    looks: dict[str, list[float]] = {name: [0.0] for name in names if name not in hanging}
    for one in world.account.metrics:
        if Metric.LEFTOVERS.value in one:
            looks[one["cluster"]].append(float(one["at"]))
    return looks


def oldest_look_minutes(looks: Mapping[str, Sequence[float]], until: float) -> float:
    """The longest time that any cluster went without a look, in minutes."""
    return max(later - before for at in looks.values() for before, later in pairwise([*at, until])) / 60.0
