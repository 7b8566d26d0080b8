"""Ports in memory, true to the guarantees that peaker.ports states; the contract tests hold them to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from peaker.adapters.dynamodb.items import cluster_key
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.dynamodb.ledger_items import replica_item
from peaker.adapters.ssm.commands import CLOCK_DIFFERENCE
from peaker.domain.host_results import OLDEST_AGENT, Agent
from peaker.domain.instants import to_iso
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaRow
from peaker.domain.replicas.inventory import (
    CapacityReservation,
    CommandOutcome,
    CommandStatus,
    Instance,
    InstancePromise,
    InstanceSpec,
    Snapshot,
    TargetHealth,
    TargetState,
    Volume,
    VolumeSpec,
)
from peaker.domain.runs.run_execution import BegunRun, RunExecution
from peaker.domain.service.read_shares import shares_of_groups
from peaker.ports.bundle import Ports

from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import (
    AwsCallRejected,
    AwsUnavailable,
    CapacityUnavailable,
    ResourceNotFound,
    UndoInProgress,
    VolumeFailed,
    VolumeVanished,
)
from peaker_contract.names import CLUSTER_TAG, OWNER_TAG, RUN_TAG, VOLUME_TAG
from sim import others
from sim.account import Account
from sim.ssm import require_parameters
from sim.table import MemoryTable
from sim.workflows.virtual_time import VirtualTime

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self, start: datetime = NOON) -> None:
        self.time = start

    def now(self) -> datetime:
        return self.time

    def advance(self, **by: float) -> None:
        self.time += timedelta(**by)


def is_owned(tags: Mapping[str, str], cluster: str | None) -> bool:
    """Tells whether a thing is Peaker's, of this cluster or of any."""
    return OWNER_TAG in tags and cluster in (None, tags.get(CLUSTER_TAG))


