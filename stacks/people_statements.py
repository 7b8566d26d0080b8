"""Prints what people and hosts may do, as IAM policies to attach: `python -m stacks.people_statements prod
operate`.

    read     look: runs, receipts, plans of the past, load and forecast
    operate  read; start and stop the workflows; pause and resume a cluster; look before the first run what would
             fail (doctor); prepare a base replica, register it; read and empty the dead-letter queues
    rehearse `peaker rehearse`: make, use and remove what carries a rehearsal's tag or name
    deploy   what `cdk deploy` and `cdk destroy` need of a person: the roles of `cdk bootstrap`
    host     what a replica's instance profile needs: to be a managed node of Systems Manager

Free of the CDK; the tests run the command under exactly these on a local cloud that enforces IAM.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from environments.schema import EnvironmentFileError, load_environment
from peaker_contract.names import undelivered
from stacks.naming import Names
from stacks.rights.data import MISTYPED, READ_TABLE, RECEIVE, data_key_statements
from stacks.rights.endpoint import MADE_BY_THE_STACKS, records_of_clusters, replica_alarms
from stacks.rights.hosts import commands_on_replicas
from stacks.rights.rehearsal import rehearse
from stacks.rights.role_statements import policy_document
from stacks.rights.statement import NO_RESOURCE_LEVEL, Statement, listed

WORKFLOWS_TO_START = ("scale_out", "scale_in")
BOOTSTRAP_ROLES = ("deploy", "file-publishing", "lookup")
EVERY_EXECUTION = "An execution's name exists only once it was started; only this environment's workflows."


def statements_for(who: str, names: Names) -> list[Statement]:
    """The statements of one set. Raises KeyError for a set that there is not."""
    return SETS[who](names)


def _read(names: Names) -> list[Statement]:
    machines = names.arn("states", f"stateMachine:{names.prefix}-*")
    executions = names.arn("states", f"execution:{names.prefix}-*")
    looking = (
        "ec2:DescribeImages",
        "ec2:DescribeInstances",
        "ec2:DescribeVolumes",
        "ec2:DescribeSnapshots",
        "cloudwatch:GetMetricData",
        "cloudwatch:GetMetricStatistics",
        "cloudwatch:ListMetrics",
        "elasticloadbalancing:DescribeListeners",
        "elasticloadbalancing:DescribeTargetHealth",
        "events:ListRules",
        "states:ListStateMachines",
        "ssm:ListCommands",
        "ssm:ListCommandInvocations",
        "ssm:GetCommandInvocation",
        "tag:GetResources",
    )
    return [
        Statement(looking, ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(
            ("states:DescribeStateMachine", "states:ListExecutions"),
            (machines,),
            wildcard_reason="All workflows of this environment.",
        ),
        Statement(
            ("states:DescribeExecution", "states:GetExecutionHistory"),
            (executions,),
            wildcard_reason=EVERY_EXECUTION,
        ),
        Statement(
            ("events:DescribeRule",),
            (names.arn("events", f"rule/{names.prefix}-*"),),
            wildcard_reason="Each cluster of the environment has rules of its own.",
        ),
        Statement(("dynamodb:Query", "dynamodb:GetItem"), (names.ledger_table_arn,)),
        *data_key_statements(names, "dynamodb", READ_TABLE),
        Statement(("ssm:GetParameter",), (names.cluster_parameter_arn("*"),), wildcard_reason=MISTYPED),
        Statement(("ssm:GetParameter",), (names.prices_parameter_arn,)),
        Statement(
            ("ssm:GetParametersByPath",),
            (names.cluster_parameter_arn(""), names.cluster_parameter_arn("")[:-1]),
        ),
        Statement(
            ("cloudwatch:DescribeAlarms", "cloudwatch:DescribeAlarmHistory"),
            (names.arn("cloudwatch", "alarm:*"),),
            wildcard_reason="Alarms are listed by the beginnings of their names, which needs all of the region.",
        ),
        Statement(
            ("logs:FilterLogEvents", "logs:DescribeLogStreams"),
            (
                names.arn("logs", f"log-group:/aws/lambda/{names.prefix}-*:*"),
                names.arn("logs", f"log-group:/aws/vendedlogs/states/{names.prefix}-*:*"),
            ),
            wildcard_reason="The log groups of this environment's functions and workflows.",
        ),
        *_zones(names, "route53:ListResourceRecordSets"),
    ]


def _operate(names: Names) -> list[Statement]:
    return [
        *_read(names),
        Statement(
            ("states:StartExecution",),
            tuple(names.state_machine_arn(workflow) for workflow in WORKFLOWS_TO_START),
        ),
        Statement(
            ("states:StopExecution",),
            (names.arn("states", f"execution:{names.prefix}-*"),),
            wildcard_reason=EVERY_EXECUTION,
        ),
        Statement(("lambda:InvokeFunction",), (names.function_arn("sweep_orphans"),)),
        Statement(
            ("elasticloadbalancing:RegisterTargets",),
            (names.arn("elasticloadbalancing", f"targetgroup/{names.prefix}-*/*"),),
            wildcard_reason=MADE_BY_THE_STACKS,
        ),
        *_prepare_base(names),
        *_doctor(names),
        *_records(names),
        *_dead_letters(names),
        *_allow_removal(names),
        *_pause(names),
    ]


def _dead_letters(names: Names) -> list[Statement]:
    """The statements to read and to empty the dead-letter queues."""
    actions = ("GetQueueUrl", "GetQueueAttributes", "ReceiveMessage", "PurgeQueue")
    return [
        Statement(
            tuple(f"sqs:{action}" for action in actions),
            (names.arn("sqs", f"{undelivered(f'{names.prefix}-*')}"), names.failed_invocations_arn),
            wildcard_reason="The dead-letter queues of this environment: one to a rule, one of the operators' topic.",
        ),
        *data_key_statements(names, "sqs", RECEIVE),
    ]


def _allow_removal(names: Names) -> list[Statement]:
    """The statements that lift a stack's termination protection; they delete nothing."""
    stacks = names.arn("cloudformation", f"stack/{names.stack('*')}/*")
    return [
        Statement(
            ("cloudformation:DescribeStacks", "cloudformation:UpdateTerminationProtection"),
            (stacks,),
            wildcard_reason="Each cluster of the environment has a stack, whose ARN ends in an id that AWS gives.",
        )
    ]


