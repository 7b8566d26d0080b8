"""What a function may do on AWS, one entry per permission, each as narrow as AWS allows.

Invariant I1 in IAM: whatever stops, detaches or deletes is conditioned on the tag `peaker:owner`, and
whatever creates must put that tag on. A resource with a wildcard carries the reason; a statement without one
is refused.
Sources: the Service Authorization Reference for EC2, SSM, ELBv2, Route 53, CloudWatch and DynamoDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from environments.clusters_by_endpoint import by_endpoint
from environments.schema import Cluster
from peaker_contract.endpoint_settings import Route53EndpointSettings
from peaker_contract.permissions import Permission
from peaker_contract.steps import REPORT_WORK
from peaker_contract.tags import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, OWNER_TAG, ROLE_TAG, VOLUME_TAG
from stacks.naming import Names

VOLUME_KEY_ACTIONS = (
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)
# What a use of the environment's own key takes, where the settings name one.
READ_TABLE = ("Decrypt", "DescribeKey")
WRITE_TABLE = (*READ_TABLE, "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo")
SEND = ("GenerateDataKey", "Decrypt")
RECEIVE = ("Decrypt",)
NO_RESOURCE_LEVEL = "AWS offers no resource-level permission for these read-only actions."
NO_HEALTH_CHECK = "AWS offers no resource-level permission for making and listing health checks."
UNTAGGED_CHECKS = "Route 53 gives a health check its id, and its permissions know no condition on tags."
ONE_PER_REPLICA = "One alarm per replica of these clusters, whose instance id ends its name."
MISTYPED = (
    "A name that is no cluster must be answered with not found, which AWS says only to who may read it."
)
# They make a replica, or end its database: they reach only what Peaker made (I1). The others look, or bring a replica
# into service, also one that has lost its owner tag in the middle of a run.
DOCUMENTS_FOR_OWN_REPLICAS = frozenset(
    {
        *("assemble_storage", "start_prewarm", "report_prewarm", "verify_storage"),
        *("load_buffer_pool", "check_mounts", "stop_database", REPORT_WORK),
    }
)
UNKNOWN_UNTIL_RUN = "The id exists only once the run has made it; the condition on the owner tag narrows it."


@dataclass(frozen=True)
class Statement:
    """One IAM allow statement. Raises ValueError for a wildcard action, or a wildcard without a reason."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    wildcard_reason: str = ""

    def __post_init__(self) -> None:
        if any("*" in action for action in self.actions):
            raise ValueError(f"an action must be named in full, got {', '.join(self.actions)}")
        if self.wildcards and not self.wildcard_reason:
            actions = ", ".join(self.actions)
            raise ValueError(f"{', '.join(self.wildcards)}: say why {actions} needs a wildcard")

    @property
    def wildcards(self) -> tuple[str, ...]:
        return tuple(resource for resource in self.resources if "*" in resource)


@dataclass(frozen=True)
class Deployment:
    """What the permissions of one environment refer to; the target groups and the package are its own."""

    names: Names
    target_group_arns: Sequence[str]
    listener_arns: Sequence[str]
    host_package_object_arn: str
    run_files_bucket_arn: str

    @property
    def owner(self) -> str:
        return self.names.environment.environment

    @property
    def cluster_names(self) -> list[str]:
        return [cluster.name for cluster in self.names.environment.clusters]

    @property
    def kms_key_arns(self) -> tuple[str, ...]:
        """The customer-managed keys of all clusters' volumes, snapshots and images."""
        return tuple(sorted({key for one in self.names.environment.clusters for key in one.kms_key_arns}))

    @property
    def clusters_by_name(self) -> list[tuple[Cluster, Route53EndpointSettings]]:
        """The clusters whose readers find them by a DNS name."""
        return by_endpoint(self.names.environment.clusters).by_name

    def ec2(self, kind: str) -> str:
        return self.names.arn("ec2", f"{kind}/*")

    @property
    def any_snapshot(self) -> str:
        return self.names.arn("ec2", "snapshot/*", account="")


def statements(permission: Permission, deployment: Deployment) -> list[Statement]:
    """The IAM statements of a permission in one environment."""
    return _BUILDERS[permission](deployment)


def command_statements(documents: Sequence[str], deployment: Deployment) -> list[Statement]:
    """Run exactly these SSM documents, on replicas of this environment's clusters, and read their results.

    Who asks whether a host is at work on a command takes back the one on which nobody is.
    """
    if not documents:
        return []
    follow = [*commands_on_replicas(documents, deployment.names), *_follow_commands(deployment)]
    return [*follow, *_cancel_commands(deployment)] if REPORT_WORK in documents else follow


