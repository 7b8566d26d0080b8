"""Each method of an adapter that takes more than one call to AWS, or writes: beside itself and beside its rivals.

What both calls answer, and the account after them, must be as if one had come after the other, in either order; and a
call that died or lost its answer must bring the same, made again, as one that was not disturbed. What the workflows try
again is tried again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import InstanceSpec, VolumeSpec
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import Holder, Placement, ResourceKind, ResourceState, RunRow
from peaker.domain.storage.snapshot_sets import SnapshotSet

from peaker_contract.names import CLUSTER_TAG, LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.explorer.account import TABLE
from sim.explorer.orders import Turns, described, drawn, explore
from sim.explorer.states import difference, plain, state_now
from sim.explorer.steps import Finding, is_tried_again
from sim.explorer.strands import KINDS, Fault, Made, Outcome, Turn, in_child, outcome_of, run
from sim.explorer.world import ExploredWorld, explored_settings
from sim.world import by_name

HOUR = timedelta(hours=1)
RUN, MEMBER = "run-1", "run-1-m1"


@dataclass
class Ground:
    """A run that holds the lease of `orders`, with an instance, a volume and a snapshot; another instance warms."""

    world: ExploredWorld
    holder: Holder = field(init=False)
    replica: str = field(init=False)
    warming: str = field(init=False)
    volume: str = field(init=False)
    snapshot: str = field(init=False)

    def __post_init__(self) -> None:
        ports, now = self.world.ports, self.now
        self.ports, self.settings = ports, self.world.clusters.settings("orders")
        self.records = DynamoForecastRecords(self.world.aws.client("dynamodb"), TABLE, ports.ledger)
        of_cluster = ports.compute.instances_of_cluster("orders")
        self.base = next(one.instance_id for one in of_cluster if one.tags.get(LOAD_TAG) == "base")
        volumes = ports.storage.volumes_of_instance(self.base)
        self.volume_of_base = next(one.volume_id for one in volumes if one.name == "data")
        self.holder = ports.lease.acquire("orders", RUN, "scale_out", now, now + HOUR)
        for run_id in (RUN, MEMBER):
            held = self.holder if run_id == RUN else self.member
            ports.ledger.open_run(held, RunRow(run_id, "orders", "scale_out", now, self.request))
        self.replica = ports.compute.launch(self.spec, "made-before").instance_id
        warms = replace(self.spec, tags={**self.tags, RUN_TAG: "run-0"})
        self.warming = ports.compute.launch(warms, "warms").instance_id
        ports.endpoint.register(self.settings, self.warming)
        self.volume = ports.storage.create_volume(self.volume_spec, "made-before").volume_id
        made = ports.storage.create_snapshots(self.base, [self.volume_of_base], self.tags)
        self.snapshot = made[0].snapshot_id
        for name in (self.replica, self.base):
            ports.ledger.set_replica(self.holder, self.row(name, ReplicaState.IN_SERVICE))
        ports.ledger.intend(self.holder, ResourceKind.VOLUME, "data", "CreateVolumes", now, {})
        self.world.workflows.start("scale_out", {"cluster": "orders"}, "before")

    @property
    def now(self) -> Any:
        return self.world.time.now()

    @property
    def request(self) -> ExecutionInput:
        return ExecutionInput(cluster="orders")

    @property
    def member(self) -> Holder:
        return Holder("orders", MEMBER, self.holder.fencing_token, RUN, 0)

    @property
    def tags(self) -> dict[str, str]:
        return {RUN_TAG: RUN, OWNER_TAG: "local", CLUSTER_TAG: "orders"}

    @property
    def spec(self) -> InstanceSpec:
        one = self.settings
        subnet = one.subnets["us-east-1a"]
        return InstanceSpec(one.image_id, "r6i.large", subnet, tuple(one.security_group_ids), None, self.tags)

    @property
    def volume_spec(self) -> VolumeSpec:
        return VolumeSpec(None, "us-east-1a", 4, "gp3", 3000, 125, None, self.tags)

    @property
    def sent(self) -> Any:
        return self.ports.commands.send(
            "report_work", self.replica, {"Command": "drain_replica"}, "a comment"
        )

    def row(self, instance_id: str, state: ReplicaState) -> ReplicaRow:
        return ReplicaRow("orders", instance_id, RUN, state, self.now)

    def resource(self) -> Any:
        return self.ports.ledger.intend(
            self.holder, ResourceKind.SNAPSHOT, "data", "CreateSnapshots", self.now, {}
        )

    @property
    def kept(self) -> SnapshotSet:
        return SnapshotSet(
            "orders", RUN, self.base, self.now, {"data": self.snapshot}, {"data": self.volume_of_base}
        )


def _settle(zone: str) -> Callable[[Ground], Any]:
    return lambda one: one.ports.ledger.settle_first(one.holder, Placement(zone=zone))


def _acquire(run_id: str, *, fence: bool = False) -> Callable[[Ground], Any]:
    return lambda one: one.ports.lease.acquire(
        "orders", run_id, "scale_in", one.now, one.now + HOUR, fence=fence, after=one.holder
    )


def _checked(low: int, seconds: float) -> Callable[[Ground], Any]:
    state = CheckState(low_checks=low, checked_seconds=seconds)
    return lambda one: one.records.save_check_state("orders", state)


# By method; a word after it tells two of one method apart.
CALLS: Mapping[str, Callable[[Ground], Any]] = {
    "DynamoDbLease.acquire": _acquire("run-2"),
    "DynamoDbLease.acquire other": _acquire("run-3"),
    "DynamoDbLease.acquire fenced": _acquire(RUN, fence=True),
    "DynamoDbLease.release": lambda one: one.ports.lease.release(one.holder, one.now),
    "DynamoDbLease.current": lambda one: one.ports.lease.current("orders", one.now),
    "DynamoDbLedger.require_lease": lambda one: one.ports.ledger.require_lease(one.member),
    "DynamoDbLedger.fence_member": lambda one: one.ports.ledger.fence_member(one.member, one.now),
    "DynamoDbLedger.open_run": lambda one: one.ports.ledger.open_run(
        one.holder, RunRow("run-9", "orders", "scale_in", one.now, one.request)
    ),
    "DynamoDbLedger.unfinished_runs": lambda one: len(one.ports.ledger.unfinished_runs("orders")),
    "DynamoDbLedger.settle": lambda one: one.ports.ledger.settle(one.member, Placement(zone="c")),
    "DynamoDbLedger.settle_first": _settle("a"),
    "DynamoDbLedger.settle_first other": _settle("b"),
    "DynamoDbLedger.close_run": lambda one: one.ports.ledger.close_run(one.holder, "succeeded", one.now),
    "DynamoDbLedger.start_step": lambda one: one.ports.ledger.start_step(
        one.holder, "AttachVolumes", one.now, one.now + HOUR
    ),
    "DynamoDbLedger.finish_step": lambda one: one.ports.ledger.finish_step(
        one.holder, "AttachVolumes", one.now, {"volumes": 2}
    ),
    "DynamoDbLedger.intend": lambda one: one.resource(),
    "DynamoDbLedger.intend other": lambda one: one.ports.ledger.intend(
        one.holder, ResourceKind.SNAPSHOT, "log", "CreateSnapshots", one.now, {}
    ),
    "DynamoDbLedger.claim": lambda one: one.ports.ledger.claim(one.holder, "call", one.now, one.now + HOUR),
    "DynamoDbLedger.made": lambda one: one.ports.ledger.made(
        one.holder, one.resource(), one.snapshot, one.now
    ),
    "DynamoDbLedger.mark": lambda one: one.ports.ledger.mark(
        one.holder, RUN, one.ports.ledger.resources(RUN)[0], ResourceState.UNDONE
    ),
    "DynamoDbLedger.add_replica": lambda one: one.ports.ledger.add_replica(
        one.holder, one.row("i-00000000000000001", ReplicaState.BUILDING)
    ),
    "DynamoDbLedger.set_replica": lambda one: one.ports.ledger.set_replica(
        one.holder, one.row("i-00000000000000001", ReplicaState.IN_SERVICE)
    ),
    "DynamoDbLedger.begin_exit": lambda one: one.ports.ledger.begin_exit(
        one.holder, one.row(one.replica, ReplicaState.DRAINING), [one.base]
    ),
    "DynamoDbLedger.begin_exit other": lambda one: one.ports.ledger.begin_exit(
        one.holder, one.row(one.base, ReplicaState.DRAINING), [one.replica]
    ),
    "DynamoDbLedger.keep_snapshots": lambda one: one.ports.ledger.keep_snapshots(one.holder, one.kept),
    "DynamoDbLedger.forget_snapshots": lambda one: one.ports.ledger.forget_snapshots(
        one.holder, one.kept, one.now
    ),
    "DynamoDbLedger.save_receipt": lambda one: one.ports.ledger.save_receipt(one.holder, {"a": 1}),
    "DynamoForecastRecords.save_check_state": _checked(1, 900.0),
    "DynamoForecastRecords.save_check_state late": _checked(2, 600.0),
    "DynamoForecastRecords.save_issued": lambda one: one.records.save_issued(
        "orders", IssuedForecast(900.0, 1800.0, 1.0, 2.0, 2)
    ),
    "DynamoForecastRecords.save_report": lambda one: one.records.save_report("orders", {"reason": "a"}),
    "DynamoForecastRecords.past_steps": lambda one: one.records.past_steps("orders"),
    "Ec2Compute.launch": lambda one: one.ports.compute.launch(one.spec, "launched").instance_id,
    "Ec2Compute.stop": lambda one: one.ports.compute.stop(one.replica),
    "Ec2Compute.start": lambda one: one.ports.compute.start(one.replica),
    "Ec2Compute.terminate": lambda one: one.ports.compute.terminate(one.replica),
    "Ec2Storage.create_snapshots": lambda one: len(
        one.ports.storage.create_snapshots(one.base, [one.volume_of_base], one.tags)
    ),
    "Ec2Storage.name_snapshot": lambda one: one.ports.storage.name_snapshot(one.snapshot, "data"),
    "Ec2Storage.delete_snapshot": lambda one: one.ports.storage.delete_snapshot(one.snapshot),
    "Ec2Storage.create_volume": lambda one: one.ports.storage.create_volume(one.volume_spec, "v").volume_id,
    "Ec2Storage.attach": lambda one: one.ports.storage.attach(one.volume, one.replica, "/dev/sdf"),
    "Ec2Storage.attach other": lambda one: one.ports.storage.attach(one.volume, one.base, "/dev/sdh"),
    "Ec2Storage.delete_volume": lambda one: one.ports.storage.delete_volume(one.volume),
    "ReadEndpointByKind.register": lambda one: one.ports.endpoint.register(one.settings, one.replica),
    "ReadEndpointByKind.promote": lambda one: one.ports.endpoint.promote(one.settings, one.warming),
    "ReadEndpointByKind.deregister": lambda one: one.ports.endpoint.deregister(one.settings, one.warming),
    "ReadEndpointByKind.set_share": lambda one: one.ports.endpoint.set_share(one.settings, 0.3),
    "ReadEndpointByKind.set_share other": lambda one: one.ports.endpoint.set_share(one.settings, 0.6),
    "SsmCommands.send": lambda one: one.sent,
    "SsmCommands.find": lambda one: one.ports.commands.find(one.replica, "a comment", one.now),
    "StepFunctionsExecutions.start_scale_out": lambda one: one.ports.executions.start_scale_out(
        "by-name", {"cluster": "orders"}
    ),
    "StepFunctionsExecutions.being_rolled_back": lambda one: one.ports.executions.being_rolled_back(),
}
# One call to AWS, which does what AWS makes of it; or readers that take what they find.
ONE_CALL: Mapping[str, frozenset[str]] = {
    "AwsPriceList": frozenset({"quote"}),
    "AwsServiceQuotas": frozenset({"value"}),
    "CloudWatchLoadHistory": frozenset({"points", "metric_points", "events"}),
    "CloudWatchMetricPublisher": frozenset({"publish"}),
    "CloudWatchReadings": frozenset({"load", "load_points", "published", "lag_seconds", "reads_per_second"}),
    "DynamoDbLedger": frozenset(
        {"member_token", "run", "steps", "resources", "replicas", "snapshot_sets", "receipt"}
    ),
    "DynamoForecastRecords": frozenset({"check_state", "issued", "report"}),
    "EbsSnapshotBlocks": frozenset({"held"}),
    "Ec2Compute": frozenset(
        {
            *("instances_of_cluster", "instances_of_environment", "instances_of_run", "instance"),
            *(
                "on_demand_instances",
                "default_vcpus",
                "ebs_promise",
                "image_devices",
                "image_keys",
                "platform",
            ),
            "capacity_reservations",
        }
    ),
    "Ec2Storage": frozenset(
        {
            *("volumes_of_instance", "volumes_of_run", "volumes_of_environment", "volumes_of_type"),
            *("snapshots_of_run", "snapshots_of_environment", "snapshots_of_volumes"),
        }
    ),
    "KmsVolumeKeys": frozenset({"why_not_usable"}),
    "ParameterClusters": frozenset({"settings", "names"}),
    "ParameterPrices": frozenset({"read", "write"}),
    "ReadEndpointByKind": frozenset({"health", "warming_health", "read_shares"}),
    "S3HostPackage": frozenset({"sha256", "download_url"}),
    "S3RunFiles": frozenset({"publish"}),
    "SnsOperators": frozenset({"tell"}),
    "SsmCommands": frozenset({"agent", "outcome", "cancel"}),
    "StepFunctionsExecutions": frozenset({"that_began"}),
}
# Through which methods these are explored: the table's by the ledger's, an endpoint's by that of both kinds.
INSIDE = frozenset({"LedgerTable", "ElbReadEndpoint", "Route53ReadEndpoint", "ReplicaHealthChecks"})
# (the first, those beside it); each is also beside itself.
RIVALS: Mapping[str, Sequence[str]] = {
    "DynamoDbLease.acquire": (
        "DynamoDbLease.acquire other",
        "DynamoDbLease.release",
        "DynamoDbLease.current",
    ),
    "DynamoDbLease.acquire fenced": (
        "DynamoDbLease.release",
        "DynamoDbLedger.close_run",
        "DynamoDbLedger.intend",
    ),
    "DynamoDbLedger.fence_member": ("DynamoDbLedger.settle", "DynamoDbLedger.require_lease"),
    "DynamoDbLedger.close_run": (
        *("DynamoDbLedger.unfinished_runs", "DynamoDbLedger.save_receipt"),
        *("DynamoDbLedger.open_run", "DynamoForecastRecords.past_steps", "DynamoDbLedger.settle_first"),
    ),
    "DynamoDbLedger.settle_first": ("DynamoDbLedger.settle_first other",),
    "DynamoDbLedger.start_step": ("DynamoDbLedger.finish_step",),
    "DynamoDbLedger.intend": ("DynamoDbLedger.intend other", "DynamoDbLedger.mark"),
    "DynamoDbLedger.add_replica": ("DynamoDbLedger.set_replica",),
    "DynamoDbLedger.begin_exit": ("DynamoDbLedger.begin_exit other",),
    "DynamoDbLedger.keep_snapshots": ("DynamoDbLedger.forget_snapshots",),
    "DynamoForecastRecords.save_check_state": ("DynamoForecastRecords.save_check_state late",),
    "Ec2Compute.start": ("Ec2Compute.stop", "Ec2Compute.terminate"),
    "Ec2Storage.attach": ("Ec2Storage.attach other", "Ec2Storage.delete_volume", "Ec2Compute.terminate"),
    "Ec2Storage.create_snapshots": ("Ec2Storage.delete_snapshot",),
    "ReadEndpointByKind.set_share": (
        *("ReadEndpointByKind.set_share other", "ReadEndpointByKind.promote"),
        *("ReadEndpointByKind.register", "ReadEndpointByKind.deregister"),
    ),
    "ReadEndpointByKind.promote": ("ReadEndpointByKind.register",),
    "SsmCommands.find": ("SsmCommands.send",),
}
# Made again it is done again: whoever calls it looks first (I10).
NOT_AGAIN = frozenset({"Ec2Storage.create_snapshots", "SsmCommands.send", "DynamoDbLedger.fence_member"})
METHODS = frozenset(name.split(" ")[0] for name in CALLS)


def pairs() -> Iterator[tuple[str, str]]:
    """Every method beside itself, and beside its rivals."""
    yield from ((name, name) for name in CALLS)
    yield from ((name, rival) for name, rivals in RIVALS.items() for rival in rivals)


def explore_methods(chance: random.Random | None = None, few: int = 3) -> tuple[int, list[Finding]]:
    """Returns the number of orders and what is wrong."""
    orders, findings = 0, []
    for endpoint in ({}, {"read_endpoint": by_name()}):
        with ExploredWorld.opened():
            ground = Ground(ExploredWorld(7, explored_settings(**endpoint)))
            with ground.world.at_work():
                for first, second in pairs():
                    if not endpoint or first.startswith("ReadEndpoint"):
                        pair = _Pair(ground, first, second)
                        orders += pair.explore(chance, few)
                        findings += pair.findings
    return orders, findings


Answers = tuple[str, ...]
_Seen = tuple[Answers, tuple[str, ...]]


class _Pair:
    def __init__(self, ground: Ground, first: str, second: str) -> None:
        self.findings: list[Finding] = []
        self._ground = ground
        self._names = (first, second)
        self._in_turn: list[_Seen] = []

    def explore(self, chance: random.Random | None, few: int) -> int:
        self._in_turn = [in_child(lambda: self._trial((Turn(one), Turn(1 - one))))[0] for one in (0, 1)]  # noqa: B023
        tried = 0

        def one(turns: Turns) -> list[Made]:
            seen, made = in_child(lambda: self._trial(turns))
            self._judge(seen, described(turns))
            return made

        for first in (0, 1) if self._names[0] != self._names[1] else (0,):
            orders = explore(one, first)
            if chance is not None:
                orders = ((turns, bool(one(turns))) for turns in drawn(first, 4, few, chance))
            tried += sum(1 for _ in orders)
        if self._names[0] == self._names[1] and self._names[0].split(" ")[0] not in NOT_AGAIN:
            self._disturbed(chance)
        return tried

    def _disturbed(self, chance: random.Random | None) -> None:
        """Alone: it dies or loses its answer at each of its calls, and is made again."""
        seen, made = in_child(lambda: self._trial((Turn(0),), alone=True))
        writes = [number for number, call in enumerate(made) if call.access.changes]
        faults = [Fault(number, kind) for number in writes for kind in KINDS]
        if chance is not None and faults:
            faults = [chance.choice(faults)]
        for fault in faults:
            again, _ = in_child(lambda: self._trial((Turn(0),), fault, alone=True))  # noqa: B023
            if again != seen:
                self._found(f"{fault.kind} {fault.call}", seen, again)

    def _trial(
        self, turns: Turns, fault: Fault | None = None, *, alone: bool = False
    ) -> tuple[_Seen, list[Made]]:
        bodies = [lambda name=name: CALLS[name](self._ground) for name in self._names[: 1 if alone else 2]]
        outcomes, made = run(bodies, turns, fault)
        for number, outcome in enumerate(outcomes):
            if alone or is_tried_again(outcome.error):
                outcomes[number] = outcome_of(bodies[number])
        answers = tuple(_told(one) for one in outcomes)
        return (answers, state_now()), made

    def _judge(self, seen: _Seen, how: str) -> None:
        if seen not in self._in_turn:
            self._found(how, self._in_turn[0], seen)

    def _found(self, how: str, wanted: _Seen, seen: _Seen) -> None:
        wrong = difference(wanted[1], seen[1])
        kind = "row" if wrong else "refusal"
        text = f"answers {seen[0]} instead of {wanted[0]}; {'; '.join(wrong)}"
        self.findings.append(Finding(kind, " and ".join(self._names), how, text))


def _told(outcome: Outcome) -> str:
    return plain(repr(replace(outcome, text="").told))
