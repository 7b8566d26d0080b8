"""`peaker month` against the deployed ledger."""

from __future__ import annotations

from pathlib import Path

from tests.support.deployed_product import DeployedProduct


def test_a_month_without_runs_is_its_base_load(product: DeployedProduct, tmp_path: Path) -> None:
    page = tmp_path / "month.html"
    said = product.peaker("month", "orders", "--json", "--html", str(page))
    assert said.status == 0
    assert said.document["base"]["replicas"] == 1
    assert said.document["base"]["usd"] is not None
    assert said.document["from"].endswith("-01T00:00:00.000Z")
    assert "<svg" in page.read_text(encoding="utf-8")


def test_a_month_that_is_none_is_refused(product: DeployedProduct) -> None:
    said = product.peaker("month", "orders", "--month", "13-2026")
    assert said.status == 2
    assert "is not a month such as" in said.err
