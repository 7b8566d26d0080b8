"""The key that a stack's tables, queues, topics, logs and buckets are under: the environment's own, or AWS's."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.naming import Names

_ID = "DataKey"


def data_key(scope: Construct, names: Names) -> kms.IKey | None:
    """Returns the settings' key (`data_key_arn`), once in a stack; its policy is its owner's. None for AWS's
    own keys.
    """
    arn = names.environment.data_key_arn
    if arn is None:
        return None
    stack = Stack.of(scope)
    known = stack.node.try_find_child(_ID)
    return known if known is not None else kms.Key.from_key_arn(stack, _ID, arn)
