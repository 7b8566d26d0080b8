"""What else the account says of a cluster: its DNS name of today, its load in CloudWatch, its role, its keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from peaker.domain.reading import Unknown

from peaker_cli.doctor.finding import ask
from peaker_cli.failures import ControlPlaneError
from peaker_cli.init.answers import Raw
from peaker_contract.load_settings import why_no_load

Client = Callable[[str], Any]
_READS = re.compile(r"quer(y|ies)|reads?|selects?|statements?|requests?", re.IGNORECASE)
_BYTES = re.compile(r"bytes", re.IGNORECASE)
_DAYS, _PERIOD_SECONDS = 14, 300
# An account may have thousands of metrics and records: a look of this many pages must do.
_MOST_PAGES = 20


def dns_name(client: Client, replica: Raw) -> Mapping[str, Any] | Unknown:
    """Returns the settings of the DNS name by which readers come to the replica now; empty where there is none."""
    address = str(replica.get("PrivateIpAddress"))
    return ask("route53:ListResourceRecordSets", lambda: _by_name(client("route53"), address) or {})


def zone_of(client: Client, name: str) -> str:
    """Returns the id of the hosted zone that the name lies in. Raises ControlPlaneError."""
    zones = {
        one["Name"].rstrip("."): one["Id"]
        for one in _items(client("route53"), "list_hosted_zones", "HostedZones")
    }
    fitting = [zone for zone in zones if name.endswith(f".{zone}")]
    if not fitting:
        raise ControlPlaneError(
            f"--dns {name}: no hosted zone of the account has that name; there are: {', '.join(zones) or 'none'}"
        )
    return str(zones[max(fitting, key=len)].rpartition("/")[2])


def _by_name(route53: Any, address: str) -> Mapping[str, Any] | None:
    for zone in _items(route53, "list_hosted_zones", "HostedZones"):
        zone_id = zone["Id"].rpartition("/")[2]
        for one in _items(route53, "list_resource_record_sets", "ResourceRecordSets", HostedZoneId=zone_id):
            values = [value["Value"] for value in one.get("ResourceRecords", ())]
            if one["Type"] != "A" or address not in values:
                continue
            record = one["Name"].rstrip(".").lower()
            if len(values) == 1 and record.split(".")[0].startswith("ip-"):
                continue  # a host's own name
            ttl = {"ttl_seconds": one["TTL"]} if "SetIdentifier" in one and one.get("TTL", 30) != 30 else {}
            origin = f"has {address}; its records of today go: simple ones before peaker register-base, others after it"
            return {"hosted_zone_id": zone_id, "record_name": record, **ttl, "origin": origin}
    return None


def load_in_cloudwatch(
    client: Client, cluster: str, own_namespace: str, now: datetime
) -> tuple[Mapping[str, Any], float] | Unknown | None:
    """Returns the one metric of reads that has the cluster's name as a dimension, and its highest value; else None."""
    cloudwatch = client("cloudwatch")

    def read() -> tuple[Mapping[str, Any], float] | None:
        found = [
            one
            for one in _items(cloudwatch, "list_metrics", "Metrics")
            if _READS.search(one["MetricName"])
            and not (_BYTES.search(one["MetricName"]) or why_no_load(one["MetricName"]))
            and not one["Namespace"].startswith(("AWS/", own_namespace))
            and cluster in [dimension["Value"] for dimension in one["Dimensions"]]
        ]
        if len(found) != 1:
            return None
        [one] = found
        metric = {
            "namespace": one["Namespace"], "name": one["MetricName"], "statistic": "Average",
            "period_seconds": _PERIOD_SECONDS,
            "dimensions": {dimension["Name"]: dimension["Value"] for dimension in one["Dimensions"]},
        }  # fmt: skip
        points = cloudwatch.get_metric_data(
            MetricDataQueries=[
                {
                    "Id": "load",
                    "MetricStat": {"Metric": one, "Period": 3_600, "Stat": "Average"},
                }
            ],
            StartTime=now - timedelta(days=_DAYS),
            EndTime=now,
        )["MetricDataResults"][0]["Values"]
        return metric, max(points, default=0.0)

    return ask("cloudwatch:ListMetrics", read)


def role_arn(client: Client, profile: str) -> str | None:
    """Returns the ARN of the role in an instance profile; None where it cannot be read."""
    found = ask(
        "iam:GetInstanceProfile",
        lambda: client("iam").get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"],
    )
    return None if isinstance(found, Unknown) or not found else str(found[0]["Arn"])


def customer_keys(client: Client, keys: Iterable[str]) -> Sequence[str] | None:
    """Returns those of the keys that are not AWS's own; None where it cannot be read."""

    def read() -> list[str]:
        described = [client("kms").describe_key(KeyId=one)["KeyMetadata"] for one in sorted(keys)]
        return [one["Arn"] for one in described if one.get("KeyManager") != "AWS"]

    found = ask("kms:DescribeKey", read)
    return None if isinstance(found, Unknown) else found


def architecture_of_image(client: Client, image: str) -> str | Unknown | None:
    """Returns EC2's word for the processors that the image boots on; None where there is no such image."""
    wanted = [{"Name": "image-id", "Values": [image]}]
    found = ask("ec2:DescribeImages", lambda: client("ec2").describe_images(Filters=wanted)["Images"])
    return found if isinstance(found, Unknown) else next((str(one["Architecture"]) for one in found), None)


def _items(client: Any, call: str, name: str, **given: Any) -> Iterable[Any]:
    pages = client.get_paginator(call).paginate(**given)
    return (one for page in islice(pages, _MOST_PAGES) for one in page[name])
