"""What a stack keeps: under which key, and what becomes of it when its stack goes, or is never made."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.naming import Names

_ID = "DataKey"


def data_key(scope: Construct, names: Names) -> kms.IKey | None:
    """Returns the settings' key (`data_key_arn`), once in a stack; its policy is its owner's. None for AWS's own."""
    arn = names.environment.data_key_arn
    if arn is None:
        return None
    stack = Stack.of(scope)
    known = stack.node.try_find_child(_ID)
    return known if known is not None else kms.Key.from_key_arn(stack, _ID, arn)


def kept_once_created(retain_state: bool) -> RemovalPolicy:
    """Kept when its stack is deleted, where state is retained; never when the stack's first creation fails.

    A resource with a fixed name that a failed creation leaves behind is in the way of the next one (CloudFormation,
    DeletionPolicy attribute: RetainExceptOnCreate).
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain_state else RemovalPolicy.DESTROY


def log_group(scope: Construct, names: Names, name: str) -> logs.LogGroup:
    return logs.LogGroup(
        scope,
        "Logs",
        log_group_name=name,
        retention=logs.RetentionDays.THREE_MONTHS,
        encryption_key=data_key(scope, names),
        removal_policy=kept_once_created(names.environment.retain_state),
    )