@dataclass
class FakeCompute:
    """Instances run at once; `full_subnets` have no capacity, neither have `full_types` anywhere."""

    instances: dict[str, Instance] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    full_subnets: set[str] = field(default_factory=set)
    full_types: set[str] = field(default_factory=set)
    promises: dict[str, InstancePromise] = field(default_factory=dict)
    terminated: list[str] = field(default_factory=list)
    ebs_refused: Exception | None = None
    instances_refused: Exception | None = None
    vcpus: dict[str, int] = field(default_factory=lambda: {"r6i.large": 2, "r6i.xlarge": 4, "r5.large": 2})
    stopped: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    full: bool = False
    image_is_under: dict[str, Sequence[str] | Unknown] = field(default_factory=dict)
    images_gone: set[str] = field(default_factory=set)
    image_maps: Sequence[str] = ("/dev/xvda",)
    now: Callable[[], datetime] = lambda: NOON
    image_is: str | Unknown = "Linux/UNIX"
    reservations: list[CapacityReservation] = field(default_factory=list)
    group_room: int = 0
    group_refused: Exception | None = None
    groups_named: list[str | None] = field(default_factory=list)
    _by_token: dict[str, str] = field(default_factory=dict)

    def add(self, instance: Instance) -> Instance:
        self.instances[instance.instance_id] = instance
        return instance

    def instances_of_cluster(self, cluster: str) -> list[Instance]:
        return self._alive(CLUSTER_TAG, cluster)

    def instances_of_environment(self, cluster: str | None = None) -> list[Instance]:
        return [
            one
            for one in self.instances.values()
            if is_owned(one.tags, cluster) and one.state != "terminated"
        ]

    def instances_of_run(self, run_id: str) -> list[Instance]:
        return self._alive(RUN_TAG, run_id)

    def instance(self, instance_id: str) -> Instance:
        if instance_id not in self.instances:
            raise ResourceNotFound(instance_id)
        return self.instances[instance_id]

    def on_demand_instances(self) -> Sequence[Instance] | Unknown:
        if self.instances_refused is not None:
            raise self.instances_refused
        return [one for one in self.instances.values() if one.state in ("pending", "running")]

    def default_vcpus(self, instance_types: Sequence[str]) -> Mapping[str, int]:
        return {kind: self.vcpus[kind] for kind in instance_types if kind in self.vcpus}

    def ebs_promise(self, instance_type: str) -> InstancePromise:
        if self.ebs_refused is not None:
            raise self.ebs_refused
        usual = InstancePromise(baseline_iops=3600, baseline_mib_per_s=77.49)
        return self.promises.get(instance_type, usual)

    def image_keys(self, image_id: str) -> Sequence[str] | Unknown:
        if image_id in self.images_gone:
            raise ResourceNotFound(f"ec2:DescribeImages: no image {image_id}")
        return self.image_is_under.get(image_id, [])

    def image_devices(self, image_id: str) -> Sequence[str]:
        return self.image_maps

    def launch(self, spec: InstanceSpec, client_token: str) -> Instance:
        known = client_token in self._by_token
        full = spec.subnet_id in self.full_subnets or spec.instance_type in self.full_types
        in_group = not known and self._enters(spec.capacity_reservation_group_arn)
        if full and not in_group:
            raise CapacityUnavailable(f"InsufficientInstanceCapacity in {spec.subnet_id}")
        if known:
            return self.instances[self._by_token[client_token]]
        instance_id = f"i-{len(self._by_token) + 1:017x}"
        zone = self.zones.get(spec.subnet_id, "us-east-1a")
        self._by_token[client_token] = instance_id
        tags = dict(spec.tags)
        return self.add(
            Instance(instance_id, "running", "10.77.1.50", zone, spec.instance_type, NOON, tags, client_token)
        )

    def stop(self, instance_id: str) -> None:
        if self.instance(instance_id).state not in {"stopping", "stopped"}:
            self.stopped.append(instance_id)
            self.instances[instance_id] = replace(self.instances[instance_id], state="stopping")

    def finish_stopping(self) -> None:
        for instance_id, one in self.instances.items():
            if one.state == "stopping":
                self.instances[instance_id] = replace(one, state="stopped")

    def start(self, instance_id: str, capacity_reservation_group_arn: str | None = None) -> None:
        if not self._enters(capacity_reservation_group_arn) and self.full:
            raise CapacityUnavailable("InsufficientInstanceCapacity on start")
        if self.instance(instance_id).state == "stopped":
            self.started.append(instance_id)
            started = replace(self.instances[instance_id], state="running", launched_at=self.now())
            self.instances[instance_id] = started

    def terminate(self, instance_id: str) -> None:
        if instance_id in self.instances:
            self.terminated.append(instance_id)
            self.instances[instance_id] = replace(self.instances[instance_id], state="terminated")

    def platform(self, image_id: str) -> str | Unknown:
        return self.image_is

    def capacity_reservations(self) -> list[CapacityReservation]:
        return self.reservations

    def _enters(self, group: str | None) -> bool:
        """Whether the group has room for one more instance; `group_refused` is EC2's answer to its name."""
        self.groups_named.append(group)
        if group is not None and self.group_refused is not None:
            raise self.group_refused
        if group is None or self.group_room < 1:
            return False
        self.group_room -= 1
        return True

    def _alive(self, tag: str, value: str) -> list[Instance]:
        return [
            one for one in self.instances.values() if one.tags.get(tag) == value and one.state != "terminated"
        ]


