"""`peaker rehearse` against the deployed product; its figures and its deaths: tests/contract/test_rehearsal.py."""

from __future__ import annotations

import json
from pathlib import Path

from peaker_cli.rehearse.resources import begun_before

from tests.support.deployed_product import FAST, DeployedProduct


def test_a_place_for_the_figures_is_looked_at_before_anything_is_paid_for(
    product: DeployedProduct, tmp_path: Path
) -> None:
    out = str(tmp_path / "nowhere" / "figures.json")
    refused = product.peaker("rehearse", "orders", "--gib", "1", "--yes", "--out", out)
    assert (refused.status, begun_before(product.cloud.client("ec2"), "orders")) == (2, None)
    assert "'--out': no file can be written at" in refused.err


def test_the_command_asks_for_its_budget_measures_and_removes(
    product: DeployedProduct, tmp_path: Path
) -> None:
    out = tmp_path / "figures.json"
    product.cloud.clock.set(scale=FAST)
    dear = product.peaker("rehearse", "orders", "--budget", "0.01", "--yes", "--out", str(out))
    assert (dear.status, out.exists()) == (1, False)
    assert "--budget is 0.01: raise it, or lower --gib" in dear.err
    done = product.peaker("rehearse", "orders", "--gib", "1", "--yes", "--out", str(out))
    assert done.status == 0, done.err
    assert "default initialization" in done.out
    assert "behaviours of AWS" in done.out
    assert "nothing of orders-" in done.out
    assert "and cost about $" in done.out
    figures = json.loads(out.read_text())
    assert figures["removed"] is True
    # A figure is unknown where what it measures was there already, as an agent that is sooner than the first look.
    assert {one["name"]: one["why"] for one in figures["rows"] if one["why"]} == {}
    assert "| an ENV_VAR parameter | as given | as given | as assumed |" in out.with_suffix(".md").read_text()
    # As if it had been cut off before its removal: nothing is measured twice.
    out.write_text(json.dumps({**figures, "removed": False}))
    again = product.peaker("rehearse", "orders", "--yes", "--json", "--out", str(out))
    assert (again.status, again.document["rows"]) == (0, figures["rows"]), again.err
    nothing = product.peaker("rehearse", "orders", "--remove", "--out", str(out))
    assert (nothing.status, nothing.out) == (0, "no rehearsal of orders left anything\n")
