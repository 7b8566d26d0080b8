"""An environment in the hostile cloud: its workflows, functions, schedules and events, and clusters that serve."""

from __future__ import annotations

import importlib
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.step_functions_executions import StepFunctionsExecutions
from peaker.ports.bundle import Ports
from peaker.runtime import telemetry, wiring

from lab.application_load import APPLICATION_LOAD
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.cluster import ClusterSettings
from peaker_contract.metrics import Metric
from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, ROLE_TAG, RUN_TAG, VOLUME_TAG
from sim import others
from sim.account import Account, Record, attachment, change, target
from sim.ebs import HostileStorage
from sim.ec2 import HostileCompute
from sim.endpoint import SERVING, WARMING, HostileEndpoint
from sim.ssm import HostileCommands
from sim.table import MemoryTable
from sim.workflows.executions import Execution
from sim.workflows.functions import Body, Functions
from sim.workflows.step_functions import ARN, StepFunctions, StepFunctionsClient
from sim.workflows.virtual_time import VirtualTime
from statemachines.expansion import expand, workflow_names

ENVIRONMENT = "local"
ROOT = Path(__file__).resolve().parents[1]
PREFIX = f"{ARN}:stateMachine:peaker-{ENVIRONMENT}-"
# Of each cluster's own rules; tests/infrastructure compares them.
SCHEDULES_OF_CLUSTERS: Mapping[str, float] = {"sweep_orphans": 180.0, "maintain_snapshots": 3600.0}
# Whose ends start roll_back, and which ends do.
ROLLED_BACK = ("scale_out", "scale_in")
ROLLING_BACK = ("ABORTED", "FAILED", "TIMED_OUT")
PORTS = tuple(
    one.name for one in fields(Ports) if one.name not in ("environment", "clock", "history", "metrics")
)
# What changes AWS, or tells people of what does; and what changes only the ledger's table.
EFFECTS = frozenset({
    "compute.launch", "compute.stop", "compute.start", "compute.terminate",
    "storage.create_snapshots",
    "storage.name_snapshot", "storage.delete_snapshot", "storage.create_volume", "storage.attach",
    "storage.delete_volume", "commands.send", "commands.cancel", "endpoint.register", "endpoint.promote",
    "endpoint.deregister", "endpoint.set_share", "run_files.publish", "operators.tell",
    "executions.start_scale_out",
})  # fmt: skip
# The adapter raises nothing: an event that is lost ends no run.
NEVER_RAISE = frozenset({"events.put"})
# After these the log says who still serves.
REMOVALS = frozenset({"endpoint.deregister", "compute.stop", "compute.terminate"})
WRITES = frozenset({
    "lease.acquire", "lease.release", "ledger.open_run", "ledger.settle", "ledger.close_run", "ledger.start_step",
    "ledger.finish_step", "ledger.intend", "ledger.made", "ledger.mark", "ledger.set_replica",
    "ledger.add_replica", "ledger.claim", "ledger.keep_snapshots",
    "ledger.forget_snapshots", "ledger.save_receipt", "ledger.settle_first", "ledger.fence_member", "ledger.begin_exit",
})  # fmt: skip

# What only reads, whichever port or adapter has it; of a parameter and of the forecast's rows the last write counts.
READS = frozenset({
    "settings", "names", "instances_of_cluster", "instances_of_environment", "instances_of_run", "instance",
    "ebs_promise", "image_keys", "image_devices", "platform", "capacity_reservations", "on_demand_instances",
    "default_vcpus", "volumes_of_instance", "volumes_of_run", "volumes_of_environment", "volumes_of_type",
    "snapshots_of_run", "snapshots_of_environment", "snapshots_of_volumes", "agent", "find", "outcome", "health",
    "warming_health", "read_shares", "sha256", "download_url", "held", "current", "run", "steps",
    "resources", "replicas", "snapshot_sets", "receipt", "load", "load_points", "published", "lag_seconds",
    "published_points",
    "reads_per_second", "why_not_usable", "past_steps", "that_began", "being_rolled_back", "quote", "read", "write",
    "require_lease", "unfinished_runs", "member_token", "value", "points", "metric_points", "events",
    "check_state", "issued", "report", "save_check_state", "save_issued", "save_report",
})  # fmt: skip
METHODS = READS.union(one.split(".")[1] for one in EFFECTS | WRITES)


