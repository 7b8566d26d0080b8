"""A load balancer with a serving and a warming group behind one listener, as the stack deploys it."""

from __future__ import annotations

from typing import Any

VPC = "vpc-0a770000000000001"
SUBNETS = ("subnet-0a77000000000001a", "subnet-0a77000000000001b")
DEREGISTRATION_DELAY_SECONDS = 30
# What the roles of the local environment may register at begins so.
PREFIX = "peaker-local"


def make_balanced_endpoint(elbv2: Any, name: str, listener_port: int, **probes: int | str) -> dict[str, str]:
    """ARNs by their names in the settings; `probes` are the health check's figures under ELBv2's names."""
    given = f"{PREFIX}-{name}"
    serving, warming = (_target_group(elbv2, f"{given}{which}", probes) for which in ("", "-w"))
    balancer = elbv2.create_load_balancer(Name=given, Type="network", Subnets=list(SUBNETS))
    groups = [{"TargetGroupArn": serving, "Weight": 999}, {"TargetGroupArn": warming, "Weight": 1}]
    listener = elbv2.create_listener(
        LoadBalancerArn=balancer["LoadBalancers"][0]["LoadBalancerArn"],
        Protocol="TCP",
        Port=listener_port,
        DefaultActions=[{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}],
    )["Listeners"][0]["ListenerArn"]
    return {
        "target_group_arn": serving,
        "warming_target_group_arn": warming,
        "listener_arn": str(listener),
    }


def delete_balanced_endpoint(elbv2: Any, endpoint: dict[str, str]) -> None:
    """Delete what `make_balanced_endpoint` answered, and its load balancer."""
    [listener] = elbv2.describe_listeners(ListenerArns=[endpoint["listener_arn"]])["Listeners"]
    elbv2.delete_listener(ListenerArn=endpoint["listener_arn"])
    elbv2.delete_load_balancer(LoadBalancerArn=listener["LoadBalancerArn"])
    for group in ("target_group_arn", "warming_target_group_arn"):
        elbv2.delete_target_group(TargetGroupArn=endpoint[group])


def _target_group(elbv2: Any, name: str, probes: dict[str, int | str]) -> str:
    group = elbv2.create_target_group(
        Name=name,
        Protocol="TCP",
        Port=3306,
        VpcId=VPC,
        **{"HealthCheckProtocol": "HTTP", "HealthCheckPort": "9200", "HealthCheckPath": "/", **probes},
    )["TargetGroups"][0]["TargetGroupArn"]
    delay = {"Key": "deregistration_delay.timeout_seconds", "Value": str(DEREGISTRATION_DELAY_SECONDS)}
    elbv2.modify_target_group_attributes(TargetGroupArn=group, Attributes=[delay])
    return str(group)
