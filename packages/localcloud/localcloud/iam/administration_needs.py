"""What calls need that change policies, settings and whole resources, or hand data to others.

The product's own roles make none of them; they are known so that a refusal is decided, and not for want of knowledge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from localcloud.iam.ec2_needs import ec2_arn, existing
from localcloud.iam.need import Lookup, Need, Needs, Params, arn, listed


def _on_ec2(action: str, kind: str, parameter: str) -> Needs:
    return lambda params, look: [
        existing(look, action, kind, str(one)) for one in listed(params.get(parameter))
    ]


def _associate_profile(params: Params, look: Lookup) -> Iterator[Need]:
    yield existing(look, "AssociateIamInstanceProfile", "instance", str(params["InstanceId"]))
    profile = params.get("IamInstanceProfile") or {}
    role = look.role_of_profile(str(profile.get("Arn") or profile.get("Name")))
    if role:
        yield Need("iam:PassRole", role, "role", {"iam:passedtoservice": ("ec2.amazonaws.com",)})


def _create_image(params: Params, look: Lookup) -> Iterator[Need]:
    yield existing(look, "CreateImage", "instance", str(params["InstanceId"]))
    for kind in ("image", "snapshot"):
        yield Need("ec2:CreateImage", ec2_arn(look, kind), kind, request_tags={}, resource_tags={})


def _copy_snapshot(_: Params, look: Lookup) -> list[Need]:
    return [
        Need("ec2:CopySnapshot", ec2_arn(look, "snapshot"), "snapshot", request_tags={}, resource_tags={})
    ]


def _iam(action: str, kind: str, parameter: str) -> Needs:
    def needs(params: Params, look: Lookup) -> list[Need]:
        name = str(params[parameter])
        whole = name if name.startswith("arn:") else f"arn:aws:iam::{look.account_id}:{kind}/{name}"
        return [Need(f"iam:{action}", whole, kind, request_tags={}, resource_tags={})]

    return needs


def _named(action: str, kind: str, pattern: str, parameter: str) -> Needs:
    """A resource by its name or ARN; `pattern` is its ARN's service and resource, e.g. sqs:{}."""
    service, resource = pattern.split(":", 1)

    def needs(params: Params, look: Lookup) -> list[Need]:
        name = str(params[parameter])
        whole = name if name.startswith("arn:") else arn(look, service, resource.format(name))
        return [Need(action, whole, kind)]

    return needs


def _queue(action: str) -> Needs:
    return lambda params, look: [
        Need(f"sqs:{action}", arn(look, "sqs", str(params["QueueUrl"]).rsplit("/", 1)[-1]), "queue")
    ]


def _secret(action: str) -> Needs:
    return _named(f"secretsmanager:{action}", "Secret", "secretsmanager:secret:{}", "SecretId")


def _document(action: str) -> Needs:
    return _named(f"ssm:{action}", "document", "ssm:document/{}", "Name")


def _start_session(params: Params, look: Lookup) -> Iterator[Need]:
    document = str(params.get("DocumentName") or "SSM-SessionManagerRunShell")
    yield Need("ssm:StartSession", arn(look, "ssm", f"document/{document}"), "document")
    instance = str(params["Target"])
    tags = look.ec2_tags(instance)
    yield Need("ssm:StartSession", ec2_arn(look, "instance", instance), "instance", resource_tags=tags)


def _bucket(action: str) -> Needs:
    return lambda params, _: [Need(f"s3:{action}", f"arn:aws:s3:::{params['Bucket']}", "bucket")]


def _hosted_zone(params: Params, _: Lookup) -> list[Need]:
    zone = str(params["Id"]).rsplit("/", 1)[-1]
    return [Need("route53:DeleteHostedZone", f"arn:aws:route53:::hostedzone/{zone}", "hostedzone")]


def _key(action: str) -> Needs:
    def needs(params: Params, look: Lookup) -> list[Need]:
        given = str(params["KeyId"])
        own = look.customer_key(given) or (given if given.startswith("arn:") else None)
        keys = {"kms:viaservice": None, "kms:calleraccount": (look.account_id,)}
        return [Need(f"kms:{action}", own or arn(look, "kms", f"key/{given}"), "key", keys)]

    return needs


def _log_group(action: str) -> Needs:
    return lambda params, look: [
        Need(f"logs:{action}", arn(look, "logs", f"log-group:{params['logGroupName']}"), "log-group")
    ]


def _create_machine(params: Params, look: Lookup) -> Iterator[Need]:
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

    def needs(params: Params, look: Lookup) -> Iterator[Need]:
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


def _create_queue(params: Params, look: Lookup) -> Iterator[Need]:
    resource = arn(look, "sqs", str(params["QueueName"]))
    for action in ("CreateQueue", "TagQueue") if params.get("tags") else ("CreateQueue",):
        yield Need(f"sqs:{action}", resource, "queue", request_tags=params.get("tags") or {})


