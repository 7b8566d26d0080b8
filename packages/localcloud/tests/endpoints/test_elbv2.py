"""Network load balancers of the local cloud, used through boto3, on a simulated data plane."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError
from moto.ec2.models import ec2_backends

from cloud_rig.resources import SUBNET_A, SUBNET_B, ResourceCloud, eventually
from localcloud.dataplane import ReadEndpointSpec
from localcloud.extensions.ec2.network import VPC_ID
from localcloud.extensions.elbv2 import balancers

HEALTH_PORT = 9200


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


@dataclass
class Reads:
    """A load balancer with one listener and one target group."""

    aws: ResourceCloud
    balancer: str
    group: str
    listener: str

    def health(self, *ids: str) -> dict[str, tuple[str, str | None]]:
        request: dict[str, Any] = {"TargetGroupArn": self.group}
        if ids:
            request["Targets"] = [{"Id": target} for target in ids]
        found = self.aws.elbv2.describe_target_health(**request)["TargetHealthDescriptions"]
        return {
            entry["Target"]["Id"]: (entry["TargetHealth"]["State"], entry["TargetHealth"].get("Reason"))
            for entry in found
        }

    def state(self, instance_id: str) -> str | None:
        return self.health().get(instance_id, (None, None))[0]

    def register(self, *ids: str) -> None:
        self.aws.elbv2.register_targets(TargetGroupArn=self.group, Targets=[{"Id": target} for target in ids])

    def deregister(self, *ids: str) -> None:
        self.aws.elbv2.deregister_targets(
            TargetGroupArn=self.group, Targets=[{"Id": target} for target in ids]
        )

    def replica(self) -> str:
        """An instance that is registered and healthy."""
        instance_id = self.aws.launched()
        self.register(instance_id)
        eventually(lambda: self.state(instance_id) == "healthy")
        return instance_id

    def answer(self, instance_id: str, status: int | None) -> None:
        address = self.aws.instance(instance_id)["PrivateIpAddress"]
        self.aws.plane.endpoints.health[(address, HEALTH_PORT)] = status

    @property
    def endpoint(self) -> ReadEndpointSpec:
        specs = self.aws.plane.endpoints.specs.values()
        return next(spec for spec in specs if spec.listener_port == 13306)

    def attribute(self, key: str, value: str) -> None:
        self.aws.elbv2.modify_target_group_attributes(
            TargetGroupArn=self.group, Attributes=[{"Key": key, "Value": value}]
        )


def target_group(aws: ResourceCloud, name: str) -> str:
    return str(
        aws.elbv2.create_target_group(
            Name=name,
            Protocol="TCP",
            Port=3306,
            VpcId=VPC_ID,
            TargetType="instance",
            HealthCheckProtocol="HTTP",
            HealthCheckPort=str(HEALTH_PORT),
            HealthCheckPath="/",
            HealthCheckIntervalSeconds=10,
            HealthyThresholdCount=2,
            UnhealthyThresholdCount=2,
        )["TargetGroups"][0]["TargetGroupArn"]
    )


@pytest.fixture
def reads(aws: ResourceCloud) -> Reads:
    aws.cloud.clock.set(scale=60)  # ten seconds between probes are half a second
    balancer = aws.elbv2.create_load_balancer(
        Name="orders-reads", Type="network", Scheme="internal", Subnets=[SUBNET_A]
    )["LoadBalancers"][0]["LoadBalancerArn"]
    group = target_group(aws, "orders-replicas")
    listener = aws.elbv2.create_listener(
        LoadBalancerArn=balancer,
        Protocol="TCP",
        Port=13306,
        DefaultActions=[{"Type": "forward", "TargetGroupArn": group}],
    )["Listeners"][0]["ListenerArn"]
    return Reads(aws, balancer, group, listener)


def test_the_arns_of_a_network_load_balancer_say_so(reads: Reads) -> None:
    """A role's rights on `listener/net/orders-*` are rights on nothing else."""
    assert ":loadbalancer/net/orders-reads/" in reads.balancer
    assert ":listener/net/orders-reads/" in reads.listener
    [told] = reads.aws.elbv2.describe_load_balancers(LoadBalancerArns=[reads.balancer])["LoadBalancers"]
    assert (told["LoadBalancerArn"], told["Type"]) == (reads.balancer, "network")


def test_a_network_load_balancer_takes_no_subnet_of_a_local_zone(aws: ResourceCloud) -> None:
    """ELB guide, "Availability Zones for your Network Load Balancer": "You can't specify a subnet in a Local Zone"."""
    [vpc] = aws.ec2.describe_subnets(SubnetIds=[SUBNET_A])["Subnets"]
    local = ec2_backends[vpc["OwnerId"]]["us-east-1"].get_subnet(SUBNET_A)
    boston = copy(local._availability_zone)
    boston.name = "us-east-1-bos-1a"
    with patch.object(local, "_availability_zone", boston), pytest.raises(ClientError) as error:
        aws.elbv2.create_load_balancer(Name="boston", Type="network", Scheme="internal", Subnets=[SUBNET_A])
    assert code_of(error) == "InvalidConfigurationRequest"
    assert [one["LoadBalancerName"] for one in aws.elbv2.describe_load_balancers()["LoadBalancers"]] == []


