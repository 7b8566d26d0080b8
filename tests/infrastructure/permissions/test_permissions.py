"""Who may do what: no wildcard action, no wildcard resource without a reason, I1 and I2 also in IAM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from environments.schema import load_environment
from localcloud.iam import reference
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.permissions import Permission
from stacks.naming import Names
from stacks.rights.hosts import command_statements
from stacks.rights.permissions import statements
from stacks.rights.role_statements import function_statements
from stacks.rights.statement import Statement
from tests.infrastructure.conftest import Assembly, behind_a_name

DEPLOYMENT = Names(load_environment("prod"), "arn:aws:s3:::assets/package.pyz")
# The same environment with readers that find their replicas by a DNS name.
BY_NAME = Names(behind_a_name("prod"), DEPLOYMENT.host_package_object_arn)
DESTRUCTIVE = {"TerminateInstances", "StopInstances", "DetachVolume", "DeleteVolume", "DeleteSnapshot"}
ATTACHING = {"AttachVolume", "ModifyInstanceAttribute"}
CREATING = {"RunInstances", "CreateVolume", "CreateSnapshots"}
AS_A_PEAK_REPLICA = {
    "aws:RequestTag/peaker:owner": "prod",
    "aws:RequestTag/peaker:environment": "prod",
    "aws:RequestTag/peaker:role": "replica",
    "aws:RequestTag/peaker:load": "peak",
}
GIVEN_BY_THE_USER = ("subnet/", "security-group/", "image/")


def all_statements() -> Iterator[Statement]:
    for permission in Permission:
        yield from statements(permission, DEPLOYMENT)
    for definition in FUNCTIONS:
        yield from command_statements(definition.sent_documents, DEPLOYMENT)


def ec2_statements(actions: set[str]) -> list[Statement]:
    wanted = {f"ec2:{action}" for action in actions}
    return [statement for statement in all_statements() if wanted & set(statement.actions)]


def allowed(assembly: Assembly) -> Iterator[tuple[str, dict[str, Any]]]:
    for logical_id, policy in assembly.resources("AWS::IAM::Policy"):
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            if statement["Effect"] == "Allow":
                yield logical_id, statement


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_no_policy_allows_a_wildcard_action(assembly: Assembly) -> None:
    wide = [
        (name, s["Action"]) for name, s in allowed(assembly) if any("*" in a for a in listed(s["Action"]))
    ]
    assert wide == []


def test_no_managed_policy_is_attached(assembly: Assembly) -> None:
    assert [role for role in assembly.properties("AWS::IAM::Role") if role.get("ManagedPolicyArns")] == []


def test_every_resource_is_wild_only_for_actions_that_aws_cannot_narrow(assembly: Assembly) -> None:
    narrowable = set()
    for _, statement in allowed(assembly):
        if "*" in listed(statement["Resource"]) and not statement.get("Condition"):
            narrowable |= set(listed(statement["Action"]))
    read_only = (
        "ec2:Describe", "elasticloadbalancing:Describe", "cloudwatch:Get", "ssm:Get", "ssm:List", "pricing:Get",
        "servicequotas:Get",
    )  # fmt: skip
    delivery = ("logs:", "xray:", "ssm:Describe", "ssm:CancelCommand")
    assert [action for action in sorted(narrowable) if not action.startswith((*read_only, *delivery))] == []


def test_wildcard_resource_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="say why ec2:DescribeVolumes needs a wildcard"):
        Statement(("ec2:DescribeVolumes",), ("*",))


def test_wildcard_action_is_refused() -> None:
    with pytest.raises(ValueError, match="must be named in full, got ec2:Describe"):
        Statement(("ec2:Describe*",), ("arn:aws:ec2:us-east-1:1:volume/vol-1",))


def test_nothing_is_deleted_without_the_owner_tag() -> None:
    """I1"""
    found = ec2_statements(DESTRUCTIVE | ATTACHING)
    assert {action for s in found for action in s.actions} >= {"ec2:TerminateInstances", "ec2:DeleteVolume"}
    for statement in found:
        assert statement.conditions == {"StringEquals": {"aws:ResourceTag/peaker:owner": "prod"}}


def test_whatever_is_made_gets_the_owner_tag() -> None:
    """I1"""
    for statement in ec2_statements(CREATING):
        if all(any(kind in resource for kind in GIVEN_BY_THE_USER) for resource in statement.resources):
            continue
        made = [r for r in statement.resources if r.endswith(("instance/*", "volume/*", "snapshot/*"))]
        condition = statement.conditions.get("StringEquals", {})
        reads_its_origin = "ec2:CreateSnapshots" in statement.actions and not made[0].endswith("snapshot/*")
        if made and not reads_its_origin:
            if condition == {"aws:ResourceTag/peaker:owner": "prod"}:
                continue  # the snapshot that a volume is made from
            assert condition == AS_A_PEAK_REPLICA
            assert statement.conditions["StringLike"] == {"aws:RequestTag/peaker:cluster": "?*"}


def test_a_replica_may_be_launched_into_a_subnet_that_another_account_shares() -> None:
    [given] = [
        one for one in ec2_statements({"RunInstances"}) if any("subnet/" in arn for arn in one.resources)
    ]
    owners = {arn.split(":")[4] for arn in given.resources if "image/" not in arn}
    assert owners == {"*"}


def test_tags_are_set_only_on_what_a_call_creates_or_on_own_snapshots() -> None:
    """I1: nobody can put the owner tag on what Peaker did not make."""
    for statement in ec2_statements({"CreateTags"}):
        condition = statement.conditions["StringEquals"]
        if "ec2:CreateAction" in condition:
            continue
        assert condition == {"aws:ResourceTag/peaker:owner": "prod"}
        assert statement.conditions["ForAllValues:StringEquals"] == {"aws:TagKeys": ["peaker:volume"]}


def test_only_replicas_are_snapshotted() -> None:
    """I2"""
    [of_instances] = [
        s for s in ec2_statements({"CreateSnapshots"}) if any("instance/" in r for r in s.resources)
    ]
    assert of_instances.conditions["StringEquals"]["aws:ResourceTag/peaker:role"] == "replica"


def test_only_undo_and_retirement_terminate_and_delete_volumes() -> None:
    """I1"""
    for permission in (Permission.TERMINATE_INSTANCES, Permission.DELETE_VOLUMES):
        may = {definition.name for definition in FUNCTIONS if permission in definition.permissions}
        assert may == {"undo_run", "undo_removal", "sweep_orphans", "retire_replica"}


def test_commands_reach_only_own_documents_and_replicas_of_own_clusters() -> None:
    documents, hosts = command_statements(["prepare_donor"], DEPLOYMENT)[:2]
    assert documents.resources == ("arn:aws:ssm:us-east-1:222222222222:document/Peaker-prod-prepare_donor",)
    assert hosts.conditions == {
        "StringEquals": {
            "ssm:resourceTag/peaker:environment": "prod",
            "ssm:resourceTag/peaker:role": "replica",
        },
        "StringLike": {"ssm:resourceTag/peaker:cluster": "?*"},
    }


def test_who_only_makes_replicas_or_ends_their_databases_reaches_no_base_replica() -> None:
    """I1: a base replica is its owner's; what looks, or brings into service, may be sent to it."""
    bound = set()
    for definition in FUNCTIONS:
        for statement in command_statements(definition.sent_documents, DEPLOYMENT)[1:2]:
            if statement.conditions["StringEquals"].get("ssm:resourceTag/peaker:owner") == "prod":
                bound.add(definition.name)
    assert bound == {
        *("assemble_storage", "start_prewarm", "report_prewarm", "verify_storage", "load_buffer_pool"),
        *("register_replica", "undo_run", "park_replica"),
    }


