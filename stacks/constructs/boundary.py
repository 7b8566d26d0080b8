"""The permissions boundary on every role of a stack, also on those that the CDK makes for itself."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from stacks.constructs.acknowledgements import acknowledge
from stacks.naming import Names
from stacks.rights.boundary import allowed_actions, boundary_document

GIVES_NOTHING = (
    "A boundary gives nothing: what a role may do, its own policies say, which name actions and resources."
)


def bound_all_roles(stack: Stack, names: Names) -> None:
    """Bounds all roles by the policy that the settings prescribe, else by one of the stack's own."""
    iam.PermissionsBoundary.of(stack).apply(_boundary(stack, names))


def _boundary(stack: Stack, names: Names) -> iam.IManagedPolicy:
    if names.environment.permissions_boundary_arn:
        return iam.ManagedPolicy.from_managed_policy_arn(stack, "Boundary", names.boundary_arn)
    policy = iam.ManagedPolicy(
        stack,
        "Boundary",
        managed_policy_name=names.boundary,
        description=f"What no role of {names.prefix} may ever exceed",
        document=iam.PolicyDocument.from_json(boundary_document(names)),
    )
    by_pattern = [f"Action::{action}" for action in allowed_actions(names) if "*" in action]
    for wildcard in ("Resource::*", *by_pattern):
        acknowledge(policy, f"AwsSolutions-IAM5[{wildcard}]", GIVES_NOTHING)
    return policy