def test_a_zone_gives_its_subnet_up_before_it_takes_another(reads: Reads) -> None:
    vpc = reads.aws.ec2.describe_subnets(SubnetIds=[SUBNET_A])["Subnets"][0]["VpcId"]
    larger = reads.aws.ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.9.0/24", AvailabilityZone="us-east-1a")
    other = larger["Subnet"]["SubnetId"]
    with pytest.raises(
        ClientError, match="The Availability Zone 'us-east-1a' corresponding to the new subnet"
    ):
        reads.aws.elbv2.set_subnets(LoadBalancerArn=reads.balancer, Subnets=[other])
    for subnets in ([SUBNET_A, SUBNET_B], [SUBNET_B], [SUBNET_B, other]):
        reads.aws.elbv2.set_subnets(LoadBalancerArn=reads.balancer, Subnets=subnets)
        [told] = reads.aws.elbv2.describe_load_balancers(LoadBalancerArns=[reads.balancer])["LoadBalancers"]
        assert sorted(zone["SubnetId"] for zone in told["AvailabilityZones"]) == sorted(subnets)


def test_a_target_in_a_zone_that_the_load_balancer_leaves_gets_nothing(reads: Reads) -> None:
    reads.aws.elbv2.set_subnets(LoadBalancerArn=reads.balancer, Subnets=[SUBNET_A, SUBNET_B])
    left, stays = reads.replica(), reads.aws.launched(SubnetId=SUBNET_B)
    reads.register(stays)
    eventually(lambda: reads.state(stays) == "healthy")
    reads.aws.elbv2.set_subnets(LoadBalancerArn=reads.balancer, Subnets=[SUBNET_B])
    eventually(lambda: reads.health()[left] == ("unused", "Target.NotInUse"))
    eventually(lambda: {one.instance_id for one in reads.endpoint.targets if one.weight} == {stays})
    reads.aws.elbv2.set_subnets(LoadBalancerArn=reads.balancer, Subnets=[SUBNET_A, SUBNET_B])
    eventually(lambda: reads.state(left) == "healthy")


def test_a_listener_on_a_taken_port_is_refused_with_the_port(reads: Reads) -> None:
    reads.aws.plane.endpoints.taken_ports.add(13307)
    request = {
        "LoadBalancerArn": reads.balancer,
        "Protocol": "TCP",
        "DefaultActions": [{"Type": "forward", "TargetGroupArn": reads.group}],
    }
    with pytest.raises(ClientError, match="13307"):
        reads.aws.elbv2.create_listener(**request, Port=13307)
    listeners = reads.aws.elbv2.describe_listeners(LoadBalancerArn=reads.balancer)["Listeners"]
    assert [listener["Port"] for listener in listeners] == [13306]
    with pytest.raises(ClientError) as error:
        reads.aws.elbv2.create_listener(**request, Port=13306)
    assert code_of(error) == "DuplicateListener"


def test_a_target_is_initial_until_its_probes_pass(reads: Reads) -> None:
    first = reads.replica()
    instance_id = reads.aws.launched()
    reads.answer(instance_id, None)
    reads.register(instance_id)
    assert reads.health(instance_id)[instance_id] in (
        ("initial", "Elb.RegistrationInProgress"),
        ("initial", "Elb.InitialHealthChecking"),
    )
    target = reads.aws.plane.endpoints.target(reads.endpoint.name, instance_id)
    assert target is not None
    assert not target.up
    reads.answer(instance_id, 200)
    eventually(lambda: reads.state(instance_id) == "healthy")
    target = reads.aws.plane.endpoints.target(reads.endpoint.name, instance_id)
    assert target is not None
    assert target.up
    assert target.address == reads.aws.instance(instance_id)["PrivateIpAddress"]
    assert target.port == 3306
    assert reads.state(first) == "healthy"


@pytest.mark.parametrize("answer", [503, None])
def test_a_target_that_fails_its_probes_is_unhealthy_and_comes_back(reads: Reads, answer: int | None) -> None:
    kept, failing = reads.replica(), reads.replica()
    reads.answer(failing, answer)
    eventually(lambda: reads.health()[failing] == ("unhealthy", "Target.FailedHealthChecks"))
    states = {target.instance_id: target.up for target in reads.endpoint.targets}
    assert states == {kept: True, failing: False}
    reads.answer(failing, 200)
    eventually(lambda: reads.state(failing) == "healthy")


def test_one_failed_probe_is_not_enough(reads: Reads) -> None:
    instance_id, endpoints, failures = reads.replica(), reads.aws.plane.endpoints, [503]
    probe = endpoints.probe

    def fails_once(*asked: Any) -> int | None:
        passed = probe(*asked)
        return failures.pop() if failures else passed

    with patch.object(endpoints, "probe", fails_once):
        eventually(lambda: not failures)
        seen = len(endpoints.probes)
        eventually(lambda: len(endpoints.probes) > seen)
    assert reads.state(instance_id) == "healthy"


