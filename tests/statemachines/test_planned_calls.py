"""A run changes nothing on AWS that its plan does not list: what it called against what was planned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from localcloud.iam.access import Access, Refused
from localcloud.iam.identities import Identity
from localcloud.iam.need import Params
from localcloud.iam.service_needs import IAM_PREFIX
from peaker_contract.catalogue import FUNCTIONS
from tests.statemachines.test_dns_endpoint import CHECK_MINUTES, checked, healthy, router, settings_of
from tests.statemachines.test_parking_workflow import parked
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


def build(cloud: WorkflowCloud, cluster: Cluster, **request: Any) -> tuple[dict[str, Any], Counter[str]]:
    """The plan that the run carried out, and what it called."""
    cloud.set_load(cluster, 150, 2)
    with recorded() as calls:
        execution = cloud.run("scale_out", {"cluster": cluster.name, **request})
    assert execution["status"] == "SUCCEEDED", execution
    return cloud.receipt(cloud.runs(cluster)[-1])["plan"], calls


def test_a_build_calls_what_its_plan_lists(cloud: WorkflowCloud) -> None:
    plan, calls = build(cloud, cloud.cluster())
    listed = {one["action"]: one["times"] for one in plan["calls"]}
    assert set(calls) - set(listed) == set()
    counted = {action: times for action, times in listed.items() if times is not None}
    assert counted == {action: calls[action] for action in counted}


def test_so_does_a_build_behind_a_dns_name(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster_by_name(health={"check_minutes": CHECK_MINUTES})
    router(cloud).promote(settings_of(cluster), cluster.base_id)
    with checked(cloud, cluster):
        cloud.eventually(lambda: healthy(cloud, cluster) == {cluster.base_id})
        plan, calls = build(cloud, cluster)
    assert "route53:CreateHealthCheck" in calls
    assert set(calls) - {one["action"] for one in plan["calls"]} == set()


def test_so_does_a_return(cloud: WorkflowCloud) -> None:
    cluster, _ = parked(cloud)
    plan, calls = build(cloud, cluster)
    assert "ec2:StartInstances" in calls
    assert set(calls) - {one["action"] for one in plan["calls"]} == set()
