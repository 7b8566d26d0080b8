"""IAM's limits of length, held before anything is deployed (IAM User Guide, "IAM and AWS STS quotas")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from environments.schema import EnvironmentFileError
from peaker_contract.catalogue import FUNCTIONS
from stacks.naming import Names
from stacks.rights.boundary import boundary_document
from stacks.rights.role_statements import function_statements, policy_document

# Characters without blanks: of all inline policies of a role together, and of a managed policy.
LONGEST_OF_A_ROLE = 10_240
LONGEST_BOUNDARY = 6_144


def refuse_what_is_too_long(names: Names) -> None:
    """Raises EnvironmentFileError where the clusters name more of the account than a policy can list."""
    for what, length, limit in _lengths(names):
        if length > limit:
            raise EnvironmentFileError(
                f"environments/{names.owner}.yaml: clusters: {what} would have {length} characters and IAM allows "
                f"{limit}, because they name too many images, subnets, security groups, roles, keys, zones or DNS "
                "names: say in may_use which ones clusters may use, with patterns"
            )


def _lengths(names: Names) -> Iterator[tuple[str, int, int]]:
    if names.environment.permissions_boundary_arn is None:
        yield "the permissions boundary", _length(boundary_document(names)), LONGEST_BOUNDARY
    for one in FUNCTIONS:
        document = policy_document(function_statements(one, names))
        yield f"the policy of {one.name}", _length(document), LONGEST_OF_A_ROLE


def _length(document: dict[str, Any]) -> int:
    return len(json.dumps(document, separators=(",", ":")))
