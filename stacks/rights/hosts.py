"""Hosts, their storage, and the commands that they are sent."""

from __future__ import annotations

from collections.abc import Sequence

from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, OWNER_TAG, ROLE_TAG, VOLUME_TAG
from peaker_contract.steps import REPORT_WORK
from stacks.naming import Names
from stacks.rights.statement import (
    ANY_CLUSTER,
    NO_RESOURCE_LEVEL,
    UNKNOWN_UNTIL_RUN,
    Statement,
    listed,
    owned,
    tag_on_create,
    to_be_owned,
)

VOLUME_KEY_ACTIONS = (
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)
# They make a replica, or end its database: they reach only what Peaker made (I1). The others look, or bring a replica
# into service, also one that has lost its owner tag in the middle of a run.
DOCUMENTS_FOR_OWN_REPLICAS = frozenset(
    {
        *("assemble_storage", "start_prewarm", "report_prewarm", "verify_storage"),
        *("load_buffer_pool", "check_mounts", "stop_database", REPORT_WORK),
    }
)


def command_statements(documents: Sequence[str], names: Names) -> list[Statement]:
    """Run exactly these SSM documents, on replicas of this environment's clusters, and read their results.

    Who asks whether a host is at work on a command takes back the one on which nobody is.
    """
    if not documents:
        return []
    follow = [*commands_on_replicas(documents, names), *_follow_commands(names)]
    return [*follow, *cancel_commands(names)] if REPORT_WORK in documents else follow


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
                    f"ssm:resourceTag/{ROLE_TAG}": "replica",
                    **owner,
                },
                "StringLike": {f"ssm:resourceTag/{CLUSTER_TAG}": ANY_CLUSTER},
            },
            "Hosts come and go; the condition narrows it to the replicas of this environment's clusters.",
        ),
    ]


def _follow_commands(_: Names) -> list[Statement]:
    return [
        Statement(("ssm:GetCommandInvocation", "ssm:ListCommands"), ("*",), wildcard_reason=NO_RESOURCE_LEVEL)
    ]