def commands_on_replicas(documents: Sequence[str], names: Names) -> list[Statement]:
    """Send exactly these SSM documents to replicas of this environment's clusters; whoever sends none but
    DOCUMENTS_FOR_OWN_REPLICAS, only to replicas that Peaker made."""
    to_own = DOCUMENTS_FOR_OWN_REPLICAS.issuperset(documents)
    owner = {f"ssm:resourceTag/{OWNER_TAG}": names.environment.environment} if to_own else {}
    return [
        Statement(("ssm:SendCommand",), tuple(names.document_arn(name) for name in documents)),
        Statement(
            ("ssm:SendCommand",),
            (names.arn("ec2", "instance/*"),),
            # The source runs no command of ours, whatever it is tagged with besides.
            {
                "StringEquals": {
                    f"ssm:resourceTag/{ENVIRONMENT_TAG}": names.environment.environment,
                    f"ssm:resourceTag/{CLUSTER_TAG}": [one.name for one in names.environment.clusters],
                    f"ssm:resourceTag/{ROLE_TAG}": "replica",
                    **owner,
                }
            },
            "Hosts come and go; the condition narrows it to the replicas of this environment's clusters.",
        ),
    ]


def _follow_commands(_: Deployment) -> list[Statement]:
    return [
        Statement(("ssm:GetCommandInvocation", "ssm:ListCommands"), ("*",), wildcard_reason=NO_RESOURCE_LEVEL)
    ]


