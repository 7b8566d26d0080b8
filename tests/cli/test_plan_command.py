"""`peaker plan` against the deployed workflow."""

from __future__ import annotations

import pytest

from tests.support.deployed_product import DeployedProduct, eventually


@pytest.fixture(autouse=True)
def nothing_runs(product: DeployedProduct) -> None:
    """What a schedule started while the clock was fast may still hold the lease, which a plan refuses."""
    eventually(product.lease_is_free)


def test_a_plan_says_what_would_be_built_when_and_at_what_price(product: DeployedProduct) -> None:
    said = product.peaker("plan", "orders")
    assert (said.status, said.err) == (0, "")
    assert "plan for orders" in said.out
    assert f"donor          {product.cluster.base_replica_id}".split()[1] in said.out
    assert "an hour" in said.out


def test_a_plan_as_json_is_the_plan_itself(product: DeployedProduct) -> None:
    said = product.peaker("plan", "orders", "--json")
    assert said.status == 0
    plan = said.document
    assert plan["cluster"] == "orders"
    assert plan["donor"] == product.cluster.base_replica_id
    assert plan["refusals"] == []


def test_a_plan_whose_execution_aws_shows_late_is_looked_for_again(product: DeployedProduct) -> None:
    product.cloud.faults.add("stepfunctions:DescribeExecution", "ExecutionDoesNotExist", times=1)
    said = product.peaker("plan", "orders", "--json")
    assert (said.status, said.err) == (0, "")
    assert said.document["cluster"] == "orders"
