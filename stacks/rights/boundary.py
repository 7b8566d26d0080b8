"""The permissions boundary of all roles that the stacks make: what none of them may ever do, whatever its policies say.

It allows the actions that some step needs, and denies them on what is not this environment's. A role may do what its
own policies *and* the boundary allow (IAM User Guide, "Policy evaluation logic").
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.names import ENVIRONMENT_TAG, EVENT_SOURCE, OWNER_TAG, ROLE_TAG, VOLUME_TAG
from stacks.naming import Names
from stacks.rights.role_statements import function_statements, workflow_statements

# What no step does: nobody gives rights, takes on other roles, reads secrets or administers keys and accounts.
NEVER = (
    *("account:*", "organizations:*", "secretsmanager:*", "sts:AssumeRole*"),
    *("kms:PutKeyPolicy", "kms:ScheduleKeyDeletion"),
)
ON_OWNED = (
    *("TerminateInstances", "St*Instances", "ModifyInstance*"),
    *("AttachVolume", "DeleteVolume", "DeleteSnapshot"),
)
MADE = {
    ("RunInstances", "CreateVolume"): ("instance", "volume"),
    ("CreateSnapshots",): ("snapshot",),
}
# What is made of a snapshot, or reads one.
FROM_OTHERS = ("ec2:CreateVolume", "ec2:RunInstances", "ebs:ListSnapshotBlocks")
MANAGED_RULE = "StepFunctionsGetEventsForStepFunctionsExecutionRule"
SHORTER = (
    "*:Describe*",
    "ebs:List*",
    "route53:List*",
    "route53:*e*teHealthCheck",
    "ec2:ModifyInstanceCapacity*",
    "ec2:St*Instances",
    "elasticloadbalancing:*egisterTargets",
    "states:St*Execution",
    "servicequotas:Get*",
    "ssm:GetParameter*",
    "xray:Get*",
    "xray:Put*",
    "logs:*LogDeliver*",
)
# Lambda reads a function's environment variables as the function's role, by a grant, which a boundary bounds as well.
AT_EACH_START = "kms:Decrypt"
# Decrypt, Encrypt, ReEncryptFrom and ReEncryptTo in one word: a denial may be wider, and IAM bounds its length.
KEY_USES = ("CreateGrant", "*crypt*", "GenerateDataKey")


def allowed_actions(names: Names) -> list[str]:
    """Lists the actions of all functions', workflows' and rules' roles, and those of Lambda for each function."""
    workflow = workflow_statements(names, [names.function_arn("undo_run")], ["prewarm"])
    granted = [s for one in FUNCTIONS for s in function_statements(one, names)]
    actions = {action for statement in (*granted, *workflow) for action in statement.actions}
    return sorted({_shortened(action) for action in {*actions, AT_EACH_START}})


def _shortened(action: str) -> str:
    """IAM bounds the length of a policy: looking, tracing and the delivery of logs are allowed by verb, and what begins
    and ends a thing in one word."""
    for pattern in SHORTER:
        if fnmatchcase(action, pattern):
            return pattern.replace("*:", f"{action.partition(':')[0]}:", 1)
    return action