@cache
def machines() -> dict[str, Any]:
    """The workflows as they are deployed."""
    return {name: expand(name) for name in workflow_names()}


@cache
def _local_cluster() -> dict[str, Any]:
    environment = yaml.safe_load((ROOT / "environments" / "local.yaml").read_text(encoding="utf-8"))
    return dict(environment["clusters"][0])


def settings(name: str = "orders", **changes: Any) -> ClusterSettings:
    """The local environment's cluster under this name; `changes` go over it."""
    block = {**_local_cluster(), **APPLICATION_LOAD, "name": name, "capacity_per_replica": 100.0}
    block["region"] = "us-east-1"
    arns = {
        key: f"arn:{name}:{key}" for key in ("target_group_arn", "warming_target_group_arn", "listener_arn")
    }
    block |= {"environment": ENVIRONMENT, "read_endpoint": {**block["read_endpoint"], **arns}}
    block["ramp"] = {**block["ramp"], "shares": [0.5, 1.0], "step_seconds": 60}
    block["drain"] = {"limit_seconds": 28_800, "allow_forced": False}
    block["retirement"] = {"idle_seconds": 60, "park": "never"}
    return ClusterSettings.model_validate({**block, **changes})


def by_name(name: str = "orders") -> dict[str, Any]:
    """The settings of a read endpoint that is a DNS name."""
    zone = {"hosted_zone_id": "Z0123456789ABCDEFGHIJ", "record_name": f"reads.{name}.example"}
    return {"kind": "route53", "port": 3306, "health_port": 9200, **zone, "ttl_seconds": 30}


class Traced:
    """A port whose calls go through the function that makes them."""

    def __init__(self, name: str, port: Any, world: World) -> None:
        vars(self).update(_name=name, _port=port, _world=world)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._port, name, value)

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if method not in METHODS or not callable(found):
            return found  # what a scenario plants behind the port
        call = f"{self._name}.{method}"

        def traced(*given: Any, **named: Any) -> Any:
            return self._world.functions.called(call, lambda: self._do(call, found, given, named), given)

        return traced

    def _do(self, call: str, found: Callable[..., Any], given: Any, named: Any) -> Any:
        result = found(*given, **named)
        if call in EFFECTS:
            self._world.log(call, given)
        return result


