"""The adapters of prices against the local cloud's Price List API and Parameter Store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from peaker.adapters.aws_price_list import AwsPriceList, price_list_region
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.domain.reading import Unknown

from localcloud.server import LocalCloud
from peaker_contract import errors

IRELAND = "eu-west-1"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(None, Path(tmp_path_factory.mktemp("prices"))) as opened:
        opened.price_list.add_instance(IRELAND, "r7g.large", 0.1184)
        for name, usd in {
            "gp3": 0.088,
            "gp3-iops": 0.0055,
            "gp3-throughput": 45.056,
            "snapshot": 0.053,
        }.items():
            opened.price_list.add_ebs(IRELAND, name, usd)
        yield opened


def client_in(cloud: LocalCloud) -> Callable[[str], Any]:
    def made(region: str) -> Any:
        return boto3.client("pricing", region_name=region, endpoint_url=cloud.endpoint_url,
                            aws_access_key_id="local", aws_secret_access_key="local")  # fmt: skip

    return made


@pytest.fixture
def prices(cloud: LocalCloud) -> Iterator[AwsPriceList]:
    yield AwsPriceList(client_in(cloud))
    cloud.faults.clear()


def test_an_hour_is_that_of_shared_linux_on_demand_in_the_region(prices: AwsPriceList) -> None:
    quote = prices.quote(IRELAND, ["r7g.large"])
    assert quote.instance_hourly_usd == {"r7g.large": 0.1184}
    # Sold in GiB/s, priced in MiB/s.
    assert quote.ebs.gp3_mib_per_s_month == pytest.approx(0.044)
    assert (quote.ebs.gp3_gib_month, quote.ebs.snapshot_gib_month) == (0.088, 0.053)
    assert (quote.ebs.io2_gib_month, quote.ebs.initialization_per_gib_per_mib_per_s) == (None, None)


def test_the_same_type_costs_what_its_own_region_asks(prices: AwsPriceList) -> None:
    assert prices.quote("us-east-1", ["r7g.large"]).instance_hourly_usd == {"r7g.large": 0.1071}
    assert prices.quote("eu-west-3", ["r7g.large"]).instance_hourly_usd == {"r7g.large": None}


def test_two_prices_for_one_thing_are_none(cloud: LocalCloud, prices: AwsPriceList) -> None:
    cloud.price_list.add_instance("eu-south-1", "r6i.large", 0.15)
    cloud.price_list.add_instance("eu-south-1", "r6i.large", 0.16)
    cloud.price_list.add_instance("eu-south-1", "r6i.xlarge", 2.1, currency="CNY")
    quote = prices.quote("eu-south-1", ["r6i.large", "r6i.xlarge"])
    assert quote.instance_hourly_usd == {"r6i.large": None, "r6i.xlarge": None}


def test_answers_come_in_pages(cloud: LocalCloud) -> None:
    client = client_in(cloud)("us-east-1")
    here = {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"}
    asked = {"ServiceCode": "AmazonEC2", "Filters": [here]}
    pages = list(client.get_paginator("get_products").paginate(**asked, PaginationConfig={"PageSize": 7}))
    assert len(pages) > 10
    assert len({text for page in pages for text in page["PriceList"]}) == sum(
        len(page["PriceList"]) for page in pages
    )
    with pytest.raises(client.exceptions.InvalidNextTokenException):
        client.get_products(ServiceCode="AmazonEC2", NextToken="%")


def test_the_api_is_served_in_three_regions_only(cloud: LocalCloud) -> None:
    with pytest.raises(Exception, match="404"):
        client_in(cloud)("eu-west-1").get_products(ServiceCode="AmazonEC2")


@pytest.mark.parametrize(
    ("region", "home"),
    [
        ("eu-west-1", "eu-central-1"), ("ap-northeast-1", "ap-south-1"), ("sa-east-1", "us-east-1"),
        ("us-west-2", "us-east-1"), ("cn-north-1", None), ("us-gov-west-1", None),
    ],
)  # fmt: skip
def test_each_region_asks_the_nearest_endpoint_or_none(
    prices: AwsPriceList, region: str, home: str | None
) -> None:
    assert price_list_region(region) == home
    if home is None:
        with pytest.raises(errors.AwsCallRejected, match=f"no Price List API answers for {region}"):
            prices.quote(region, ["r7g.large"])


def test_prices_of_a_parameter_that_no_stack_has_made_or_that_holds_something_else_are_unknown(
    cloud: LocalCloud,
) -> None:
    ssm = cloud.client("ssm")
    stored = ParameterPrices(ssm, "local")
    absent = stored.read()
    assert isinstance(absent, Unknown)
    assert "deploy again" in absent.why
    ssm.put_parameter(Name="/peaker/local/prices", Value='{"other": 1}', Type="String")
    assert isinstance(stored.read(), Unknown)
