"""A cluster's read endpoint: an internal Network Load Balancer whose targets Peaker registers."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from environments.schema import Cluster
from peaker_contract.endpoint_settings import NlbEndpoint
from stacks.constructs.acknowledgements import acknowledge
from stacks.constructs.keeping import kept_once_created
from stacks.naming import Names

HEALTH_PATH = "/health"
LONGEST_DEREGISTRATION_DELAY_SECONDS = 3600
# Two groups of the same replicas share new connections by these; a ramp moves them.
SERVING_WEIGHT, WARMING_WEIGHT = 999, 1


class ReadEndpoint(Construct):
    """Load balancer, TCP listener and the two target groups of one cluster.

    The serving group has the proven replicas, the warming group those and the newcomers: a newcomer's share of new
    connections follows the listener's weights, which no load balancer without slow start could give it otherwise.

    Health is asked over HTTP on a port of its own, because a bare TCP probe of MySQL counts as a failed
    connection there and says nothing of lag or of read_only.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, cluster: Cluster, endpoint: NlbEndpoint
    ) -> None:
        super().__init__(scope, construct_id)
        settings = names.environment
        zones = sorted(cluster.subnets)
        by_zone = endpoint.subnets or cluster.subnets
        subnet_ids = [by_zone[zone] for zone in sorted(by_zone)]
        name = names.read_endpoint(cluster.name)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id=settings.vpc_id, availability_zones=zones)
        subnets = [
            ec2.Subnet.from_subnet_id(self, f"Subnet{index}", subnet_id)
            for index, subnet_id in enumerate(subnet_ids)
        ]
        for subnet in subnets:
            acknowledge(
                subnet,
                "Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId",
                "The subnet is given by its id, nothing is looked up, and nothing here reads its route table.",
            )
        load_balancer = elbv2.NetworkLoadBalancer(
            self,
            "LoadBalancer",
            load_balancer_name=name,
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=subnets),
            internet_facing=False,
            # A peak replica may be the only healthy target in its zone: every node must reach every target.
            cross_zone_enabled=True,
        )
        # Deletion protection would keep a load balancer whose stack was never made, and its name with it.
        load_balancer.apply_removal_policy(kept_once_created(settings.retain_state))
        acknowledge(
            load_balancer,
            "AwsSolutions-ELB2",
            "Network Load Balancers log only TLS listeners; this one passes MySQL's own TCP through.",
        )
        self._endpoint = endpoint
        self.target_group = self._target_group("Targets", name, vpc, cluster)
        self.warming_target_group = self._target_group("WarmingTargets", f"{name}-w", vpc, cluster)
        self.listener = load_balancer.add_listener(
            "Reads",
            port=endpoint.listener_port,
            protocol=elbv2.Protocol.TCP,
            default_action=elbv2.NetworkListenerAction.weighted_forward(
                [
                    elbv2.NetworkWeightedTargetGroup(target_group=self.target_group, weight=SERVING_WEIGHT),
                    elbv2.NetworkWeightedTargetGroup(
                        target_group=self.warming_target_group, weight=WARMING_WEIGHT
                    ),
                ]
            ),
        )
        self.dns_name = load_balancer.load_balancer_dns_name

    def _target_group(
        self, construct_id: str, name: str, vpc: ec2.IVpc, cluster: Cluster
    ) -> elbv2.NetworkTargetGroup:
        return elbv2.NetworkTargetGroup(
            self,
            construct_id,
            target_group_name=name,
            vpc=vpc,
            port=self._endpoint.port,
            protocol=elbv2.Protocol.TCP,
            target_type=elbv2.TargetType.INSTANCE,
            deregistration_delay=Duration.seconds(
                min(cluster.drain.limit_seconds, LONGEST_DEREGISTRATION_DELAY_SECONDS)
            ),
            health_check=elbv2.HealthCheck(
                protocol=elbv2.Protocol.HTTP,
                port=str(self._endpoint.health_port),
                path=HEALTH_PATH,
                healthy_http_codes="200",
                interval=Duration.seconds(10),
                # The responder answers from memory; a host that is cut off is known by this time-out.
                timeout=Duration.seconds(2),
                healthy_threshold_count=2,
                unhealthy_threshold_count=2,
            ),
        )

    @property
    def deployed_settings(self) -> dict[str, str]:
        """Returns the endpoint's facts for the functions, by the names of the cluster's settings."""
        return {
            "target_group_arn": self.target_group.target_group_arn,
            "warming_target_group_arn": self.warming_target_group.target_group_arn,
            "listener_arn": self.listener.listener_arn,
        }
