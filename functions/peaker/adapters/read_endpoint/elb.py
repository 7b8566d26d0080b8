"""The read endpoint as a network load balancer's target group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.service.read_shares import shares_of_groups
from peaker_contract.cluster import ClusterSettings
from peaker_contract.endpoint_settings import NlbEndpointSettings
from peaker_contract.errors import AwsCallRejected

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


# ForwardConfig weights go from 0 to 999 (botocore, elbv2:TargetGroupTuple).
WEIGHTS = 1000


class ElbReadEndpoint:
    """Port TrafficRouter; targets are instances at the cluster's port."""

    def __init__(self, elbv2: ElasticLoadBalancingv2Client) -> None:
        self._elbv2 = elbv2

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        self._register(_warming_group(settings), settings, instance_id)

    def promote(self, settings: ClusterSettings, instance_id: str) -> None:
        self._register(_serving_group(settings), settings, instance_id)

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        for group in (_warming_group(settings), _serving_group(settings)):
            with translated("elasticloadbalancing:DeregisterTargets"):
                self._elbv2.deregister_targets(
                    TargetGroupArn=group,
                    Targets=[{"Id": instance_id, "Port": settings.read_endpoint.port}],
                )

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return self._health(_serving_group(settings))

    def warming_health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return self._health(_warming_group(settings))

    def set_share(self, settings: ClusterSettings, share: float) -> None:
        warming = min(WEIGHTS - 1, max(1, round(WEIGHTS * share)))
        with translated("elasticloadbalancing:ModifyListener"):
            self._elbv2.modify_listener(
                ListenerArn=_deployed(settings, "listener_arn"),
                DefaultActions=[
                    {
                        "Type": "forward",
                        "ForwardConfig": {
                            "TargetGroups": [
                                {"TargetGroupArn": _serving_group(settings), "Weight": WEIGHTS - warming},
                                {"TargetGroupArn": _warming_group(settings), "Weight": warming},
                            ]
                        },
                    }
                ],
            )

    def read_shares(self, settings: ClusterSettings) -> dict[str, float]:
        with translated("elasticloadbalancing:DescribeListeners"):
            listeners = self._elbv2.describe_listeners(ListenerArns=[_deployed(settings, "listener_arn")])
        actions = [action for one in listeners["Listeners"] for action in one.get("DefaultActions", [])]
        return shares_of_groups(
            [
                (float(group.get("Weight", 1)), self._health(group["TargetGroupArn"]))
                for action in actions
                for group in action.get("ForwardConfig", {}).get("TargetGroups", [])
            ]
        )

    def _register(self, group: str, settings: ClusterSettings, instance_id: str) -> None:
        with translated("elasticloadbalancing:RegisterTargets"):
            self._elbv2.register_targets(
                TargetGroupArn=group,
                Targets=[{"Id": instance_id, "Port": settings.read_endpoint.port}],
            )

    def _health(self, group: str) -> dict[str, TargetHealth]:
        with translated("elasticloadbalancing:DescribeTargetHealth"):
            answer = self._elbv2.describe_target_health(TargetGroupArn=group)
        found: dict[str, TargetHealth] = {}
        for one in answer["TargetHealthDescriptions"]:
            state = one.get("TargetHealth", {})
            reason = f"{state.get('Reason', '')} {state.get('Description', '')}".strip()
            # A state that this release does not know is not healthy: it is unknown (I4).
            known = _STATES.get(state.get("State", ""), TargetState.UNAVAILABLE)
            found[one["Target"]["Id"]] = TargetHealth(known, reason)
        return found


def _serving_group(settings: ClusterSettings) -> str:
    return _deployed(settings, "target_group_arn")


def _warming_group(settings: ClusterSettings) -> str:
    return _deployed(settings, "warming_target_group_arn")


def _deployed(settings: ClusterSettings, field: str) -> str:
    endpoint = settings.read_endpoint
    if not isinstance(endpoint, NlbEndpointSettings):
        raise AwsCallRejected(f"{settings.name}: read_endpoint.kind is {endpoint.kind}, not nlb")
    arn = getattr(endpoint, field)
    if not arn:
        raise AwsCallRejected(f"{settings.name}: read_endpoint.{field} is missing; deploy the stack again")
    return str(arn)
