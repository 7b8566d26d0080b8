"""How prices are fetched: hourly looked at, weekly asked for, and what stays after a refusal."""

from __future__ import annotations

from typing import Any

import pytest
from peaker.domain.prices.price_table import EbsPrices, FetchedPrices
from peaker.domain.reading import Known, Unknown
from peaker.usecases.plan.refresh_prices import cluster_prices, prices_for_plan, refresh_prices

from peaker_contract.errors import AwsCallRejected, InvalidRequest, ResourceNotFound, Throttled
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import orders

IRISH = {"region": "eu-west-1", "subnets": {"eu-west-1a": "subnet-0a77000000000001a"}}


def ireland(**settings: Any) -> CalmPorts:
    ports = calm_ports(orders(**IRISH, **settings))
    ports.price_list.hourly[("eu-west-1", "r6i.large")] = 0.141
    ports.price_list.ebs["eu-west-1"] = EbsPrices(gp3_gib_month=0.088)
    return ports


def test_the_first_look_after_a_deployment_asks_and_the_next_ones_do_not() -> None:
    ports = ireland()
    assert refresh_prices(ports).outcome == "fetched"
    for _ in range(167):
        ports.clock.advance(hours=1)
        assert refresh_prices(ports).outcome == "nothing_to_do"
    ports.clock.advance(hours=1)
    assert refresh_prices(ports).outcome == "fetched"
    assert ports.price_list.asked == 2


def test_a_cluster_whose_settings_do_not_fit_this_release_keeps_no_other_from_its_prices() -> None:
    ports = calm_ports(orders(**IRISH), orders(name="carts", **IRISH))
    ports.price_list.hourly[("eu-west-1", "r6i.large")] = 0.141
    ports.refuses(
        "clusters.settings", InvalidRequest("settings of carts do not fit this release"), of="carts"
    )
    prices = prices_for_plan(ports, ports.clusters.settings("orders"))
    assert prices.instance_hour("r6i.large") == Known(0.141)
    ports.clock.advance(hours=169)
    assert refresh_prices(ports).outcome == "fetched"


@pytest.mark.parametrize(
    ("image_is", "named"),
    [
        ("Red Hat Enterprise Linux", "is billed as Red Hat Enterprise Linux"),
        (Unknown("ami-1 is billed as Windows"), "is billed as Windows"),
    ],
)
def test_an_image_with_a_licence_has_no_price_of_linux(image_is: str | Unknown, named: str) -> None:
    """A person's plan said $0.14 an hour for what AWS billed at $0.19."""
    ports = ireland()
    ports.compute.image_is = image_is
    settings = ports.clusters.settings("orders")
    for prices in (prices_for_plan(ports, settings), cluster_prices(ports, settings)):
        hour = prices.instance_hour("r6i.large")
        assert isinstance(hour, Unknown)
        assert named in hour.why
        assert "instance_hourly_usd in the settings gives one" in hour.why
        assert prices.ebs.gp3_gib_month == 0.088
    paid = ireland(instance_hourly_usd=0.19)
    paid.compute.image_is = image_is
    assert cluster_prices(paid, paid.clusters.settings("orders")).instance_hour("r6i.large") == Known(0.19)


def test_an_image_that_is_gone_has_no_price() -> None:
    ports = ireland()
    ports.refuses("compute.platform", ResourceNotFound("ec2:DescribeImages: InvalidAMIID.NotFound"))
    hour = prices_for_plan(ports, ports.clusters.settings("orders")).instance_hour("r6i.large")
    assert isinstance(hour, Unknown)
    assert "InvalidAMIID.NotFound" in hour.why


@pytest.mark.parametrize(
    "error", [AwsCallRejected("AccessDeniedException"), Throttled("ThrottlingException")]
)
def test_a_refusal_keeps_the_old_prices_with_its_reason_and_the_next_look_asks_again(
    error: Exception,
) -> None:
    ports = ireland()
    refresh_prices(ports)
    ports.clock.advance(days=8)
    ports.price_list.refused = error
    report = refresh_prices(ports)
    assert (report.outcome, str(error) in report.reason) == ("kept", True)
    assert cluster_prices(ports, ports.clusters.settings("orders")).instance_hour("r6i.large") == Known(0.141)
    ports.price_list.refused = None
    assert refresh_prices(ports).outcome == "fetched"
    assert isinstance(ports.stored_prices.prices, FetchedPrices)
    assert ports.stored_prices.prices.failure is None


def test_plans_do_not_wait_for_a_price_list_that_has_just_refused() -> None:
    ports = ireland()
    ports.price_list.refused = AwsCallRejected("pricing:GetProducts: AccessDeniedException")
    settings = ports.clusters.settings("orders")
    for _ in range(3):
        hour = prices_for_plan(ports, settings).instance_hour("r6i.large")
    assert isinstance(hour, Unknown)
    assert "AccessDeniedException" in hour.why
    assert ports.price_list.asked == 1


def test_a_type_that_is_not_sold_there_is_not_asked_for_again_by_each_plan() -> None:
    ports = ireland(instance_type="x9.huge")
    for _ in range(3):
        assert isinstance(
            prices_for_plan(ports, ports.clusters.settings("orders")).instance_hour("x9.huge"), Unknown
        )
    assert ports.price_list.asked == 1


def test_prices_that_cannot_be_stored_still_serve_the_plan() -> None:
    ports = ireland()
    ports.stored_prices.refused = AwsCallRejected("ssm:PutParameter: AccessDeniedException")
    assert prices_for_plan(ports, ports.clusters.settings("orders")).instance_hour("r6i.large") == Known(
        0.141
    )


def test_where_the_settings_name_the_instances_price_that_of_the_volumes_is_asked_for_once() -> None:
    ports = ireland(instance_hourly_usd=0.1)
    for _ in range(3):
        prices = prices_for_plan(ports, ports.clusters.settings("orders"))
    assert (prices.instance_hour("r6i.large"), prices.ebs.gp3_gib_month) == (Known(0.1), 0.088)
    assert ports.price_list.asked == 1
