"""The local cloud of a module of contract tests, and what the adapters are tried on."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.ssm.commands import SsmCommands
from peaker.domain.replicas.inventory import Instance, InstanceSpec
from peaker.domain.runs.ledger import Holder
from peaker.ports.ledger import Lease, Ledger

from localcloud.extensions.elbv2.lateness import PROMPT
from localcloud.open_cloud import CloudSettings
from localcloud.server import LocalCloud
from localcloud.simulated.volumes import SimulatedBlockStore
from localcloud.simulated_dataplane import simulated_dataplane
from peaker_contract import errors
from peaker_contract.names import RUN_TAG
from sim.account import Account
from sim.table import MemoryTable
from sim.workflows.virtual_time import START as NOON
from sim.workflows.virtual_time import VirtualTime
from tests.contract.run_parts import RUN
from tests.support.balanced_endpoint import make_balanced_endpoint
from tests.support.workflow_cloud import WorkflowCloud

SUBNET = "subnet-0a77000000000001a"
RUN_TAGS = {
    RUN_TAG: "run-1",
    "peaker:cluster": "orders",
    "peaker:owner": "local",
    "peaker:environment": "local",
}

NUMBERS = itertools.count(1)


@dataclass
class Adapters:
    cloud: LocalCloud
    compute: Ec2Compute
    storage: Ec2Storage
    commands: SsmCommands
    volumes: SimulatedBlockStore

    def spec(self, subnet_id: str = SUBNET, tags: Mapping[str, str] = RUN_TAGS) -> InstanceSpec:
        return InstanceSpec(
            "ami-0a770000000000097", "r6i.large", subnet_id, ("sg-0a770000000000001",), None, tags
        )

    def running(self, token: str, tags: Mapping[str, str] = RUN_TAGS) -> Instance:
        launched = self.compute.launch(self.spec(tags=tags), token)
        WorkflowCloud.eventually(lambda: self._state(launched.instance_id) == "running")
        return self.compute.instance(launched.instance_id)

    def _state(self, instance_id: str) -> str:
        try:
            return self.compute.instance(instance_id).state
        except errors.ResourceNotFound:
            return ""

    def free_volume(self) -> str:
        made = self.cloud.client("ec2").create_volume(AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")
        self.await_volume(made["VolumeId"], "available")
        return str(made["VolumeId"])

    def data_volume(self, instance_id: str, device: str) -> str:
        volume_id = self.free_volume()
        self.storage.attach(volume_id, instance_id, device)
        self.await_volume(volume_id, "in-use")
        return volume_id

    def await_volume(self, volume_id: str, state: str) -> None:
        def seen() -> list[str]:
            filters = [{"Name": "volume-id", "Values": [volume_id]}]
            return [
                one["State"] for one in self.cloud.client("ec2").describe_volumes(Filters=filters)["Volumes"]
            ]

        WorkflowCloud.eventually(lambda: seen() == [state])

    def snapshot(self, volume_id: str, host: str, run: str) -> str:
        made = self.storage.create_snapshots(host, [volume_id], {**RUN_TAGS, RUN_TAG: run})[0]
        WorkflowCloud.eventually(
            lambda: [one.state for one in self.storage.snapshots_of_run(run)] == ["completed"]
        )
        return made.snapshot_id


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapters]:
    settings = CloudSettings(describe_delay_seconds=0.02, snapshot_seconds=0.02, balancer_lateness=PROMPT)
    plane = simulated_dataplane()
    assert isinstance(plane.volumes, SimulatedBlockStore)
    with LocalCloud(plane, tmp_path_factory.mktemp("aws"), clock_scale=60, settings=settings) as cloud:
        ec2, ssm = cloud.client("ec2"), cloud.client("ssm")
        yield Adapters(
            cloud,
            Ec2Compute(ec2, "local"),
            Ec2Storage(ec2, ec2, "local"),
            SsmCommands(ssm, ssm, "local"),
            plane.volumes,
        )


@pytest.fixture(scope="module")
def ledger_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A control plane for all tests of a module: its conditional writes are atomic, as DynamoDB's are."""
    with LocalCloud(None, tmp_path_factory.mktemp("ledger")) as cloud:
        yield cloud


@pytest.fixture
def ledger_table(ledger_cloud: LocalCloud) -> LedgerTable:
    """An empty table."""
    client = ledger_cloud.client("dynamodb")
    return LedgerTable(client, make_table(client))


def put_metric(
    cloudwatch: Any, namespace: str, name: str, dimensions: Mapping[str, str], at: datetime, value: float
) -> None:
    told = [{"Name": key, "Value": text} for key, text in dimensions.items()]
    datum = {"MetricName": name, "Dimensions": told, "Timestamp": at, "Value": value}
    cloudwatch.put_metric_data(Namespace=namespace, MetricData=[datum])


def make_table(client: Any) -> str:
    """The name of an empty table like the ledger's."""
    name = f"ledger-{uuid.uuid4().hex}"
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


@pytest.fixture(params=["memory", "dynamodb"])
def store(request: pytest.FixtureRequest) -> tuple[Lease, Ledger]:
    """An empty lease and ledger."""
    memory = request.param == "memory"
    table = MemoryTable(Account(), VirtualTime()) if memory else request.getfixturevalue("ledger_table")
    return DynamoDbLease(table), DynamoDbLedger(table)


@pytest.fixture
def lease(store: tuple[Lease, Ledger]) -> Lease:
    return store[0]


@pytest.fixture
def ledger(store: tuple[Lease, Ledger]) -> Ledger:
    return store[1]


@pytest.fixture
def holder(lease: Lease, ledger: Ledger) -> Holder:
    """Run 1 holds the lease and is open."""
    holder = lease.acquire("orders", "run-1", "scale_out", NOON, NOON + timedelta(hours=1))
    ledger.open_run(holder, RUN)
    return holder


@pytest.fixture
def balanced(aws: Adapters) -> dict[str, str]:
    """A listener with a serving and a warming group, by the names of the settings."""
    number = next(NUMBERS)
    return make_balanced_endpoint(aws.cloud.client("elbv2"), f"contract-{number}", 31_000 + number)
