"""The events of a plan, as they come about in a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.faults.plans import CLUSTERS, FAULTS, SWEEP_FAULTS, Event
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected, AwsUnavailable, Throttled
from sim import outside
from sim.workflows.executions import Execution
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import (
    DiesAfter,
    DiesAtTheEnd,
    DiesBefore,
    Down,
    LandsLate,
    LosesAnswer,
    Raises,
)
from sim.workflows.versions import next_version
from sim.world import World

SWEEP = "sweep_orphans"
# The ports of each service of AWS, which are down together.
SERVICES: Mapping[str, tuple[str, ...]] = {
    "EC2": ("compute", "storage", "snapshot_blocks"),
    "DynamoDB": ("lease", "ledger", "records"),
    "SSM commands": ("commands",),
    "read endpoint": ("endpoint",),
    "CloudWatch": ("readings",),
    "Step Functions": ("executions",),
    "SSM parameters": ("clusters", "stored_prices"),
    "S3": ("run_files", "package"),
}
# The workflow, the load that asks for it, and what an automatic start says.
STARTS: Mapping[str, tuple[str, tuple[float, float, float], Mapping[str, Any]]] = {
    "scale_out": ("scale_out", (250, 3, 0), {}),
    "scale_in": ("scale_in", (10, 1, 1), {}),
    "automatic_out": ("scale_out", (250, 3, 0), {"trigger": {"kind": "schedule"}}),
    "automatic_in": ("scale_in", (10, 1, 2), {"trigger": {"kind": "schedule"}}),
}
TO_A_PEAK: Mapping[str, Callable[[World, str], object]] = {
    "terminate": lambda world, instance_id: world.compute.terminate(instance_id),
    "restart": outside.restart,
    "detach": outside.detach,
    "stop_instance": outside.stop,
}
# What a new version of the settings says differently.
CHANGES: tuple[Mapping[str, Mapping[str, Any]], ...] = (
    {"ramp": {"step_seconds": 90}},
    {"ramp": {"shares": (1.0,)}},
    {"ramp": {"shares": (0.1, 0.3, 0.6, 1.0)}},
    {"gates": {"lag_seconds": 9}},
    {"drain": {"limit_seconds": 600}},
    {"retirement": {"park": "always"}},
    {"retirement": {"park": "never", "idle_seconds": 120}},
    {"limits": {"minimum_lifetime_minutes": 1}},
)


class Happening:
    """Takes over the world's functions and events; `stops` are (second, cluster, who held the lease)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._due: dict[str, list[Event]] = {name: [] for name in CLUSTERS}
        self._deliveries: list[Event] = []
        self._stopped: list[tuple[float, str, str]] = []
        self._of_sweeps: list[Event] = []
        self._down: list[tuple[float, Down]] = []
        self._silent_until = 0.0
        world.functions.interfere = self._interfere
        world.deliveries = lambda _: self._delivered()

    def happens(self, event: Event) -> None:
        if event.what in FAULTS:
            self._due[event.cluster].append(event)
        elif event.what in SWEEP_FAULTS:
            getattr(self, f"_{event.what}", self._of_sweeps.append)(event)
        elif event.what in STARTS:
            self._begin(event)
        elif event.what in TO_A_PEAK:
            for instance_id in self._peak(event):
                TO_A_PEAK[event.what](self._world, instance_id)
        elif event.what in ("lost_event", "double_event"):
            self._deliveries.append(event)
        else:
            getattr(self, f"_{event.what}")(event)

    def longest_until_free(self) -> float:
        """From each stop until the lease of that cluster was first another's or nobody's."""
        return max((self._until_free(*one) for one in self._stopped), default=0.0)

    def _until_free(self, at: float, cluster: str, holder: str) -> float:
        later = [
            one for one in self._world.account.leases if one["pk"] == f"cluster#{cluster}" and one["at"] > at
        ]
        freed = next((one["at"] for one in later if one["run_id"] != holder), None)
        return 0.0 if holder == "-" else (self._world.time.seconds if freed is None else freed) - at

    def _begin(self, event: Event) -> None:
        workflow, load, given = STARTS[event.what]
        self._world.load(*load, event.cluster)
        self._world.start(workflow, event.cluster, **(given or {"count": 1 if event.number % 4 else 2}))

    def _stop(self, event: Event) -> None:
        """Of the whole run, or of one member of a batch: then the run goes on."""
        children = ("add_replica", "remove_replica")
        members = [one for one in self._running(event, children) if event.number % 3 == 0]
        if members:
            self._world.workflows.stop(members[event.number % len(members)], "Stopped", "by a person")
        else:
            self._stop_one(event, ("scale_out", "scale_in"))

    def _stop_undo(self, event: Event) -> None:
        self._stop_one(event, ("roll_back",))

    def _stop_one(self, event: Event, workflows: tuple[str, ...]) -> None:
        mine = self._running(event, workflows)
        if not mine:
            return
        lease = self._world.account.table.get(f"cluster#{event.cluster}", {}).get("lease", {})
        self._stopped.append((self._world.time.seconds, event.cluster, str(lease.get("run_id", "-"))))
        self._world.stop(mine[event.number % len(mine)])

    def _running(self, event: Event, workflows: tuple[str, ...]) -> list[Execution]:
        running = [
            one for one in self._world.workflows.executions if one.running and one.workflow in workflows
        ]
        return [one for one in running if event.cluster in one.input]

    def _deregister(self, event: Event) -> None:
        for instance_id in self._peak(event):
            self._world.endpoint.deregister(self._world.clusters.settings(event.cluster), instance_id)

    def _restart_in_command(self, event: Event) -> None:
        outside.restart_in_command(self._world, event.cluster)

    def _delete_volume(self, event: Event) -> None:
        """As somebody who clears up what is attached nowhere, and detached it for that."""
        for instance_id in self._peak(event):
            lost = outside.detach(self._world, instance_id)
            if lost is not None:
                self._world.storage.delete_volume(lost)

    def _delete_snapshot(self, event: Event) -> None:
        """As somebody's own rule for old snapshots."""
        outside.delete_snapshot(self._world, event.cluster, event.number)

    def _fail_over(self, event: Event) -> None:
        ways = (outside.fail_over_to_standby, outside.fail_over_to_base)
        ways[event.number % 2](self._world, event.cluster)

    def _outage(self, event: Event) -> None:
        text = "down on purpose"
        error = Throttled(text) if event.number % 2 else AwsUnavailable(text)
        down = Down(list(SERVICES.values())[event.number % len(SERVICES)], error)
        self._down.append((self._world.time.seconds + 60.0 + event.number % 420, down))

    def _full_zone(self, event: Event) -> None:
        zone = ("us-east-1a", "us-east-1b")[event.number % 2]
        self._world.account.full_zones.add(zone)
        self._world.time.after(
            60.0 * (event.number % 60), lambda: self._world.account.full_zones.discard(zone)
        )

    def _deploy(self, event: Event) -> None:
        by_name = self._world.clusters.by_name
        by_name[event.cluster] = changed(by_name[event.cluster], CHANGES[event.number % len(CHANGES)])

    def _deploy_workflows(self, event: Event) -> None:
        """What runs goes on in the version that it began in."""
        machines = self._world.workflows.machines
        self._world.workflows.machines = {name: next_version(one) for name, one in machines.items()}

    def _sweep_twice(self, event: Event) -> None:
        for seconds in (0.0, event.number % 40):
            self._world.time.after(seconds, self._sweep)

    def _sweep(self) -> None:
        for cluster in self._world.clusters.names():
            self._world.functions.invoke(None, "", SWEEP, {"cluster": cluster})

    def _sweep_silent(self, event: Event) -> None:
        self._silent_until = self._world.time.seconds + 60.0 * (event.number % 20)

    def _peak(self, event: Event) -> list[str]:
        """The peak replica that it happens to; none while there is none."""
        peaks = outside.peaks(self._world, event.cluster)
        return [peaks[event.number % len(peaks)]] if peaks else []

    def _delivered(self) -> tuple[float, ...]:
        seconds = self._world.random.uniform(0.5, 8)
        if not self._deliveries:
            return (seconds,)
        event = self._deliveries.pop(0)
        return () if event.what == "lost_event" else (seconds, seconds + event.number % 300)

    def _interfere(self, invocation: Invocation) -> Interference | None:
        now = self._world.time.seconds
        if invocation.function == SWEEP:
            if now < self._silent_until:
                return DiesBefore(at=0)
            due = self._of_sweeps
        else:
            due = self._due.get(str(invocation.payload.get("cluster")), [])
        down = [one for until, one in self._down if now < until]
        return self._fault(due.pop(0)) if due else (down[-1] if down else None)

    def _fault(self, event: Event) -> Interference:
        call, text = event.number % 6, "on purpose"
        match event.what.removeprefix("sweep_"):
            case "throttled":
                return Raises(at=call, error=Throttled(text))
            case "unavailable":
                return Raises(at=call, error=AwsUnavailable(text))
            case "refused":
                return Raises(at=call, error=AwsCallRejected(text))
            case "lost":
                return LosesAnswer(at=call, error=AwsUnavailable(text))
            case "crash":
                return DiesBefore(at=call)
            case "crash_after":
                return DiesAfter(at=call)
            case "crash_at_end":
                return DiesAtTheEnd()
            case _:
                unheard = "Lambda.SdkClientException" if event.what == "late_unheard" else None
                late = 5.0 + event.number % 50
                return LandsLate(at=call, functions=self._world.functions, seconds=late, error=unheard)


def changed(rules: ClusterSettings, change: Mapping[str, Mapping[str, Any]]) -> ClusterSettings:
    """The settings with these fields of these parts."""
    parts = {name: getattr(rules, name).model_copy(update=dict(fields)) for name, fields in change.items()}
    return rules.model_copy(update=parts)
