"""The port TrafficRouter: one suite for the fake, the load balancer and the DNS name; then what is each one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from peaker.adapters.read_endpoint.by_kind import ReadEndpointByKind
from peaker.adapters.read_endpoint.elb import ElbReadEndpoint
from peaker.adapters.read_endpoint.health_checks import ReplicaHealthChecks, alarm_name
from peaker.adapters.read_endpoint.route53 import Route53ReadEndpoint
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import TargetState
from peaker.ports.endpoint import TrafficRouter
from peaker_cli.base_replica.register_base import register_base_command
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.doctor.gather import Inquiry

from cloud_rig.clocks import ALL_BUT_STOPPED, at_scale
from peaker_contract import errors
from peaker_contract.cluster import ClusterSettings
from sim.account import Account
from sim.calm import Calm
from sim.endpoint import SERVING, HostileEndpoint
from sim.workflows.virtual_time import VirtualTime
from sim.world import World
from sim.world import by_name as dns_name
from sim.world import settings as of_the_world
from tests.contract.conftest import NUMBERS, Adapters
from tests.support.builders import BY_NAME, orders
from tests.support.workflow_cloud import WorkflowCloud

PRESENT = {TargetState.INITIAL, TargetState.HEALTHY, TargetState.UNHEALTHY}


@dataclass
class Endpoint:
    """A read endpoint without replicas, its cluster, a running host, and how what drains comes to its end."""

    router: TrafficRouter
    settings: ClusterSettings
    host: str
    drain: Callable[[], None]

    @property
    def groups(self) -> tuple[set[str], set[str]]:
        """Who may get reads, by the serving group and by the warming group."""
        health, warming = self.router.health(self.settings), self.router.warming_health(self.settings)
        serving = {name for name, target in health.items() if target.state in PRESENT}
        return serving, {name for name, target in warming.items() if target.state in PRESENT}


@pytest.fixture(autouse=True)
def _no_fault_outlives_its_test(aws: Adapters) -> Iterator[None]:
    yield
    aws.cloud.faults.clear()


@pytest.fixture(scope="module")
def host(aws: Adapters) -> str:
    return aws.running("token-read-endpoints").instance_id


@pytest.fixture(scope="module")
def other(aws: Adapters) -> str:
    return aws.running("token-read-endpoints-2").instance_id


def by_balancer(aws: Adapters, balanced: dict[str, str], host: str) -> Endpoint:
    settings = orders(read_endpoint={**orders().read_endpoint.model_dump(), **balanced})
    router = ElbReadEndpoint(aws.cloud.client("elbv2"))
    return Endpoint(
        router,
        settings,
        host,
        lambda: WorkflowCloud.eventually(
            lambda: router.health(settings) == router.warming_health(settings) == {}
        ),
    )


def in_the_hostile_cloud(has_a_name: bool) -> Endpoint:
    """A cluster whose base replica has left its endpoint, and the host of that replica."""
    changes = {"read_endpoint": dns_name()} if has_a_name else {}
    world = World(1, of_the_world(**changes))
    groups = world.account.targets["orders"]
    [host] = groups[SERVING]
    for group in groups.values():
        group.clear()

    def drain() -> None:
        world.time.seconds += 600.0

    return Endpoint(world.endpoint, world.clusters.settings("orders"), host, drain)


@pytest.fixture
def by_name(aws: Adapters, host: str) -> Endpoint:
    """A hosted zone and a cluster of its own, so that no test sees the alarms of another one."""
    number = next(NUMBERS)
    route53, cloudwatch, ec2 = (aws.cloud.client(one) for one in ("route53", "cloudwatch", "ec2"))
    zone = route53.create_hosted_zone(Name=f"c{number}.example", CallerReference=f"contract-{number}")
    endpoint = {
        **BY_NAME,
        "hosted_zone_id": zone["HostedZone"]["Id"].rsplit("/", 1)[-1],
        "record_name": f"reads.c{number}.example",
    }
    router = Route53ReadEndpoint(route53, ec2, ReplicaHealthChecks(route53, cloudwatch))
    return Endpoint(router, orders(name=f"c{number}", read_endpoint=endpoint), host, lambda: None)


@pytest.fixture
def held_clock(aws: Adapters) -> Iterator[None]:
    """The cloud's clock all but stands: as it runs, a probe or the end of a drain is half a second away.

    To be named behind the fixtures for which hosts are started.
    """
    with at_scale(aws.cloud.clock, ALL_BUT_STOPPED):
        yield


@pytest.fixture(params=["hostile", "hostile route53", "nlb", "route53"])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    if request.param == "route53":
        return request.getfixturevalue("by_name")
    if request.param == "nlb":
        given = (request.getfixturevalue(name) for name in ("aws", "balanced", "host"))
        return by_balancer(*given)
    return in_the_hostile_cloud(request.param == "hostile route53")


def test_a_newcomer_is_warming_then_serving_then_gone(endpoint: Endpoint) -> None:
    router, settings, host = endpoint.router, endpoint.settings, endpoint.host
    for _ in range(2):
        router.register(settings, host)
        assert endpoint.groups == (set(), {host})
    for _ in range(2):
        router.promote(settings, host)
        assert endpoint.groups == ({host}, {host})
    for _ in range(2):
        router.deregister(settings, host)
        assert endpoint.groups == (set(), set())
    endpoint.drain()
    assert router.health(settings) == router.warming_health(settings) == {}


def test_taking_out_who_was_never_in_is_no_error(endpoint: Endpoint) -> None:
    endpoint.router.deregister(endpoint.settings, endpoint.host)
    assert endpoint.groups == (set(), set())


def test_registering_one_of_the_proven_again_leaves_it_one(endpoint: Endpoint) -> None:
    endpoint.router.register(endpoint.settings, endpoint.host)
    endpoint.router.promote(endpoint.settings, endpoint.host)
    endpoint.router.register(endpoint.settings, endpoint.host)
    endpoint.router.set_share(endpoint.settings, 0.1)
    assert endpoint.groups == ({endpoint.host}, {endpoint.host})


def test_one_that_went_may_come_back(endpoint: Endpoint) -> None:
    for _ in range(2):
        endpoint.router.register(endpoint.settings, endpoint.host)
        assert endpoint.groups == (set(), {endpoint.host})
        endpoint.router.deregister(endpoint.settings, endpoint.host)
        endpoint.drain()


@pytest.mark.usefixtures("held_clock")
def test_nobody_is_healthy_before_it_was_asked(endpoint: Endpoint) -> None:
    """I4"""
    endpoint.router.register(endpoint.settings, endpoint.host)
    assert endpoint.router.warming_health(endpoint.settings)[endpoint.host].state is not TargetState.HEALTHY


def test_what_a_replica_gets_is_known_and_one_that_went_gets_nothing(endpoint: Endpoint) -> None:
    router, settings, host = endpoint.router, endpoint.settings, endpoint.host
    assert router.read_shares(settings) == {}
    router.register(settings, host)
    router.promote(settings, host)
    assert router.read_shares(settings) == {host: pytest.approx(1.0)}
    router.deregister(settings, host)
    assert router.read_shares(settings).get(host, 0.0) == 0.0


def test_each_cluster_has_the_endpoint_of_its_kind() -> None:
    for settings, mine in ((orders(), "nlb"), (orders(read_endpoint=BY_NAME), "route53")):
        kinds = {kind: Account() for kind in ("nlb", "route53")}
        router = ReadEndpointByKind(*(HostileEndpoint(one, VirtualTime(), Calm()) for one in kinds.values()))
        router.register(settings, "i-1")
        router.promote(settings, "i-1")
        router.set_share(settings, 0.3)
        assert (set(router.health(settings)), set(router.warming_health(settings))) == ({"i-1"}, {"i-1"})
        router.deregister(settings, "i-1")
        assert kinds.pop(mine).shares == {"orders": 0.3}
        [other] = kinds.values()
        assert (other.shares, other.targets) == ({}, {})


# -- the load balancer ---------------------------------------------------------------------------------------


def test_what_leaves_a_load_balancer_drains_in_both_groups(
    aws: Adapters, balanced: dict[str, str], host: str, held_clock: None
) -> None:
    endpoint = by_balancer(aws, balanced, host)
    endpoint.router.register(endpoint.settings, host)
    endpoint.router.promote(endpoint.settings, host)
    endpoint.router.deregister(endpoint.settings, host)
    for group in (endpoint.router.health, endpoint.router.warming_health):
        assert group(endpoint.settings)[host].state is TargetState.DRAINING


@pytest.mark.parametrize(("share", "weights"), [(0.3, (700, 300)), (0.0001, (999, 1)), (1.0, (1, 999))])
def test_a_share_becomes_weights_of_which_none_is_zero(
    aws: Adapters, balanced: dict[str, str], share: float, weights: tuple[int, int]
) -> None:
    settings = orders(read_endpoint={**orders().read_endpoint.model_dump(), **balanced})
    elbv2 = aws.cloud.client("elbv2")
    for _ in range(2):
        ElbReadEndpoint(elbv2).set_share(settings, share)
    [listener] = elbv2.describe_listeners(ListenerArns=[balanced["listener_arn"]])["Listeners"]
    groups = {
        one["TargetGroupArn"]: one["Weight"]
        for one in listener["DefaultActions"][0]["ForwardConfig"]["TargetGroups"]
    }
    assert groups == dict(
        zip(
            (settings.read_endpoint.target_group_arn, settings.read_endpoint.warming_target_group_arn),
            weights,
            strict=True,
        )
    )


def test_an_endpoint_that_was_not_deployed_says_what_to_do(aws: Adapters) -> None:
    without = orders(read_endpoint={**orders().read_endpoint.model_dump(), "target_group_arn": None})
    with pytest.raises(
        errors.AwsCallRejected, match=r"read_endpoint.target_group_arn is missing; deploy the stack"
    ):
        ElbReadEndpoint(aws.cloud.client("elbv2")).health(without)


# -- the DNS name --------------------------------------------------------------------------------------------


def records(aws: Adapters, endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """The name's records by their SetIdentifier."""
    read = endpoint.settings.read_endpoint
    listed = aws.cloud.client("route53").list_resource_record_sets(HostedZoneId=read.hosted_zone_id)
    name = f"{read.record_name}."
    return {one["SetIdentifier"]: one for one in listed["ResourceRecordSets"] if one["Name"] == name}