class World:
    """One environment, whatever its clusters. Everything that is left to chance comes from `seed`, or from `chance`.

    An `empty` one has no instances and no schedules.
    """

    def __init__(
        self, seed: int, *clusters: ClusterSettings, chance: random.Random | None = None, empty: bool = False
    ) -> None:
        self.seed = seed
        self.time = VirtualTime()
        self.account = Account()
        self.random = chance or random.Random(seed)
        self.stops: list[float] = []
        self.functions = Functions(self.time, self.random, _body, _limit)
        self.workflows = StepFunctions(machines(), self.time, self.random, self.functions, PREFIX)
        self.workflows.on_end.append(self._ended)
        # How often the event of an execution's end comes: 0, 1 or 2 times, each so many seconds later.
        self.deliveries: Callable[[Execution], tuple[float, ...]] = lambda _: (self.random.uniform(0.5, 8),)
        self.ports = self._ports(clusters or (settings(),))
        if empty:
            return
        for name, period in SCHEDULES_OF_CLUSTERS.items():
            for cluster in self.clusters.names():
                self._schedule(name, period, self.random.uniform(0, period), {"cluster": cluster})
        for one in self.clusters.by_name.values():
            self._serves(one)

    # -- what a scenario does --------------------------------------------------------------------------------

    def start(self, workflow: str, cluster: str = "orders", **request: Any) -> Execution:
        """As a person presses Start execution."""
        return self.workflows.start(workflow, {"cluster": cluster, **request})

    def stop(self, execution: Execution) -> None:
        """As a person presses Stop execution."""
        if execution.running:
            self.stops.append(self.time.seconds)
        self.workflows.stop(execution, "Stopped", "by a person")

    def run_for(self, seconds: float) -> None:
        """Let so much cloud time pass."""
        with self.at_work():
            self.time.run(self.time.seconds + seconds)

    def finish(self, execution: Execution, limit_seconds: float = 48 * 3600.0) -> Execution:
        """Let time pass until the execution has ended."""
        with self.at_work():
            self.time.run(self.time.seconds + limit_seconds, lambda: not execution.running)
        return execution

    def run(self, workflow: str, cluster: str = "orders", **request: Any) -> Execution:
        """Start and finish."""
        return self.finish(self.start(workflow, cluster, **request))

    def peak(self) -> str:
        """The replica that an earlier run made."""
        return next(key for key, one in self.account.instances.items() if RUN_TAG in one["tags"])

    def load(self, measured: float, required: float, surplus: float = 0.0, cluster: str = "orders") -> None:
        """What the load metric and the forecast say from now on."""
        self.readings.loads[cluster] = measured
        self.readings.metrics[cluster, Metric.REQUIRED_REPLICAS] = required
        self.readings.metrics[cluster, Metric.REPLICA_SURPLUS] = surplus

    def close(self) -> None:
        """End the functions that stand still; nothing of the world is left behind."""
        with self.at_work():
            self.functions.close()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The functions of this process belong to this world."""
        level = telemetry.logger.log_level
        telemetry.logger.setLevel(logging.CRITICAL)
        with (
            patch.object(wiring, "ports", lambda: self.ports),
            patch.object(telemetry, "emit", self._emit),
        ):
            try:
                yield
            finally:
                telemetry.logger.setLevel(level)

    # -- what it is made of ----------------------------------------------------------------------------------

    def log(self, call: str, given: Any) -> None:
        """Remember a call that had an effect, and who made it."""
        by = self.functions.current
        self.account.log.append(
            {
                "at": self.time.seconds,
                "call": call,
                "given": given,
                "serving": {name: self.endpoint.serving(name) for name in self.clusters.names()}
                if call in REMOVALS
                else {},
                "step": "" if by is None else by.state or by.function,
                "execution": "" if by is None or by.execution is None else by.execution.name,
            }
        )

    def _ports(self, clusters: tuple[ClusterSettings, ...]) -> Ports:
        self.clusters = others.Clusters(*clusters)
        self.readings = others.Readings()
        self.operators = others.Operators()
        self.events = others.Events()
        real: dict[str, Any] = {
            "clusters": self.clusters,
            "package": others.Package(),
            "snapshot_blocks": others.Blocks(),
            "run_files": others.RunFiles(),
            "readings": self.readings,
            "volume_keys": others.VolumeKeys(),
            "records": others.ForecastRecords(),
            "price_list": others.PriceList(),
            "stored_prices": others.StoredPrices(),
            "account_quotas": others.AccountQuotas(),
            "operators": self.operators,
            "events": self.events,
            **self._adapters(),
        }
        traced: dict[str, Any] = {name: Traced(name, real[name], self) for name in PORTS}
        clock = others.FunctionClock(self.time, self.functions)
        return Ports(ENVIRONMENT, clock, history=None, metrics=None, **traced)  # type: ignore[arg-type]

    def _adapters(self) -> dict[str, Any]:
        """The ports behind which AWS is."""
        zones = {
            subnet: zone for one in self.clusters.by_name.values() for zone, subnet in one.subnets.items()
        }
        table = self.table = MemoryTable(self.account, self.time)
        self.compute = HostileCompute(self.account, self.time, self.random, zones, ENVIRONMENT)
        self.storage = HostileStorage(self.account, self.time, self.random, ENVIRONMENT)
        self.commands = HostileCommands(self.account, self.time, self.random)
        self.endpoint = HostileEndpoint(self.account, self.time, self.random)
        return {
            "compute": self.compute,
            "storage": self.storage,
            "commands": self.commands,
            "endpoint": self.endpoint,
            "lease": DynamoDbLease(table),
            "ledger": DynamoDbLedger(table),
            "executions": StepFunctionsExecutions(StepFunctionsClient(self.workflows), PREFIX),  # type: ignore[arg-type]
        }

    def _serves(self, cluster: ClusterSettings) -> None:
        """A source and a base replica that has been there for long."""
        common = {CLUSTER_TAG: cluster.name, ENVIRONMENT_TAG: ENVIRONMENT}
        source = self.compute.made({**common, ROLE_TAG: "source"}, "us-east-1a", cluster.instance_type)
        base = self.compute.made(
            {**common, ROLE_TAG: "replica", LOAD_TAG: "base"}, "us-east-1b", cluster.instance_type
        )
        for record in (source, base):
            record["launched"] = record["shown"] = -86_400.0 * 9
            change(record, -86_400.0 * 9, (0, "pending"), (60, "running"))
            for what in ("up", "database", "package", "verified", "caught_up"):
                self.account.happened(record["id"], -86_400.0 * 8, what, True)
            self._data_volumes(record, cluster)
        self.account.sources[cluster.name] = [(-86_400.0 * 9, source["id"])]
        groups = self.account.targets.setdefault(cluster.name, {SERVING: {}, WARMING: {}})
        for group in groups.values():
            group[base["id"]] = target(-9.0, -8.0)

    def _data_volumes(self, instance: Record, cluster: ClusterSettings) -> None:
        for one in cluster.volumes:
            tags = {CLUSTER_TAG: cluster.name, VOLUME_TAG: one.name}
            made = self.storage.made(self.account.next_id("vol"), instance["zone"], 4, tags, None)
            made["shown"], made["history"] = -9.0, [(-9.0, "available")]
            made["attachments"] = [attachment(instance["id"], one.device, -9.0, -8.0)]
        for volume in self.account.volumes.values():
            if volume["attachments"] and volume["attachments"][0]["instance"] == instance["id"]:
                volume["shown"] = -9.0

    def _schedule(self, function: str, period: float, first: float, event: Mapping[str, str]) -> None:
        def look() -> None:
            self.functions.invoke(None, "", function, dict(event))
            self.time.after(period, look)

        self.time.after(first, look)

    def _ended(self, execution: Execution) -> None:
        if execution.workflow in ROLLED_BACK and execution.status in ROLLING_BACK:
            detail = self.workflows.detail(execution)
            for seconds in self.deliveries(execution):
                self.time.after(seconds, lambda: self.workflows.start("roll_back", detail))

    def _emit(self, cluster: str, values: Mapping[Metric, float]) -> None:
        named = {metric.value: value for metric, value in values.items()}
        self.account.metrics.append({"at": self.time.seconds, "cluster": cluster, **named})


_FUNCTIONS = {one.name: one for one in FUNCTIONS}


@cache
def _handler(function: str) -> tuple[Any, Callable[[dict[str, Any], None], Any]]:
    """Its module, and what Lambda calls in it."""
    module, name = _FUNCTIONS[function].handler.rsplit(".", 1)
    imported = importlib.import_module(module)
    return imported, getattr(imported, name)


def _body(function: str) -> Body:
    module, handler = _handler(function)
    if not hasattr(module, "ports"):
        return lambda event: handler(event, None)

    def handled(event: dict[str, Any]) -> Any:
        with patch.object(module, "ports", wiring.ports):  # imported by its name
            return handler(event, None)

    return handled


def _limit(function: str) -> float:
    return float(_FUNCTIONS[function].timeout_seconds)
