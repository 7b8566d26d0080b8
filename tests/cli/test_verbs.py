"""The verbs against the deployed workflows, and what the other commands say of the run that one began."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.simulated_hosts import Pace
from tests.support.deployed_product import FAST, DeployedProduct, eventually

# A day and a half of the cloud's clock.
SLOW = Pace(prewarm_mib=3_000_000.0, rate_mib_per_s=2.0)


@pytest.fixture(autouse=True)
def nothing_runs(product: DeployedProduct) -> Iterator[None]:
    """Runs begin by the verbs alone."""
    product.starts_nothing_by_itself()
    product.cloud.clock.set(scale=FAST)
    eventually(product.lease_is_free)
    yield
    product.starts_by_itself_again()


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


def test_a_run_at_work_is_told_not_started_twice_and_can_be_aborted(product: DeployedProduct) -> None:
    product.hosts_take_their_time(SLOW)
    before = product.run_ids()
    first = product.peaker("scale-out", "orders", "--yes", "--no-follow", "--json").document
    eventually(lambda: product.run_ids() != before and first_report(product))
    run_id = product.run_ids()[-1]
    prewarm = product.peaker("status", "orders", "--json").document["run"]["progress"]["prewarm"]
    assert prewarm["blocks_total"]["value"] == 6_000_000
    assert 0 <= prewarm["share"]["value"] < 1
    assert prewarm["rate_mib_per_s"]["value"] == 2.0
    assert prewarm["deadline"]
    assert f"scale_out {run_id}" in product.peaker("status", "orders").out
    newest, *_ = product.peaker("runs", "orders", "--json").document
    assert (newest["run_id"], newest["state"]) == (run_id, "running")
    assert newest["usd"]["value"] >= 0
    told = product.peaker("receipt", run_id)
    assert (told.status, told.err) == (0, "")
    assert "has no receipt yet: running" in told.out
    refusals = product.peaker("plan", "orders", "--json").document["refusals"]
    assert "operation_running" in [refusal["code"] for refusal in refusals]

    again = product.peaker("scale-out", "orders", "--yes", "--no-follow", "--json")
    assert again.document == first
    assert "nothing is started anew" in again.err
    refused = product.peaker("scale-in", "orders", "--yes")
    assert (refused.status, refused.out) == (1, "")
    assert "peaker abort orders last --env local" in refused.err

    stopped = product.peaker("abort", "orders", "last", "--reason", "by the test", "--yes")
    assert stopped.status == 0, stopped
    assert "was undone" in stopped.out
    twice = product.peaker("abort", "orders", "last", "--yes")
    assert twice.status == 1
    assert "is not at work" in twice.err


def first_report(product: DeployedProduct) -> bool:
    rows = product.rows(f"run#{product.run_ids()[-1]}", "step#ReportPrewarm")
    return bool(rows) and "finished_at" in rows[0]
