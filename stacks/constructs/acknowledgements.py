"""Every finding of cdk-nag and every warning of the CDK that is accepted: on one resource, with the reason."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Validations
from constructs import IConstruct

from stacks.rights.statement import Statement


def acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    """Accept one finding on one construct.

    Written as metadata, because `Validations.acknowledge` refuses ids with a second `::`, which the ARN of a
    snapshot or an image has.
    """
    if not reason.strip():
        raise ValueError(f"{construct.node.path}: say why {finding} is accepted")
    construct.node.add_metadata(Validations.ACKNOWLEDGED_RULES_METADATA_KEY, {finding: reason})


def acknowledge_wildcards(policy: IConstruct, statements: Iterable[Statement]) -> None:
    """Accept the wildcard resources of these statements, each for the reason that its statement gives."""
    reasons: dict[str, list[str]] = {}
    for statement in statements:
        for resource in statement.wildcards:
            given = reasons.setdefault(resource, [])
            if statement.wildcard_reason not in given:
                given.append(statement.wildcard_reason)
    for resource, given in reasons.items():
        acknowledge(policy, f"AwsSolutions-IAM5[Resource::{resource}]", " ".join(given))


def acknowledge_pinned_runtime(function: IConstruct) -> None:
    acknowledge(
        function,
        "AwsSolutions-L1",
        "The runtime is pinned to the Python that the tests and the bundled wheels are for; "
        "environments/*.yaml moves it.",
    )


def acknowledge_dead_letter_queue(queue: IConstruct) -> None:
    acknowledge(
        queue, "AwsSolutions-SQS3", "It is itself a dead-letter queue: what lies in it waits for a person."
    )


def acknowledge_no_bucket_log(bucket: IConstruct) -> None:
    acknowledge(
        bucket,
        "AwsSolutions-S1",
        "It holds lists of block numbers for some days; a log of who fetched them would need a bucket that lasts.",
    )


def acknowledge_no_access_log(load_balancer: IConstruct) -> None:
    acknowledge(
        load_balancer,
        "AwsSolutions-ELB2",
        "Network Load Balancers log only TLS listeners; this one passes MySQL's own TCP through.",
    )


def acknowledge_no_route_table(subnet: IConstruct) -> None:
    acknowledge(
        subnet,
        "Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId",
        "The subnet is given by its id, nothing is looked up, and nothing here reads its route table.",
    )
