"""The environment of `sim.world` with its workflows, on the real adapters and an account on moto."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from peaker.adapters.aws_clients import SINGLE_TRY_CONFIG
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.read_endpoint.by_kind import read_endpoints
from peaker.adapters.ssm.commands import SsmCommands
from peaker.adapters.step_functions_executions import StepFunctionsExecutions
from peaker.ports.bundle import Ports

from peaker_contract.cluster import ClusterSettings
from peaker_contract.endpoint_settings import Route53EndpointSettings
from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, ROLE_TAG, RUN_TAG, VOLUME_TAG
from sim.explorer.account import TABLE, Account, Hosts, instances, records
from sim.workflows.step_functions import StepFunctionsClient
from sim.world import ENVIRONMENT, PREFIX, World


class Commands:
    """How a scenario lets hosts answer: `fail` and `scripts` as `sim.ssm.HostileCommands` has them."""

    def __init__(self, hosts: Hosts) -> None:
        self.scripts = self
        self._hosts = hosts

    def __setitem__(self, key: tuple[str, None], answers: list[Mapping[str, Any]]) -> None:
        self._hosts.answers[key[0]] = answers[0]

    def fail(self, document: str, error: str) -> None:
        self._hosts.answers[document] = {"ok": False, "error": error, "message": f"{error} on purpose"}


class ExploredWorld(World):
    """One environment. It lives in `opened`, one at a time in a process."""

    def __init__(self, seed: int, *clusters: ClusterSettings) -> None:
        self.aws = _OPENED[-1]
        super().__init__(seed, *clusters)
        self.aws.time.seconds = self.time.seconds
        self.aws.executions = StepFunctionsClient(self.workflows)

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator[None]:
        """Worlds that are made in this block have this process's account."""
        account = Account()
        with account.open():
            _OPENED.append(account)
            try:
                yield
            finally:
                _OPENED.pop()

    def peak(self) -> str:
        """The replica that an earlier run made."""
        return next(key for key, one in instances().items() if RUN_TAG in tags_of(one))

    def log(self, call: str, given: Any) -> None:
        """The account itself tells what was done."""

    def _ports(self, clusters: tuple[ClusterSettings, ...]) -> Ports:
        self.aws.time = self.aws.hosts.time = self.time
        return super()._ports(tuple(_deployed(self.aws.client, one) for one in clusters))

    def _adapters(self) -> dict[str, Any]:
        client = self.aws.client
        ec2, ssm = client("ec2"), client("ssm")
        table = LedgerTable(client("dynamodb"), TABLE, pause=lambda _: None)
        self.commands: Any = Commands(self.aws.hosts)
        self.compute: Any = Ec2Compute(ec2, ENVIRONMENT)
        self.storage: Any = Ec2Storage(ec2, client("ec2", SINGLE_TRY_CONFIG), ENVIRONMENT)
        self.endpoint: Any = read_endpoints(client)
        return {
            "compute": self.compute,
            "storage": self.storage,
            "commands": SsmCommands(ssm, client("ssm", SINGLE_TRY_CONFIG), ENVIRONMENT),
            "endpoint": self.endpoint,
            "lease": DynamoDbLease(table),
            "ledger": DynamoDbLedger(table),
            "executions": StepFunctionsExecutions(client("stepfunctions"), PREFIX),
        }

    def _serves(self, cluster: ClusterSettings) -> None:
        common = {CLUSTER_TAG: cluster.name, ENVIRONMENT_TAG: ENVIRONMENT}
        self._stands(cluster, {**common, ROLE_TAG: "source"}, 0)
        base = self._stands(cluster, {**common, ROLE_TAG: "replica", LOAD_TAG: "base"}, -1)
        self.ports.endpoint.register(cluster, base)
        self.ports.endpoint.promote(cluster, base)

    def _stands(self, cluster: ClusterSettings, tags: Mapping[str, str], subnet: int) -> str:
        """An instance with data volumes that was there long before."""
        ec2 = self.aws.client("ec2")
        zone, subnet_id = list(cluster.subnets.items())[subnet]
        made = ec2.run_instances(
            ImageId=cluster.image_id,
            InstanceType=cluster.instance_type,
            SubnetId=subnet_id,
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": _listed(tags)}],
        )["Instances"][0]["InstanceId"]
        instances()[made].launch_time -= timedelta(days=9)
        for one in cluster.volumes:
            named = {CLUSTER_TAG: cluster.name, VOLUME_TAG: one.name}
            volume = ec2.create_volume(
                AvailabilityZone=zone,
                Size=4,
                VolumeType="gp3",
                TagSpecifications=[{"ResourceType": "volume", "Tags": _listed(named)}],
            )["VolumeId"]
            ec2.attach_volume(VolumeId=volume, InstanceId=made, Device=one.device)
        return str(made)


_OPENED: list[Account] = []


def tags_of(thing: Any) -> dict[str, str]:
    """The tags of something of moto's EC2."""
    return {tag["key"]: tag["value"] for tag in thing.get_tags()}


def _deployed(client: Any, cluster: ClusterSettings) -> ClusterSettings:
    """The settings with a read endpoint that is there."""
    endpoint = cluster.read_endpoint
    if isinstance(endpoint, Route53EndpointSettings):
        zone = endpoint.record_name.split(".", 1)[1]
        made = client("route53").create_hosted_zone(Name=zone, CallerReference=zone)["HostedZone"]["Id"]
        found = records().zones.pop(made.rsplit("/", 1)[-1])
        found.resource_id = endpoint.hosted_zone_id
        records().zones[endpoint.hosted_zone_id] = found
        return cluster
    arns = balanced_endpoint(client("elbv2"), cluster.name, list(cluster.subnets.values()))
    return cluster.model_copy(update={"read_endpoint": endpoint.model_copy(update=arns)})


def balanced_endpoint(elbv2: Any, name: str, subnets: list[str]) -> dict[str, str]:
    """A serving and a warming group behind one listener; their ARNs by the names of the settings."""
    groups = [
        elbv2.create_target_group(
            Name=f"{name}{which}", Protocol="TCP", Port=3306, VpcId="vpc-0a770000000000001"
        )["TargetGroups"][0]["TargetGroupArn"]
        for which in ("", "-w")
    ]
    balancer = elbv2.create_load_balancer(Name=name, Type="network", Subnets=subnets)["LoadBalancers"][0]
    weighted = [
        {"TargetGroupArn": group, "Weight": weight} for group, weight in zip(groups, (999, 1), strict=True)
    ]
    listener = elbv2.create_listener(
        LoadBalancerArn=balancer["LoadBalancerArn"],
        Protocol="TCP",
        Port=13306,
        DefaultActions=[{"Type": "forward", "ForwardConfig": {"TargetGroups": weighted}}],
    )["Listeners"][0]["ListenerArn"]
    return {"target_group_arn": groups[0], "warming_target_group_arn": groups[1], "listener_arn": listener}


def _listed(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
