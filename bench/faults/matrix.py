"""The cells of the matrix run: the fault, an hour in which things go on by themselves, the audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.faults.audit import Bounds, Finding, audit, of_cluster, seconds_to_free_lease
from bench.faults.cells import STOP_MEMBER, Cell
from sim.workflows.executions import Execution
from sim.workflows.functions import Interference, Invocation
from sim.world import World

CLUSTER = "orders"
AN_HOUR = 3600.0
# Longer than a function that lands late, a look for stopped runs and the roll_back that it starts.
AT_LEAST = 1500.0
# A function that never answers is tried again for two hours, in each of two states of roll_back.
LONGEST_RETRIES = 6 * AN_HOUR
LOOKED_AT = 300.0


@dataclass(frozen=True)
class Result:
    """`hit`: the fault came. `lease_seconds`: from the last stop to a free lease. `story`: what was called, when."""

    cell: Cell
    hit: bool
    findings: tuple[Finding, ...]
    lease_seconds: float
    ends: tuple[str, ...]
    story: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.hit and not self.findings


class _Fault:
    """The cell's interference with the functions of its state, and what comes with it."""

    def __init__(self, cell: Cell, world: World) -> None:
        self.hit = False
        self._cell = cell
        self._world = world
        self._at = cell.interference(world)
        self._at.hit = self._hit  # type: ignore[attr-defined]
        self._execution: Execution | None = None
        world.deliveries = self._deliveries

    def beside(self, invocation: Invocation) -> Interference | None:
        execution = invocation.execution
        if execution is None or (execution.workflow, invocation.state) != (
            self._cell.workflow,
            self._cell.state,
        ):
            return None
        if invocation.payload.get("cluster", CLUSTER) != CLUSTER:
            return None
        return self._at if self._execution in (None, execution) else None

    def _hit(self) -> None:
        first, self.hit = not self.hit, True
        if self._execution is None and self._world.functions.current is not None:
            self._execution = self._world.functions.current.execution
        if first and self._cell.mode in ("stop", "duplicate", "unheard"):
            self._world.time.after(0, self._stop)
        if first and self._cell.mode == STOP_MEMBER:
            self._world.time.after(0, self._stop_member)

    def _stop(self) -> None:
        execution = self._execution
        assert execution is not None
        self._world.stop(self._world.workflows.root(execution))

    def _stop_member(self) -> None:
        execution = self._execution
        assert execution is not None
        self._world.workflows.stop(execution, "Stopped", "by a person")

    def _deliveries(self, execution: Execution) -> tuple[float, ...]:
        chance = self._world.random
        if self._cell.mode == "unheard" and execution is self._stopped():
            return ()
        first = chance.uniform(0.5, 8)
        if self._cell.mode == "duplicate":
            return (first, first + chance.choice(self._cell.begun.heard_again_after))
        return (first,)

    def _stopped(self) -> Execution | None:
        return None if self._execution is None else self._world.workflows.root(self._execution)


def run_cell(cell: Cell) -> Result:
    """Begin its situation, let its fault come, and look at what is left within the hour after, or after its retries."""
    situation = cell.begun
    world = situation.world(cell.seed)
    try:
        fault = _Fault(cell, world)
        execution = situation.begin(world, fault.beside)
        world.finish(execution)
        findings = findings_after(world)
        ends = tuple(_ended(one) for one in world.workflows.executions)
        lease_seconds = seconds_to_free_lease(world.account, CLUSTER, world.stops)
        return Result(cell, fault.hit, findings, lease_seconds, ends, tuple(_story(world)))
    finally:
        world.close()


def _ended(execution: Execution) -> str:
    last = execution.states[-1] if execution.states else "nothing"
    return f"{execution.workflow} {execution.status} in {last}"


def _story(world: World) -> Iterator[str]:
    """States, effects and leases in the order of their times."""
    told = [(one["at"], f"{one['step']:28} {one['call']} {one['given'][-1]}") for one in world.account.log]
    told += [
        (one["at"], f"lease: {one['run_id']} token {one['fencing_token']} until {one['held_until']}")
        for one in world.account.leases
    ]
    told += [
        (one.started, f"{one.state:28} invoked, try {one.attempt}")
        for one in world.functions.invocations
        if one.execution is not None and one.attempt == 1
    ]
    for one in world.workflows.executions:
        told.append((one.started, f"{one.workflow} begins as {one.name}"))
        told.append(
            (one.ended or world.time.seconds, f"{one.workflow} is {one.status} {one.error} {one.cause[:300]}")
        )
    told += [(at, "a person stops an execution") for at in world.stops]
    return (f"{at:9.1f} s  {text}" for at, text in sorted(told, key=lambda one: one[0]))


def findings_after(world: World) -> tuple[Finding, ...]:
    """What is wrong an hour after the last run, or after its retries; things go on by themselves meanwhile."""
    world.run_for(AT_LEAST)
    passed, longest = AT_LEAST, world.time.seconds + LONGEST_RETRIES
    while True:
        running = [one.workflow for one in world.workflows.executions if one.running]
        findings = [one for name in world.clusters.names() for one in _audited(world, name)]
        findings += [Finding("lease", f"{one} still runs") for one in running]
        if not findings or passed >= AN_HOUR:
            return tuple(findings)
        world.run_for(LOOKED_AT)
        passed = AT_LEAST if running and world.time.seconds < longest else passed + LOOKED_AT


def _audited(world: World, cluster: str) -> list[Finding]:
    rules = world.clusters.settings(cluster)
    bounds = Bounds(cluster, rules.min_replicas, rules.max_replicas)
    stops = world.stops if cluster == CLUSTER else []
    return audit(of_cluster(world.account, cluster), world.time.seconds, bounds, stops)