def cancel_commands(_: Names) -> list[Statement]:
    no_resource = "AWS offers no resource-level permission for CancelCommand."
    return [
        Statement(("ssm:ListCommands",), ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(("ssm:CancelCommand",), ("*",), wildcard_reason=no_resource),
    ]


def list_snapshot_blocks(names: Names) -> list[Statement]:
    return [Statement(("ebs:ListSnapshotBlocks",), (names.any_snapshot,), owned(names), UNKNOWN_UNTIL_RUN)]


def create_snapshots(names: Names) -> list[Statement]:
    return [
        Statement(
            ("ec2:CreateSnapshots",),
            (names.ec2("instance"),),
            # I2: the source is never snapshotted.
            {
                "StringEquals": {
                    f"aws:ResourceTag/{ENVIRONMENT_TAG}": names.owner,
                    f"aws:ResourceTag/{ROLE_TAG}": "replica",
                },
                "StringLike": {f"aws:ResourceTag/{CLUSTER_TAG}": ANY_CLUSTER},
            },
            "The donor is chosen at run time; the condition narrows it to replicas of this environment's clusters.",
        ),
        Statement(
            ("ec2:CreateSnapshots",),
            (names.ec2("volume"),),
            wildcard_reason="It takes only volumes of the instance, which is narrowed by its tags.",
        ),
        Statement(("ec2:CreateSnapshots",), (names.any_snapshot,), to_be_owned(names), UNKNOWN_UNTIL_RUN),
        tag_on_create("CreateSnapshots", names.any_snapshot),
        Statement(
            ("ec2:CreateTags",),
            (names.any_snapshot,),
            {**owned(names), "ForAllValues:StringEquals": {"aws:TagKeys": [VOLUME_TAG]}},
            "CreateSnapshots gives all members the same tags, so each gets its volume's name after. "
            + UNKNOWN_UNTIL_RUN,
        ),
        *use_volume_keys(names),
    ]


def launch_instances(names: Names) -> list[Statement]:
    arn, reach = names.arn, names.reach
    given = (
        *(arn("ec2", f"image/{one}", account="") for one in reach.image_patterns),
        # Another account may share them: then they have its number.
        *(arn("ec2", f"subnet/{one}", account="*") for one in reach.subnet_patterns),
        *(arn("ec2", f"security-group/{one}", account="*") for one in reach.security_group_patterns),
    )
    launch = [
        Statement(
            ("ec2:RunInstances",),
            (names.ec2("instance"), names.ec2("volume")),
            to_be_owned(names),
            UNKNOWN_UNTIL_RUN,
        ),
        listed(("ec2:RunInstances",), tuple(sorted(given))),
        Statement(
            ("ec2:RunInstances",),
            (names.ec2("network-interface"),),
            wildcard_reason="The interface is made by the launch, in the subnets and groups named above.",
        ),
        tag_on_create("RunInstances", names.ec2("instance"), names.ec2("volume")),
    ]
    if reach.reservation_groups:
        launch.append(Statement(("ec2:RunInstances",), reach.reservation_groups))
    if reach.instance_role_patterns:
        to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
        launch.append(listed(("iam:PassRole",), reach.instance_role_patterns, to_ec2))
    return [*launch, *use_volume_keys(names)]


def start_instances(names: Names) -> list[Statement]:
    """Also in the room of a group of capacity reservations, and out of a group that the settings no longer name."""
    instances = names.ec2("instance")
    return [
        Statement(("ec2:StartInstances",), (instances,), owned(names), UNKNOWN_UNTIL_RUN),
        Statement(
            ("ec2:ModifyInstanceCapacityReservationAttributes",),
            (instances,),
            owned(names),
            UNKNOWN_UNTIL_RUN,
        ),
        *use_volume_keys(names),
    ]


def create_volumes(names: Names) -> list[Statement]:
    return [
        Statement(("ec2:CreateVolume",), (names.ec2("volume"),), to_be_owned(names), UNKNOWN_UNTIL_RUN),
        Statement(("ec2:CreateVolume",), (names.any_snapshot,), owned(names), UNKNOWN_UNTIL_RUN),
        tag_on_create("CreateVolume", names.ec2("volume")),
        *use_volume_keys(names),
    ]


def use_volume_keys(names: Names) -> list[Statement]:
    """Allows the calls that EBS makes with a customer-managed key for the caller (EBS user guide,
    requirements for encryption).

    Through EC2 only, and grants for AWS's services only: nobody can read data with it, or hand the key on.
    """
    keys = names.reach.kms_key_patterns
    if not keys:
        return []
    via_ec2 = {"kms:ViaService": f"ec2.{names.environment.region}.amazonaws.com"}
    return [
        listed(tuple(f"kms:{action}" for action in VOLUME_KEY_ACTIONS), keys, {"StringEquals": via_ec2}),
        listed(
            ("kms:CreateGrant",),
            keys,
            {"StringEquals": via_ec2, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


def check_volume_keys(names: Names) -> list[Statement]:
    """A plan asks whose key it is, and tries (as a dry run) whether the key's policy lets this account in."""
    found = [
        Statement(
            ("kms:DescribeKey",),
            (names.arn("kms", "key/*"), *_keys_of_other_accounts(names)),
            wildcard_reason="A key that the settings do not name must be told by its name; this reads no data.",
        )
    ]
    if names.reach.kms_key_patterns:
        found.append(listed(("kms:GenerateDataKeyWithoutPlaintext",), names.reach.kms_key_patterns))
    return found


def _keys_of_other_accounts(names: Names) -> tuple[str, ...]:
    """Keys that the settings name and that another account shares."""
    own = names.arn("kms", "key/")
    return tuple(arn for arn in names.reach.kms_key_patterns if not arn.startswith(own))


def attach_volumes(names: Names) -> list[Statement]:
    return [
        Statement(
            ("ec2:AttachVolume",),
            (names.ec2("instance"), names.ec2("volume")),
            owned(names),
            UNKNOWN_UNTIL_RUN,
        ),
        *use_volume_keys(names),
    ]
