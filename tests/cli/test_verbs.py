"""The verbs against the deployed workflows: shown, asked, done once, followed to the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.simulated_hosts import Pace
from peaker_contract.names import STARTING_RULES
from tests.support.deployed_product import FAST, DeployedProduct, eventually

# A day and a half of the cloud's clock.
SLOW = Pace(prewarm_mib=3_000_000.0)


@pytest.fixture(autouse=True)
def nothing_runs(product: DeployedProduct) -> Iterator[None]:
    """Runs begin by the verbs alone."""
    product.starts_nothing_by_itself()
    product.cloud.clock.set(scale=FAST)
    eventually(product.lease_is_free)
    yield
    for rule in product.cloud.client("events").list_rules()["Rules"]:
        product.cloud.client("events").enable_rule(Name=rule["Name"])


def test_a_verb_shows_what_it_would_do_and_does_nothing_where_nobody_can_be_asked(
    product: DeployedProduct,
) -> None:
    before = product.run_ids()
    said = product.peaker("scale-out", "orders")
    assert said.status == 1
    assert "plan for orders" in said.out
    assert "nothing was done" in said.err
    assert "Type: peaker scale-out orders" in said.err
    assert said.err.rstrip().endswith("--yes")
    assert product.run_ids() == before


def test_a_replica_is_built_and_taken_away_again(product: DeployedProduct) -> None:
    built = product.peaker("scale-out", "orders", "--yes")
    assert (built.status, "has ended well" in built.out) == (0, True), built
    receipt = product.peaker("receipt", "last", "--json").document
    assert receipt["outcome"] == "succeeded"
    assert receipt["trigger"]["by"].startswith("arn:aws:")
    assert product.peaker("receipt", receipt["run_id"][-6:], "--json").document == receipt
    [newest] = product.peaker("runs", "orders", "last", "--json").document
    assert newest["run_id"] == receipt["run_id"]

    replica = receipt["replica"]["instance_id"]
    gone = product.peaker("retire", "orders", replica, "--reason", "misbehaves", "--yes", "--json")
    assert (gone.status, gone.document["status"]) == (0, "SUCCEEDED"), gone
    assert replica in gone.err


def test_an_order_that_is_at_work_is_not_given_twice_and_can_be_aborted(product: DeployedProduct) -> None:
    product.hosts_take_their_time(SLOW)
    before = product.run_ids()
    first = product.peaker("scale-out", "orders", "--yes", "--no-follow", "--json").document
    eventually(lambda: product.run_ids() != before)
    again = product.peaker("scale-out", "orders", "--yes", "--no-follow", "--json")
    assert again.document == first
    assert "nothing is started anew" in again.err
    refused = product.peaker("scale-in", "orders", "--yes")
    assert (refused.status, refused.out) == (1, "")
    assert "peaker abort orders last" in refused.err

    stopped = product.peaker("abort", "orders", "last", "--reason", "by the test", "--yes")
    assert stopped.status == 0, stopped
    assert "was undone" in stopped.out
    twice = product.peaker("abort", "orders", "last", "--yes")
    assert twice.status == 1
    assert "is not at work" in twice.err


def test_a_paused_cluster_says_so_until_it_is_resumed(product: DeployedProduct) -> None:
    for _ in range(2):
        assert product.peaker("resume", "orders", "--yes").status == 0
    assert product.peaker("pause", "orders").status == 1, "nobody can be asked"
    assert "PAUSED" not in product.peaker("status", "orders").out
    assert product.peaker("pause", "orders", "--yes").status == 0
    shown = product.peaker("status", "orders", "--json").document
    assert shown["paused_rules"] == sorted(f"peaker-local-orders-{one}" for one in STARTING_RULES)
    [paused] = [one for one in shown["verdict"]["troubles"] if one["word"] == "PAUSED"]
    assert paused["line"] == "peaker resume orders"