def test_a_deregistered_target_drains_for_the_delay_of_cloud_time(reads: Reads) -> None:
    reads.attribute("deregistration_delay.timeout_seconds", "120")  # two seconds here
    kept, leaving = reads.replica(), reads.replica()
    reads.aws.plane.endpoints.set_open_connections(reads.endpoint.name, leaving, 3)
    with reads.aws.stopped_clock():
        reads.deregister(leaving)
        assert reads.health()[leaving] == ("draining", "Target.DeregistrationInProgress")
    target = reads.aws.plane.endpoints.target(reads.endpoint.name, leaving)
    assert target is not None
    assert target.draining
    eventually(lambda: leaving not in reads.health())
    assert reads.health(leaving)[leaving] == ("unused", "Target.NotRegistered")
    assert reads.aws.plane.endpoints.closed == []  # the delay alone cuts no connection
    assert reads.aws.plane.endpoints.target(reads.endpoint.name, leaving) is not None
    reads.aws.plane.endpoints.set_open_connections(reads.endpoint.name, leaving, 0)
    eventually(lambda: [t.instance_id for t in reads.endpoint.targets] == [kept])


def test_connections_are_cut_after_the_delay_when_the_group_says_so(reads: Reads) -> None:
    reads.attribute("deregistration_delay.timeout_seconds", "30")
    reads.attribute("deregistration_delay.connection_termination.enabled", "true")
    reads.replica()
    leaving = reads.replica()
    name = reads.endpoint.name
    reads.aws.plane.endpoints.set_open_connections(name, leaving, 3)
    reads.deregister(leaving)
    eventually(lambda: leaving not in reads.health())
    assert reads.aws.plane.endpoints.closed == [(name, leaving, 3)]


def test_only_running_instances_are_registered(reads: Reads) -> None:
    stopped = reads.aws.launched()
    reads.aws.ec2.stop_instances(InstanceIds=[stopped])
    for instance_id in ("i-0123456789abcdef0", stopped):
        with pytest.raises(ClientError) as error:
            reads.register(instance_id)
        assert code_of(error) == "InvalidTarget", instance_id
    assert reads.health() == {}


def test_a_target_of_a_group_without_listener_is_unused(reads: Reads) -> None:
    other = target_group(reads.aws, "not-in-use")
    instance_id = reads.aws.launched()
    reads.aws.elbv2.register_targets(TargetGroupArn=other, Targets=[{"Id": instance_id}])
    found = reads.aws.elbv2.describe_target_health(TargetGroupArn=other)["TargetHealthDescriptions"]
    assert found[0]["TargetHealth"]["State"] == "unused"
    assert found[0]["TargetHealth"]["Reason"] == "Target.NotInUse"


def test_a_stopped_target_gets_nothing_and_is_initial_when_it_is_started(reads: Reads) -> None:
    parked, other = reads.replica(), reads.replica()
    reads.aws.ec2.stop_instances(InstanceIds=[parked])
    eventually(lambda: reads.health()[parked] == ("unused", "Target.InvalidState"))

    def weights() -> dict[str, tuple[int, bool]]:
        return {target.instance_id: (target.weight, target.up) for target in reads.endpoint.targets}

    eventually(lambda: weights() == {parked: (0, False), other: (100, True)})
    reads.answer(parked, None)  # the host is back before its health responder
    reads.aws.ec2.start_instances(InstanceIds=[parked])
    eventually(lambda: reads.state(parked) in ("initial", "unhealthy"))
    assert weights()[parked] == (0, False)
    reads.answer(parked, 200)
    eventually(lambda: reads.state(parked) == "healthy")
    assert weights() == {parked: (100, True), other: (100, True)}


def test_what_a_probe_found_is_told_late(reads: Reads) -> None:
    kept, failing = reads.replica(), reads.replica()
    reads.aws.cloud.settings = replace(reads.aws.cloud.settings, describe_delay_seconds=3600.0)
    reads.answer(failing, 503)
    eventually(lambda: not {t.instance_id: t.up for t in reads.endpoint.targets}[failing])
    assert reads.state(failing) == "healthy"
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600)
    with patch.object(balancers, "time", later):
        assert reads.state(failing) == "unhealthy"
        assert reads.state(kept) == "healthy"


def test_a_terminated_target_drains_and_is_gone(reads: Reads) -> None:
    reads.attribute("deregistration_delay.timeout_seconds", "30")
    instance_id = reads.replica()
    with reads.aws.stopped_clock():
        reads.aws.ec2.terminate_instances(InstanceIds=[instance_id])
        assert reads.state(instance_id) == "draining"
    eventually(lambda: reads.health() == {})
    eventually(lambda: reads.endpoint.targets == ())


def test_a_target_group_that_probes_over_tcp_is_refused(reads: Reads) -> None:
    with pytest.raises(ClientError, match="HealthCheckProtocol"):
        reads.aws.elbv2.create_target_group(Name="bare", Protocol="TCP", Port=3306, VpcId=VPC_ID)