def boundary_document(names: Names) -> dict[str, Any]:
    """The boundary as an IAM policy."""
    statements = [
        {"Effect": "Allow", "Action": allowed_actions(names), "Resource": "*"},
        _deny(NEVER),
        *_hosts_and_storage(names),
        *_commands(names),
        *_foreign_resources(names),
        *_keys(names),
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def _deny(actions: Sequence[str], condition: dict[str, Any] | None = None, **where: Any) -> dict[str, Any]:
    return {
        "Effect": "Deny",
        "Action": list(actions),
        **(where or {"Resource": "*"}),
        **({"Condition": condition} if condition else {}),
    }


def _anywhere(*kinds: str) -> list[str]:
    """EC2's resources of all regions and accounts: a denial may be wider, and IAM bounds its length."""
    return [f"arn:*:ec2:*:*:{kind}/*" for kind in kinds]


def _hosts_and_storage(names: Names) -> list[dict[str, Any]]:
    """I1: only what carries the environment's owner tag, and nothing gets it but what is being made."""
    owned = {"StringNotEquals": {f"aws:ResourceTag/{OWNER_TAG}": names.owner}}
    later = {"Null": {"ec2:CreateAction": "true"}}

    return [
        _deny([f"ec2:{action}" for action in ON_OWNED], owned),
        _deny(FROM_OTHERS, owned, Resource=_anywhere("snapshot")),
        *(
            _deny(
                [f"ec2:{action}" for action in actions],
                {"StringNotEquals": {f"aws:RequestTag/{OWNER_TAG}": names.owner}},
                Resource=_anywhere(*kinds),
            )
            for actions, kinds in MADE.items()
        ),
        _deny(["ec2:CreateTags"], {**owned, **later}),
        _deny(["ec2:CreateTags"], {**later, "ForAnyValue:StringNotEquals": {"aws:TagKeys": [VOLUME_TAG]}}),
    ]


def _commands(names: Names) -> list[dict[str, Any]]:
    """I2: commands and snapshots are of this environment's hosts, never of a source, which nothing ends or stops;
    `_foreign_resources` says which documents."""
    hosts, sent = _anywhere("instance"), "ssm:resourceTag"
    return [
        _deny(
            ["ssm:SendCommand"],
            {"StringNotEquals": {f"{sent}/{ENVIRONMENT_TAG}": names.owner}},
            Resource=hosts,
        ),
        _deny(["ssm:SendCommand"], {"StringNotEquals": {f"{sent}/{ROLE_TAG}": "replica"}}, Resource=hosts),
        _deny(
            ["ec2:CreateSnapshots", "ec2:TerminateInstances", "ec2:StopInstances"],
            {"StringNotEquals": {f"aws:ResourceTag/{ROLE_TAG}": "replica"}},
            Resource=hosts,
        ),
    ]


def _foreign_resources(names: Names) -> list[dict[str, Any]]:
    """Tables, settings, files, functions, workflows, alarms, targets, documents and roles of anybody else.

    One statement for all: an ARN of one service is none of another's.
    """
    reach = names.reach
    own, balancing = f"{names.prefix}-*", "elasticloadbalancing"
    only: dict[tuple[str, ...], tuple[str, ...]] = {
        ("dynamodb:*",): (names.ledger_table_arn,),
        ("s3:*",): (f"{names.run_files_bucket_arn}/runs/*", names.host_package_object_arn),
        ("ssm:GetParameter*", "ssm:PutParameter"): (names.arn("ssm", f"parameter/peaker/{names.owner}/*"),),
        ("ssm:SendCommand",): (names.document_arn("*"), *_anywhere("instance")),
        ("lambda:*",): (names.function_arn("*"),),
        ("sqs:*",): (names.failed_invocations_arn,),
        ("sns:*",): (names.operator_topic_arn,),
        ("states:St*Execution",): (
            names.state_machine_arn("*"),
            names.arn("states", f"execution:{own}:*"),
        ),
        ("cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"): (
            names.arn("cloudwatch", f"alarm:{own}-serves-i-*"),
        ),
        ("events:*",): (names.arn("events", f"rule/{MANAGED_RULE}"), names.event_bus_arn),
        ("route53:ChangeResourceRecordSets",): tuple(
            names.hosted_zone_arn(one) for one in reach.hosted_zones
        ),
        ("logs:CreateLogStream", "logs:PutLogEvents"): (names.arn("logs", f"log-group:/aws/lambda/{own}"),),
        tuple(f"{balancing}:{verb}" for verb in ("*egisterTargets", "ModifyListener")): (
            names.arn(balancing, f"targetgroup/{own}"),
            names.arn(balancing, f"listener/*/{own}"),
        ),
        ("iam:*",): reach.instance_role_patterns,
    }
    actions = [action for group in only for action in group]
    return [
        _deny(actions, NotResource=[resource for resources in only.values() for resource in resources]),
        # A key that a call does not have is unequal: each action is judged by its own.
        _deny(
            ["iam:PassRole", "cloudwatch:PutMetricData", "events:PutEvents"],
            {
                "StringNotEquals": {
                    "iam:PassedToService": "ec2.amazonaws.com",
                    "cloudwatch:namespace": names.metric_namespace,
                    "events:source": EVENT_SOURCE,
                }
            },
        ),
        # An alarm's action could stop or end a host.
        _deny(["cloudwatch:PutMetricAlarm"], {"Null": {"cloudwatch:AlarmActions": "false"}}),
    ]


def _keys(names: Names) -> list[dict[str, Any]]:
    """AWS's services use keys for a role; a role itself reads with none.

    No page says that kms:ViaService comes with Lambda's own call, so that one is let through by what it reads.
    """
    through = {
        "StringNotLike": {
            "kms:ViaService": "*.amazonaws.com",
            "kms:EncryptionContext:aws:lambda:FunctionArn": f"*:{names.function('*')}",
        }
    }
    return [_deny([f"kms:{action}" for action in KEY_USES], through)]
