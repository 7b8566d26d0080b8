"""How each state of the workflows is reached: what stands before, what is started, and what goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from peaker_contract.errors import AwsCallRejected
from sim.workflows.executions import Execution
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import AtCall, Raises, Watches
from sim.workflows.walker import Walk
from sim.world import World, by_name, settings

Interfere = Callable[[Invocation], Interference | None]
# Two replicas at most: a second one of a run would be one too many.
LIMITS = {"max_replicas": 2}
DENIED = "AccessDenied: on purpose"


@dataclass
class Situation:
    """`given` is the input; `refused` the calls that are refused for good, by state; `stopped_at` a state.

    `heard_again_after`: so many seconds later the event of an end comes a second time, where it comes twice.
    `neighbour` is another cluster, which builds a replica at the same time. `children_outlive`: those of an execution
    that was stopped are stopped late, or not at all.
    """

    workflow: str
    given: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[World], None] = lambda world: world.load(250, 2)
    answers: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    stopped_at: str | None = None
    stopped_after: tuple[str, str] | None = None
    instances_end_within: tuple[float, float] = (15.0, 120.0)
    heard_again_after: tuple[float, ...] = (0.0, 1.0, 20.0, 300.0)
    neighbour: str | None = None
    children_outlive: bool = False

    def world(self, seed: int, kind: type[World] = World) -> World:
        """All that stands before the start."""
        others = (
            []
            if self.neighbour is None
            else [settings(self.neighbour, read_endpoint=by_name(self.neighbour))]
        )
        world = kind(seed, settings(**{**LIMITS, **self.changes}), *others)
        world.workflows.children_outlive = self.children_outlive
        self.prepare(world)
        return world

    def begin(self, world: World, beside: Interfere) -> Execution:
        """Start it; `beside` may interfere first with every function."""
        for document, error in self.answers.items():
            world.commands.fail(document, error)
        world.compute.ends_within = self.instances_end_within
        given = dict(self.given)
        if given.get("replica") == "peak":
            given["replica"] = world.peak()
        execution = world.start(self.workflow, **given)
        if self.neighbour is not None:
            world.load(250, 2, cluster=self.neighbour)
            world.start("scale_out", self.neighbour)
        refusals = {
            state: Raises(at=call, error=AwsCallRejected(f"{call}: {DENIED}"), always=True)
            for state, call in self.refused.items()
        }

        def stop_soon() -> None:
            world.time.after(0, lambda: world.stop(execution))

        stop = Watches(hit=stop_soon)

        def interfere(invocation: Invocation) -> Interference | None:
            own: AtCall | None = refusals.get(invocation.state)
            mine = invocation.execution and world.workflows.root(invocation.execution) is execution
            if self.stopped_after and mine and invocation.state == self.stopped_after[0]:
                stop.at = self.stopped_after[1]
                own = stop
            return beside(invocation) or own

        def entered(walk: Walk, state: str) -> None:
            if state == self.stopped_at and world.workflows.root(world.workflows.of(walk)) is execution:
                world.time.after(0.5, lambda: world.stop(execution))

        world.functions.interfere = interfere
        world.workflows.on_enter = entered
        return execution


def by_dns_name(situation: Situation) -> Situation:
    """The same with a read endpoint that is a DNS name."""
    return replace(situation, changes={**situation.changes, "read_endpoint": by_name()})


def beside_another(situation: Situation) -> Situation:
    """The same while another cluster builds a replica."""
    return replace(situation, neighbour="carts")


def _serving(world: World, count: int = 1) -> None:
    world.load(250, count + 1)
    built = world.run("scale_out") if count == 1 else world.run("scale_out", count=count)
    assert built.status == "SUCCEEDED", built
    world.load(20, 1, count)
    world.run_for(2 * 3600)


def _parked(world: World) -> None:
    _serving(world)
    parked = world.run("scale_in")
    assert parked.states[-1] == "ReplicaParked", parked
    world.run_for(60)
    world.load(250, 2)


def _serving_under_load(world: World) -> None:
    _serving(world)
    world.load(250, 2)


def _needed_while_it_drains(world: World) -> None:
    _serving(world)
    world.time.after(120, lambda: world.load(250, 2))


ABOVE_LIMITS = {"above_limits": True, "reason": "the sale"}
OF_THREE = {"max_replicas": 4}
RATE = {"initialization_rate_mib_per_s": 300}
SCHEDULE = {"trigger": {"kind": "schedule"}}
PARKING = {"retirement": {"idle_seconds": 60, "park": "always"}}
LATE_FAILURE = {"load_buffer_pool": "DiskFull"}
SITUATIONS: Mapping[str, Situation] = {
    "build": Situation("scale_out", changes=RATE),
    "build by schedule": Situation("scale_out", SCHEDULE),
    "build stopped": Situation("scale_out", stopped_at="LoadBufferPool"),
    "build above limits": Situation("scale_out", ABOVE_LIMITS, changes={"max_replicas": 1}),
    "plan a build": Situation("scale_out", {"mode": "plan"}),
    "build refused": Situation("scale_out", changes={"max_replicas": 1}),
    "build without a lease": Situation("scale_out", refused={"AcquireLease": "lease.acquire"}),
    "build fails": Situation("scale_out", answers=LATE_FAILURE),
    "batch of three": Situation(
        "scale_out",
        {"count": 3},
        changes=OF_THREE,
        prepare=lambda world: world.load(350, 4),
        children_outlive=True,
    ),
    "build and its undo fail": Situation(
        "scale_out",
        answers=LATE_FAILURE,
        refused={"UndoMember": "compute.terminate", "UndoScaleOut": "compute.terminate"},
    ),
    "return": Situation("scale_out", changes=PARKING, prepare=_parked),
    "retire": Situation("scale_in", prepare=_serving),
    "park": Situation("scale_in", changes=PARKING, prepare=_serving),
    "retire by schedule": Situation("scale_in", SCHEDULE, prepare=_serving),
    "plan a retirement": Situation("scale_in", {"mode": "plan"}, prepare=_serving),
    "retirement refused": Situation("scale_in", prepare=_serving_under_load),
    "removal called off": Situation("scale_in", prepare=_needed_while_it_drains),
    "retire without a lease": Situation(
        "scale_in", prepare=_serving, refused={"AcquireLease": "lease.acquire"}
    ),
    "retire a parked one": Situation("scale_in", {"replica": "peak"}, changes=PARKING, prepare=_parked),
    "retirement fails": Situation("scale_in", prepare=_serving, refused={"ConfirmIdle": "commands.send"}),
    "retirement and its restore fail": Situation(
        "scale_in",
        prepare=_serving,
        refused={
            "ConfirmIdle": "commands.send",
            "UndoRemoval": "endpoint.register",
            "UndoScaleIn": "endpoint.register",
        },
    ),
    "retirement fails after its end": Situation(
        "scale_in", prepare=_serving, refused={"RetireReplica": "storage.delete_volume"}
    ),
    "retirement and its end fail": Situation(
        "scale_in",
        prepare=_serving,
        refused={
            "RetireReplica": "storage.delete_volume",
            "UndoRemoval": "storage.delete_volume",
            "UndoScaleIn": "storage.delete_volume",
        },
    ),
    "receipt of a parking fails": Situation(
        "scale_in", changes=PARKING, prepare=_serving, refused={"RecordReceipt": "ledger.save_receipt"}
    ),
    "build stopped after its receipt": Situation(
        "scale_out", stopped_after=("ReleaseLease", "lease.release")
    ),
    "build stopped before its release": Situation(
        "scale_out", stopped_at="ReleaseLease", refused={"ReleaseLease": "lease.release"}
    ),
    "build stopped and roll_back fails": Situation(
        "scale_out", stopped_at="LoadBufferPool", refused={"UndoStoppedRun": "compute.terminate"}
    ),
    # Before those whose undo takes long by chance: a cell is of the first situation that comes to its state.
    "build stopped and its undo takes long": Situation(
        "scale_out",
        stopped_at="LoadBufferPool",
        instances_end_within=(1000.0, 1100.0),
        # Later the second roll_back fences the first one before its last state, and the sweep the second one.
        heard_again_after=(0.0, 1.0, 20.0),
    ),
    "build stopped while it serves": Situation("scale_out", stopped_at="RampTraffic"),
    "return stopped": Situation("scale_out", changes=PARKING, prepare=_parked, stopped_at="StartDatabase"),
    "retirement stopped": Situation("scale_in", prepare=_serving, stopped_at="DrainReplica"),
    "retirement stopped after its end": Situation(
        "scale_in", prepare=_serving, stopped_after=("RetireReplica", "compute.terminate")
    ),
    "parking stopped": Situation("scale_in", changes=PARKING, prepare=_serving, stopped_at="ParkReplica"),
    "two go": Situation(
        "scale_in",
        {"count": 2},
        changes={**PARKING, "max_replicas": 3},
        prepare=partial(_serving, count=2),
        children_outlive=True,
    ),
}
