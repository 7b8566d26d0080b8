"""peaker register-base: only a base replica of the cluster goes behind its read endpoint."""

from __future__ import annotations

import pytest
from peaker.domain.inventory import CLUSTER_TAG, OWNER_TAG
from peaker_cli.control_plane import ControlPlaneError
from peaker_cli.register_base import register_base

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
        ("source", {}, "is no replica of orders: tag it .* found 'orders' and 'source'"),
        ("replica", {CLUSTER_TAG: "payments"}, "is no replica of orders: tag it .* found 'payments'"),
        ("replica", {OWNER_TAG: "prod"}, "was made by Peaker"),
    ],
)
def test_anything_else_is_refused_with_the_reason(role: str, tags: dict[str, str], why: str) -> None:
    endpoint = FakeEndpoint()
    with pytest.raises(ControlPlaneError, match=why):
        register_base(endpoint, orders(), instance(BASE, role, tags=tags))
    assert (endpoint.targets, endpoint.warming) == ({}, {})
