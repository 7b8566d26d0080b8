"""peaker register-base: only a base replica of the cluster goes behind its read endpoint."""

from __future__ import annotations

import pytest
from peaker_cli.base_replica.register_base import register_base, why_not_base
from peaker_cli.failures import ControlPlaneError

from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, OWNER_TAG
from tests.support.builders import BASE, instance, orders
from tests.support.fakes import FakeEndpoint


def test_a_base_replica_is_in_both_groups_also_when_asked_twice() -> None:
    endpoint = FakeEndpoint()
    for _ in range(2):
        register_base(endpoint, orders(), instance(BASE))
        assert (set(endpoint.targets), set(endpoint.warming)) == ({BASE}, {BASE})


@pytest.mark.parametrize(
    ("role", "tags", "why"),
    [
        ("source", {}, "is the source of orders .* never serves reads"),
        ("replica", {CLUSTER_TAG: "payments"}, "belongs to the cluster payments .* not to orders"),
        ("replica", {ENVIRONMENT_TAG: "prod"}, "belongs to the environment prod .* not to local"),
        (
            "donor",
            {},
            "is not tagged as a replica of orders: peaker:role is donor.* Key=peaker:role,Value=replica",
        ),
        ("replica", {OWNER_TAG: "prod"}, "was made by Peaker"),
    ],
)
def test_anything_else_is_refused_with_the_reason(role: str, tags: dict[str, str], why: str) -> None:
    endpoint = FakeEndpoint()
    with pytest.raises(ControlPlaneError, match=why):
        register_base(endpoint, orders(), instance(BASE, role, tags=tags))
    assert (endpoint.targets, endpoint.warming) == ({}, {})


def test_the_source_is_not_advised_to_become_a_replica() -> None:
    told = why_not_base(orders(), instance(BASE, "source"))
    assert told is not None
    assert "create-tags" not in told
    assert "replica of orders" not in told


def test_an_untagged_instance_gets_the_command_that_tags_it() -> None:
    bare = instance(BASE)
    bare.tags.clear()
    told = why_not_base(orders(), bare)
    assert told is not None
    tags = "Key=peaker:cluster,Value=orders Key=peaker:environment,Value=local Key=peaker:role,Value=replica"
    assert f"aws ec2 create-tags --resources {BASE} --tags {tags}" in told
