"""Retention decides a resource's fate when its stack goes, or is never made."""

from __future__ import annotations

from aws_cdk import RemovalPolicy


def kept_once_created(retain_state: bool) -> RemovalPolicy:
    """Kept when its stack is deleted, where state is retained; never when the stack's first creation fails.

    A resource with a fixed name that a failed creation leaves behind is in the way of the next one (CloudFormation,
    DeletionPolicy attribute: RetainExceptOnCreate).
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain_state else RemovalPolicy.DESTROY