def test_an_alarm_of_a_replica_acts_on_nothing() -> None:
    """An alarm's action can stop or end an instance, without the right to do so."""
    [statement] = [
        s
        for s in statements(Permission.REGISTER_TARGETS, BY_NAME)
        if "cloudwatch:PutMetricAlarm" in s.actions
    ]
    assert statement.conditions == {"Null": {"cloudwatch:AlarmActions": "true"}}


def test_the_bootstrap_buckets_own_key_is_read_with_and_only_through_s3() -> None:
    """The host package lies in the CDK's bucket, whose key may be a customer's."""
    key = "arn:aws:kms:us-east-1:222222222222:key/0b0d0000-0000-0000-0000-000000000001"
    environment = load_environment("prod").model_copy(update={"bootstrap_key_arn": key})
    with_key = replace(DEPLOYMENT, environment=environment)
    decrypting = [s for s in statements(Permission.READ_HOST_PACKAGE, with_key) if "kms:Decrypt" in s.actions]
    assert [s.resources for s in decrypting] == [(key,)]
    assert decrypting[0].conditions == {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    assert not [s for s in statements(Permission.READ_HOST_PACKAGE, DEPLOYMENT) if "kms:Decrypt" in s.actions]


VOLUME_KEYS = (
    "arn:aws:kms:us-east-1:222222222222:key/0b0d0000-0000-0000-0000-00000000000a",
    "arn:aws:kms:us-east-1:222222222222:key/0b0d0000-0000-0000-0000-00000000000b",
)


def with_cluster_fields(**fields: object) -> Names:
    """The production deployment with its cluster changed."""
    environment = load_environment("prod")
    cluster = environment.clusters[0].model_copy(update=fields)
    return replace(DEPLOYMENT, environment=environment.model_copy(update={"clusters": (cluster,)}))


@pytest.mark.parametrize(
    "permission",
    [
        Permission.CREATE_SNAPSHOTS,
        Permission.CREATE_VOLUMES,
        Permission.ATTACH_VOLUMES,
        Permission.LAUNCH_INSTANCES,
        Permission.START_INSTANCES,
    ],
)
def test_volume_keys_are_used_through_ec2_only_and_granted_to_aws_only(permission: Permission) -> None:
    deployment = with_cluster_fields(kms_key_arns=VOLUME_KEYS)
    found = [s for s in statements(permission, deployment) if s.actions[0].startswith("kms:")]
    assert {s.resources for s in found} == {VOLUME_KEYS}
    via = {"kms:ViaService": "ec2.us-east-1.amazonaws.com"}
    assert all(s.conditions["StringEquals"] == via for s in found)
    [grant] = [s for s in found if "kms:CreateGrant" in s.actions]
    assert (grant.actions, grant.conditions["Bool"]) == (
        ("kms:CreateGrant",),
        {"kms:GrantIsForAWSResource": "true"},
    )
    without = [s for s in statements(permission, DEPLOYMENT) if s.actions[0].startswith("kms:")]
    assert without == []


def test_a_plan_looks_at_keys_and_cannot_read_with_them() -> None:
    found = statements(Permission.CHECK_VOLUME_KEYS, with_cluster_fields(kms_key_arns=VOLUME_KEYS))
    assert {action for s in found for action in s.actions} == {
        "kms:DescribeKey",
        "kms:GenerateDataKeyWithoutPlaintext",
    }


def test_a_role_that_is_not_named_like_its_instance_profile_is_the_one_that_is_passed() -> None:
    role = "arn:aws:iam::222222222222:role/hosts/mysql-hosts"
    deployment = with_cluster_fields(instance_role_arn=role)
    [passing] = [
        s for s in statements(Permission.LAUNCH_INSTANCES, deployment) if "iam:PassRole" in s.actions
    ]
    assert passing.resources == (role,)


def test_only_the_replicas_role_is_passed_and_only_to_ec2() -> None:
    [statement] = [s for s in all_statements() if "iam:PassRole" in s.actions]
    assert statement.resources == ("arn:aws:iam::222222222222:role/peaker-replica",)
    assert statement.conditions == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_metrics_are_written_only_under_our_namespace() -> None:
    [statement] = [s for s in all_statements() if "cloudwatch:PutMetricData" in s.actions]
    assert statement.conditions == {"StringEquals": {"cloudwatch:namespace": "Peaker/prod"}}


@pytest.mark.parametrize("kind", ["nlb", "route53"])
def test_every_condition_asks_for_a_key_that_aws_has_for_the_action(kind: str) -> None:
    """A key that an action does not have is absent from every request, so that nothing would ever be allowed."""
    deployment = DEPLOYMENT if kind == "nlb" else BY_NAME
    for statement in (s for d in FUNCTIONS for s in function_statements(d, deployment)):
        for action in statement.actions:
            kinds = reference.actions()[action]
            for key in (key.lower() for keys in statement.conditions.values() for key in keys):
                assert any(reference.supports(action, each, key) for each in kinds), f"{action} has no {key}"


@pytest.mark.parametrize("kind", ["nlb", "route53"])
def test_what_has_no_resources_is_allowed_on_the_star(kind: str) -> None:
    """An action without resource types matches no ARN."""
    deployment = DEPLOYMENT if kind == "nlb" else BY_NAME
    for statement in (s for d in FUNCTIONS for s in function_statements(d, deployment)):
        for action in statement.actions:
            if not reference.has_resources(action):
                assert statement.resources == ("*",), f"{action} is authorized on no resource"


def test_every_permission_is_used() -> None:
    assert {p for definition in FUNCTIONS for p in definition.permissions} == set(Permission)
