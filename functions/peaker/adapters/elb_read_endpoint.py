"""The read endpoint as a network load balancer's target group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import AwsCallRejected
from peaker.domain.inventory import TargetHealth, TargetState

if TYPE_CHECKING:
    from mypy_boto3_elbv2 import ElasticLoadBalancingv2Client

_STATES = {
    "initial": TargetState.INITIAL,
    "healthy": TargetState.HEALTHY,
    "unhealthy": TargetState.UNHEALTHY,
    "unhealthy.draining": TargetState.DRAINING,
    "draining": TargetState.DRAINING,
    "unused": TargetState.UNUSED,
    "unavailable": TargetState.UNAVAILABLE,
}


class ElbReadEndpoint:
    """Port TrafficRouter; targets are instances at the cluster's port."""

    def __init__(self, elbv2: ElasticLoadBalancingv2Client) -> None:
        self._elbv2 = elbv2

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        with translated("elasticloadbalancing:RegisterTargets"):
            self._elbv2.register_targets(
                TargetGroupArn=_target_group(settings),
                Targets=[{"Id": instance_id, "Port": settings.read_endpoint.port}],
            )

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        with translated("elasticloadbalancing:DeregisterTargets"):
            self._elbv2.deregister_targets(
                TargetGroupArn=_target_group(settings),
                Targets=[{"Id": instance_id, "Port": settings.read_endpoint.port}],
            )

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        with translated("elasticloadbalancing:DescribeTargetHealth"):
            answer = self._elbv2.describe_target_health(TargetGroupArn=_target_group(settings))
        found: dict[str, TargetHealth] = {}
        for one in answer["TargetHealthDescriptions"]:
            state = one.get("TargetHealth", {})
            reason = f"{state.get('Reason', '')} {state.get('Description', '')}".strip()
            # A state that this release does not know is not healthy: it is unknown (I4).
            known = _STATES.get(state.get("State", ""), TargetState.UNAVAILABLE)
            found[one["Target"]["Id"]] = TargetHealth(known, reason)
        return found


def _target_group(settings: ClusterSettings) -> str:
    arn = settings.read_endpoint.target_group_arn
    if not arn:
        raise AwsCallRejected(
            f"{settings.name}: read_endpoint.target_group_arn is missing; deploy the stack again"
        )
    return arn
