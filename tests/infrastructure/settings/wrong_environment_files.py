# A row per file reads best as a row.
# ruff: noqa: E501
# fmt: off
"""Environment files that are wrong, each in one way: what was written, which setting is to blame, what is said.

A change names a place of environment_files/shop.yaml (`c` for clusters.0, `d` for clusters.1) and what stands there
instead; a setting that the file has not is added, LEFT_OUT takes it away. Paths are shown with names for clusters and
volumes: `o` is clusters.orders, `i` is clusters.order-items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEFT_OUT = object()
KEY = "arn:aws:kms:eu-west-1:012345678901:key/12345678-1234-1234-1234-123456789012"
INFINITE, NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class WrongFile:
    situation: str
    changes: dict[str, Any]
    blamed: str
    said: str


def event(**changes: Any) -> dict[str, Any]:
    """A good event; what is LEFT_OUT is not in it."""
    given = {"from": "2026-11-27T06:00", "until": "2026-11-28T02:00", "reason": "sale", "min_replicas": 4}
    return {name: value for name, value in (given | changes).items() if value is not LEFT_OUT}


def _wrong(situation: str, place: str, value: Any, said: str, blamed: str | None = None) -> WrongFile:
    """Blames the place that was changed, unless said otherwise."""
    return WrongFile(situation, {place: value}, _shown(blamed or place), said)


def _shown(place: str) -> str:
    head, _, rest = place.partition(".")
    if head == "clusters":
        return place
    shown = {"c": "clusters.orders", "d": "clusters.order-items"}.get(head, head)
    rest = rest.replace("volumes.0", "volumes.data").replace("volumes.1", "volumes.log")
    return f"{shown}.{rest}" if rest else shown


_HEAD = [
    _wrong("environment in capitals", "environment", "Shop", "must be 1 to 10 small letters and digits"),
    _wrong("account without quotes", "account", 222222222222, "must be text; write it in quotes, got 2222"),
    _wrong("short account", "account", "2222", "must be the 12 digits of an AWS account"),
    _wrong("region that is no region", "region", "us-eats-1", "did you mean us-east-1?"),
    _wrong("region with a letter too many", "region", "eu-west-11", "did you mean eu-west-1?"),
    _wrong("zone as region", "region", "eu-west-1a", "must be a region such as us-east-1"),
    _wrong("region left out", "region", LEFT_OUT, "is required: add it"),
    _wrong("retain_state as a number", "retain_state", 1, "must be true or false, got 1"),
    _wrong("network, withdrawn", "network", {"vpc_id": "vpc-0c0d0000000000001"}, "is no longer a setting: write vpc_id"),
    _wrong("no VPC id", "vpc_id", "my-vpc", "must be a VPC id such as vpc-0123456789abcdef0"),
    _wrong("two e-mail addresses", "alarm_email", "a@example.com, b@example.com", "must be one e-mail address"),
    _wrong("no address of runbooks", "runbook_url", "wiki/runbooks", "must be an http or https address without a /"),
    _wrong("misspelled section", "clusterz", [], "is not a setting; did you mean clusters?"),
    _wrong("no cluster", "clusters", [], "must have at least 1: add one, got an empty list"),
    _wrong("clusters as a mapping", "clusters", {"orders": {}}, "must be a list, one item per line after a hyphen"),
    _wrong("cluster as a word", "clusters", ["orders"], "must be a mapping of settings", "clusters.0"),
]
_CLUSTER = [
    _wrong("cluster in capitals", "c.name", "Orders", "must be small letters, digits", "clusters.0.name"),
    _wrong("cluster that ends with a hyphen", "c.name", "orders-", "single hyphens between", "clusters.orders-.name"),
    _wrong("cluster name too long", "c.name", "o" * 21, "must have at most 20", f"clusters.{'o' * 21}.name"),
    _wrong("cluster without a name", "c.name", LEFT_OUT, "is required: add it", "clusters.0.name"),
    _wrong("two clusters of one name", "d.name", "orders", "must be another name", "clusters.1.name"),
    _wrong("names that differ by a hyphen", "d.name", "ord-ers", "by more than hyphens", "clusters.ord-ers.name"),
    _wrong("unsupported engine", "c.engine", "postgres", "must be mysql or mariadb, got 'postgres'"),
    _wrong("mode as true", "c.mode", True, "must be act or observe, got true"),
    _wrong("no base replica", "c.min_replicas", 0, "must be at least 1, got 0"),
    _wrong("fraction of a replica", "c.max_replicas", 2.5, "must be a whole number, got 2.5"),
    _wrong("number as text", "c.min_replicas", "2", "must be a whole number, got '2'"),
    _wrong("far too many replicas", "c.max_replicas", 600, "must be at most 100, got 600"),
    _wrong("misspelled setting", "c.max_replica", 3, "is not a setting; did you mean max_replicas?"),
    _wrong("older name of the check's period", "c.health.watch_minutes", 1, "is no longer a setting: rename it to check_minutes"),
    _wrong("no image id", "c.image_id", "debian-12", "must be an image id such as ami-0123456789abcdef0"),
    _wrong("type without a size", "c.instance_type", "r7g", "must be an instance type such as r7g.4xlarge"),
    _wrong("misspelled size", "c.instance_type", "r7g.4xlagre", "did you mean r7g.4xlarge?"),
    _wrong("size that the family has not", "c.instance_type", "r7g.100xl", "r7g has medium, large"),
    _wrong("fallback misspelled", "c.fallback_instance_types", ["r7g.4xlagre"], "did you mean r7g.4xlarge?", "c.fallback_instance_types.0"),
    _wrong("fallback of another architecture", "c.fallback_instance_types", ["r7i.4xlarge"], "must be of the architecture of r7g.4xlarge, arm64", "c.fallback_instance_types.0"),
    _wrong("fallback with a g of another meaning", "d.fallback_instance_types", ["g6.2xlarge", "im4gn.large"], "got im4gn.large of arm64", "d.fallback_instance_types.1"),
    _wrong("fallback that is the usual type", "c.fallback_instance_types", ["r7g.4xlarge"], "is asked for before", "c.fallback_instance_types.0"),
    _wrong("key of another region", "c.kms_key_arns", [KEY.replace("eu-west-1", "us-east-1")], "must be of the region eu-west-1", "c.kms_key_arns.0"),
    _wrong("reservations of another region", "c.capacity_reservation_group_arn",
           "arn:aws:resource-groups:us-east-1:012345678901:group/orders", "must be of the region eu-west-1"),
    _wrong("role of another account", "c.instance_role_arn", "arn:aws:iam::999999999999:role/hosts", "must be a role of the account 012345678901"),
    _wrong("price per GiB in cents of a TiB", "c.initialization_usd_per_gib", 99, "must be at most 1, got 99"),
    _wrong("no security group", "c.security_group_ids", [], "must have at least 1: add one"),
    _wrong("a security group as a word", "c.security_group_ids", "sg-0c0d0000000000001", "must be a list"),
    _wrong("a security group by name", "c.security_group_ids.0", "mysql", "must be a security group id such as"),
    _wrong("a security group twice", "c.security_group_ids.1", "sg-0c0d0000000000001", "is given twice: remove one"),
    _wrong("six security groups", "c.security_group_ids", [f"sg-0c0d000{n}" for n in range(6)], "must have at most 5"),
    _wrong("profile by ARN", "c.instance_profile", "arn:aws:iam::1:instance-profile/x", "(not the ARN)"),
    _wrong("no capacity", "c.capacity_per_replica", 0, "must be above 0, got 0"),
    _wrong("endless capacity", "c.capacity_per_replica", INFINITE, "must be a number that is not infinite"),
    _wrong("rate above what EBS sells", "c.initialization_rate_mib_per_s", 400, "must be at most 300, got 400"),
]
_SUBNETS = [
    _wrong("subnets as a list", "c.subnets", ["subnet-0c0d00000000000a1"], "must be a mapping, `name: value`"),
    _wrong("region as zone", "c.subnets.eu-west-1", "subnet-0c0d00000000000d1", "must be an availability zone"),
    _wrong("zone of another region", "c.subnets.us-east-1a", "subnet-0c0d00000000000d1", "must be a zone of the region"),
    _wrong("zone of a region that begins alike", "c.subnets.eu-west-11a", "subnet-0c0d00000000000d1", "of the region eu"),
    _wrong("no subnet id", "c.subnets.eu-west-1a", "10.0.1.0/24", "must be a subnet id such as subnet-0123456789abcdef0"),
    _wrong("subnet in two zones", "c.subnets.eu-west-1b", "subnet-0c0d00000000000a1", "for eu-west-1a already"),
    _wrong("several subnets of a zone", "c.subnets.eu-west-1a", ["subnet-0c0d00000000000a1"], "must be text"),
    WrongFile("local zone behind a load balancer",
              {"c.subnets.eu-west-1-lon-1a": "subnet-0c0d00000000000d1", "c.initialization_rate_mib_per_s": LEFT_OUT},
              _shown("c.subnets.eu-west-1-lon-1a"),
              "no network load balancer reaches local and Wavelength zones: take a read endpoint of kind route53"),
    _wrong("load balancer that lacks a zone", "c.read_endpoint.subnets", {"eu-west-1a": "subnet-0c0d00000000000a1"},
           "must have a subnet in each zone of the cluster's subnets, got none in eu-west-1b"),
    _wrong("load balancer in another region", "c.read_endpoint.subnets",
           {"eu-west-1a": "subnet-0c0d00000000000a1", "eu-west-1b": "subnet-0c0d00000000000b1", "us-east-1a": "subnet-0c0d00000000000c1"},
           "must be a zone of the region", "c.read_endpoint.subnets.us-east-1a"),
    WrongFile("rate in a local zone",
              {"d.subnets.eu-west-1-lon-1a": "subnet-0c0d00000000000d1", "d.initialization_rate_mib_per_s": 200},
              _shown("d.initialization_rate_mib_per_s"), "is not sold in local and Wavelength zones (eu-west-1-lon-1a)"),
]
_VOLUMES = [
    _wrong("no volume for the datadir", "c.volumes.0.name", "binlogs", "must include the volume named data", "c.volumes"),
    _wrong("volumes of one name", "c.volumes.1.name", "data", "of the volume data", "clusters.orders.volumes.1.name"),
    _wrong("volumes on one device", "c.volumes.1.device", "/dev/sdf", "of the volume data, got /dev/sdf for both"),
    _wrong("volumes on one mount point", "c.volumes.1.mount_point", "/var/lib/mysql", "of the volume data"),
    _wrong("volume inside another", "c.volumes.1.mount_point", "/var/lib/mysql/log", "must not lie in /var/lib/mysql"),
    _wrong("device of the root volume", "c.volumes.0.device", "/dev/sda1", "must be a device name from /dev/sdf"),
    *[
        _wrong(f"mount over {path}", "c.volumes.0.mount_point", path, "must not be ")
        for path in ("/etc", "/usr", "/var", "/var/lib", "/boot", "/dev", "/proc", "/home", "/var/log", "/usr/local", "/opt")
    ],
    *[
        _wrong(f"mount in {path}", "c.volumes.0.mount_point", path, "must not be in ")
        for path in ("/etc/mysql", "/dev/shm", "/run/mysqld", "/tmp/mysql", "/usr/share/mysql", "/var/lib/peaker/data")
    ],
    *[
        _wrong(f"mount point {path!r}", "c.volumes.0.mount_point", path, "must be an absolute path without")
        for path in ("/", "var/lib/mysql", "/var/lib/../mysql", "/var//lib", "/var/lib/mysql/", "/data/.", "/da ta", "")
    ],
    _wrong("unknown filesystem", "c.volumes.0.filesystem", "fat", "must be xfs or ext4, got 'fat'"),
    _wrong("a set without a layout", "c.volumes.1.mount_point", "/var/lib/mysql", "need a layout, such as raid0"),
    _wrong("an array of one volume", "c.volumes.0.layout", "raid5", "raid5 needs at least 3 volumes at /var/lib/mysql"),
    _wrong("an unknown layout", "c.volumes.0.layout", "raid6", "must be single, raid0"),
    _wrong("old volume type", "c.volumes.0.volume_type", "gp2", "must be gp3 or io2, got 'gp2'"),
    _wrong("IOPS below gp3's own", "c.volumes.0.iops", 1000, "must be 3000 to 80000 for gp3, got 1000"),
    WrongFile("throughput that the IOPS do not carry",
              {"clusters.0.volumes.0.iops": 3000, "clusters.0.volumes.0.throughput_mib_per_s": 1000},
              "clusters.orders.volumes.data.throughput_mib_per_s", "must be at most 750 for gp3 with 3000 IOPS"),
    _wrong("io2 with throughput", "c.volumes.1.throughput_mib_per_s", 500, "is no setting of io2"),
]
_ENDPOINT = [
    _wrong("health port is MySQL's", "c.read_endpoint.health_port", 3306, "must be another port than port"),
    _wrong("listener is the health port", "c.read_endpoint.listener_port", 9200, "another port than health_port"),
    _wrong("health port of a name is MySQL's", "d.read_endpoint.health_port", 3306, "another port than port"),
    _wrong("kind that is not there", "c.read_endpoint.kind", "proxysql", "must be nlb or route53, got 'proxysql'"),
    _wrong("health port of the system's services", "c.read_endpoint.health_port", 443, "1024 or above"),
    _wrong("health port of an agent", "d.read_endpoint.health_port", 10050, "is that of the Zabbix agent"),
    _wrong("health port of the node exporter", "d.read_endpoint.health_port", 9100, "is that of the node exporter"),
    _wrong("health port of MySQL's administrators", "c.read_endpoint.health_port", 33062, "is that of MySQL's admin"),
    _wrong("endpoint as a word", "c.read_endpoint", "nlb", "must be a mapping of settings"),
    _wrong("name without a zone", "d.read_endpoint.hosted_zone_id", LEFT_OUT, "is required: add it"),
    _wrong("zone by path", "d.read_endpoint.hosted_zone_id", "/hostedzone/Z1", "must be a hosted zone id such as"),
    _wrong("name with a dot at its end", "d.read_endpoint.record_name", "reads.internal.", "without a dot at its end"),
    _wrong("name of one word", "d.read_endpoint.record_name", "reads", "must be a DNS name"),
    _wrong("listener of a name", "d.read_endpoint.listener_port", 3306, "is not a setting"),
    _wrong("misspelled setting of a name", "d.read_endpoint.ttl_second", 30, "did you mean ttl_seconds?"),
]
THE_FIRST_LOAD = {
    "namespace": "Peaker/Demand", "name": "ReadQueriesPerSecond", "statistic": "Average", "period_seconds": 300,
    "dimensions": {"Cluster": "orders", "Stage": "42"},
}  # fmt: skip
_LOAD = [
    _wrong("period too long for a daily shape", "c.load_metric.period_seconds", 43_200, "at most 21600"),
    _wrong("period that CloudWatch does not know", "c.load_metric.period_seconds", 90, "must be a multiple of 60"),
    _wrong("unknown statistic", "c.load_metric.statistic", "p99", "must be Average, Sum, Maximum, Minimum or SampleCount"),
    _wrong("dimension without a value", "c.load_metric.dimensions.Stage", "", "must be printable ASCII"),
    _wrong("dimensions as CloudWatch lists them", "c.load_metric.dimensions", [{"Name": "a"}], "must be a mapping"),
    _wrong("utilisation as load", "c.load_metric.name", "CPUUtilization", "must be a load that grows with the readers"),
    _wrong("two clusters on one metric", "d.load_metric", THE_FIRST_LOAD, "must be another metric than that of orders"),
    _wrong("median", "c.forecast.quantile", 0.5, "must be above 0.5, got 0.5"),
    _wrong("forecast rarer than a replica takes", "c.limits.prewarm_deadline_minutes", 3,
           "must be at most limits.prewarm_deadline_minutes (3), got 5", "c.forecast.schedule_minutes"),
    _wrong("a reservation for a group", "c.capacity_reservation_group_arn", "cr-0123456789abcdef0", "must be the ARN of a resource group"),
]
_CALENDAR = [
    _wrong("event that ends before it starts", "c.calendar.0", event(until="2026-11-26T02:00"),
           "must be after from, 2026-11-27T05:00Z, got 2026-11-26T01:00Z", "c.calendar.0.until"),
    _wrong("event of no length", "c.calendar.0", event(until="2026-11-27T06:00"), "must be after", "c.calendar.0.until"),
    _wrong("event without an end", "c.calendar.0", event(until=LEFT_OUT), "is required: add it", "c.calendar.0.until"),
    _wrong("event of a day", "c.calendar.0", event(until="2026-11-28"), "the time is missing", "c.calendar.0.until"),
    _wrong("31st of November", "c.calendar.0", event(until="2026-11-31T00:00"), "in no calendar", "c.calendar.0.until"),
    _wrong("date the American way", "c.calendar.0", event(**{"from": "11/27/2026 06:00"}), "must be a date and a time",
           "c.calendar.0.from"),
    _wrong("moment as a number", "c.calendar.0", event(**{"from": 1795759200}), "must be a date", "c.calendar.0.from"),
    _wrong("year with a digit too many", "c.calendar.0", event(until="9999-12-31T23:59"), "in the years 2000 to 2100",
           "c.calendar.0.until"),
    _wrong("event that asks for two things", "c.calendar.0", event(load=1.0),
           "must have one of min_replicas, load and factor, got min_replicas and load"),
    _wrong("event that asks for nothing", "c.calendar.0", event(min_replicas=LEFT_OUT), "min_replicas, load and factor"),
    _wrong("event above the ceiling", "c.calendar.0", event(min_replicas=7),
           "must be at most max_replicas (6), got 7", "c.calendar.0.min_replicas"),
    _wrong("event that makes the load less", "c.calendar.0", event(min_replicas=LEFT_OUT, factor=0.5),
           "must be at least 1, got 0.5", "c.calendar.0.factor"),
    _wrong("event of infinite load", "c.calendar.0", event(min_replicas=LEFT_OUT, load=INFINITE), "not infinite",
           "c.calendar.0.load"),
    _wrong("time zone of readers that is none", "c.time_zone", "Europe/Munich", "must be an IANA zone such as Europe/London"),
    _wrong("misspelled time zone", "c.time_zone", "Europe/Berln", "did you mean Europe/Berlin?"),
    _wrong("time zone of an event, withdrawn", "c.calendar.0", event(time_zone="CEST"), "is no longer a setting: remove it; times",
           "c.calendar.0.time_zone"),
    _wrong("reason of two lines", "c.calendar.0", event(reason="one\ntwo"), "one line of text", "c.calendar.0.reason"),
    _wrong("reason too long", "c.calendar.0", event(reason="x" * 81), "at most 80 characters", "c.calendar.0.reason"),
    _wrong("no reason", "c.calendar.0", event(reason=LEFT_OUT), "is required: add it", "c.calendar.0.reason"),
    _wrong("an event twice", "c.calendar", [event(), event()], "is given twice (sale)", "c.calendar.1"),
    _wrong("calendar as a mapping", "c.calendar", event(), "must be a list, one item per line after a hyphen"),
    _wrong("a metric that no parameter holds", "c.load_metric.dimensions",
           {f"Dimension{m}": "x" * 300 for m in range(30)}, "a parameter of the Parameter Store holds 8192", "c"),
]
_LIFE = [
    _wrong("reading order, withdrawn", "c.prewarm.method", "used", "is no longer a setting: remove it; hot blocks"),
    _wrong("unknown prewarm", "c.prewarm.serve_when", "warm", "must be all or hot, got 'warm'"),
    _wrong("shares that fall", "c.ramp.shares", [0.5, 0.1], "must rise from one to the next, got [0.5, 0.1]"),
    _wrong("share as a number", "c.ramp.shares", 0.5, "must be a list"),
    _wrong("ramp that cannot end", "c.ramp", {"shares": [n / 10 for n in range(1, 11)], "step_seconds": 3600},
           "must be at most 2850 with 10 shares", "c.ramp.step_seconds"),
    _wrong("forced as text", "c.drain.allow_forced", "false", "must be true or false, got 'false'"),
    _wrong("drain of an unknown setting", "c.drain.zzz", 1, "remove it; the settings here are limit_seconds, allow_forced"),
    _wrong("idle longer than the workflow waits", "c.retirement.idle_seconds", 86_400, "at most 28800"),
    _wrong("unknown park", "c.retirement.park", "maybe", "must be auto, never or always, got 'maybe'"),
    _wrong("budget that is no number", "c.limits.max_hourly_cost_usd", NAN, "not infinite, got nan"),
    _wrong("limits left empty", "c.limits", None, "must be a mapping of settings, `name: value` per line, got nothing"),
]
_TOGETHER = [
    WrongFile(
        "budget below the price of a replica",
        {
            "region": "us-east-1",
            "clusters.0.subnets": {"us-east-1a": "subnet-0c0d00000000000a1"},
            "clusters.1.subnets": {"us-east-1a": "subnet-0c0d00000000000a1"},
            "clusters.0.limits.max_hourly_cost_usd": 0.5,
        },
        "clusters.orders.limits.max_hourly_cost_usd",
        "must be at least the price of one replica, 0.8568 for r7g.4xlarge in us-east-1",
    ),
    WrongFile(
        "cluster name too long for its target group",
        {"environment": "production", "clusters.0.name": "orders-of-all"},
        "clusters.orders-of-all.name",
        "must be at most 12 characters, because a target group is called peaker-production-<name>-w",
    ),
    WrongFile(
        "cluster that is called like a target group",
        {
            "clusters.1.name": "orders-w",
            "clusters.1.read_endpoint": {"kind": "nlb", "port": 1, "listener_port": 1, "health_port": 9200},
        },
        "clusters.orders-w.name",
        "the warming target group of orders is called so",
    ),
    WrongFile(
        "two clusters behind one name",
        {
            "clusters.0.health.check_minutes": 1,
            "clusters.0.read_endpoint": {
                "kind": "route53", "port": 3306, "health_port": 9200, "ttl_seconds": 30,
                "hosted_zone_id": "Z0123456789ABCDEFGHIJ", "record_name": "reads.items.internal",
            },
        },
        "clusters.order-items.read_endpoint.record_name",
        "must be another name than that of orders",
    ),
]

WRONG_FILES = [
    *_HEAD, *_CLUSTER, *_SUBNETS, *_VOLUMES, *_ENDPOINT, *_LOAD, *_CALENDAR,
    *_LIFE, *_TOGETHER,
]  # fmt: skip


@dataclass(frozen=True)
class WrongText:
    """A place of the file's text that is replaced, or the whole of it; the line blamed, from 1."""

    situation: str
    old: str
    new: str | bytes
    line: int | None
    said: str


