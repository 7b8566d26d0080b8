"""Every role is bounded; the boundary lets through what its policies allow, and fits into a managed policy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from environments.schema import load_environment
from localcloud.iam import reference
from localcloud.iam.context import CallContext
from localcloud.iam.decision import Caller, Policies, decide
from localcloud.iam.need import Need
from localcloud.iam.policy import parse
from peaker_contract.catalogue import FUNCTIONS
from stacks.constructs.boundary import bound_all_roles
from stacks.rights.boundary import AT_EACH_START, allowed_actions, boundary_document
from stacks.rights.role_statements import function_statements, workflow_statements
from tests.infrastructure.conftest import Assembly
from tests.infrastructure.permissions.test_permissions import BY_NAME, DEPLOYMENT, allowed, listed

# IAM counts the characters of a managed policy without blanks (IAM user guide, "IAM and STS quotas").
LONGEST = 6144
PRESCRIBED = "arn:aws:iam::222222222222:policy/company-boundary"
EVERYTHING = parse(
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
)
CALLER = Caller(
    "222222222222", "arn:aws:sts::222222222222:assumed-role/r/s", "arn:aws:iam::222222222222:role/r"
)


def roles(templates: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Logical id and boundary of every role, whoever made it."""
    for template in templates.values():
        for logical_id, resource in template["Resources"].items():
            if resource["Type"] == "AWS::IAM::Role":
                yield logical_id, resource["Properties"].get("PermissionsBoundary")


def test_every_role_of_the_stacks_is_bounded(assembly: Assembly) -> None:
    [(boundary, _)] = assembly.resources("AWS::IAM::ManagedPolicy")
    found = dict(roles(assembly.templates))
    assert len(found) > 40
    assert {name: given for name, given in found.items() if given != {"Ref": boundary}} == {}


@pytest.mark.parametrize("prescribed", [None, PRESCRIBED])
def test_the_roles_that_the_cdk_makes_for_itself_are_bounded_too(prescribed: str | None) -> None:
    environment = load_environment("prod").model_copy(update={"permissions_boundary_arn": prescribed})
    stack = cdk.Stack(cdk.App(), "Some")
    bound_all_roles(stack, replace(DEPLOYMENT, environment=environment))
    iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    s3.Bucket(stack, "Bucket", removal_policy=cdk.RemovalPolicy.DESTROY, auto_delete_objects=True)
    [template] = [one.template for one in stack.node.root.synth().stacks]  # type: ignore[attr-defined]
    found = dict(roles({"Some": template}))
    assert any("AutoDelete" in name for name in found)
    made = [one for one in template["Resources"].values() if one["Type"] == "AWS::IAM::ManagedPolicy"]
    assert len(made) == (0 if prescribed else 1)
    for given in found.values():
        assert given == prescribed if prescribed else "Ref" in given


def test_the_boundary_lets_through_every_action_that_a_policy_allows(assembly: Assembly) -> None:
    [(_, boundary)] = assembly.resources("AWS::IAM::ManagedPolicy")
    granted = boundary["Properties"]["PolicyDocument"]["Statement"][0]
    assert granted["Effect"] == "Allow"
    actions = {action for _, statement in allowed(assembly) for action in listed(statement["Action"])}
    beyond = [one for one in actions if not any(fnmatchcase(one, pattern) for pattern in granted["Action"])]
    assert beyond == []


def test_the_boundary_lets_through_no_change_that_no_step_makes() -> None:
    """Of all actions that AWS has: each that a word of the boundary lets through only looks, or is a step's."""
    steps = [s for one in FUNCTIONS for s in function_statements(one, BY_NAME)]
    workflows = workflow_statements(BY_NAME, [BY_NAME.function_arn("undo_run")], ["prewarm"])
    granted = {action for statement in (*steps, *workflows) for action in statement.actions}
    let_through = {
        action
        for action in reference.actions()
        if any(fnmatchcase(action, pattern) for pattern in allowed_actions(BY_NAME))
    }
    changes = {one for one in let_through - granted if not re.search(r":(Describe|Get|List)", one)}
    assert {one for one in changes if not one.startswith("xray:Put")} == {AT_EACH_START}