def _with(make: object, service: str, actions: Sequence[str], *details: str) -> dict[str, Needs]:
    assert callable(make)
    return {f"{service}:{action}": make(action, *details) for action in actions}


def _all_of(service: str, prefix: str, actions: Sequence[str], *details: str) -> dict[str, Needs]:
    return {f"{service}:{action}": _named(f"{prefix}:{action}", *details) for action in actions}


ON_ROLES = (
    *("PutRolePolicy", "AttachRolePolicy", "DeleteRolePolicy", "DetachRolePolicy"),
    *("UpdateAssumeRolePolicy", "CreateRole", "DeleteRole", "UpdateRole", "TagRole"),
    *("PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary"),
)
ON_DOCUMENTS = (
    *("CreateDocument", "DescribeDocument", "UpdateDocument", "DeleteDocument"),
    "ModifyDocumentPermission",
)
ADMINISTRATION: dict[str, Needs] = {
    "ec2:ModifySnapshotAttribute": _on_ec2("ModifySnapshotAttribute", "snapshot", "SnapshotId"),
    "ec2:EnableFastSnapshotRestores": _on_ec2("EnableFastSnapshotRestores", "snapshot", "SourceSnapshotIds"),
    "ec2:CopySnapshot": _copy_snapshot,
    "ec2:CreateImage": _create_image,
    "ec2:AssociateIamInstanceProfile": _associate_profile,
    "ec2:ModifyInstanceMetadataOptions": _on_ec2("ModifyInstanceMetadataOptions", "instance", "InstanceId"),
    "ec2:GetConsoleOutput": _on_ec2("GetConsoleOutput", "instance", "InstanceId"),
    "ec2:AuthorizeSecurityGroupIngress": _on_ec2(
        "AuthorizeSecurityGroupIngress", "security-group", "GroupId"
    ),
    **_with(_iam, "iam", ON_ROLES, "role", "RoleName"),
    "iam:CreatePolicyVersion": _iam("CreatePolicyVersion", "policy", "PolicyArn"),
    "iam:CreateAccessKey": _iam("CreateAccessKey", "user", "UserName"),
    **_with(_secret, "secretsmanager", ("GetSecretValue", "PutSecretValue", "DescribeSecret")),
    **_with(_document, "ssm", ON_DOCUMENTS),
    "ssm:StartSession": _start_session,
    "ssm:StartAutomationExecution": _named(
        "ssm:StartAutomationExecution",
        "automation-definition",
        "ssm:automation-definition/{}:",
        "DocumentName",
    ),
    **_all_of(
        "dynamodb",
        "dynamodb",
        ("CreateTable", "DescribeTable", "DeleteTable", "UpdateTable", "UpdateTimeToLive"),
        "table",
        "dynamodb:table/{}",
        "TableName",
    ),
    **_all_of(
        "sns", "sns", ("Subscribe", "SetTopicAttributes", "DeleteTopic"), "topic", "sns:{}", "TopicArn"
    ),
    **_with(_queue, "sqs", ("DeleteQueue", "SetQueueAttributes")),
    **_with(_bucket, "s3", ("PutBucketPolicy", "DeleteBucket")),
    **_all_of(
        "lambda",
        "lambda",
        ("UpdateFunctionCode", "UpdateFunctionConfiguration", "AddPermission", "DeleteFunction"),
        "function",
        "lambda:function:{}",
        "FunctionName",
    ),
    **_all_of(
        "stepfunctions",
        "states",
        ("UpdateStateMachine", "DeleteStateMachine"),
        "statemachine",
        "states:stateMachine:{}",
        "stateMachineArn",
    ),
    "events:RemoveTargets": _named(
        "events:RemoveTargets", "rule-on-default-event-bus", "events:rule/{}", "Rule"
    ),
    "events:DeleteRule": _named("events:DeleteRule", "rule-on-default-event-bus", "events:rule/{}", "Name"),
    "stepfunctions:CreateStateMachine": _create_machine,
    "sqs:CreateQueue": _create_queue,
    "elbv2:CreateLoadBalancer": _balancing("CreateLoadBalancer", "loadbalancer"),
    "elbv2:CreateTargetGroup": _balancing("CreateTargetGroup", "targetgroup"),
    "elbv2:CreateListener": _on_balancer("CreateListener"),
    "elbv2:DeleteLoadBalancer": _on_balancer("DeleteLoadBalancer"),
    "route53:DeleteHostedZone": _hosted_zone,
    **_with(_key, "kms", ("ScheduleKeyDeletion", "PutKeyPolicy", "DisableKey")),
    **_with(_log_group, "logs", ("DeleteLogGroup", "PutRetentionPolicy")),
    **_all_of(
        "cloudformation",
        "cloudformation",
        ("DeleteStack", "UpdateStack", "UpdateTerminationProtection"),
        "stack",
        "cloudformation:stack/{}/*",
        "StackName",
    ),
}