WRONG_TEXTS = [
    WrongText("tag with a line break", "mode: act", "mode: !%0act act", 12, "has the tag"),
    WrongText("key twice", "mode: act", "mode: act\n    mode: observe", 13, "clusters.orders.mode: is given twice, first in line 12"),
    WrongText("key twice in braces", "port: 3306, listener", "port: 1, port: 3306, listener", 24, "clusters.orders.read_endpoint.port: is given twice"),
    WrongText("section twice", "retain_state: true", "retain_state: true\nregion: eu-west-2", 6, "region: is given twice, first in line 4"),
    WrongText("zone twice", "eu-west-1b: ", "eu-west-1a: ", 19, "clusters.orders.subnets.eu-west-1a: is given twice"),
    WrongText("tab before a setting", "    mode: act", "\tmode: act", 12, "has a tab where YAML takes spaces only"),
    WrongText("tabs behind spaces", "    mode: act", "    \tmode: act", 12, "has a tab where YAML takes spaces only"),
    WrongText("open bracket", "sg-0c0d0000000000002]", "sg-0c0d0000000000002", 18, "is not YAML: "),
    WrongText("setting too far left", "    engine: mysql", "  engine: mysql", 11, "is not YAML: "),
    WrongText("no colon", "mode: act", "mode act", 12, "is not YAML: "),
    WrongText("no blank behind the colon", "mode: act", "mode:act", 12, "is not YAML: "),
    WrongText("two documents", "retain_state: true", "---\nretain_state: true", 5, "a second document begins"),
    WrongText("tag", "mode: act", "mode: !!python/name:os.system", 12, "has the tag !!python/name:os.system"),
    WrongText("binary", 'account: "012345678901"', "account: !!binary aGVsbG8=", 3, "has the tag !!binary"),
    WrongText("unknown alias", "mode: act", "mode: *act", 12, "is not YAML: found undefined alias"),
    WrongText("list as a key", "mode: act", "? [mode]\n    : act", 12, "where the name of a setting belongs"),
    WrongText("account that is octal", '"012345678901"', "012345678901", 3, "account: must be text; write it in quotes, got 012345678901, which is an octal number"),
    WrongText("unquoted account", '"012345678901"', "112345678901", 3, "account: must be text; write it in quotes, got 112345678901"),
    WrongText("no as a name", "name: orders", "name: no", 10, "clusters.0.name: must be text; write it in quotes, got no, which is true or false"),
    WrongText("yes for true", "retain_state: true", "retain_state: yes", 5, "retain_state: must be true or false, got yes, which is true or false in some"),
    WrongText("off for false", "allow_forced: false", "allow_forced: off", 46, "clusters.orders.drain.allow_forced: must be true or false, got off"),
    WrongText("number with underscore", "iops: 12000", "iops: 12_000", 21, "clusters.orders.volumes.data.iops: must be a whole number, got 12_000, which is a number with underscores"),
    WrongText("number to the base of 60", "iops: 12000", "iops: 3:20:00", 21, "clusters.orders.volumes.data.iops: must be a whole number, got 3:20:00, which is a number to the base of 60"),
    WrongText("octal number", "max_replicas: 6", "max_replicas: 06", 14, "clusters.orders.max_replicas: must be a whole number, got 06, which is an octal number"),
    WrongText("hexadecimal number", "max_replicas: 6", "max_replicas: 0x6", 14, "clusters.orders.max_replicas: must be a whole number, got 0x6, which is no decimal number"),
    WrongText("number too large to hold", "capacity_per_replica: 6000", "capacity_per_replica: 1e400", 31, "clusters.orders.capacity_per_replica: must be a number that is not infinite, got inf"),
    WrongText("infinity by name", "capacity_per_replica: 6000", "capacity_per_replica: .inf", 31, "clusters.orders.capacity_per_replica: must be a number that is not infinite"),
    WrongText("infinity as a word", "capacity_per_replica: 6000", "capacity_per_replica: inf", 31, "clusters.orders.capacity_per_replica: must be a number, got 'inf'"),
    WrongText("nan by name", "max_hourly_cost_usd: 10.0", "max_hourly_cost_usd: .NaN", 48, "clusters.orders.limits.max_hourly_cost_usd: must be a number that is not infinite"),
    WrongText("date as a reason", "reason: Black Friday", "reason: 2026-11-27", 39, "clusters.orders.calendar.0.reason: must be text; write it in quotes, got 2026-11-27, which is a date"),
    WrongText("date as the end", "until: 2026-11-28T02:00", "until: 2026-11-28", 39, "clusters.orders.calendar.0.until: must be a date and a time such as 2026-11-27T06:00 or"),
    WrongText("settings left out by a comment", "instance_type: r7g", "# instance_type: r7g", 10, "clusters.orders.instance_type: is required: add it"),
    WrongText("section emptied by comments", "{limit_seconds: 900, allow_forced: false}", "", 46, "drain: must be a mapping of settings, `name: value` per line, got nothing"),
    WrongText("brackets for braces", "gates: &gates {lag_seconds: 5, ", "gates: &gates [lag_seconds: 5, ", 43, "is not YAML: "),
]