@dataclass
class FakeStorage:
    volumes: dict[str, Volume] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    snapshot_calls: int = 0
    deleted: list[str] = field(default_factory=list)
    hidden: bool = False
    not_found_yet: bool = False
    rate_refusal: Exception | None = None
    undeletable: dict[str, Exception] = field(default_factory=dict)
    now: Callable[[], datetime] = lambda: NOON
    specs: list[VolumeSpec] = field(default_factory=list)
    _asked: dict[str, VolumeSpec] = field(default_factory=dict)
    _by_token: dict[str, str] = field(default_factory=dict)

    def add(self, volume: Volume) -> Volume:
        self.volumes[volume.volume_id] = volume
        return volume

    def volumes_of_instance(self, instance_id: str) -> list[Volume]:
        return [one for one in self.volumes.values() if one.instance_id == instance_id]

    def volumes_of_run(self, run_id: str) -> list[Volume]:
        return [one for one in self.volumes.values() if one.tags.get(RUN_TAG) == run_id]

    def volumes_of_environment(self, cluster: str | None = None) -> list[Volume]:
        return [one for one in self.volumes.values() if is_owned(one.tags, cluster)]

    def volumes_of_type(self, volume_type: str) -> Sequence[Volume] | Unknown:
        return [one for one in self.volumes.values() if one.volume_type == volume_type]

    def snapshots_of_run(self, run_id: str) -> list[Snapshot]:
        if self.hidden:
            return []
        return [one for one in self.snapshots.values() if one.tags.get(RUN_TAG) == run_id]

    def snapshots_of_environment(self, cluster: str | None = None) -> list[Snapshot]:
        if self.hidden:
            return []
        return [one for one in self.snapshots.values() if is_owned(one.tags, cluster)]

    def snapshots_of_volumes(self, volume_ids: Sequence[str]) -> list[Snapshot]:
        return [one for one in self.snapshots.values() if one.source_volume_id in volume_ids]

    def create_snapshots(
        self, instance_id: str, volume_ids: Sequence[str], tags: Mapping[str, str]
    ) -> list[Snapshot]:
        self.snapshot_calls += 1
        made = []
        for volume_id in volume_ids:
            snapshot_id = f"snap-{len(self.snapshots) + len(self.deleted) + 1:017x}"
            snapshot = Snapshot(snapshot_id, "pending", volume_id, 0.0, None, self.now(), dict(tags))
            self.snapshots[snapshot_id] = snapshot
            made.append(snapshot)
        return made

    def name_snapshot(self, snapshot_id: str, volume_name: str) -> None:
        if self.not_found_yet or snapshot_id not in self.snapshots:
            raise ResourceNotFound(f"ec2:CreateTags: InvalidSnapshot.NotFound: {snapshot_id}")
        snapshot = self.snapshots[snapshot_id]
        self.snapshots[snapshot_id] = replace(snapshot, tags={**snapshot.tags, VOLUME_TAG: volume_name})

    def complete(self) -> None:
        """All pending snapshots are done."""
        for snapshot_id, one in self.snapshots.items():
            self.snapshots[snapshot_id] = replace(
                one, state="completed", progress_percent=100.0, full_size_bytes=2**30
            )

    def delete_snapshot(self, snapshot_id: str) -> None:
        if snapshot_id in self.undeletable:
            raise self.undeletable[snapshot_id]
        if self.snapshots.pop(snapshot_id, None) is not None:
            self.deleted.append(snapshot_id)

    def create_volume(self, spec: VolumeSpec, client_token: str) -> Volume:
        if self.rate_refusal is not None and spec.initialization_rate_mib_per_s is not None:
            raise self.rate_refusal
        if self._asked.setdefault(client_token, spec) != spec:
            raise AwsCallRejected("ec2:CreateVolume: IdempotentParameterMismatch")
        if self._by_token.get(client_token, "") not in ("", *self.volumes):
            raise VolumeVanished(
                "ec2:CreateVolume: IdempotentParameterMismatch: already deleted; the KMS key"
            )
        if client_token not in self._by_token:
            volume_id = f"vol-{len(self._by_token) + 0x100:017x}"
            self._by_token[client_token] = volume_id
            self.specs.append(spec)
            self.add(
                Volume(
                    volume_id,
                    "available",
                    spec.size_gib,
                    spec.volume_type,
                    spec.zone,
                    tags=dict(spec.tags),
                    initialization_rate_mib_per_s=spec.initialization_rate_mib_per_s,
                )
            )
        return self.volumes[self._by_token[client_token]]

    def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        if self.not_found_yet:
            raise ResourceNotFound(f"ec2:AttachVolume: InvalidVolume.NotFound: {volume_id}")
        held_by = self.volumes[volume_id].instance_id
        if held_by == instance_id:
            return
        if held_by is not None:
            raise VolumeFailed(f"ec2:AttachVolume: VolumeInUse: {volume_id} is at {held_by}")
        self.volumes[volume_id] = replace(
            self.volumes[volume_id],
            state="in-use",
            instance_id=instance_id,
            device=device,
            attachment_state="attaching",
        )

    def finish_attaching(self) -> None:
        for volume_id, one in self.volumes.items():
            if one.attachment_state == "attaching":
                self.volumes[volume_id] = replace(one, attachment_state="attached")

    def detach_all(self, instance_id: str) -> None:
        """What EC2 does to the volumes of an instance that ends."""
        for volume_id, one in self.volumes.items():
            if one.instance_id == instance_id:
                self.volumes[volume_id] = replace(
                    one, state="available", instance_id=None, attachment_state=None
                )

    def delete_volume(self, volume_id: str) -> None:
        if volume_id in self.undeletable:
            raise self.undeletable[volume_id]
        if volume_id in self.volumes and self.volumes[volume_id].instance_id is not None:
            raise UndoInProgress(f"{volume_id} is still attached")
        if self.volumes.pop(volume_id, None) is not None:
            self.deleted.append(volume_id)