def _cancel_commands(_: Deployment) -> list[Statement]:
    no_resource = "AWS offers no resource-level permission for CancelCommand."
    return [
        Statement(("ssm:ListCommands",), ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(("ssm:CancelCommand",), ("*",), wildcard_reason=no_resource),
    ]


def _read_only(*actions: str) -> Callable[[Deployment], list[Statement]]:
    return lambda _: [Statement(actions, ("*",), wildcard_reason=NO_RESOURCE_LEVEL)]


def _owned(deployment: Deployment) -> dict[str, Mapping[str, object]]:
    return {"StringEquals": {f"aws:ResourceTag/{OWNER_TAG}": deployment.owner}}


def _to_be_owned(deployment: Deployment) -> dict[str, Mapping[str, object]]:
    """All tags by which others tell whose it is: nothing can be made that passes for a base replica's, the source's,
    another cluster's or another environment's."""
    wanted = {
        OWNER_TAG: deployment.owner,
        ENVIRONMENT_TAG: deployment.owner,
        CLUSTER_TAG: deployment.cluster_names,
        ROLE_TAG: "replica",
        LOAD_TAG: "peak",
    }
    return {"StringEquals": {f"aws:RequestTag/{tag}": value for tag, value in wanted.items()}}


def _tag_on_create(action: str, *resources: str) -> Statement:
    return Statement(
        ("ec2:CreateTags",),
        resources,
        {"StringEquals": {"ec2:CreateAction": action}},
        f"Tags may be set only by {action}, on what it creates; the id does not exist before.",
    )


def _read_cluster_settings(deployment: Deployment) -> list[Statement]:
    any_cluster = deployment.names.cluster_parameter_arn("*")
    return [
        Statement(("ssm:GetParameter",), (any_cluster,), wildcard_reason=MISTYPED),
        *_list_clusters(deployment),
    ]


def _list_clusters(deployment: Deployment) -> list[Statement]:
    # Listing by path is authorized on the path itself; with or without the slash at its end.
    path = deployment.names.cluster_parameter_arn("")
    return [Statement(("ssm:GetParametersByPath",), (path, path.rstrip("/")))]


def _read_prices(deployment: Deployment) -> list[Statement]:
    return [Statement(("ssm:GetParameter",), (deployment.names.prices_parameter_arn,))]


def _fetch_prices(deployment: Deployment) -> list[Statement]:
    return [
        Statement(("pricing:GetProducts",), ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(("ssm:GetParameter", "ssm:PutParameter"), (deployment.names.prices_parameter_arn,)),
    ]


def data_key_statements(names: Names, service: str, actions: Sequence[str]) -> list[Statement]:
    """What a role needs of the environment's own key to use it through one service; nothing where there is none."""
    environment = names.environment
    if environment.data_key_arn is None:
        return []
    through = {"StringEquals": {"kms:ViaService": f"{service}.{environment.region}.amazonaws.com"}}
    return [Statement(tuple(f"kms:{one}" for one in actions), (environment.data_key_arn,), through)]


def _ledger_statement(deployment: Deployment, *actions: str) -> list[Statement]:
    writes = not {"GetItem", "Query"}.issuperset(actions)
    return [
        Statement(tuple(f"dynamodb:{action}" for action in actions), (deployment.names.ledger_table_arn,)),
        *data_key_statements(deployment.names, "dynamodb", WRITE_TABLE if writes else READ_TABLE),
    ]


def _write_ledger(deployment: Deployment) -> list[Statement]:
    # A transaction is authorized by the actions of its parts.
    actions = ("GetItem", "Query", "PutItem", "UpdateItem", "ConditionCheckItem")
    return _ledger_statement(deployment, *actions)


def _keep_forecasts(deployment: Deployment) -> list[Statement]:
    return _ledger_statement(deployment, "GetItem", "Query", "PutItem")


def _follow_executions(deployment: Deployment) -> list[Statement]:
    names = deployment.names
    workflows = ("scale_out", "scale_in", "roll_back")
    return [
        Statement(("states:ListExecutions",), tuple(names.state_machine_arn(one) for one in workflows)),
        Statement(
            ("states:DescribeExecution",),
            tuple(names.arn("states", f"execution:{names.state_machine(one)}:*") for one in workflows),
            wildcard_reason="The executions of this environment's workflows, whose names are made as they start.",
        ),
    ]


def _publish_metrics(deployment: Deployment) -> list[Statement]:
    return [
        Statement(
            ("cloudwatch:PutMetricData",),
            ("*",),
            {"StringEquals": {"cloudwatch:namespace": deployment.names.metric_namespace}},
            "PutMetricData has no resource; the condition narrows it to the environment's namespace.",
        )
    ]


def _read_host_package(deployment: Deployment) -> list[Statement]:
    """The hosts fetch it by an address that the function signs, so the function's role needs the bucket's key too."""
    environment = deployment.names.environment
    granted = [Statement(("s3:GetObject",), (deployment.host_package_object_arn,))]
    if environment.bootstrap_key_arn:
        via_s3 = {"StringEquals": {"kms:ViaService": f"s3.{environment.region}.amazonaws.com"}}
        granted.append(Statement(("kms:Decrypt",), (environment.bootstrap_key_arn,), via_s3))
    return granted


def _list_snapshot_blocks(deployment: Deployment) -> list[Statement]:
    return [
        Statement(
            ("ebs:ListSnapshotBlocks",), (deployment.any_snapshot,), _owned(deployment), UNKNOWN_UNTIL_RUN
        )
    ]


def _list_changed_blocks(deployment: Deployment) -> list[Statement]:
    """Between the run's snapshots and the volumes' newest earlier ones, which may be a backup's and carry any tag."""
    of_anyone = (
        "It tells which blocks differ, not what is in them, between snapshots of replicas of this account."
    )
    return [Statement(("ebs:ListChangedBlocks",), (deployment.any_snapshot,), wildcard_reason=of_anyone)]


def _publish_run_files(deployment: Deployment) -> list[Statement]:
    return [
        Statement(
            ("s3:PutObject", "s3:GetObject"),
            (f"{deployment.run_files_bucket_arn}/runs/*",),
            wildcard_reason="One folder per run, in a bucket for nothing else; its name exists once the run has begun.",
        ),
        *data_key_statements(deployment.names, "s3", SEND),
    ]


def _create_snapshots(deployment: Deployment) -> list[Statement]:
    return [
        Statement(
            ("ec2:CreateSnapshots",),
            (deployment.ec2("instance"),),
            # I2: the source is never snapshotted.
            {
                "StringEquals": {
                    f"aws:ResourceTag/{ENVIRONMENT_TAG}": deployment.owner,
                    f"aws:ResourceTag/{CLUSTER_TAG}": deployment.cluster_names,
                    f"aws:ResourceTag/{ROLE_TAG}": "replica",
                }
            },
            "The donor is chosen at run time; the condition narrows it to replicas of these clusters.",
        ),
        Statement(
            ("ec2:CreateSnapshots",),
            (deployment.ec2("volume"),),
            wildcard_reason="It takes only volumes of the instance, which is narrowed by its tags.",
        ),
        Statement(
            ("ec2:CreateSnapshots",), (deployment.any_snapshot,), _to_be_owned(deployment), UNKNOWN_UNTIL_RUN
        ),
        _tag_on_create("CreateSnapshots", deployment.any_snapshot),
        Statement(
            ("ec2:CreateTags",),
            (deployment.any_snapshot,),
            {**_owned(deployment), "ForAllValues:StringEquals": {"aws:TagKeys": [VOLUME_TAG]}},
            "CreateSnapshots gives all members the same tags, so each gets its volume's name after. "
            + UNKNOWN_UNTIL_RUN,
        ),
        *_use_volume_keys(deployment),
    ]


def _launch_instances(deployment: Deployment) -> list[Statement]:
    environment = deployment.names.environment
    arn = deployment.names.arn
    given = {arn("ec2", f"image/{cluster.image_id}", account="") for cluster in environment.clusters}
    for cluster in environment.clusters:
        given |= {arn("ec2", f"subnet/{subnet}") for subnet in cluster.subnets.values()}
        given |= {arn("ec2", f"security-group/{group}") for group in cluster.security_group_ids}
    roles = sorted({one for c in environment.clusters if (one := deployment.names.instance_role_arn(c))})
    launch = [
        Statement(
            ("ec2:RunInstances",),
            (deployment.ec2("instance"), deployment.ec2("volume")),
            _to_be_owned(deployment),
            UNKNOWN_UNTIL_RUN,
        ),
        Statement(("ec2:RunInstances",), tuple(sorted(given))),
        Statement(
            ("ec2:RunInstances",),
            (deployment.ec2("network-interface"),),
            wildcard_reason="The interface is made by the launch, in the subnets and groups named above.",
        ),
        _tag_on_create("RunInstances", deployment.ec2("instance"), deployment.ec2("volume")),
    ]
    if roles:
        to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
        launch.append(Statement(("iam:PassRole",), tuple(roles), to_ec2))
    return [*launch, *_use_volume_keys(deployment)]


def _create_volumes(deployment: Deployment) -> list[Statement]:
    return [
        Statement(
            ("ec2:CreateVolume",), (deployment.ec2("volume"),), _to_be_owned(deployment), UNKNOWN_UNTIL_RUN
        ),
        Statement(("ec2:CreateVolume",), (deployment.any_snapshot,), _owned(deployment), UNKNOWN_UNTIL_RUN),
        _tag_on_create("CreateVolume", deployment.ec2("volume")),
        *_use_volume_keys(deployment),
    ]


def _use_volume_keys(deployment: Deployment) -> list[Statement]:
    """What EBS does with a customer-managed key for the caller (EBS user guide, requirements for encryption).

    Through EC2 only, and grants for AWS's services only: nobody can read data with it, or hand the key on.
    """
    keys = deployment.kms_key_arns
    if not keys:
        return []
    via_ec2 = {"kms:ViaService": f"ec2.{deployment.names.environment.region}.amazonaws.com"}
    return [
        Statement(tuple(f"kms:{action}" for action in VOLUME_KEY_ACTIONS), keys, {"StringEquals": via_ec2}),
        Statement(
            ("kms:CreateGrant",),
            keys,
            {"StringEquals": via_ec2, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


def _check_volume_keys(deployment: Deployment) -> list[Statement]:
    """A plan asks whose key it is, and tries (as a dry run) whether the key's policy lets this account in."""
    found = [
        Statement(
            ("kms:DescribeKey",),
            (deployment.names.arn("kms", "key/*"), *_keys_of_other_accounts(deployment)),
            wildcard_reason="A key that the settings do not name must be told by its name; this reads no data.",
        )
    ]
    if deployment.kms_key_arns:
        found.append(Statement(("kms:GenerateDataKeyWithoutPlaintext",), deployment.kms_key_arns))
    return found


def _keys_of_other_accounts(deployment: Deployment) -> tuple[str, ...]:
    """Keys that the settings name and that another account shares."""
    own = deployment.names.arn("kms", "key/")
    return tuple(arn for arn in deployment.kms_key_arns if not arn.startswith(own))


def _attach_volumes(deployment: Deployment) -> list[Statement]:
    return [
        Statement(
            ("ec2:AttachVolume",),
            (deployment.ec2("instance"), deployment.ec2("volume")),
            _owned(deployment),
            UNKNOWN_UNTIL_RUN,
        ),
        *_use_volume_keys(deployment),
    ]


def _describe_target_health(deployment: Deployment) -> list[Statement]:
    described = _read_only("elasticloadbalancing:DescribeTargetHealth")(deployment)
    return [
        *(described if deployment.target_group_arns else []),
        *_read_records(deployment),
        *_of_names(deployment, _describe_replica_alarms),
    ]


def _register_targets(deployment: Deployment) -> list[Statement]:
    return [
        *_on_balancers("RegisterTargets", deployment.target_group_arns),
        *_change_records(deployment, "UPSERT"),
        *_of_names(deployment, _find_addresses, _make_health_checks),
    ]


def _deregister_targets(deployment: Deployment) -> list[Statement]:
    return [
        *_on_balancers("DeregisterTargets", deployment.target_group_arns),
        *_change_records(deployment, "DELETE"),
        *_of_names(deployment, _delete_health_checks),
    ]


def _set_weights(deployment: Deployment) -> list[Statement]:
    return [
        *_on_balancers("ModifyListener", deployment.listener_arns),
        *_change_records(deployment, "UPSERT"),
    ]


def _on_balancers(action: str, arns: Sequence[str]) -> list[Statement]:
    return [Statement((f"elasticloadbalancing:{action}",), tuple(arns))] if arns else []


def _of_names(deployment: Deployment, *parts: Callable[[Deployment], list[Statement]]) -> list[Statement]:
    """What only environments with a cluster behind a DNS name need."""
    return (
        [statement for part in parts for statement in part(deployment)] if deployment.clusters_by_name else []
    )


def _hosted_zone_arns(deployment: Deployment) -> tuple[str, ...]:
    zones = {endpoint.hosted_zone_id for _, endpoint in deployment.clusters_by_name}
    return tuple(deployment.names.hosted_zone_arn(zone) for zone in sorted(zones))


def _read_records(deployment: Deployment) -> list[Statement]:
    zones = _hosted_zone_arns(deployment)
    return [Statement(("route53:ListResourceRecordSets",), zones)] if zones else []


def _change_records(deployment: Deployment, action: str) -> list[Statement]:
    """Only the clusters' own names, only their A records."""
    return [
        *_read_records(deployment),
        *(
            Statement(
                ("route53:ChangeResourceRecordSets",),
                (deployment.names.hosted_zone_arn(endpoint.hosted_zone_id),),
                {
                    "ForAllValues:StringEquals": {
                        "route53:ChangeResourceRecordSetsNormalizedRecordNames": [endpoint.record_name],
                        "route53:ChangeResourceRecordSetsRecordTypes": ["A"],
                        "route53:ChangeResourceRecordSetsActions": [action],
                    }
                },
            )
            for _, endpoint in deployment.clusters_by_name
        ),
    ]


def _find_addresses(deployment: Deployment) -> list[Statement]:
    return _read_only("ec2:DescribeInstances")(deployment)


def _replica_alarm_arns(deployment: Deployment) -> tuple[str, ...]:
    return tuple(
        deployment.names.replica_alarm_arns(cluster.name) for cluster, _ in deployment.clusters_by_name
    )


def _describe_replica_alarms(deployment: Deployment) -> list[Statement]:
    by_prefix = "Describing alarms by the beginning of their names is authorized on all alarms of the region."
    return [
        Statement(
            ("cloudwatch:DescribeAlarms",),
            (deployment.names.arn("cloudwatch", "alarm:*"),),
            wildcard_reason=by_prefix,
        )
    ]


def _make_health_checks(deployment: Deployment) -> list[Statement]:
    return [
        *replica_alarms(_replica_alarm_arns(deployment)),
        Statement(
            ("route53:CreateHealthCheck", "route53:ListHealthChecks"), ("*",), wildcard_reason=NO_HEALTH_CHECK
        ),
        Statement(
            ("route53:ChangeTagsForResource",),
            (_any_health_check(deployment),),
            wildcard_reason=UNTAGGED_CHECKS,
        ),
    ]


def replica_alarms(arns: tuple[str, ...]) -> list[Statement]:
    """Alarms that act on nothing: an action of EC2's could stop or end a host."""
    without_actions = {"Null": {"cloudwatch:AlarmActions": "true"}}
    return [
        Statement(("cloudwatch:PutMetricAlarm",), arns, without_actions, ONE_PER_REPLICA),
        Statement(("cloudwatch:TagResource",), arns, wildcard_reason=ONE_PER_REPLICA),
    ]


def _delete_health_checks(deployment: Deployment) -> list[Statement]:
    return [
        Statement(
            ("cloudwatch:DeleteAlarms",), _replica_alarm_arns(deployment), wildcard_reason=ONE_PER_REPLICA
        ),
        Statement(("route53:ListHealthChecks",), ("*",), wildcard_reason=NO_HEALTH_CHECK),
        Statement(
            ("route53:DeleteHealthCheck",), (_any_health_check(deployment),), wildcard_reason=UNTAGGED_CHECKS
        ),
    ]


def _any_health_check(deployment: Deployment) -> str:
    return f"arn:{deployment.names.environment.partition}:route53:::healthcheck/*"


def _touch_owned(
    action: str, resource: Callable[[Deployment], str]
) -> Callable[[Deployment], list[Statement]]:
    return lambda deployment: [
        Statement((action,), (resource(deployment),), _owned(deployment), UNKNOWN_UNTIL_RUN)
    ]


def _builder(permission: Permission) -> Callable[[Deployment], list[Statement]]:
    match permission:
        case Permission.READ_CLUSTER_SETTINGS:
            return _read_cluster_settings
        case Permission.WRITE_LEDGER:
            return _write_ledger
        case Permission.LIST_CLUSTERS:
            return _list_clusters
        case Permission.FOLLOW_EXECUTIONS:
            return _follow_executions
        case Permission.KEEP_FORECASTS:
            return _keep_forecasts
        case Permission.DESCRIBE_INSTANCES:
            return _read_only("ec2:DescribeInstances")
        case Permission.DESCRIBE_INSTANCE_TYPES:
            return _read_only("ec2:DescribeInstanceTypes")
        case Permission.DESCRIBE_IMAGES:
            return _read_only("ec2:DescribeImages")
        case Permission.DESCRIBE_VOLUMES:
            return _read_only("ec2:DescribeVolumes")
        case Permission.DESCRIBE_SNAPSHOTS:
            return _read_only("ec2:DescribeSnapshots")
        case Permission.DESCRIBE_TARGET_HEALTH:
            return _describe_target_health
        case Permission.DESCRIBE_MANAGED_HOSTS:
            return _read_only("ssm:DescribeInstanceInformation")
        case Permission.CANCEL_COMMANDS:
            return _cancel_commands
        case Permission.READ_METRICS:
            return _read_only("cloudwatch:GetMetricData")
        case Permission.PUBLISH_METRICS:
            return _publish_metrics
        case Permission.READ_HOST_PACKAGE:
            return _read_host_package
        case Permission.LIST_SNAPSHOT_BLOCKS:
            return _list_snapshot_blocks
        case Permission.LIST_CHANGED_BLOCKS:
            return _list_changed_blocks
        case Permission.PUBLISH_RUN_FILES:
            return _publish_run_files
        case Permission.CREATE_SNAPSHOTS:
            return _create_snapshots
        case Permission.LAUNCH_INSTANCES:
            return _launch_instances
        case Permission.CREATE_VOLUMES:
            return _create_volumes
        case Permission.CHECK_VOLUME_KEYS:
            return _check_volume_keys
        case Permission.ATTACH_VOLUMES:
            return _attach_volumes
        case Permission.REGISTER_TARGETS:
            return _register_targets
        case Permission.DEREGISTER_TARGETS:
            return _deregister_targets
        case Permission.SET_WEIGHTS:
            return _set_weights
        case Permission.STOP_INSTANCES:
            return _touch_owned("ec2:StopInstances", lambda deployment: deployment.ec2("instance"))
        case Permission.START_INSTANCES:
            return lambda deployment: [
                *_touch_owned("ec2:StartInstances", lambda one: one.ec2("instance"))(deployment),
                *_use_volume_keys(deployment),
            ]
        case Permission.TERMINATE_INSTANCES:
            return _touch_owned("ec2:TerminateInstances", lambda deployment: deployment.ec2("instance"))
        case Permission.DELETE_VOLUMES:
            return _touch_owned("ec2:DeleteVolume", lambda deployment: deployment.ec2("volume"))
        case Permission.DELETE_SNAPSHOTS:
            return _touch_owned("ec2:DeleteSnapshot", lambda deployment: deployment.any_snapshot)
        case Permission.READ_PRICES:
            return _read_prices
        case Permission.FETCH_PRICES:
            return _fetch_prices
        case _:
            assert_never(permission)


_BUILDERS = {permission: _builder(permission) for permission in Permission}