_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{here}: &{here} [{', '.join([f'*{before}'] * 9)}]\n" for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)
_MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{here}: &{here} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)
_CHAIN = "k0: &k0 [x]\n" + "".join(f"k{n}: &k{n} [*k{n - 1}]\n" for n in range(1, 2000))
WRONG_WHOLES = [
    WrongText("empty file", "", "", None, "is empty: remove it"),
    WrongText("comments only", "", "# nothing yet\n", None, "is empty: remove it"),
    WrongText("three hyphens only", "", "---\n", None, "is empty: remove it"),
    WrongText("list", "", "- environment: shop\n", 1, "must be a mapping of settings, `name: value` per line, got a list"),
    WrongText("word", "", "shop\n", 1, "must be a mapping of settings"),
    WrongText("JSON that is cut off", "", '{"environment": "shop"', None, "is not YAML: "),
    WrongText("huge file", "", "# x\n" * 2_200_000, None, "must have at most 8192 KiB, has 8594"),
    WrongText("aliases that multiply", "", _BOMB, None, "has more than 100000 values, aliases followed"),
    WrongText("merges that multiply", "", _MERGE_BOMB, None, "has more than 100000 values, aliases followed"),
    WrongText("aliases in a long row", "", _CHAIN, None, "is nested more than 32 deep, aliases followed"),
    WrongText("alias of itself", "", "a: &a [*a]\n", None, "contains itself by an alias"),
    WrongText("merge of itself", "", "a: &a\n  <<: *a\n", None, "contains itself by an alias"),
    WrongText("merge of a word", "", "a: &a x\nb: {<<: *a}\n", None, "must be an alias of a mapping after <<"),
    WrongText("brackets without end", "", "[" * 50_000, None, "is nested more than 32 deep"),
    WrongText("braces without end", "", "{a: " * 20_000, None, "is nested more than 32 deep"),
    WrongText("Latin-1", "", "environment: f\xeate\n".encode("latin-1"), 1, "is not UTF-8 text (byte 0xea): save it as UTF-8"),
    WrongText("UTF-16", "", "environment: shop\n".encode("utf-16"), 1, "is not UTF-8 text (byte 0xff)"),
    WrongText("binary file", "", bytes(range(256)), None, "is not "),
    WrongText("zero bytes", "", "environment: shop\nregion: \x00\n", 2, "is not YAML: "),
]
