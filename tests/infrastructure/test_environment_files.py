"""A bad environment file is refused with the path of the field and the remedy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from peaker.domain.cluster import ClusterSettings

from environments.schema import (
    ENVIRONMENTS_DIRECTORY,
    Environment,
    EnvironmentFileError,
    available_environments,
    load_environment,
)

Document = dict[str, Any]
PROD: Document = yaml.safe_load((ENVIRONMENTS_DIRECTORY / "prod.yaml").read_text())


def cluster(**changes: Any) -> Callable[[Document], None]:
    return lambda document: document["clusters"][0].update(changes)


def data_volume(**changes: Any) -> Callable[[Document], None]:
    return lambda document: document["clusters"][0]["volumes"][0].update(changes)


def section(name: str, **changes: Any) -> Callable[[Document], None]:
    return lambda document: document["clusters"][0][name].update(changes)


def environment(**changes: Any) -> Callable[[Document], None]:
    return lambda document: document.update(changes)


def both_volumes_called_data(document: Document) -> None:
    document["clusters"][0]["volumes"][1]["name"] = "data"


def both_volumes_on_one_device(document: Document) -> None:
    document["clusters"][0]["volumes"][1]["device"] = "/dev/sdf"


def no_data_volume(document: Document) -> None:
    document["clusters"][0]["volumes"][0]["name"] = "binlogs"


def two_clusters_of_one_name(document: Document) -> None:
    document["clusters"].append(copy.deepcopy(document["clusters"][0]))


def by_name(**changes: Any) -> Callable[[Document], None]:
    """A Route 53 read endpoint; a change to None leaves the setting out."""
    endpoint = {
        "kind": "route53",
        "port": 3306,
        "health_port": 9200,
        "hosted_zone_id": "Z0123456789ABCDEFGHIJ",
    }
    endpoint |= {"record_name": "reads.orders.internal", "ttl_seconds": 30, **changes}
    given = {name: value for name, value in endpoint.items() if value is not None}
    return lambda document: document["clusters"][0].update(read_endpoint=given)


def two_clusters_behind_one_name(document: Document) -> None:
    by_name()(document)
    two_clusters_of_one_name(document)
    document["clusters"][1]["name"] = "items"


BAD_FILES: dict[str, tuple[Callable[[Document], Any], str]] = {
    "ceiling below floor": (
        cluster(max_replicas=0),
        "clusters.0.max_replicas: must be >= min_replicas (2), got 0",
    ),
    "no base replica": (
        cluster(min_replicas=0),
        "clusters.0.min_replicas: must be greater than or equal to 1, got 0",
    ),
    "misspelled setting": (
        cluster(max_replica=3),
        "clusters.0.max_replica: is not a setting; did you mean max_replicas?",
    ),
    "unknown setting": (
        section("drain", zzz=1),
        "clusters.0.drain.zzz: is not a setting: remove it; "
        "the settings here are limit_seconds, allow_forced",
    ),
    "setting left out": (
        lambda document: document["clusters"][0].pop("engine"),
        "clusters.0.engine: is required: add it",
    ),
    "unsupported engine": (
        cluster(engine="postgres"),
        "clusters.0.engine: must be 'mysql' or 'mariadb', got 'postgres'",
    ),
    "number as text": (
        cluster(min_replicas="2"),
        "clusters.0.min_replicas: must be a valid integer, got '2'",
    ),
    "true as a number": (
        cluster(min_replicas=True),
        "clusters.0.min_replicas: must be a valid integer, got True",
    ),
    "account without quotes": (
        environment(account=222222222222),
        "account: must be text; write it in quotes, got 222222222222",
    ),
    "short account": (environment(account="2222"), "account: must match ^[0-9]{12}$, got '2222'"),
    "zone of another region": (
        cluster(subnets={"eu-west-1a": "subnet-0b0d000000000001a"}),
        "clusters.0.subnets: must be zones of us-east-1, got eu-west-1a",
    ),
    "no subnet": (
        cluster(subnets={}),
        "clusters.0.subnets: must have at least 1, got {}",
    ),
    "not an image id": (
        cluster(image_id="debian-12"),
        "clusters.0.image_id: must match ^ami-[0-9a-f]{8,17}$, got 'debian-12'",
    ),
    "initialization rate above what EBS sells": (
        cluster(initialization_rate_mib_per_s=400),
        "clusters.0.initialization_rate_mib_per_s: must be less than or equal to 300, got 400",
    ),
    "throughput that the IOPS do not carry": (
        data_volume(iops=3000, throughput_mib_per_s=1000),
        "clusters.0.volumes.0.throughput_mib_per_s: must be <= 750 for gp3 with 3000 IOPS "
        "(0.25 MiB/s each), got 1000",
    ),
    "IOPS below gp3's own": (
        data_volume(iops=1000),
        "clusters.0.volumes.0.iops: must be 3000 to 80000 for gp3, got 1000",
    ),
    "two volumes of one name": (
        both_volumes_called_data,
        "clusters.0.volumes: must each have their own name; data is given twice",
    ),
    "two volumes on one device": (
        both_volumes_on_one_device,
        "clusters.0.volumes: must each have their own device; /dev/sdf is given twice",
    ),
    "no volume for the datadir": (
        no_data_volume,
        "clusters.0.volumes: must include the volume named data, which holds the datadir",
    ),
    "period that CloudWatch does not know": (
        section("load_metric", period_seconds=90),
        "clusters.0.load_metric.period_seconds: must be a multiple of 60, got 90",
    ),
    "event without an end": (
        cluster(calendar=[{"from": "2026-11-27T08:00", "reason": "sale", "load": 1.0}]),
        "clusters.0.calendar.0.until: is required: add it",
    ),
    "event that ends before it starts": (
        cluster(
            calendar=[
                {"from": "2026-11-27T08:00", "until": "2026-11-27T07:00", "reason": "sale", "load": 1.0}
            ]
        ),
        "clusters.0.calendar.0.reason: the event must end after it starts, got 2026-11-27 08:00:00+00:00 until "
        "2026-11-27 07:00:00+00:00",
    ),
    "event that asks for two things": (
        cluster(
            calendar=[
                {"from": "2026-11-27T08:00", "until": "2026-11-27T09:00", "reason": "sale"}
                | {"load": 1.0, "min_replicas": 2}
            ]
        ),
        "clusters.0.calendar.0: must have one of min_replicas, load and factor, got min_replicas and load",
    ),
    "time zone that does not exist": (
        cluster(
            calendar=[
                {"from": "2026-11-27T08:00Z", "until": "2026-11-27T09:00Z", "time_zone": "CEST"}
                | {"reason": "sale", "load": 1.0}
            ]
        ),
        "clusters.0.calendar.0.time_zone: must be an IANA zone such as Europe/London, got CEST",
    ),
    "one cost without the other": (
        section("forecast", cost_spare_usd_per_hour=None),
        "clusters.0.forecast.schedule_minutes: goes with cost_short_usd_per_hour and cost_spare_usd_per_hour: "
        "give both, or neither",
    ),
    "quantile beyond what is forecast": (
        section("forecast", quantile=0.995),
        "clusters.0.forecast.quantile: must be less than or equal to 0.99, got 0.995",
    ),
    "port out of range": (
        section("read_endpoint", health_port=70000),
        "clusters.0.read_endpoint.health_port: must be less than or equal to 65535, got 70000",
    ),
    "kind of endpoint that is not there": (
        section("read_endpoint", kind="proxysql"),
        "clusters.0.read_endpoint.kind: must be 'nlb' or 'route53', got 'proxysql'",
    ),
    "endpoint without a kind": (
        lambda document: document["clusters"][0]["read_endpoint"].pop("kind"),
        "clusters.0.read_endpoint.kind: is required: add it",
    ),
    "name without a zone": (
        by_name(hosted_zone_id=None),
        "clusters.0.read_endpoint.hosted_zone_id: is required: add it",
    ),
    "listener of a name": (
        by_name(listener_port=3306),
        "clusters.0.read_endpoint.listener_port: is not a setting: remove it; the settings here are kind, port, "
        "health_port, source_serves_reads, hosted_zone_id, record_name, ttl_seconds",
    ),
    "misspelled setting of a name": (
        by_name(ttl_second=30),
        "clusters.0.read_endpoint.ttl_second: is not a setting; did you mean ttl_seconds?",
    ),
    "answer that is cached too long": (
        by_name(ttl_seconds=300),
        "clusters.0.read_endpoint.ttl_seconds: must be less than or equal to 60, got 300",
    ),
    "watch too rare for a name": (
        lambda document: (by_name()(document), cluster(health={"watch_minutes": 10})(document)),
        "clusters.0.health: watch_minutes must be <= 5 with a route53 read endpoint, which hears of a bad replica "
        "only by the watch, two of its periods late; got 10",
    ),
    "two clusters behind one name": (
        two_clusters_behind_one_name,
        "clusters: must each have their own read_endpoint.record_name; reads.orders.internal is given twice",
    ),
    "two clusters of one name": (
        two_clusters_of_one_name,
        "clusters: must each have their own name, got orders, orders",
    ),
    "cluster name too long for its load balancer": (
        lambda document: (
            document.update(environment="production"),
            document["clusters"][0].update(name="orders-of-customers"),
        ),
        "clusters.0.name: must be at most 14 characters, because the load balancer is called "
        "peaker-production-<name> and AWS allows 32; got orders-of-customers",
    ),
    "no cluster": (
        environment(clusters=[]),
        "clusters: must have at least 1, got []",
    ),
    "no address of runbooks": (
        environment(runbook_url="wiki/runbooks"),
        r"runbook_url: must match ^https?://[^\s]+[^\s/]$, got 'wiki/runbooks'",
    ),
    "not an address": (
        environment(alarm_email="on-call"),
        r"alarm_email: must match ^[^@\s]+@[^@\s]+\.[^@\s]+$, got 'on-call'",
    ),
}


@pytest.mark.parametrize("situation", BAD_FILES)
def test_bad_file_is_refused_with_field_and_remedy(situation: str) -> None:
    spoil, expected = BAD_FILES[situation]
    document = copy.deepcopy(PROD)
    spoil(document)
    with pytest.raises(EnvironmentFileError) as refusal:
        Environment.parse(document, "environments/prod.yaml")
    assert str(refusal.value) == f"environments/prod.yaml: {expected}"


@pytest.mark.parametrize(
    ("start", "end", "zone", "expected"),
    [
        ("2026-11-27T08:00", "2026-11-27T23:00", "Europe/Berlin", ("2026-11-27T07:00", "2026-11-27T22:00")),
        ("2026-11-27T08:00-05:00", "2026-11-27T23:00Z", "UTC", ("2026-11-27T13:00", "2026-11-27T23:00")),
        # 02:30 happens twice on that night, and never on the other: the event is the longer one.
        (
            "2026-10-25T02:30",
            "2026-10-25T02:30:01",
            "Europe/Berlin",
            ("2026-10-25T00:30", "2026-10-25T01:30:01"),
        ),
        ("2026-03-29T02:30", "2026-03-29T02:45", "Europe/Berlin", ("2026-03-29T00:30", "2026-03-29T01:45")),
    ],
)
def test_the_calendar_is_deployed_in_utc(start: str, end: str, zone: str, expected: tuple[str, str]) -> None:
    document = copy.deepcopy(PROD)
    event = {"from": start, "until": end, "time_zone": zone, "reason": "sale", "min_replicas": 4}
    document["clusters"][0]["calendar"] = [event]
    settings = Environment.parse(document, "prod.yaml").clusters[0].model_dump(mode="json", exclude_none=True)
    (deployed,) = settings["calendar"]
    assert set(deployed) == {"from", "until", "reason", "min_replicas"}
    for name, wanted in zip(("from", "until"), expected, strict=True):
        assert datetime.fromisoformat(deployed[name]) == datetime.fromisoformat(wanted).replace(tzinfo=UTC)
    (known,) = ClusterSettings.model_validate(
        {**settings, "environment": "prod", "region": "us-east-1"}
    ).calendar
    assert (known.min_replicas, known.reason, known.from_.utcoffset()) == (4, "sale", timedelta(0))


def test_every_fault_of_a_file_is_told_at_once() -> None:
    document = copy.deepcopy(PROD)
    document["clusters"][0].update(engine="postgres", max_replicas=0)
    with pytest.raises(EnvironmentFileError) as refusal:
        Environment.parse(document, "environments/prod.yaml")
    assert [line.split(": ")[1] for line in str(refusal.value).splitlines()] == [
        "clusters.0.engine",
        "clusters.0.max_replicas",
    ]


def test_file_that_is_not_a_mapping_is_refused() -> None:
    with pytest.raises(EnvironmentFileError, match=r"environments/x.yaml: must be a mapping of settings"):
        Environment.parse(["dev"], "environments/x.yaml")


def test_missing_environment_names_the_known_ones() -> None:
    with pytest.raises(
        EnvironmentFileError, match=r"environments/staging.yaml: does not exist; .* dev, local, prod"
    ):
        load_environment("staging")


def test_file_that_is_not_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.yaml").write_text("clusters: [")
    with pytest.raises(EnvironmentFileError, match=r"dev.yaml: is not YAML: .*line 1"):
        load_environment("dev", tmp_path)


def test_file_of_another_environments_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.yaml").write_text((ENVIRONMENTS_DIRECTORY / "prod.yaml").read_text())
    with pytest.raises(
        EnvironmentFileError, match=r"environment: must be dev, the name of the file, got prod"
    ):
        load_environment("dev", tmp_path)


@pytest.mark.parametrize("name", available_environments())
def test_given_environments_are_good(name: str) -> None:
    assert load_environment(name).environment == name


@pytest.mark.parametrize(
    ("region", "partition"), [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_partition_follows_the_region(region: str, partition: str) -> None:
    document = copy.deepcopy(PROD)
    document["region"] = region
    document["clusters"][0]["subnets"] = {f"{region}a": "subnet-0b0d000000000001a"}
    assert Environment.parse(document, "x").partition == partition
