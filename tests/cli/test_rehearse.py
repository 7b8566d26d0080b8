"""`peaker rehearse` against the deployed product; its figures and its deaths: tests/contract/test_rehearsal.py."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.deployed_product import FAST, DeployedProduct


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
    assert "nothing of orders-" in done.out
    assert json.loads(out.read_text())["removed"] is True
    again = product.peaker("rehearse", "orders", "--remove", "--out", str(out))
    assert (again.status, "nothing of orders-" in again.out) == (0, True)
