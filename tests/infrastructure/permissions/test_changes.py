"""What a plan says that a function changes is what its role may change."""

from __future__ import annotations

import re

import pytest

from peaker_contract.endpoint_settings import ENDPOINT_KINDS
from peaker_contract.permissions import Permission, changes
from stacks.rights.permissions import statements
from tests.infrastructure.permissions.test_permissions import BY_NAME, DEPLOYMENT

READS = re.compile(r":(Describe|Get|List)")
# Peaker's own records and runs; rights that are no calls: what EC2 does with the role, and with tags of what it makes.
RECORDS = ("dynamodb:", "cloudwatch:PutMetricData", "events:PutEvents", "ssm:PutParameter")
NO_CALLS = ("iam:PassRole", "cloudwatch:TagResource")


def granted(permission: Permission) -> set[str]:
    given = (*statements(permission, DEPLOYMENT), *statements(permission, BY_NAME))
    actions = {action for one in given for action in one.actions}
    calls = {one for one in actions if not READS.search(one) and not one.startswith((*RECORDS, *NO_CALLS))}
    if permission is not Permission.CREATE_SNAPSHOTS:
        calls.discard("ec2:CreateTags")
    return calls


@pytest.mark.parametrize("permission", Permission, ids=lambda one: one.name)
def test_a_permission_changes_what_it_says(permission: Permission) -> None:
    assert {one for kind in ENDPOINT_KINDS for one in changes(permission, kind)} == granted(permission)