STILL_RUNNING = CommandOutcome(CommandStatus.RUNNING)
AT_WORK = CommandOutcome(CommandStatus.SUCCESS, stdout='{"version": 1, "ok": true, "at_work": true}')


@dataclass
class FakeCommands:
    """Commands end with what `results` says of their document; without an entry they go on running, and their host
    says so. `silent` hosts refuse them.

    Parameters are refused that SSM would refuse: unknown to the document, missing, or not as its pattern says.
    """

    results: dict[str, CommandOutcome] = field(default_factory=dict)
    online: set[str] = field(default_factory=set)
    agent_version: str = OLDEST_AGENT
    sent: list[tuple[str, str, str]] = field(default_factory=list)
    parameters: list[dict[str, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    sent_at: dict[int, datetime] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    now: Callable[[], datetime] = lambda: NOON

    def agent(self, instance_id: str) -> Agent:
        return Agent(instance_id in self.online, self.agent_version)

    def send(self, document: str, instance_id: str, parameters: Mapping[str, str], comment: str) -> str:
        require_parameters(document, parameters)
        if instance_id in self.silent:
            raise AwsUnavailable(f"ssm:SendCommand: InvalidInstanceId: {instance_id} does not answer")
        self.sent.append((document, instance_id, comment))
        self.sent_at[len(self.sent)] = self.now()
        self.parameters.append(dict(parameters))
        return f"command-{len(self.sent)}"

    def find(self, instance_id: str, comment: str, since: datetime) -> str | None:
        found = [
            f"command-{number}"
            for number, (_, host, said) in enumerate(self.sent, 1)
            if (host, said) == (instance_id, comment)
            and self.sent_at.get(number, since) >= since - CLOCK_DIFFERENCE
        ]
        return found[-1] if found else None

    def outcome(self, command_id: str, instance_id: str) -> CommandOutcome:
        number = command_id.removeprefix("command-")
        if not number.isdigit():
            return CommandOutcome(CommandStatus.MISSING)
        document, host, _ = self.sent[int(number) - 1]
        if host != instance_id:
            return CommandOutcome(CommandStatus.MISSING)
        return self.results.get(document, AT_WORK if document == "report_work" else STILL_RUNNING)

    def cancel(self, command_id: str, instance_id: str) -> None:
        self.cancelled.append(command_id)


@dataclass
class FakeEndpoint:
    """A deregistered target drains until `finish_draining`. `targets` are the serving group's."""

    targets: dict[str, TargetHealth] = field(default_factory=dict)
    warming: dict[str, TargetHealth] = field(default_factory=dict)
    shares: list[float] = field(default_factory=list)

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        self.warming.setdefault(instance_id, TargetHealth(TargetState.INITIAL))

    def promote(self, settings: ClusterSettings, instance_id: str) -> None:
        self.targets.setdefault(instance_id, TargetHealth(TargetState.INITIAL))

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        for group in (self.targets, self.warming):
            if instance_id in group:
                group[instance_id] = TargetHealth(TargetState.DRAINING)

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return dict(self.targets)

    def warming_health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return dict(self.warming)

    def set_share(self, settings: ClusterSettings, share: float) -> None:
        self.shares.append(share)

    def read_shares(self, settings: ClusterSettings) -> dict[str, float]:
        warming = self.shares[-1] if self.shares else 0.001
        return shares_of_groups([(1 - warming, self.targets), (warming, self.warming)])

    def set(self, instance_id: str, state: TargetState, reason: str = "") -> None:
        """Its state in both groups."""
        self.targets[instance_id] = self.warming[instance_id] = TargetHealth(state, reason)

    def set_warming(self, instance_id: str, state: TargetState, reason: str = "") -> None:
        self.warming[instance_id] = TargetHealth(state, reason)

    def finish_draining(self) -> None:
        self.targets = {k: v for k, v in self.targets.items() if v.state is not TargetState.DRAINING}
        self.warming = {k: v for k, v in self.warming.items() if v.state is not TargetState.DRAINING}


class LedgerRows(MemoryTable):
    """The ledger's table in memory, under the real lease and ledger; a test may write into it without a lease."""

    def __init__(self) -> None:
        super().__init__(Account(), VirtualTime())

    def write(self, item: Mapping[str, Any]) -> None:
        """Put an item, or attributes of one that is there."""
        self._put({**(self.get(item["pk"], item["sk"]) or {}), **item})

    def write_replica(self, row: ReplicaRow) -> None:
        self.write(replica_item(row))

    def outcomes(self, cluster: str, operation: str) -> list[str]:
        """Returns how the cluster's runs of that operation ended, the oldest first."""
        listed = self.query(cluster_key(cluster), "run#")
        return [one["outcome"] for one in listed if one["operation"] == operation]

    def let_late_calls_end(self, cluster: str) -> None:
        """As if the time had passed in which a call of the run before may be under way."""
        lease = self.get(cluster_key(cluster), "lease")
        if lease is not None:
            self.write({**lease, "settled_at": to_iso(NOON - timedelta(days=99))})


@dataclass
class FakeExecutions:
    """By run id; `rolling_back` are the names of executions that a roll_back is at work on."""

    by_run: dict[str, RunExecution] = field(default_factory=dict)
    rolling_back: set[str] = field(default_factory=set)
    started: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def start_scale_out(self, name: str, given: Mapping[str, Any]) -> None:
        self.started.setdefault(name, given)

    def that_began(self, run: BegunRun) -> RunExecution | Unknown:
        return self.by_run.get(run.run_id, Unknown("Step Functions knows no execution that began it"))

    def being_rolled_back(self) -> frozenset[str]:
        return frozenset(self.rolling_back)


@dataclass(frozen=True)
class FakePorts(Ports):
    """Ports that a test may script, typed as what they are."""

    clock: FakeClock
    clusters: others.Clusters
    compute: FakeCompute
    storage: FakeStorage
    commands: FakeCommands
    endpoint: FakeEndpoint
    snapshot_blocks: others.Blocks
    run_files: others.RunFiles
    lease: DynamoDbLease
    ledger: DynamoDbLedger
    rows: LedgerRows
    readings: others.Readings
    executions: FakeExecutions
    price_list: others.PriceList
    stored_prices: others.StoredPrices
    volume_keys: others.VolumeKeys
    account_quotas: others.AccountQuotas
    operators: others.Operators


def fake_ports(*settings: ClusterSettings) -> FakePorts:
    """A world in memory with these clusters and nothing else."""
    rows = LedgerRows()
    subnets = {subnet: zone for one in settings for zone, subnet in one.subnets.items()}
    clock = FakeClock()
    return FakePorts(
        environment="local",
        clock=clock,
        clusters=others.Clusters(*settings),
        compute=FakeCompute(zones=subnets, now=clock.now),
        storage=FakeStorage(),
        commands=FakeCommands(now=clock.now),
        endpoint=FakeEndpoint(),
        package=others.Package(),
        snapshot_blocks=others.Blocks(),
        run_files=others.RunFiles(),
        lease=DynamoDbLease(rows),
        ledger=DynamoDbLedger(rows),
        rows=rows,
        readings=others.Readings(),
        executions=FakeExecutions(),
        volume_keys=others.VolumeKeys(),
        past_runs=others.PastRuns(),
        price_list=others.PriceList(),
        stored_prices=others.StoredPrices(),
        account_quotas=others.AccountQuotas(),
        operators=others.Operators(),
    )