def test_the_boundary_of_the_largest_environment_fits() -> None:
    given = BY_NAME.environment
    [cluster] = given.clusters
    key = "arn:aws:kms:ap-northeast-1:222222222222:key/0b0d0000-0000-0000-0000-00000000000"
    clusters = tuple(
        cluster.model_copy(
            update={
                "name": f"a-cluster-with-name{number}",
                "instance_role_arn": f"arn:aws:iam::222222222222:role/hosts/of-a-cluster-{number}",
                "kms_key_arns": (f"{key}{number}",),
            }
        )
        for number in range(8)
    )
    changes = {"clusters": clusters, "environment": "production", "region": "ap-northeast-1"}
    package = f"arn:aws:s3:::cdk-hnb659fds-assets-222222222222-ap-northeast-1/{'0' * 64}.pyz"
    largest = replace(BY_NAME, environment=given.model_copy(update=changes), host_package_object_arn=package)
    assert len(json.dumps(boundary_document(largest), separators=(",", ":"))) <= LONGEST


NEVER = {
    "pass an administrator's role": Need(
        "iam:PassRole",
        "arn:aws:iam::222222222222:role/administrator",
        "role",
        {"iam:passedtoservice": ("ec2.amazonaws.com",)},
    ),
    "hand the hosts' role to a function": Need(
        "iam:PassRole",
        "arn:aws:iam::222222222222:role/peaker-replica",
        "role",
        {"iam:passedtoservice": ("lambda.amazonaws.com",)},
    ),
    "end what is nobody's": Need(
        "ec2:TerminateInstances",
        "arn:aws:ec2:us-east-1:222222222222:instance/i-1",
        "instance",
        resource_tags={"peaker:environment": "prod"},
    ),
    "end a replica that became the source": Need(
        "ec2:TerminateInstances",
        "arn:aws:ec2:us-east-1:222222222222:instance/i-1",
        "instance",
        resource_tags={"peaker:owner": "prod", "peaker:environment": "prod", "peaker:role": "source"},
    ),
    "read another table": Need(
        "dynamodb:GetItem", "arn:aws:dynamodb:us-east-1:222222222222:table/peaker-dev-ledger", "table"
    ),
    "read another bucket": Need("s3:GetObject", "arn:aws:s3:::another/key", "object"),
}


def test_a_function_reads_its_own_environment_variables_and_no_other_ones() -> None:
    """Lambda decrypts them as the function's role, by a grant, when it starts; no page says that it is ViaService."""
    bounded = parse(json.dumps(boundary_document(DEPLOYMENT)))
    key = "arn:aws:kms:us-east-1:222222222222:key/1"

    def decrypts(function: str, via: str | None = None) -> bool:
        keys: dict[str, tuple[str, ...] | None] = {
            "kms:encryptioncontext:aws:lambda:functionarn": (
                f"arn:aws:lambda:us-east-1:222222222222:function:{function}",
            ),
            "kms:viaservice": None if via is None else (via,),
        }
        context = CallContext(Need("kms:Decrypt", key, "key", keys), {})
        return decide(CALLER, Policies((EVERYTHING,), boundary=bounded), "kms:Decrypt", key, context).allowed

    assert decrypts(DEPLOYMENT.function("create_volumes"))
    assert decrypts("another", via="s3.us-east-1.amazonaws.com")
    assert not decrypts("another")


@pytest.mark.parametrize("what", NEVER)
def test_who_may_everything_may_not_do_it_within_the_boundary(what: str) -> None:
    need, bounded = NEVER[what], parse(json.dumps(boundary_document(DEPLOYMENT)))
    context = CallContext(need, {})
    within = decide(CALLER, Policies((EVERYTHING,), boundary=bounded), need.action, need.resource, context)
    without = decide(CALLER, Policies((EVERYTHING,)), need.action, need.resource, context)
    assert (without.allowed, within.allowed) == (True, False), within.reason
