"""Every finding of cdk-nag and every warning of the CDK that is accepted: on one resource, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Validations
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from stacks.rights.statement import Statement


def acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    """Accept one finding on one construct.

    Written as metadata, because `Validations.acknowledge` refuses ids with a second `::`, which the ARN of a
    snapshot or an image has.
    """
    if not reason.strip():
        raise ValueError(f"{construct.node.path}: say why {finding} is accepted")
    construct.node.add_metadata(Validations.ACKNOWLEDGED_RULES_METADATA_KEY, {finding: reason})


def role_that_may(
    scope: Construct, *, service: str, description: str, statements: Sequence[Statement]
) -> tuple[iam.Role, iam.Policy]:
    """A role that may do just this, each wildcard for its reason. Whatever takes it on has to wait for the policy."""
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal(service), description=description)
    allowed = [
        iam.PolicyStatement(
            actions=list(one.actions),
            resources=list(one.resources),
            conditions={operator: dict(keys) for operator, keys in one.conditions.items()} or None,
        )
        for one in statements
    ]
    policy = iam.Policy(scope, "Policy", statements=allowed)
    policy.attach_to_role(role)
    reasons: dict[str, dict[str, None]] = {}
    for one in statements:
        for resource in one.wildcards:
            reasons.setdefault(resource, {}).setdefault(one.wildcard_reason)
    for resource, given in reasons.items():
        acknowledge(policy, f"AwsSolutions-IAM5[Resource::{resource}]", " ".join(given))
    return role, policy
