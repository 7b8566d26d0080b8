"""Each method of an adapter that takes more than one call to AWS, or writes: beside itself and beside its rivals.

What both calls answer, and the account after them, must be as if one had come after the other, in either order. What
the workflows try again is tried again. How a method dies or loses its answer, the steps that call it show.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import InstanceSpec, VolumeSpec
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import Holder, Placement, ResourceKind, ResourceState, RunRow
from peaker.domain.storage.snapshot_sets import SnapshotSet

from peaker_contract.names import CLUSTER_TAG, LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.explorer.accesses import Access
from sim.explorer.account import TABLE
from sim.explorer.orders import Turns, described, explore
from sim.explorer.states import difference, plain, state_now
from sim.explorer.steps import Finding, is_tried_again
from sim.explorer.strands import Made, in_child, outcome_of, run
from sim.explorer.world import ExploredWorld
from sim.world import by_name, settings

HOUR = timedelta(hours=1)
RUN, MEMBER = "run-1", "run-1-m1"
Calls = Mapping[str, Callable[[], Any]]


def calls_of(world: ExploredWorld) -> Calls:
    """The calls by method, a word after it tells two of one method apart; those of `somebody` are made by hand.

    A run holds the lease of `orders` and has an instance, a volume and a snapshot; another instance warms.
    """
    ports, cluster = world.ports, world.clusters.settings("orders")
    compute, storage, commands, endpoint = ports.compute, ports.storage, ports.commands, ports.endpoint
    lease, ledger, executions = ports.lease, ports.ledger, ports.executions
    records = DynamoForecastRecords(LedgerTable(world.aws.client("dynamodb"), TABLE), ledger)
    now, later = world.time.now(), world.time.now() + HOUR
    tags = {RUN_TAG: RUN, OWNER_TAG: "local", CLUSTER_TAG: "orders"}
    subnet, groups = cluster.subnets["us-east-1a"], tuple(cluster.security_group_ids)
    instance = InstanceSpec(cluster.image_id, "r6i.large", subnet, groups, None, tags)
    volume = VolumeSpec(None, "us-east-1a", 4, "gp3", 3000, 125, None, tags)
    held = lease.acquire("orders", RUN, "scale_out", now, later)
    member = Holder("orders", MEMBER, held.fencing_token, RUN, 0)
    request = ExecutionInput(cluster="orders")

    def opened(run_id: str, operation: str, holder: Holder = held) -> None:
        ledger.open_run(holder, RunRow(run_id, "orders", operation, now, request))

    def row(instance_id: str, state: ReplicaState) -> ReplicaRow:
        return ReplicaRow("orders", instance_id, RUN, state, now)

    def intended(kind: ResourceKind, name: str) -> Any:
        return ledger.intend(held, kind, name, "ItsStep", now, {})

    def begin_exit(leaves: str, stays: str) -> None:
        ledger.begin_exit(held, row(leaves, ReplicaState.DRAINING), [stays])

    def acquire(run_id: str, *, fence: bool = False) -> Holder:
        return lease.acquire("orders", run_id, "scale_in", now, later, fence=fence, after=held)

    def check_state(low_checks: int, seconds: float) -> None:
        records.save_check_state("orders", CheckState(low_checks=low_checks, checked_seconds=seconds))

    opened(RUN, "scale_out")
    opened(MEMBER, "scale_out", member)
    of_cluster = compute.instances_of_cluster("orders")
    base = next(one.instance_id for one in of_cluster if one.tags.get(LOAD_TAG) == "base")
    data = next(one.volume_id for one in storage.volumes_of_instance(base) if one.name == "data")
    replica = compute.launch(instance, "made-before").instance_id
    warming = compute.launch(replace(instance, tags={**tags, RUN_TAG: "run-0"}), "warms").instance_id
    endpoint.register(cluster, warming)
    made = storage.create_volume(volume, "made-before").volume_id
    snapshot = storage.create_snapshots(base, [data], tags)[0].snapshot_id
    kept = SnapshotSet("orders", RUN, base, now, {"data": snapshot}, {"data": data})
    for name in (replica, base):
        ledger.set_replica(held, row(name, ReplicaState.IN_SERVICE))
    intended(ResourceKind.VOLUME, "data")
    snapshot_row = intended(ResourceKind.SNAPSHOT, "made")
    world.workflows.start("scale_out", {"cluster": "orders"}, "before")
    new = "i-00000000000000001"
    return {
        "DynamoDbLease.acquire": lambda: acquire("run-2"),
        "DynamoDbLease.acquire other": lambda: acquire("run-3"),
        "DynamoDbLease.acquire fenced": lambda: acquire(RUN, fence=True),
        "DynamoDbLease.release": lambda: lease.release(held, now),
        "DynamoDbLease.current": lambda: lease.current("orders", now),
        "DynamoDbLedger.require_lease": lambda: ledger.require_lease(member),
        "DynamoDbLedger.fence_member": lambda: ledger.fence_member(member, now),
        "DynamoDbLedger.open_run": lambda: opened("run-9", "scale_in"),
        "DynamoDbLedger.unfinished_runs": lambda: len(ledger.unfinished_runs("orders")),
        "DynamoDbLedger.settle": lambda: ledger.settle(member, Placement(zone="c")),
        "DynamoDbLedger.settle_first": lambda: ledger.settle_first(held, Placement(zone="a")),
        "DynamoDbLedger.settle_first other": lambda: ledger.settle_first(held, Placement(zone="b")),
        "DynamoDbLedger.close_run": lambda: ledger.close_run(held, "succeeded", now),
        "DynamoDbLedger.start_step": lambda: ledger.start_step(held, "ItsStep", now, later),
        "DynamoDbLedger.finish_step": lambda: ledger.finish_step(held, "ItsStep", now, {"volumes": 2}),
        "DynamoDbLedger.intend": lambda: intended(ResourceKind.SNAPSHOT, "data"),
        "DynamoDbLedger.intend other": lambda: intended(ResourceKind.SNAPSHOT, "log"),
        "DynamoDbLedger.claim": lambda: ledger.claim(held, "call", now, later),
        "DynamoDbLedger.made": lambda: ledger.made(held, snapshot_row, snapshot, now),
        "DynamoDbLedger.mark": lambda: ledger.mark(held, RUN, ledger.resources(RUN)[0], ResourceState.UNDONE),
        "DynamoDbLedger.add_replica": lambda: ledger.add_replica(held, row(new, ReplicaState.BUILDING)),
        "DynamoDbLedger.set_replica": lambda: ledger.set_replica(held, row(new, ReplicaState.IN_SERVICE)),
        "DynamoDbLedger.begin_exit": lambda: begin_exit(replica, base),
        "DynamoDbLedger.begin_exit other": lambda: begin_exit(base, replica),
        "DynamoDbLedger.keep_snapshots": lambda: ledger.keep_snapshots(held, kept),
        "DynamoDbLedger.forget_snapshots": lambda: ledger.forget_snapshots(held, kept, now),
        "DynamoDbLedger.save_receipt": lambda: ledger.save_receipt(held, {"a": 1}),
        "DynamoForecastRecords.save_check_state": lambda: check_state(1, 900.0),
        "DynamoForecastRecords.save_check_state late": lambda: check_state(2, 600.0),
        "DynamoForecastRecords.save_issued": lambda: records.save_issued(
            "orders", IssuedForecast(900.0, 1800.0, 1.0, 2.0, 2)
        ),
        "DynamoForecastRecords.save_report": lambda: records.save_report("orders", {"reason": "a"}),
        "DynamoForecastRecords.past_steps": lambda: records.past_steps("orders"),
        "Ec2Compute.launch": lambda: compute.launch(instance, "launched").instance_id,
        "Ec2Compute.stop": lambda: compute.stop(replica),
        "Ec2Compute.start": lambda: compute.start(replica),
        "Ec2Compute.terminate": lambda: compute.terminate(replica),
        "Ec2Storage.create_snapshots": lambda: len(storage.create_snapshots(base, [data], tags)),
        "Ec2Storage.name_snapshot": lambda: storage.name_snapshot(snapshot, "data"),
        "Ec2Storage.delete_snapshot": lambda: storage.delete_snapshot(snapshot),
        "Ec2Storage.create_volume": lambda: storage.create_volume(volume, "v").volume_id,
        "Ec2Storage.attach": lambda: storage.attach(made, replica, "/dev/sdf"),
        "Ec2Storage.attach other": lambda: storage.attach(made, base, "/dev/sdh"),
        "Ec2Storage.delete_volume": lambda: storage.delete_volume(made),
        "ReadEndpointByKind.register": lambda: endpoint.register(cluster, replica),
        "ReadEndpointByKind.promote": lambda: endpoint.promote(cluster, warming),
        "ReadEndpointByKind.deregister": lambda: endpoint.deregister(cluster, warming),
        "ReadEndpointByKind.set_share": lambda: endpoint.set_share(cluster, 0.3),
        "ReadEndpointByKind.set_share other": lambda: endpoint.set_share(cluster, 0.6),
        "SsmCommands.send": lambda: commands.send("report_work", replica, {"Command": "drain_replica"}, "it"),
        "SsmCommands.find": lambda: commands.find(replica, "it", now),
        "StepFunctionsExecutions.start_scale_out": lambda: executions.start_scale_out(
            "by-name", {"cluster": "orders"}
        ),
        "StepFunctionsExecutions.being_rolled_back": lambda: executions.being_rolled_back(),
        **_by_hand(world, cluster.read_endpoint, warming),
    }


def _by_hand(world: ExploredWorld, read_endpoint: Any, replica: str) -> Calls:
    """What a person or another program does to the DNS records of a replica meanwhile."""
    if read_endpoint.kind != "route53":
        return {}
    route53, zone = world.aws.client("route53"), read_endpoint.hosted_zone_id
    listed = route53.list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
    record = next(one for one in listed if one.get("SetIdentifier") == replica)

    def change(action: str, **values: Any) -> None:
        one = {"Action": action, "ResourceRecordSet": {**record, **values}}
        route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch={"Changes": [one]})

    return {
        "somebody.takes out": lambda: change("UPSERT", Weight=0),
        "somebody.gives all": lambda: change("UPSERT", Weight=100),
        "somebody.removes": lambda: change("DELETE"),
    }


# One call to AWS, which does what AWS makes of it.
ONE_CALL = frozenset({"publish", "put", "tell", "cancel"})
# Through which methods these are explored: the table's by the ledger's, an endpoint's by that of both kinds.
INSIDE = frozenset({"LedgerTable", "ElbReadEndpoint", "Route53ReadEndpoint", "ReplicaHealthChecks"})
# Each method is beside itself; these are beside others of their class too, or of another one.
RIVALS: Mapping[str, str] = {
    "DynamoDbLease.acquire": "acquire other,release,current",
    "DynamoDbLease.acquire fenced": "release,DynamoDbLedger.close_run,DynamoDbLedger.intend",
    "DynamoDbLedger.fence_member": "settle,require_lease",
    "DynamoDbLedger.close_run": (
        "unfinished_runs,save_receipt,open_run,DynamoForecastRecords.past_steps,settle_first"
    ),
    "DynamoDbLedger.settle_first": "settle_first other",
    "DynamoDbLedger.start_step": "finish_step",
    "DynamoDbLedger.intend": "intend other,mark",
    "DynamoDbLedger.add_replica": "set_replica",
    "DynamoDbLedger.begin_exit": "begin_exit other",
    "DynamoDbLedger.keep_snapshots": "forget_snapshots",
    "DynamoForecastRecords.save_check_state": "save_check_state late",
    "Ec2Compute.start": "stop,terminate",
    "Ec2Storage.attach": "attach other,delete_volume,Ec2Compute.terminate",
    "Ec2Storage.create_snapshots": "delete_snapshot",
    "ReadEndpointByKind.set_share": "set_share other,promote,register,deregister,somebody.*",
    "ReadEndpointByKind.promote": "register,somebody.*",
    "ReadEndpointByKind.register": "somebody.*",
    "ReadEndpointByKind.deregister": "somebody.*",
    "SsmCommands.find": "send",
}


def pairs(calls: Calls) -> Iterator[tuple[str, str]]:
    """Every method beside itself, and beside its rivals."""
    yield from ((name, name) for name in calls if not name.startswith("somebody."))
    for name, rivals in RIVALS.items():
        for rival in rivals.split(","):
            found = rival if "." in rival else f"{name.split('.')[0]}.{rival}"
            yield from (
                (name, one)
                for one in calls
                if one == found or (found.endswith("*") and one.startswith(found[:-1]))
            )


class Tried(NamedTuple):
    """The methods, the orders that were run, and what is wrong."""

    methods: set[str]
    orders: int
    findings: list[Finding]


def explore_methods(
    names: Collection[tuple[str, str]] = (),
    meets: Callable[[Access, Collection[Access]], bool] = Access.meets,
) -> Tried:
    """Explore all pairs, or those of these names."""
    methods, orders, findings = set[str](), 0, list[Finding]()
    for by_dns in (False, True):
        with ExploredWorld.opened():
            world = ExploredWorld(7, settings(read_endpoint=by_name()) if by_dns else settings())
            with world.at_work():
                calls = calls_of(world)
                for both in pairs(calls):
                    if both in names or not (names or (by_dns and not both[0].startswith("ReadEndpoint"))):
                        pair = _Pair(calls, both)
                        orders += pair.explore(meets)
                        findings += pair.findings
                methods |= {name.split(" ")[0] for name in calls if not name.startswith("somebody.")}
    return Tried(methods, orders, findings)


# What the two calls answered, and the account after them.
_Seen = tuple[tuple[str, ...], tuple[str, ...]]


class _Pair:
    def __init__(self, calls: Calls, names: tuple[str, str]) -> None:
        self.findings: list[Finding] = []
        self._names = names
        self._bodies = [calls[name] for name in names]
        self._in_turn: list[_Seen] = []

    def explore(self, meets: Callable[[Access, Collection[Access]], bool]) -> int:
        alike = self._names[0] == self._names[1]

        def one(turns: Turns) -> list[Made]:
            seen, made = in_child(lambda: self._trial(turns))
            if len(turns) == 2:
                self._in_turn += [seen, *([(seen[0][::-1], seen[1])] if alike else [])]
                self._require_one_write([one.access for one in made if one.strand == turns[0].strand])
            elif seen not in self._in_turn:
                self._found(described(turns), self._in_turn[0], seen)
            return made

        return explore(one, alike, meets)

    def _require_one_write(self, made: Sequence[Access]) -> None:
        """A process that dies between two writes of the ledger leaves half of them."""
        writes = [one.operation for one in made if one.changes]
        if self._names[0].startswith("Dynamo") and len(writes) > 1:
            text = f"writes {len(writes)} times instead of once: {', '.join(writes)}"
            self.findings.append(Finding("row", self._names[0], "alone", text))

    def _trial(self, turns: Turns) -> tuple[_Seen, list[Made]]:
        outcomes, made = run(self._bodies, turns)
        for number, outcome in enumerate(outcomes):
            if is_tried_again(outcome.error):
                outcomes[number] = outcome_of(self._bodies[number])
        told = tuple(plain(repr((one.value, one.error))) for one in outcomes)
        return (told, state_now()), made

    def _found(self, how: str, wanted: _Seen, seen: _Seen) -> None:
        wrong = difference(wanted[1], seen[1])
        text = f"answers {seen[0]} instead of {wanted[0]}; {'; '.join(wrong)}"
        self.findings.append(Finding("row" if wrong else "refusal", " and ".join(self._names), how, text))
