"""`peaker doctor` asks AWS here: read only, one permission named per question. A missing answer is Unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, assert_never

from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory, query_period_seconds
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.read_endpoint.by_kind import read_endpoints
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Instance, Volume
from peaker.ports.endpoint import TrafficRouter

from peaker_cli.doctor.account import AccountFacts
from peaker_cli.doctor.deployed import OPERATOR_ALARMS, DeployedAlarm, DeployedFacts, names_of, read_data_key
from peaker_cli.doctor.endpoint import EndpointFacts, HostedZone, Listener, TargetGroup
from peaker_cli.doctor.finding import absent, ask
from peaker_cli.doctor.gather_account import AccountInquiry
from peaker_cli.doctor.metrics import STALE_AFTER_PERIODS, MetricFacts, similar_metrics, unit_of_no_load
from peaker_cli.doctor.network import Group, NetworkFacts, Rule, Subnet
from peaker_contract.cluster import ClusterSettings
from peaker_contract.endpoint_settings import NlbEndpointSettings, Route53EndpointSettings
from peaker_contract.names import named, of_cluster

_HISTORY_DAYS = 28

Client = Callable[[str], Any]


class Inquiry:
    """Asks about one cluster. `client` makes boto3 clients; each is made once."""

    def __init__(self, client: Client, settings: ClusterSettings, now: datetime) -> None:
        self._client: Client = cache(client)
        self._settings = settings
        self._now = now

    def instances(self) -> list[Instance] | Unknown:
        """All with the cluster's tags."""
        compute = Ec2Compute(self._client("ec2"), self._settings.environment)
        return ask("ec2:DescribeInstances", lambda: compute.instances_of_cluster(self._settings.name))

    def volumes(self, instance_id: str) -> list[Volume] | Unknown:
        """Those that are attached to it."""
        storage = Ec2Storage(self._client("ec2"), self._client("ec2"), self._settings.environment)
        return ask("ec2:DescribeVolumes", lambda: storage.volumes_of_instance(instance_id))

    def agent(self, instance_id: str) -> Sequence[Mapping[str, Any]] | Unknown:
        """Returns the instance's DescribeInstanceInformation."""
        wanted = [{"Key": "InstanceIds", "Values": [instance_id]}]
        return ask(
            "ssm:DescribeInstanceInformation",
            lambda: list(
                self._client("ssm").describe_instance_information(Filters=wanted)["InstanceInformationList"]
            ),
        )

    def account(self, volumes: Sequence[Volume]) -> AccountFacts:
        """`volumes` are a base replica's data volumes."""
        return AccountInquiry(self._client, self._settings, self._now).facts(volumes)

    # -- network -------------------------------------------------------------------------------------------

    def network(self, base: Sequence[str], source: str | None, endpoint: EndpointFacts) -> NetworkFacts:
        """`base` and `source` are instance ids."""
        groups_of = ask(
            "ec2:DescribeInstances", lambda: self._groups_of([*base, *([source] if source else [])])
        )
        known = {} if isinstance(groups_of, Unknown) else groups_of
        balancer = self._balancer(endpoint)
        balancer_subnets = balancer if balancer is None or isinstance(balancer, Unknown) else balancer[0]
        asked = {*self._settings.subnets.values()}
        asked |= (
            set()
            if balancer_subnets is None or isinstance(balancer_subnets, Unknown)
            else {*balancer_subnets}
        )
        groups = {*self._settings.security_group_ids, *(one for named in known.values() for one in named)}
        return NetworkFacts(
            subnets=ask("ec2:DescribeSubnets", lambda: self._subnets(sorted(asked))),
            groups=ask("ec2:DescribeSecurityGroups", lambda: self._groups(sorted(groups))),
            base_groups={name: known[name] for name in base if name in known},
            source_groups=known.get(source or "", ()),
            balancer_subnets=balancer_subnets,
            balancer_groups=balancer if balancer is None or isinstance(balancer, Unknown) else balancer[1],
            target_vpc=_vpc_of(endpoint),
        )

    def _groups_of(self, instance_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        if not instance_ids:
            return {}
        described = self._described([{"Name": "instance-id", "Values": list(instance_ids)}])
        return {
            one["InstanceId"]: tuple(group["GroupId"] for group in one.get("SecurityGroups", []))
            for one in described
        }

    def _described(self, filters: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
        for page in self._client("ec2").get_paginator("describe_instances").paginate(Filters=filters):
            for group in page["Reservations"]:
                yield from group["Instances"]

    def _subnets(self, wanted: Sequence[str]) -> dict[str, Subnet]:
        pages = self._client("ec2").get_paginator("describe_subnets")
        return {
            one["SubnetId"]: Subnet(
                one["SubnetId"],
                one["AvailabilityZone"],
                one["VpcId"],
                one["CidrBlock"],
                one["AvailableIpAddressCount"],
            )
            for page in pages.paginate(Filters=[{"Name": "subnet-id", "Values": list(wanted)}])
            for one in page["Subnets"]
        }

    def _groups(self, wanted: Sequence[str]) -> dict[str, Group]:
        pages = self._client("ec2").get_paginator("describe_security_groups")
        return {
            one["GroupId"]: Group(
                one["GroupId"],
                one.get("VpcId", ""),
                tuple(_rule(raw) for raw in one.get("IpPermissions", [])),
                tuple(_rule(raw) for raw in one.get("IpPermissionsEgress", [])),
            )
            for page in pages.paginate(Filters=[{"Name": "group-id", "Values": list(wanted)}])
            for one in page["SecurityGroups"]
        }

    def _balancer(self, endpoint: EndpointFacts) -> tuple[list[str], list[str]] | Unknown | None:
        """(subnets, security groups) of the load balancers before the target groups."""
        if endpoint.groups is None or isinstance(endpoint.groups, Unknown):
            return endpoint.groups
        arns = sorted({arn for group in endpoint.groups.values() for arn in group.balancers})
        if not arns:
            return None

        def read() -> tuple[list[str], list[str]]:
            found = self._client("elbv2").describe_load_balancers(LoadBalancerArns=arns)["LoadBalancers"]
            subnets = [zone["SubnetId"] for one in found for zone in one["AvailabilityZones"]]
            return subnets, [group for one in found for group in one.get("SecurityGroups", [])]

        return ask("elasticloadbalancing:DescribeLoadBalancers", read)

    # -- read endpoint -------------------------------------------------------------------------------------

    def endpoint(self) -> EndpointFacts:
        """The read endpoint by its kind."""
        router = read_endpoints(self._client)
        match self._settings.read_endpoint:
            case NlbEndpointSettings() as endpoint:
                return self._balanced(endpoint, router)
            case Route53EndpointSettings() as endpoint:
                return self._by_name(endpoint, router)
            case other:
                assert_never(other)

    def _balanced(self, endpoint: NlbEndpointSettings, router: TrafficRouter) -> EndpointFacts:
        return EndpointFacts(
            health=ask("elasticloadbalancing:DescribeTargetHealth", lambda: router.health(self._settings)),
            groups=ask("elasticloadbalancing:DescribeTargetGroups", lambda: self._target_groups(endpoint)),
            listener=ask("elasticloadbalancing:DescribeListeners", lambda: self._listener(endpoint)),
        )

    def _by_name(self, endpoint: Route53EndpointSettings, router: TrafficRouter) -> EndpointFacts:
        return EndpointFacts(
            health=ask("route53:ListResourceRecordSets", lambda: router.health(self._settings)),
            zone=ask("route53:GetHostedZone", lambda: self._zone(endpoint)),
            record_ttls=ask("route53:ListResourceRecordSets", lambda: self._ttls(endpoint)),
        )

    def _target_groups(self, endpoint: NlbEndpointSettings) -> dict[str, TargetGroup]:
        found = {}
        for arn in (endpoint.target_group_arn, endpoint.warming_target_group_arn):
            answer = absent(["TargetGroupNotFound"], lambda a=arn: self._target_group(a)) if arn else None  # type: ignore[misc]
            if answer is not None:
                found[answer.arn] = answer
        return found

    def _target_group(self, arn: str) -> TargetGroup:
        [one] = self._client("elbv2").describe_target_groups(TargetGroupArns=[arn])["TargetGroups"]
        return TargetGroup(
            arn=one["TargetGroupArn"],
            port=one.get("Port"),
            vpc_id=one.get("VpcId", ""),
            health_protocol=one.get("HealthCheckProtocol", ""),
            health_port=one.get("HealthCheckPort", ""),
            health_path=one.get("HealthCheckPath", ""),
            balancers=tuple(one.get("LoadBalancerArns", [])),
        )

    def _listener(self, endpoint: NlbEndpointSettings) -> Listener | None:
        elbv2, arn = self._client("elbv2"), endpoint.listener_arn
        if not arn:
            return None
        answer = absent(["ListenerNotFound"], lambda: elbv2.describe_listeners(ListenerArns=[arn]))
        if not answer or not answer["Listeners"]:
            return None
        [one] = answer["Listeners"]
        groups = [
            str(group["TargetGroupArn"])
            for action in one.get("DefaultActions", [])
            for group in (*action.get("ForwardConfig", {}).get("TargetGroups", []), action)
            if "TargetGroupArn" in group
        ]
        return Listener(one["Port"], tuple(dict.fromkeys(groups)))

    def _zone(self, endpoint: Route53EndpointSettings) -> HostedZone | None:
        route53, zone = self._client("route53"), endpoint.hosted_zone_id
        answer = absent(["NoSuchHostedZone"], lambda: route53.get_hosted_zone(Id=zone))
        return None if answer is None else HostedZone(answer["HostedZone"]["Name"].rstrip(".").lower())

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
        """The load metric as a forecast reads it."""
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
        """Workflows, alarms and rules of the environment."""
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

    def _alarms(self) -> dict[str, DeployedAlarm]:
        prefix = of_cluster(self._settings.environment, self._settings.name, "")
        pages = self._client("cloudwatch").get_paginator("describe_alarms").paginate(AlarmNamePrefix=prefix)
        return {
            one["AlarmName"]: DeployedAlarm(
                one["AlarmName"],
                one.get("StateValue", ""),
                one.get("StateReason", ""),
                bool(one.get("ActionsEnabled", True)),
                tuple(one.get("AlarmActions", [])),
            )
            for page in pages
            for one in page["MetricAlarms"]
        }

    def _rules(self) -> dict[str, bool]:
        prefix = named(self._settings.environment, "")
        pages = self._client("events").get_paginator("list_rules").paginate(NamePrefix=prefix)
        return {one["Name"]: one["State"] != "DISABLED" for page in pages for one in page["Rules"]}

    def _topics(self, alarms: Mapping[str, DeployedAlarm]) -> list[str]:
        operators = [alarms[name] for name in names_of(self._settings, OPERATOR_ALARMS) if name in alarms]
        return sorted({arn for one in operators for arn in one.actions if ":sns:" in arn})

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


def _rule(raw: Mapping[str, Any]) -> Rule:
    """Reads a rule from EC2's IpPermission; -1 as a port is all of them."""
    first, last = raw.get("FromPort"), raw.get("ToPort")
    ports = None if first is None or last is None or first == -1 else (int(first), int(last))
    ranges = [one.get("CidrIp") for one in raw.get("IpRanges", [])]
    ranges += [one.get("CidrIpv6") for one in raw.get("Ipv6Ranges", [])]
    ranges += [one.get("GroupId") for one in raw.get("UserIdGroupPairs", [])]
    ranges += [one.get("PrefixListId") for one in raw.get("PrefixListIds", [])]
    return Rule(str(raw.get("IpProtocol", "")), ports, tuple(str(one) for one in ranges if one))


def _vpc_of(endpoint: EndpointFacts) -> str | Unknown | None:
    if endpoint.groups is None or isinstance(endpoint.groups, Unknown):
        return endpoint.groups
    return next((group.vpc_id for group in endpoint.groups.values()), None)
