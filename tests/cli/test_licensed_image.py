"""What commands say of prices, and of a month, where EC2 bills the cluster's image with a licence: none of Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peaker.domain.reading import Known, Reading, Unknown
from peaker_cli.backtest.live_load import read_deployed
from peaker_cli.control_plane import ControlPlane
from peaker_cli.status.gather import StatusReader

from tests.support.deployed_product import CLUSTER, ENVIRONMENT, REGION, DeployedProduct

RED_HAT = "Red Hat Enterprise Linux"


@pytest.fixture
def licensed(product: DeployedProduct) -> Iterator[DeployedProduct]:
    with product.image_billed_as(RED_HAT):
        yield product


def hours(product: DeployedProduct) -> list[Reading]:
    """An hour of the instance, as status and backtest have it."""
    control = ControlPlane(ENVIRONMENT, REGION, product.cloud.endpoint_url)
    reader = StatusReader(control)
    settings = reader.settings(CLUSTER)
    prices = reader.prices(settings)
    assert not isinstance(prices, Unknown)
    assert prices.ebs.gp3_gib_month is not None
    return [prices.instance_hour(settings.instance_type), read_deployed(control, CLUSTER).replica_hour]


def test_linux_has_its_price(product: DeployedProduct) -> None:
    assert all(isinstance(one, Known) for one in hours(product))


def test_a_licence_makes_the_hour_unknown_with_its_reason(licensed: DeployedProduct) -> None:
    for hour in hours(licensed):
        assert isinstance(hour, Unknown)
        assert f"is billed as {RED_HAT}" in hour.why


def test_the_month_of_licensed_base_replicas_has_no_dollars_and_says_why(licensed: DeployedProduct) -> None:
    base = licensed.cluster.base_replica_id
    said = licensed.peaker("month", CLUSTER, "--json").document
    assert (said["base"]["usd"], said["total_usd"]) == (None, None)
    assert f"{base} is billed as {RED_HAT}" in said["base"]["why_unknown"]
    shown = " ".join(licensed.peaker("month", CLUSTER).out.replace("│", " ").split())
    assert f"base: unknown price of an hour of r6i.large in us-east-1: {base} is billed as {RED_HAT}" in shown


def test_a_month_without_runs_is_its_base_load(product: DeployedProduct, tmp_path: Path) -> None:
    page = tmp_path / "month.html"
    said = product.peaker("month", CLUSTER, "--json", "--html", str(page)).document
    assert said["base"]["replicas"] == 1
    assert said["base"]["usd"] is not None
    assert said["from"].endswith("-01T00:00:00.000Z")
    assert "<svg" in page.read_text(encoding="utf-8")


def test_an_image_that_may_not_be_looked_at_has_no_price_of_linux(product: DeployedProduct) -> None:
    product.cloud.faults.add("ec2:DescribeImages", "UnauthorizedOperation", times=-1)
    for hour in hours(product):
        assert isinstance(hour, Unknown)
        assert "UnauthorizedOperation" in hour.why
