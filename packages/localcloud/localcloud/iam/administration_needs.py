"""What calls need that change policies, settings and whole resources, or hand data to others.

The product's own roles make none of them; they are known so that a refusal is decided, and not for want of knowledge.
"""

from __future__ import annotations

from collections.abc import Iterator

from localcloud.iam.account import Account
from localcloud.iam.ec2_needs import ec2_arn, existing
from localcloud.iam.need import Need, Needs, Params, arn, for_each, listed, named


def _open_ports(params: Params, look: Account) -> list[Need]:
    return [existing(look, "AuthorizeSecurityGroupIngress", "security-group", str(params["GroupId"]))]


def _copy_snapshot(_: Params, look: Account) -> list[Need]:
    return [
        Need("ec2:CopySnapshot", ec2_arn(look, "snapshot"), "snapshot", request_tags={}, resource_tags={})
    ]


def on_iam(action: str, kind: str, parameter: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        name = str(params[parameter])
        whole = name if name.startswith("arn:") else f"arn:aws:iam::{look.account_id}:{kind}/{name}"
        return [Need(f"iam:{action}", whole, kind, request_tags={}, resource_tags={})]

    return needs


def _create_machine(params: Params, look: Account) -> Iterator[Need]:
    resource = arn(look, "states", f"stateMachine:{params['name']}")
    tags = {tag["key"]: tag["value"] for tag in listed(params.get("tags"))}
    yield Need("states:CreateStateMachine", resource, "statemachine", request_tags=tags)
    yield Need(
        "iam:PassRole", str(params["roleArn"]), "role", {"iam:passedtoservice": ("states.amazonaws.com",)}
    )
    if tags:
        yield Need("states:TagResource", resource, "statemachine", request_tags=tags)


def _balancing(action: str, kind: str) -> Needs:
    """A load balancer or a target group that is made: its ARN ends in an id that does not exist yet."""

    def needs(params: Params, look: Account) -> Iterator[Need]:
        family = "net/" if kind == "loadbalancer" else ""
        resource = arn(look, "elasticloadbalancing", f"{kind}/{family}{params['Name']}/*")
        tags = {tag["Key"]: tag["Value"] for tag in listed(params.get("Tags"))}
        for one in (action, "AddTags") if tags else (action,):
            yield Need(
                f"elasticloadbalancing:{one}", resource, f"{kind}/{family}".rstrip("/"), request_tags=tags
            )

    return needs


def _on_balancer(action: str) -> Needs:
    return lambda params, _: [
        Need(f"elasticloadbalancing:{action}", str(params["LoadBalancerArn"]), "loadbalancer/net")
    ]


def _create_queue(params: Params, look: Account) -> Iterator[Need]:
    resource = arn(look, "sqs", str(params["QueueName"]))
    for action in ("CreateQueue", "TagQueue") if params.get("tags") else ("CreateQueue",):
        yield Need(f"sqs:{action}", resource, "queue", request_tags=params.get("tags") or {})


def _stack(action: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        name = str(params.get("StackName") or "*")
        whole = name if name.startswith("arn:") else arn(look, "cloudformation", f"stack/{name}/*")
        return [Need(f"cloudformation:{action}", whole, "stack")]

    return needs


ON_STACKS = (
    *("DescribeStacks", "DescribeStackEvents", "DescribeStackResources"),
    *("DeleteStack", "UpdateStack", "UpdateTerminationProtection"),
)
ON_ROLES = (
    *("GetRole", "ListRolePolicies", "GetRolePolicy", "CreateRole", "DeleteRole", "TagRole"),
    *("PutRolePolicy", "AttachRolePolicy", "DeleteRolePolicy", "DetachRolePolicy", "UpdateAssumeRolePolicy"),
    *("PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary"),
)
ON_DOCUMENTS = ("CreateDocument", "DescribeDocument", "UpdateDocument", "DeleteDocument")
ADMINISTRATION: dict[str, Needs] = {
    "ec2:CopySnapshot": _copy_snapshot,
    "ec2:AuthorizeSecurityGroupIngress": _open_ports,
    **for_each(lambda action: on_iam(action, "role", "RoleName"), ON_ROLES, "iam"),
    "iam:CreatePolicyVersion": on_iam("CreatePolicyVersion", "policy", "PolicyArn"),
    **for_each(
        lambda action: named(f"ssm:{action}", "document", "ssm", "document/{}", "Name"), ON_DOCUMENTS, "ssm"
    ),
    **for_each(_stack, ON_STACKS, "cloudformation"),
    "stepfunctions:CreateStateMachine": _create_machine,
    "sqs:CreateQueue": _create_queue,
    "elbv2:CreateLoadBalancer": _balancing("CreateLoadBalancer", "loadbalancer"),
    "elbv2:CreateTargetGroup": _balancing("CreateTargetGroup", "targetgroup"),
    **for_each(_on_balancer, ("CreateListener", "DeleteLoadBalancer"), "elbv2"),
}
