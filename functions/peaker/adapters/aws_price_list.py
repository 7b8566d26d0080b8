"""The Price List API gives on-demand prices: pricing:GetProducts answers JSON documents in strings.

The API is served in a few regions only and knows the prices of all regions of its partition. A price is taken when
exactly one offer in USD fits in the unit that is expected; else it is None, which means unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from peaker.adapters.aws_errors import translated
from peaker.domain.decoding import parsed_json, understood
from peaker.domain.prices.price_table import EbsPrices, Quote
from peaker_contract.errors import AwsCallRejected

SERVICE = "AmazonEC2"
# Endpoints: AWS Billing User Guide, "Using the AWS Price List Query API"; the nearest, which policies about regions
# allow most often.
_HOME_OF = {
    "ap": "ap-south-1",
    "eu": "eu-central-1",
    "me": "eu-central-1",
    "af": "eu-central-1",
    "il": "eu-central-1",
}
_OTHER_HOME = "us-east-1"
# Their accounts cannot sign for the API of the aws partition; China's quotes CNY.
_WITHOUT = ("cn-", "us-gov-", "us-iso", "eu-isoe", "eusc-")
_MOST_PRODUCTS = 500
# Of an hour, a GiB or a request; the dearest instance costs a thousand.
_HIGHEST_USD = 1e6

# What is wanted: by the end of the usage type (its beginning names the region), the unit, and how many of ours it is.
_EBS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "gp3_gib_month": ("EBS:VolumeUsage.gp3", {"GB-Mo": 1}),
    "gp3_iops_month": ("EBS:VolumeP-IOPS.gp3", {"IOPS-Mo": 1}),
    # Sold in GiB/s.
    "gp3_mib_per_s_month": ("EBS:VolumeP-Throughput.gp3", {"GiBps-mo": 1024, "MiBps-Mo": 1}),
    "io2_gib_month": ("EBS:VolumeUsage.io2", {"GB-Mo": 1, "GB-month": 1}),
    "io2_iops_month": ("EBS:VolumeP-IOPS.io2", {"IOPS-Mo": 1}),
    "io2_iops_month_above_32000": ("EBS:VolumeP-IOPS.io2.tier2", {"IOPS-Mo": 1}),
    "io2_iops_month_above_64000": ("EBS:VolumeP-IOPS.io2.tier3", {"IOPS-Mo": 1}),
    "snapshot_gib_month": ("EBS:SnapshotUsage", {"GB-Mo": 1}),
}
_EBS_QUERIES = (
    {"volumeApiName": "gp3"},
    {"volumeApiName": "io2"},
    {"productFamily": "Storage Snapshot"},
)

Product = Mapping[str, Any]


def price_list_region(region: str) -> str | None:
    """The region whose Price List endpoint to ask about `region`; None where an account cannot ask."""
    if region.startswith(_WITHOUT):
        return None
    return _HOME_OF.get(region.split("-", 1)[0], _OTHER_HOME)


class AwsPriceList:
    """Port PriceList. `client_in` makes a client of the service pricing in a region."""

    def __init__(self, client_in: Callable[[str], Any]) -> None:
        self._client_in = client_in

    def quote(self, region: str, instance_types: Sequence[str]) -> Quote:
        home = price_list_region(region)
        if home is None:
            raise AwsCallRejected(f"pricing:GetProducts: no Price List API answers for {region}")
        client = self._client_in(home)
        ebs = list(chain.from_iterable(self._products(client, region, query) for query in _EBS_QUERIES))
        return Quote(
            instance_hourly_usd={kind: self._instance(client, region, kind) for kind in instance_types},
            ebs=EbsPrices(**{name: _ebs_price(ebs, *wanted) for name, wanted in _EBS.items()}),
        )

    def _instance(self, client: Any, region: str, instance_type: str) -> float | None:
        query = {
            "instanceType": instance_type,
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
        }
        return _only(_offers(self._products(client, region, query), {"Hrs": 1}))

    def _products(self, client: Any, region: str, query: Mapping[str, str]) -> list[Product]:
        filters = [
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in {"regionCode": region, "locationType": "AWS Region", **query}.items()
        ]
        pages = client.get_paginator("get_products").paginate(
            ServiceCode=SERVICE, Filters=filters, FormatVersion="aws_v1", PaginationConfig={"PageSize": 100}
        )
        with translated("pricing:GetProducts"):
            texts = islice((text for page in pages for text in page["PriceList"]), _MOST_PRODUCTS)
            return [_document(text) for text in texts]


def _document(text: str) -> Product:
    try:
        found = parsed_json(text)
    except (TypeError, ValueError) as error:
        raise AwsCallRejected(f"pricing:GetProducts: a product is no JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _ebs_price(products: Iterable[Product], usage: str, units: Mapping[str, float]) -> float | None:
    ends = re.compile(rf"(^|-){re.escape(usage)}$")
    fitting = [one for one in products if ends.search(str(_attributes(one).get("usagetype", "")))]
    return _only(_offers(fitting, units))


def _attributes(product: Product) -> Mapping[str, Any]:
    whole = product.get("product")
    found = whole.get("attributes") if isinstance(whole, dict) else None
    return found if isinstance(found, dict) else {}


def _offers(products: Iterable[Product], units: Mapping[str, float]) -> list[float]:
    """USD per unit of ours of every on-demand offer in one of `units`."""
    with understood(AwsCallRejected, "pricing:GetProducts: the terms of a product"):
        return list(_dollars(products, units))


def _dollars(products: Iterable[Product], units: Mapping[str, float]) -> Iterator[float]:
    for product in products:
        for term in ((product.get("terms") or {}).get("OnDemand") or {}).values():
            for dimension in (term.get("priceDimensions") or {}).values():
                of_unit, text = (
                    units.get(str(dimension.get("unit"))),
                    (dimension.get("pricePerUnit") or {}).get("USD"),
                )
                if of_unit is not None and text is not None:
                    yield _number(text) / of_unit


def _number(text: Any) -> float:
    try:
        price = float(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise AwsCallRejected(f"pricing:GetProducts: {str(text)[:60]!r} is no price") from error
    if not 0 <= price <= _HIGHEST_USD:
        raise AwsCallRejected(f"pricing:GetProducts: {price!r} is no price")
    return price


def _only(offers: Iterable[float]) -> float | None:
    """The one price; a free offer (a reservation's, say) is none, and of several nobody knows which holds."""
    distinct = {round(one, 9) for one in offers if one > 0}
    return distinct.pop() if len(distinct) == 1 else None
