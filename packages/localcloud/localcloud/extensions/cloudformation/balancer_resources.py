"""Load balancers, target groups and listeners."""

from __future__ import annotations

from localcloud.extensions.cloudformation.resource_type import (
    Made,
    Request,
    ResourceType,
    call,
    deletes,
    tag_list,
)

TARGET_GROUP_FIXED = ("Name", "Port", "Protocol", "ProtocolVersion", "TargetType", "VpcId", "IpAddressType")
BALANCER_FIXED = ("Name", "Type", "Scheme")


def attribute_list(request: Request, key: str) -> list[dict[str, str]]:
    return [{"Key": item["Key"], "Value": str(item["Value"])} for item in request.properties.get(key, [])]


def _create_balancer(request: Request) -> Made:
    answer = call(
        request,
        "elbv2",
        "create_load_balancer",
        "LoadBalancerAttributes",
        Name=request.name("Name", 32),
        Tags=tag_list(request),
    )["LoadBalancers"][0]
    arn = answer["LoadBalancerArn"]
    _put_attributes(request, arn)
    made = {
        "DNSName": answer["DNSName"],
        "LoadBalancerFullName": arn.split("loadbalancer/", 1)[1],
        "LoadBalancerName": answer["LoadBalancerName"],
        "LoadBalancerArn": arn,
        "CanonicalHostedZoneID": answer.get("CanonicalHostedZoneId", ""),
    }
    return Made(arn, made)


def _put_attributes(request: Request, arn: str) -> None:
    attributes = attribute_list(request, "LoadBalancerAttributes")
    if attributes:
        request.client("elbv2").modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=attributes)


def _update_balancer(request: Request, made: Made) -> Made:
    """In place, with its address, listeners and targets."""
    kept = (*BALANCER_FIXED, "LoadBalancerAttributes", "Tags")
    call(request, "elbv2", "set_subnets", *kept, LoadBalancerArn=made.physical_id)
    _put_attributes(request, made.physical_id)
    return made


def _put_group_attributes(request: Request, arn: str) -> None:
    attributes = attribute_list(request, "TargetGroupAttributes")
    if attributes:
        request.client("elbv2").modify_target_group_attributes(TargetGroupArn=arn, Attributes=attributes)


def _create_target_group(request: Request) -> Made:
    answer = call(
        request,
        "elbv2",
        "create_target_group",
        "TargetGroupAttributes",
        Name=request.name("Name", 32),
        Tags=tag_list(request),
    )["TargetGroups"][0]
    arn = answer["TargetGroupArn"]
    _put_group_attributes(request, arn)
    name = {"TargetGroupName": answer["TargetGroupName"], "TargetGroupFullName": arn.rsplit(":", 1)[1]}
    return Made(arn, {"TargetGroupArn": arn, **name})


def _update_target_group(request: Request, made: Made) -> Made:
    """In place; what cannot be changed so is in TARGET_GROUP_FIXED."""
    kept = (*TARGET_GROUP_FIXED, "TargetGroupAttributes", "Tags")
    call(request, "elbv2", "modify_target_group", *kept, TargetGroupArn=made.physical_id)
    _put_group_attributes(request, made.physical_id)
    return made


def _create_listener(request: Request) -> Made:
    answer = call(request, "elbv2", "create_listener", Tags=tag_list(request))["Listeners"][0]
    return Made(answer["ListenerArn"], {"ListenerArn": answer["ListenerArn"]})


def _update_listener(request: Request, made: Made) -> Made:
    """In place: a listener that is replaced would cut every connection."""
    fixed = ("LoadBalancerArn", "Tags")
    call(request, "elbv2", "modify_listener", *fixed, ListenerArn=made.physical_id)
    return made


TYPES: dict[str, ResourceType] = {
    "AWS::ElasticLoadBalancingV2::Listener": ResourceType(
        _create_listener,
        deletes("elbv2", "delete_listener", "ListenerArn", "ListenerNotFound"),
        _update_listener,
        ("LoadBalancerArn",),
    ),
    # CloudFormation, unlike the API, deletes what its own attribute protects only after a change; we do as the API.
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ResourceType(
        _create_balancer,
        deletes("elbv2", "delete_load_balancer", "LoadBalancerArn"),
        _update_balancer,
        BALANCER_FIXED,
    ),
    "AWS::ElasticLoadBalancingV2::TargetGroup": ResourceType(
        _create_target_group,
        deletes("elbv2", "delete_target_group", "TargetGroupArn"),
        _update_target_group,
        TARGET_GROUP_FIXED,
    ),
}
