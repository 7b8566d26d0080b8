"""A cluster's read endpoint: an internal Network Load Balancer whose targets Peaker registers."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from environments.schema import Cluster
from stacks.constructs.acknowledgements import acknowledge_no_access_log
from stacks.naming import Names

HEALTH_PATH = "/health"
LONGEST_DEREGISTRATION_DELAY_SECONDS = 3600


class ReadEndpoint(Construct):
    """Load balancer, TCP listener and target group of one cluster.

    Health is asked over HTTP on a port of its own, because a bare TCP probe of MySQL counts as a failed
    connection there and says nothing of lag or of read_only.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, cluster: Cluster) -> None:
        super().__init__(scope, construct_id)
        settings = names.environment
        zones = sorted(cluster.subnets)
        subnet_ids = list(settings.network.subnet_ids or (cluster.subnets[zone] for zone in zones))
        name = names.read_endpoint(cluster.name)
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=settings.network.vpc_id, availability_zones=zones
        )
        subnets = [
            ec2.Subnet.from_subnet_id(self, f"Subnet{index}", subnet_id)
            for index, subnet_id in enumerate(subnet_ids)
        ]
        load_balancer = elbv2.NetworkLoadBalancer(
            self,
            "LoadBalancer",
            load_balancer_name=name,
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=subnets),
            internet_facing=False,
            # A peak replica may be the only healthy target in its zone: every node must reach every target.
            cross_zone_enabled=True,
            deletion_protection=settings.retain_state,
        )
        acknowledge_no_access_log(load_balancer)
        endpoint = cluster.read_endpoint
        self.target_group = elbv2.NetworkTargetGroup(
            self,
            "Targets",
            target_group_name=name,
            vpc=vpc,
            port=endpoint.port,
            protocol=elbv2.Protocol.TCP,
            target_type=elbv2.TargetType.INSTANCE,
            deregistration_delay=Duration.seconds(
                min(cluster.drain.limit_seconds, LONGEST_DEREGISTRATION_DELAY_SECONDS)
            ),
            health_check=elbv2.HealthCheck(
                protocol=elbv2.Protocol.HTTP,
                port=str(endpoint.health_port),
                path=HEALTH_PATH,
                healthy_http_codes="200",
                interval=Duration.seconds(10),
                timeout=Duration.seconds(5),
                healthy_threshold_count=2,
                unhealthy_threshold_count=2,
            ),
        )
        load_balancer.add_listener(
            "Reads",
            port=endpoint.listener_port,
            protocol=elbv2.Protocol.TCP,
            default_target_groups=[self.target_group],
        )
        self.dns_name = load_balancer.load_balancer_dns_name

    @property
    def target_group_arn(self) -> str:
        return self.target_group.target_group_arn
