"""`peaker doctor` asks AWS here: read only, one permission named per question. A missing answer is Unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, assert_never

from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory, query_period_seconds
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.read_endpoint.by_kind import read_endpoints
from peaker.adapters.ssm.commands import SsmCommands
from peaker.domain.host_results import Agent
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Instance, Volume

from peaker_cli.aws_failures import unless
from peaker_cli.doctor.account import AccountFacts
from peaker_cli.doctor.deployed import OPERATOR_ALARMS, DeployedFacts, names_of, read_data_key
from peaker_cli.doctor.endpoint import EndpointFacts
from peaker_cli.doctor.finding import Raw, ask
from peaker_cli.doctor.gather_account import AccountInquiry
from peaker_cli.doctor.metrics import STALE_AFTER_PERIODS, MetricFacts, similar_metrics, unit_of_no_load
from peaker_cli.doctor.network import NetworkFacts
from peaker_contract.cluster import ClusterSettings
from peaker_contract.endpoint_settings import NlbEndpointSettings, Route53EndpointSettings
from peaker_contract.names import named, of_cluster

_HISTORY_DAYS = 28
# By the kind as EC2 names it: the call, its filter and the id in its answer.
_DESCRIBED = {
    "Subnet": ("describe_subnets", "subnet-id", "SubnetId"),
    "SecurityGroup": ("describe_security_groups", "group-id", "GroupId"),
}

Client = Callable[[str], Any]


class Inquiry:
    """Asks about one cluster. `client` makes boto3 clients; each is made once."""

    def __init__(self, client: Client, settings: ClusterSettings, now: datetime) -> None:
        self._client: Client = cache(client)
        self._settings = settings
        self._now = now

    def instances(self) -> list[Instance] | Unknown:
        compute = Ec2Compute(self._client("ec2"), self._settings.environment)
        return ask("ec2:DescribeInstances", lambda: compute.instances_of_cluster(self._settings.name))

    def volumes(self, instance_id: str) -> list[Volume] | Unknown:
        storage = Ec2Storage(self._client("ec2"), self._client("ec2"), self._settings.environment)
        return ask("ec2:DescribeVolumes", lambda: storage.volumes_of_instance(instance_id))

    def agent(self, instance_id: str) -> Agent | Unknown:
        ssm = self._client("ssm")
        commands = SsmCommands(ssm, ssm, self._settings.environment)
        return ask("ssm:DescribeInstanceInformation", lambda: commands.agent(instance_id))

    def account(self, volumes: Sequence[Volume]) -> AccountFacts:
        """`volumes` are a base replica's data volumes."""
        return AccountInquiry(self._client, self._settings, self._now).facts(volumes)

    # -- network -------------------------------------------------------------------------------------------

    def network(self, base: Sequence[str], source: str | None, endpoint: EndpointFacts) -> NetworkFacts:
        """`base` and `source` are instance ids."""
        hosts = [*base, *([source] if source else [])]
        groups_of = ask("ec2:DescribeInstances", lambda: self._groups_of(hosts))
        known = {} if isinstance(groups_of, Unknown) else groups_of
        found = NetworkFacts(
            subnets={},
            groups={},
            base_groups={name: known[name] for name in base if name in known},
            source_groups=known.get(source or "", ()),
            balancers=self._balancers(endpoint),
            target_vpc=_vpc_of(endpoint),
        )
        subnets = {*self._settings.subnets.values(), *found.balancer_subnets}
        groups = {*self._settings.security_group_ids, *(one for named in known.values() for one in named)}
        return replace(
            found,
            subnets=ask("ec2:DescribeSubnets", lambda: self._by_id("Subnet", subnets)),
            groups=ask("ec2:DescribeSecurityGroups", lambda: self._by_id("SecurityGroup", groups)),
        )

    def _groups_of(self, instance_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        if not instance_ids:
            return {}
        filters = [{"Name": "instance-id", "Values": list(instance_ids)}]
        pages = self._client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        described = [one for page in pages for group in page["Reservations"] for one in group["Instances"]]
        return {
            one["InstanceId"]: tuple(group["GroupId"] for group in one.get("SecurityGroups", []))
            for one in described
        }

    def _by_id(self, kind: str, wanted: Iterable[str]) -> dict[str, Raw]:
        """Returns EC2's descriptions of subnets or security groups."""
        call, option, key = _DESCRIBED[kind]
        pages = self._client("ec2").get_paginator(call)
        filters = [{"Name": option, "Values": sorted(wanted)}]
        return {one[key]: one for page in pages.paginate(Filters=filters) for one in page[f"{kind}s"]}

    def _balancers(self, endpoint: EndpointFacts) -> list[Raw] | Unknown | None:
        """Those before the target groups."""
        if endpoint.groups is None or isinstance(endpoint.groups, Unknown):
            return endpoint.groups
        arns = sorted(
            {arn for group in endpoint.groups.values() for arn in group.get("LoadBalancerArns", [])}
        )
        if not arns:
            return None
        elbv2 = self._client("elbv2")
        return ask(
            "elasticloadbalancing:DescribeLoadBalancers",
            lambda: list(elbv2.describe_load_balancers(LoadBalancerArns=arns)["LoadBalancers"]),
        )

    # -- read endpoint -------------------------------------------------------------------------------------

    def endpoint(self) -> EndpointFacts:
        router = read_endpoints(self._client)
        match self._settings.read_endpoint:
            case NlbEndpointSettings() as balanced:
                health, groups = "DescribeTargetHealth", "DescribeTargetGroups"
                return EndpointFacts(
                    health=ask(f"elasticloadbalancing:{health}", lambda: router.health(self._settings)),
                    groups=ask(f"elasticloadbalancing:{groups}", lambda: self._target_groups(balanced)),
                    listener=ask("elasticloadbalancing:DescribeListeners", lambda: self._listener(balanced)),
                )
            case Route53EndpointSettings() as endpoint:
                return EndpointFacts(
                    health=ask("route53:ListResourceRecordSets", lambda: router.health(self._settings)),
                    zone=ask("route53:GetHostedZone", lambda: self._zone(endpoint)),
                    record_ttls=ask("route53:ListResourceRecordSets", lambda: self._ttls(endpoint)),
                )
            case other:
                assert_never(other)

    def _target_groups(self, endpoint: NlbEndpointSettings) -> dict[str, Raw]:
        describe = self._client("elbv2").describe_target_groups
        found: dict[str, Raw] = {}
        for arn in (endpoint.target_group_arn, endpoint.warming_target_group_arn):
            answer = (
                unless(["TargetGroupNotFound"], partial(describe, TargetGroupArns=[arn])) if arn else None
            )
            found |= {one["TargetGroupArn"]: one for one in (answer["TargetGroups"] if answer else ())}
        return found

    def _listener(self, endpoint: NlbEndpointSettings) -> Raw | None:
        elbv2, arn = self._client("elbv2"), endpoint.listener_arn
        if not arn:
            return None
        answer = unless(["ListenerNotFound"], lambda: elbv2.describe_listeners(ListenerArns=[arn]))
        return next(iter(answer["Listeners"]), None) if answer else None

    def _zone(self, endpoint: Route53EndpointSettings) -> str | None:
        """The name of the hosted zone, without its last dot."""
        route53, zone = self._client("route53"), endpoint.hosted_zone_id
        answer = unless(["NoSuchHostedZone"], lambda: route53.get_hosted_zone(Id=zone))
        return None if answer is None else str(answer["HostedZone"]["Name"]).rstrip(".").lower()

    def _ttls(self, endpoint: Route53EndpointSettings) -> list[int]:
        answer = self._client("route53").list_resource_record_sets(
            HostedZoneId=endpoint.hosted_zone_id, StartRecordName=endpoint.record_name, StartRecordType="A"
        )
        name = endpoint.record_name.rstrip(".").lower()
        return [
            int(one["TTL"])
            for one in answer["ResourceRecordSets"]
            if one["Name"].rstrip(".").lower() == name and one["Type"] == "A" and "TTL" in one
        ]

    # -- metrics -------------------------------------------------------------------------------------------

    def metrics(self) -> MetricFacts:
        cloudwatch, metric = self._client("cloudwatch"), self._settings.load_metric
        start = self._now - timedelta(days=_HISTORY_DAYS)
        recently = timedelta(seconds=metric.period_seconds * STALE_AFTER_PERIODS)
        history = ask(
            "cloudwatch:GetMetricData",
            lambda: CloudWatchLoadHistory(cloudwatch).points(self._settings, start, self._now),
        )
        recent = ask(
            "cloudwatch:GetMetricData",
            lambda: CloudWatchReadings(cloudwatch).load_points(
                self._settings, self._now - 2 * recently, self._now
            ),
        )
        return MetricFacts(
            now=self._now,
            similar=ask("cloudwatch:ListMetrics", lambda: similar_metrics(cloudwatch, metric)),
            recent=recent if isinstance(recent, Unknown) else [at for at, _ in recent],
            history=history
            if isinstance(history, Unknown)
            else [datetime.fromtimestamp(at, UTC) for at in history.times_seconds],
            loads=() if isinstance(history, Unknown) else history.values,
            history_period=timedelta(seconds=query_period_seconds(metric.period_seconds)),
            unit=ask("cloudwatch:GetMetricData", lambda: unit_of_no_load(cloudwatch, metric, self._now)),
        )

    # -- deployed ------------------------------------------------------------------------------------------

    def deployed(self) -> DeployedFacts:
        alarms = ask("cloudwatch:DescribeAlarms", self._alarms)
        topics = [] if isinstance(alarms, Unknown) else self._topics(alarms)
        return DeployedFacts(
            workflows=ask("states:ListStateMachines", self._workflows),
            alarms=alarms,
            rules=ask("events:ListRules", self._rules),
            subscribers=self._subscribers(topics),
            data_key=ask("kms:GetKeyPolicy", lambda: read_data_key(self._client, topics[0]))
            if topics
            else None,
        )

    def _workflows(self) -> list[str]:
        pages = self._client("stepfunctions").get_paginator("list_state_machines").paginate()
        return [one["name"] for page in pages for one in page["stateMachines"]]

    def _alarms(self) -> dict[str, Raw]:
        prefix = of_cluster(self._settings.environment, self._settings.name, "")
        pages = self._client("cloudwatch").get_paginator("describe_alarms").paginate(AlarmNamePrefix=prefix)
        return {one["AlarmName"]: one for page in pages for one in page["MetricAlarms"]}

    def _rules(self) -> dict[str, bool]:
        prefix = named(self._settings.environment, "")
        pages = self._client("events").get_paginator("list_rules").paginate(NamePrefix=prefix)
        return {one["Name"]: one["State"] != "DISABLED" for page in pages for one in page["Rules"]}

    def _topics(self, alarms: Mapping[str, Raw]) -> list[str]:
        operators = [alarms[name] for name in names_of(self._settings, OPERATOR_ALARMS) if name in alarms]
        return sorted({arn for one in operators for arn in one.get("AlarmActions", ()) if ":sns:" in arn})

    def _subscribers(self, topics: Sequence[str]) -> int | Unknown | None:
        if not topics:
            return None

        def read() -> int:
            sns = self._client("sns").get_paginator("list_subscriptions_by_topic")
            found = [
                one["SubscriptionArn"]
                for topic in topics
                for page in sns.paginate(TopicArn=topic)
                for one in page["Subscriptions"]
            ]
            return sum(arn.startswith("arn:") for arn in found)  # else PendingConfirmation or Deleted

        return ask("sns:ListSubscriptionsByTopic", read)


def _vpc_of(endpoint: EndpointFacts) -> str | Unknown | None:
    if endpoint.groups is None or isinstance(endpoint.groups, Unknown):
        return endpoint.groups
    return next((str(group.get("VpcId", "")) for group in endpoint.groups.values()), None)
