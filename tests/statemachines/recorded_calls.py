"""The calls of the functions that change anything: a run makes none that its plan does not list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from localcloud.iam.access import Access, Refused
from localcloud.iam.identities import Identity
from localcloud.iam.need import Params
from localcloud.iam.service_needs import IAM_PREFIX
from peaker_contract.catalogue import FUNCTIONS
from tests.support.workflow_cloud import ENVIRONMENT, Cluster, WorkflowCloud

OWN_OR_READS = re.compile(r"^dynamodb:|^cloudwatch:PutMetricData$|^events:PutEvents$|:(Describe|Get|List)")
ROLES = {f"peaker-{ENVIRONMENT}-{one.name}" for one in FUNCTIONS}


@contextmanager
def recorded() -> Iterator[Counter[str]]:
    """Every call of a function that changes anything but Peaker's own records, by IAM's name."""
    calls: Counter[str] = Counter()
    check = Access.check_request

    def seen(
        self: Access, identity: Identity, service: str, operation: str, params: Params, source_ip: str = ""
    ) -> tuple[Refused, ...]:
        action = f"{IAM_PREFIX.get(service, service)}:{operation}"
        role = identity.caller.arn.split("/")[1:2]
        if ROLES.intersection(role) and not OWN_OR_READS.search(action):
            calls[action] += 1
        return check(self, identity, service, operation, params, source_ip)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Access, "check_request", seen)
        yield calls


def assert_planned(cloud: WorkflowCloud, cluster: Cluster, calls: Counter[str]) -> dict[str, int | None]:
    """Nothing was called that the plan of the last run does not list; returns how often it lists each call."""
    listed = {one["action"]: one["times"] for one in cloud.receipt(cloud.runs(cluster)[-1])["plan"]["calls"]}
    assert set(calls) - set(listed) == set()
    return listed
