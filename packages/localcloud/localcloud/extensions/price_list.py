"""Products and prices in the shape of the Price List API: those it begins with, and those it is taught.

It begins with four instance families and EBS in us-east-1; `add_instance` and `add_ebs` teach it more. What the list
does not hold has no product. Shape: the example of GetProducts in botocore's model, and the Price List's own documents.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

ENDPOINT_REGIONS = ("us-east-1", "ap-south-1", "eu-central-1")
MOST_RESULTS = 100

# On demand in us-east-1: Karpenter's table of 2026-07-20; EBS: its pricing page and the Price List's units.
_SIZES = {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 16, "12xlarge": 24, "16xlarge": 32}
_LARGE_HOURLY_USD = {"r6i": 0.1260, "r7g": 0.1071, "r7i": 0.1323, "r8g": 0.11782}
US_EAST_1_EBS = {
    "gp3": 0.08,
    "gp3-iops": 0.005,
    "gp3-throughput": 40.96,
    "io2": 0.125,
    "io2-iops": 0.065,
    "io2-iops-tier2": 0.0455,
    "io2-iops-tier3": 0.03185,
    "snapshot": 0.05,
}
# (product family, volumeApiName, end of the usage type, unit)
_EBS = {
    "gp3": ("Storage", "gp3", "EBS:VolumeUsage.gp3", "GB-Mo"),
    "gp3-iops": ("System Operation", "gp3", "EBS:VolumeP-IOPS.gp3", "IOPS-Mo"),
    "gp3-throughput": ("Provisioned Throughput", "gp3", "EBS:VolumeP-Throughput.gp3", "GiBps-mo"),
    "io2": ("Storage", "io2", "EBS:VolumeUsage.io2", "GB-month"),
    "io2-iops": ("System Operation", "io2", "EBS:VolumeP-IOPS.io2", "IOPS-Mo"),
    "io2-iops-tier2": ("System Operation", "io2", "EBS:VolumeP-IOPS.io2.tier2", "IOPS-Mo"),
    "io2-iops-tier3": ("System Operation", "io2", "EBS:VolumeP-IOPS.io2.tier3", "IOPS-Mo"),
    "snapshot": ("Storage Snapshot", None, "EBS:SnapshotUsage", "GB-Mo"),
}


class PriceListError(Exception):
    """An error of the API: its code and its sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class LocalPriceList:
    """Products by region. A price in USD per unit; a second one for the same thing is a second product."""

    def __init__(self) -> None:
        self._products: list[dict[str, Any]] = []
        for family, large in _LARGE_HOURLY_USD.items():
            for size, factor in _SIZES.items():
                self.add_instance("us-east-1", f"{family}.{size}", round(large * factor, 5))
        for name, usd in US_EAST_1_EBS.items():
            self.add_ebs("us-east-1", name, usd)

    def add_instance(self, region: str, instance_type: str, usd: float, currency: str = "USD") -> None:
        """An on-demand Linux hour; the reservations and tenancies that AWS lists beside it come along."""
        common = {
            "instanceType": instance_type,
            "operatingSystem": "Linux",
            "preInstalledSw": "NA",
            "licenseModel": "No License required",
            "marketoption": "OnDemand",
            "operation": "RunInstances",
        }
        for tenancy, status, usage, amount in (
            ("Shared", "Used", "BoxUsage", usd),
            ("Shared", "AllocatedCapacityReservation", "Reservation", 0.0),
            ("Shared", "UnusedCapacityReservation", "UnusedBox", usd),
            ("Dedicated", "Used", "DedicatedUsage", round(usd * 1.1, 10)),
        ):
            attributes = {
                **common,
                "tenancy": tenancy,
                "capacitystatus": status,
                "usagetype": f"{_prefix(region)}{usage}:{instance_type}",
            }
            self._add("Compute Instance", region, attributes, "Hrs", amount, currency)

    def add_ebs(self, region: str, name: str, usd: float) -> None:
        """One of US_EAST_1_EBS's names, in the unit that AWS sells it by (gp3's throughput by the GiB/s)."""
        family, volume, usage, unit = _EBS[name]
        attributes = {"usagetype": f"{_prefix(region)}{usage}", "operation": ""}
        if volume is not None:
            attributes["volumeApiName"] = volume
        self._add(family, region, attributes, unit, usd, "USD")

    def clear(self, region: str) -> None:
        """Forget a region."""
        self._products = [
            one for one in self._products if one["product"]["attributes"]["regionCode"] != region
        ]

    def _add(
        self, family: str, region: str, attributes: Mapping[str, str], unit: str, usd: float, currency: str
    ) -> None:
        sku = f"LOCAL{len(self._products):011d}"
        rate = f"{sku}.JRTCKXETXF.6YS6EN2CT7"
        whole = {
            "servicecode": "AmazonEC2",
            "servicename": "Amazon Elastic Compute Cloud",
            "locationType": "AWS Region",
            "regionCode": region,
            **attributes,
        }
        dimension = {
            "unit": unit,
            "beginRange": "0",
            "endRange": "Inf",
            "appliesTo": [],
            "rateCode": rate,
            "description": f"${usd:.10f} per {unit} of {whole['usagetype']}",
            "pricePerUnit": {currency: f"{usd:.10f}"},
        }
        term = {
            "priceDimensions": {rate: dimension},
            "sku": sku,
            "effectiveDate": "2026-07-01T00:00:00Z",
            "offerTermCode": "JRTCKXETXF",
            "termAttributes": {},
        }
        self._products.append(
            {
                "product": {"productFamily": family, "attributes": whole, "sku": sku},
                "serviceCode": "AmazonEC2",
                "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
                "version": "20260720000000",
                "publicationDate": "2026-07-20T00:00:00Z",
            }
        )

    def get_products(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """GetProducts. Raises PriceListError."""
        service = params.get("ServiceCode")
        if not service:
            raise PriceListError("InvalidParameterException", "ServiceCode is required")
        if params.get("FormatVersion", "aws_v1") != "aws_v1":
            raise PriceListError("InvalidParameterException", "FormatVersion must be aws_v1")
        size = int(params.get("MaxResults") or MOST_RESULTS)
        if not 1 <= size <= MOST_RESULTS:
            raise PriceListError("InvalidParameterException", "MaxResults must be from 1 to 100")
        if service != "AmazonEC2":
            raise PriceListError("NotFoundException", f"the local price list has no service {service}")
        filters = params.get("Filters") or []
        found = [one for one in self._products if all(_fits(one, each) for each in filters)]
        start = _start(params.get("NextToken"))
        answer: dict[str, Any] = {
            "FormatVersion": "aws_v1",
            "PriceList": [json.dumps(one) for one in found[start : start + size]],
        }
        if start + size < len(found):
            answer["NextToken"] = base64.b64encode(f"next:{start + size}".encode()).decode()
        return answer


def _prefix(region: str) -> str:
    """Usage types of us-east-1 have no prefix; those of other regions have one (APN1-, EU-, EUC1-)."""
    return "" if region == "us-east-1" else f"{region.upper().replace('-', '')[:5]}-"


def _start(token: str | None) -> int:
    if token is None:
        return 0
    try:
        return int(base64.b64decode(token, validate=True).decode().removeprefix("next:"))
    except ValueError as error:
        raise PriceListError("InvalidNextTokenException", "The pagination token is invalid.") from error


def _fits(product: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    kind, field, value = (wanted.get(key, "") for key in ("Type", "Field", "Value"))
    if kind != "TERM_MATCH":
        raise PriceListError("InvalidParameterException", f"the local price list has no filter type {kind!r}")
    inner = product["product"]
    named = {"productFamily": inner["productFamily"], "ServiceCode": "AmazonEC2", "sku": inner["sku"]}
    known = {**inner["attributes"], **named}
    return field in known and str(known[field]).lower() == value.lower()