def change(aws: Adapters, endpoint: Endpoint, action: str, record: dict[str, Any]) -> None:
    """What an operator does by hand."""
    aws.cloud.client("route53").change_resource_record_sets(
        HostedZoneId=endpoint.settings.read_endpoint.hosted_zone_id,
        ChangeBatch={"Changes": [{"Action": action, "ResourceRecordSet": record}]},
    )


def own_checks(aws: Adapters, endpoint: Endpoint) -> list[dict[str, Any]]:
    name = alarm_name(endpoint.settings, endpoint.host)
    found = aws.cloud.client("route53").list_health_checks()["HealthChecks"]
    return [one for one in found if one["HealthCheckConfig"].get("AlarmIdentifier", {}).get("Name") == name]


def own_alarms(aws: Adapters, endpoint: Endpoint) -> list[dict[str, Any]]:
    name = alarm_name(endpoint.settings, endpoint.host)
    return list(aws.cloud.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"])


def by_hand(aws: Adapters, endpoint: Endpoint, instance_id: str, weight: int) -> dict[str, Any]:
    """A record that an operator made, without a health check."""
    record = {
        "Name": f"{endpoint.settings.read_endpoint.record_name}.",
        "Type": "A",
        "SetIdentifier": instance_id,
        "Weight": weight,
        "TTL": endpoint.settings.read_endpoint.ttl_seconds,
        "ResourceRecords": [{"Value": "10.77.9.9"}],
    }
    change(aws, endpoint, "CREATE", record)
    return record


def test_a_replica_s_record_has_its_address_and_a_health_check_on_its_own_alarm(
    aws: Adapters, by_name: Endpoint
) -> None:
    for _ in range(3):
        by_name.router.register(by_name.settings, by_name.host)
    [check], [alarm] = own_checks(aws, by_name), own_alarms(aws, by_name)
    assert records(aws, by_name)[by_name.host] == {
        "Name": f"{by_name.settings.read_endpoint.record_name}.",
        "Type": "A",
        "SetIdentifier": by_name.host,
        "Weight": 1,
        "TTL": 30,
        "ResourceRecords": [{"Value": aws.compute.instance(by_name.host).private_ip}],
        "HealthCheckId": check["Id"],
    }
    assert check["HealthCheckConfig"] == {
        "Type": "CLOUDWATCH_METRIC",
        "AlarmIdentifier": {"Region": "us-east-1", "Name": alarm["AlarmName"]},
        "InsufficientDataHealthStatus": "Unhealthy",
    }
    assert {one["Name"]: one["Value"] for one in alarm["Dimensions"]} == {
        "Cluster": by_name.settings.name, "Instance": by_name.host, "service": "peaker",
    }  # fmt: skip
    asked = ("MetricName", "Statistic", "ComparisonOperator", "Threshold", "EvaluationPeriods", "Period")
    period_seconds = by_name.settings.health.check_minutes * 60
    values = ["ReplicaServes", "Minimum", "LessThanThreshold", 1.0, 2, period_seconds]
    assert [alarm[name] for name in asked] == values
    assert alarm["TreatMissingData"] == "breaching"
    wanted = {"peaker:owner": "local", "peaker:cluster": by_name.settings.name}
    tags = aws.cloud.client("cloudwatch").list_tags_for_resource(ResourceARN=alarm["AlarmArn"])["Tags"]
    assert {one["Key"]: one["Value"] for one in tags} == wanted
    asked_of = {"ResourceType": "healthcheck", "ResourceId": check["Id"]}
    listed = aws.cloud.client("route53").list_tags_for_resource(**asked_of)["ResourceTagSet"]["Tags"]
    assert {one["Key"]: one["Value"] for one in listed} == {**wanted, "Name": alarm["AlarmName"]}


@pytest.mark.parametrize(
    ("alarm_state", "state"),
    [
        ("OK", TargetState.HEALTHY),
        ("ALARM", TargetState.UNHEALTHY),
        ("INSUFFICIENT_DATA", TargetState.INITIAL),
    ],
)
def test_a_target_stands_as_its_alarm_does(
    aws: Adapters, by_name: Endpoint, alarm_state: str, state: TargetState
) -> None:
    by_name.router.promote(by_name.settings, by_name.host)
    name = alarm_name(by_name.settings, by_name.host)

    def stands() -> bool:
        # The alarm has no data, so it sounds again within a minute of cloud time.
        aws.cloud.client("cloudwatch").set_alarm_state(
            AlarmName=name, StateValue=alarm_state, StateReason="said so"
        )
        return by_name.router.health(by_name.settings)[by_name.host].state is state

    WorkflowCloud.eventually(stands)


def test_a_record_without_a_health_check_is_never_called_healthy(aws: Adapters, by_name: Endpoint) -> None:
    """I4: it is answered whatever its replica does."""
    by_hand(aws, by_name, "i-0000000000000000a", 100)
    health = by_name.router.health(by_name.settings)["i-0000000000000000a"]
    assert (health.state, health.reason) == (TargetState.INITIAL, "its record has no health check")


def test_an_alarm_that_somebody_deleted_is_not_taken_for_good(aws: Adapters, by_name: Endpoint) -> None:
    by_name.router.promote(by_name.settings, by_name.host)
    aws.cloud.client("cloudwatch").delete_alarms(AlarmNames=[alarm_name(by_name.settings, by_name.host)])
    health = by_name.router.health(by_name.settings)[by_name.host]
    assert (health.state, health.reason) == (TargetState.INITIAL, "its health check's alarm is missing")


@pytest.mark.parametrize(("share", "weight"), [(0.1, 10), (0.3, 30), (0.0001, 1), (1.0, 99)])
def test_a_share_is_the_newcomer_s_weight_and_neither_nothing_nor_all(
    aws: Adapters, by_name: Endpoint, other: str, share: float, weight: int
) -> None:
    by_name.router.promote(by_name.settings, other)
    by_name.router.register(by_name.settings, by_name.host)
    for _ in range(2):
        by_name.router.set_share(by_name.settings, share)
    weights = {name: one["Weight"] for name, one in records(aws, by_name).items()}
    assert weights == {other: 100, by_name.host: weight}


def test_a_record_that_an_operator_gave_no_weight_stays_out(aws: Adapters, by_name: Endpoint) -> None:
    by_hand(aws, by_name, "i-0000000000000000a", 0)
    by_name.router.register(by_name.settings, by_name.host)
    by_name.router.set_share(by_name.settings, 0.5)
    weights = {name: one["Weight"] for name, one in records(aws, by_name).items()}
    assert weights == {"i-0000000000000000a": 0, by_name.host: 50}
    assert by_name.groups == (set(), {by_name.host})


def test_what_is_as_it_should_be_is_not_written_again(aws: Adapters, by_name: Endpoint) -> None:
    """Five requests per second are the whole account's."""
    by_name.router.register(by_name.settings, by_name.host)
    by_name.router.set_share(by_name.settings, 0.5)
    aws.cloud.faults.add("route53:ChangeResourceRecordSets", "InvalidInput")
    by_name.router.register(by_name.settings, by_name.host)
    by_name.router.set_share(by_name.settings, 0.5)
    with pytest.raises(errors.AwsCallRejected, match="route53:ChangeResourceRecordSets: InvalidInput"):
        by_name.router.promote(by_name.settings, by_name.host)


@pytest.mark.parametrize("action", ["route53:DeleteHealthCheck", "cloudwatch:DeleteAlarms"])
def test_what_is_left_after_a_lost_answer_goes_with_the_next_try(
    aws: Adapters, by_name: Endpoint, action: str
) -> None:
    by_name.router.register(by_name.settings, by_name.host)
    aws.cloud.faults.add(action, "InternalFailure", when="after", times=10)
    with pytest.raises(errors.AwsUnavailable):
        by_name.router.deregister(by_name.settings, by_name.host)
    aws.cloud.faults.clear()
    by_name.router.deregister(by_name.settings, by_name.host)
    assert (own_checks(aws, by_name), own_alarms(aws, by_name)) == ([], [])


def test_a_record_that_may_not_be_deleted_is_no_success(aws: Adapters, by_name: Endpoint) -> None:
    by_name.router.register(by_name.settings, by_name.host)
    aws.cloud.faults.add("route53:ChangeResourceRecordSets", "AccessDenied")
    with pytest.raises(errors.AwsCallRejected, match="AccessDenied"):
        by_name.router.deregister(by_name.settings, by_name.host)


def test_a_new_ttl_reaches_all_records_with_the_next_change(
    aws: Adapters, by_name: Endpoint, other: str
) -> None:
    """Route 53 refuses two TTLs in one set."""
    by_name.router.promote(by_name.settings, other)
    shorter = {**by_name.settings.read_endpoint.model_dump(), "ttl_seconds": 10}
    settings = orders(name=by_name.settings.name, read_endpoint=shorter)
    by_name.router.register(settings, by_name.host)
    assert {one["TTL"] for one in records(aws, by_name).values()} == {10}


def test_records_of_other_names_of_the_zone_are_none_of_ours(aws: Adapters, by_name: Endpoint) -> None:
    name = by_name.settings.read_endpoint.record_name
    for foreign in (f"a.{name}", name.replace("reads.", "writes."), name.replace("reads.", "")):
        simple = {"Name": foreign, "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "10.77.9.9"}]}
        change(aws, by_name, "CREATE", simple)
    assert by_name.router.warming_health(by_name.settings) == {}


def test_two_health_checks_of_a_lost_answer_both_go(aws: Adapters, by_name: Endpoint) -> None:
    by_name.router.register(by_name.settings, by_name.host)
    [first] = own_checks(aws, by_name)
    aws.cloud.client("route53").create_health_check(
        CallerReference="sent again", HealthCheckConfig=first["HealthCheckConfig"]
    )
    by_name.router.deregister(by_name.settings, by_name.host)
    assert own_checks(aws, by_name) == []


@pytest.mark.parametrize("failing", ["ChangeResourceRecordSets", "CreateHealthCheck"])
def test_a_registration_that_stopped_half_way_can_be_seen_and_taken_back(
    aws: Adapters, by_name: Endpoint, failing: str
) -> None:
    aws.cloud.faults.add(f"route53:{failing}", "InvalidInput")
    with pytest.raises(errors.AwsCallRejected):
        by_name.router.register(by_name.settings, by_name.host)
    assert by_name.router.warming_health(by_name.settings)[by_name.host].state is TargetState.UNUSED
    by_name.router.deregister(by_name.settings, by_name.host)
    assert by_name.router.warming_health(by_name.settings) == {}
    assert (own_checks(aws, by_name), own_alarms(aws, by_name)) == ([], [])


@pytest.mark.parametrize("gone", ["record", "health check", "alarm"])
def test_what_is_half_gone_goes_altogether(aws: Adapters, by_name: Endpoint, gone: str) -> None:
    by_name.router.promote(by_name.settings, by_name.host)
    [check] = own_checks(aws, by_name)
    if gone == "record":
        change(aws, by_name, "DELETE", records(aws, by_name)[by_name.host])
    elif gone == "health check":
        aws.cloud.client("route53").delete_health_check(HealthCheckId=check["Id"])
    elif gone == "alarm":
        name = alarm_name(by_name.settings, by_name.host)
        aws.cloud.client("cloudwatch").delete_alarms(AlarmNames=[name])
    by_name.router.deregister(by_name.settings, by_name.host)
    assert (records(aws, by_name), own_checks(aws, by_name), own_alarms(aws, by_name)) == ({}, [], [])


def test_an_operator_puts_a_base_replica_behind_the_name(aws: Adapters, by_name: Endpoint) -> None:
    cluster = by_name.settings.name
    settings = by_name.settings.model_copy(update={"environment": "contract"})
    aws.cloud.client("ssm").put_parameter(
        Name=f"/peaker/contract/clusters/{cluster}", Value=settings.model_dump_json(), Type="String"
    )
    tags = {"peaker:environment": "contract", "peaker:cluster": cluster, "peaker:role": "replica"}
    base = aws.running(f"token-{cluster}", tags).instance_id
    deployed = DeploymentOptions("contract", "us-east-1", endpoint=aws.cloud.endpoint_url)
    register_base_command(cluster, base, deployed)
    record = records(aws, by_name)[base]
    assert (record["Weight"], "HealthCheckId" in record) == (100, True)
    with pytest.raises(errors.ResourceNotFound, match="i-0123456789abcdef0"):
        register_base_command(cluster, "i-0123456789abcdef0", deployed)


def test_one_that_is_terminated_gets_neither_record_nor_health_check(
    aws: Adapters, by_name: Endpoint
) -> None:
    gone = aws.running("token-terminated").instance_id
    aws.compute.terminate(gone)
    WorkflowCloud.eventually(lambda: aws.compute.instance(gone).state == "terminated")
    with pytest.raises(errors.AwsCallRejected, match=f"{gone} has no address to register"):
        by_name.router.register(by_name.settings, gone)
    assert (records(aws, by_name), own_checks(aws, by_name), own_alarms(aws, by_name)) == ({}, [], [])


def test_the_doctor_sees_the_zone_and_the_records_of_a_name(aws: Adapters, by_name: Endpoint) -> None:
    settings, host = by_name.settings, by_name.host
    inquiry = Inquiry(aws.cloud.client, settings, aws.cloud.clock.now())
    before = inquiry.endpoint()
    assert (before.zone, before.record_ttls, before.groups) == (
        f"{settings.name}.example",
        [],
        None,
    )
    by_name.router.register(settings, host)
    by_name.router.promote(settings, host)
    after = inquiry.endpoint()
    assert after.record_ttls == [settings.read_endpoint.ttl_seconds]  # type: ignore[union-attr]
    assert not isinstance(after.health, Unknown)
    assert set(after.health) == {host}
    gone = settings.read_endpoint.model_copy(update={"hosted_zone_id": "Z0GONE"})
    nowhere = Inquiry(
        aws.cloud.client, settings.model_copy(update={"read_endpoint": gone}), aws.cloud.clock.now()
    )
    assert nowhere.endpoint().zone is None
