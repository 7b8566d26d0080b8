"""Several replicas in one run, in the hostile cloud and virtual time.

The workflows, functions and use cases are the deployed ones; what instances, volumes, snapshots, hosts and the read
endpoint take is drawn as it is on AWS (sim). No real volume and no real database is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bench.faults.audit import Bounds, audit
from peaker_contract.catalogue import states_passed
from peaker_contract.errors import AwsCallRejected
from peaker_contract.steps import Method
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import Raises
from sim.world import World, machines, settings
from statemachines import structure

REPLICAS = 4
SEEDS = range(1, 10)
SETTLED_SECONDS = 1200.0
LONGEST_RATIO = 1.15


@dataclass(frozen=True)
class Ended:
    """How a batch ended: its status, who of it serves, what else is there, and when the last one began to serve."""

    status: str
    serving: int
    leftovers: tuple[str, ...]
    snapshot_sets: int
    seconds: float


def member_steps() -> list[str]:
    """Every state of a member, its prewarm's too, that a build passes, in the order of the workflow."""
    passed = states_passed(Method.BUILD)
    of_members = [
        state.name for name in ("add_replica", "prewarm") for state in structure.states(machines()[name])
    ]
    return [name for name in of_members if name in passed]


def batch(replicas: int, seed: int, failing: str | None = None, *, again: bool = False) -> Ended:
    """One scale_out of so many replicas; its second member fails for good at the state `failing`.

    With `again` whoever is tried in its place does, too.
    """
    world = World(seed, settings(max_replicas=1 + replicas))
    world.load(100.0 * (replicas + 1) - 50, replicas + 1)
    if failing is not None:
        late = [replicas + number for number in range(1, replicas + 1)] if again else []
        world.functions.interfere = partial(_fails_at, failing, tuple(f"-{one}" for one in (2, *late)))
    try:
        execution = world.finish(world.start("scale_out", count=replicas))
        ended = execution.ended
        world.run_for(SETTLED_SECONDS)
        found = audit(world.account, world.time.seconds, Bounds("orders", 1, 1 + replicas), [])
        return Ended(
            status=execution.status,
            # The base replica serves too.
            serving=len(world.endpoint.serving("orders")) - 1,
            leftovers=tuple(f"{one.kind}: {one.text}" for one in found),
            snapshot_sets=sum(one["call"] == "storage.create_snapshots" for one in world.account.log),
            seconds=(world.time.seconds if ended is None else ended) - execution.started,
        )
    finally:
        world.close()


def findings(world: World, most: int, after_seconds: float = 0) -> list[str]:
    world.run_for(after_seconds)
    found = audit(world.account, world.time.seconds, Bounds("orders", 1, most), world.stops)
    return [f"{one.kind}: {one.text}" for one in found]


def _fails_at(state: str, members: tuple[str, ...], invocation: Invocation) -> Interference | None:
    if invocation.state != state or not str(invocation.payload.get("run_id", "")).endswith(members):
        return None
    return Raises(at=1, always=True, error=AwsCallRejected(f"{state}: on purpose"))