def _pause(names: Names) -> list[Statement]:
    """The statements of `peaker pause` and `resume`."""
    return [
        Statement(
            ("events:DisableRule", "events:EnableRule"),
            (names.arn("events", f"rule/{names.prefix}-*"),),
            wildcard_reason="Each cluster of the environment has rules of its own.",
        ),
        Statement(
            ("cloudwatch:DisableAlarmActions", "cloudwatch:EnableAlarmActions"),
            (names.arn("cloudwatch", f"alarm:{names.prefix}-*"),),
            wildcard_reason="Each cluster of the environment has alarms of its own.",
        ),
    ]


def _prepare_base(names: Names) -> list[Statement]:
    """Two documents, on replicas of this environment's clusters; the package, by an address that the person signs."""
    environment = names.environment
    bucket = f"cdk-{environment.bootstrap_qualifier}-assets-{environment.account}-{environment.region}"
    granted = [
        *commands_on_replicas(("install_host_package", "prepare_base"), names),
        Statement(("ssm:DescribeInstanceInformation",), ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(("lambda:GetFunctionConfiguration",), (names.function_arn("install_host_package"),)),
        Statement(
            ("s3:GetObject",),
            (f"arn:{environment.partition}:s3:::{bucket}/*.pyz",),
            wildcard_reason="The host package's key is its content's hash, which each deployment changes.",
        ),
    ]
    if environment.bootstrap_key_arn:
        via_s3 = {"StringEquals": {"kms:ViaService": f"s3.{environment.region}.amazonaws.com"}}
        granted.append(Statement(("kms:Decrypt",), (environment.bootstrap_key_arn,), via_s3))
    return granted


def _doctor(names: Names) -> list[Statement]:
    """Returns the further rights of `peaker doctor`: account, network, read endpoint, the alarms' subscribers."""
    environment = names.environment
    looking = (
        *(
            f"ec2:Describe{what}"
            for what in ("CapacityReservations", "InstanceTypeOfferings", "InstanceTypes")
        ),
        *("ec2:DescribeSecurityGroups", "ec2:DescribeSubnets"),
        *("ec2:GetEbsDefaultKmsKeyId", "ec2:GetEbsEncryptionByDefault"),
        *(f"elasticloadbalancing:Describe{what}" for what in ("LoadBalancers", "TargetGroups")),
        "servicequotas:GetAWSDefaultServiceQuota",
    )
    profiles = sorted({one.instance_profile for one in environment.clusters if one.instance_profile})
    keys = names.reach.kms_key_patterns
    granted = [
        Statement(looking, ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(
            ("servicequotas:GetServiceQuota",),
            (names.arn("servicequotas", "ec2/*"), names.arn("servicequotas", "ebs/*")),
            wildcard_reason="Which quotas count depends on the instance type and the volumes' types.",
        ),
        Statement(("ssm:GetParameter",), (_bootstrap_version(names),)),
        Statement(("lambda:GetFunctionConfiguration",), (names.function_arn("launch_replica"),)),
        Statement(
            ("iam:ListRolePolicies", "iam:GetRolePolicy"),
            (names.iam_arn(f"role/Peaker-{environment.environment}-*"),),
            wildcard_reason="CloudFormation ends the name of launch_replica's role.",
        ),
        Statement(("sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic"), (names.operator_topic_arn,)),
        *_zones(names, "route53:GetHostedZone"),
    ]
    if profiles:
        arns = tuple(names.iam_arn(f"instance-profile/{profile}") for profile in profiles)
        granted.append(Statement(("iam:GetInstanceProfile",), arns))
    if environment.data_key_arn:
        granted.append(Statement(("kms:DescribeKey", "kms:GetKeyPolicy"), (environment.data_key_arn,)))
    if keys:
        granted.append(listed(("kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"), keys))
    return granted


def _zones(names: Names, action: str) -> list[Statement]:
    zones = tuple(names.hosted_zone_arn(zone) for zone in names.reach.hosted_zones)
    return [listed((action,), zones)] if zones else []


def _records(names: Names) -> list[Statement]:
    """Base replicas behind a DNS name: their records, each with its alarm and its health check."""
    reach = names.reach
    if not reach.by_name:
        return []
    return [
        records_of_clusters(names, reach, "UPSERT"),
        *replica_alarms((names.replica_alarm_arns("*"),)),
        Statement(
            ("route53:CreateHealthCheck", "route53:ListHealthChecks"),
            ("*",),
            wildcard_reason="AWS offers no resource-level permission for making and listing health checks.",
        ),
        Statement(
            ("route53:ChangeTagsForResource",),
            (f"arn:{names.environment.partition}:route53:::healthcheck/*",),
            wildcard_reason="Route 53 gives a health check its id.",
        ),
    ]


def _deploy(names: Names) -> list[Statement]:
    """CDK acts as the bootstrap's roles; CloudFormation then acts as the bootstrap's execution role."""
    environment = names.environment
    suffix = f"role-{environment.account}-{environment.region}"
    roles = tuple(
        names.iam_arn(f"role/cdk-{environment.bootstrap_qualifier}-{role}-{suffix}")
        for role in BOOTSTRAP_ROLES
    )
    return [
        Statement(("sts:AssumeRole",), roles),
        Statement(("ssm:GetParameter",), (_bootstrap_version(names),)),
    ]


def _bootstrap_version(names: Names) -> str:
    return names.arn("ssm", f"parameter/cdk-bootstrap/{names.environment.bootstrap_qualifier}/version")


def _host(_: Names) -> list[Statement]:
    """The agent's calls; files come by presigned addresses, for which the host needs nothing."""
    agent = "UpdateInstanceInformation ListInstanceAssociations UpdateInstanceAssociationStatus"
    channels = "CreateControlChannel CreateDataChannel OpenControlChannel OpenDataChannel"
    messages = "AcknowledgeMessage DeleteMessage FailMessage GetEndpoint GetMessages SendReply"
    calls = (("ssm", agent), ("ssmmessages", channels), ("ec2messages", messages))
    actions = tuple(f"{service}:{action}" for service, names in calls for action in names.split())
    reason = "The agent's own calls (AWS: AmazonSSMManagedInstanceCore); most know no resource."
    return [Statement(actions, ("*",), wildcard_reason=reason)]


SETS: dict[str, Callable[[Names], list[Statement]]] = {
    "read": _read,
    "operate": _operate,
    "rehearse": rehearse,
    "deploy": _deploy,
    "host": _host,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the policy; returns the exit status, 2 for an environment that cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m stacks.people_statements", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("environment", help="environments/<environment>.yaml")
    parser.add_argument("who", choices=sorted(SETS))
    options = parser.parse_args(arguments)
    try:
        names = Names(load_environment(options.environment))
    except EnvironmentFileError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(policy_document(statements_for(options.who, names)), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
