"""`peaker init`: from nothing but a source and a replica to a file that deploys, and to a plan."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

import stacks.application
from environments.schema import Environment, load_environment
from lab.plugin import PURE
from localcloud.deploy import deploy
from localcloud.extensions.elbv2.lateness import PROMPT
from localcloud.open_cloud import CloudSettings
from localcloud.server import LocalCloud
from localcloud.simulated_dataplane import simulated_dataplane
from tests.support.deployed_product import (
    ROOT,
    Said,
    eventually,
    lead_bundles_here,
    peaker,
    peaker_environment,
)
from tests.support.host_answers import HostAnswers

VPC, ZONE, SUBNET, GROUP = (
    "vpc-0a770000000000001",
    "us-east-1a",
    "subnet-0a77000000000001a",
    "sg-0a770000000000001",
)
MYSQL, MARIADB = "ami-0a770000000000097", "ami-0a770000000001011"
DNS_ZONE = "reads.internal"


@dataclass(frozen=True)
class Fleet:
    """A source and a replica as their owner made them, and the volumes by device."""

    source: str
    replica: str
    volumes: Mapping[str, str]


class Desk:
    """A checkout whose environments are empty, and an account on the local cloud."""

    def __init__(self, root: Path, cloud: LocalCloud, answers: HostAnswers) -> None:
        self.root, self.cloud, self.answers = root, cloud, answers
        self.exports: dict[str, str] = {}
        self.environments = root / "environments"
        self.environments.mkdir()
        for name in ("cdk.json", "environments/schema.py"):
            shutil.copy(ROOT / name, root / name)

    def fleet(self, name: str, image: str, volumes: Mapping[str, Mapping[str, Any]]) -> Fleet:
        """Launches the two hosts and attaches the replica's volumes."""
        ec2, ids = self.cloud.client("ec2"), []
        for role in ("source", "replica"):
            launched = ec2.run_instances(
                ImageId=image, InstanceType="r6i.large", MinCount=1, MaxCount=1, SubnetId=SUBNET,
                SecurityGroupIds=[GROUP],
                TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": f"{name}-{role}"}]}],
            )  # fmt: skip
            ids.append(launched["Instances"][0]["InstanceId"])
        ssm = self.cloud.client("ssm")
        wanted = [{"Key": "InstanceIds", "Values": [ids[1]]}]
        eventually(lambda: ssm.describe_instance_information(Filters=wanted)["InstanceInformationList"], 60)
        attached = {}
        for device, given in volumes.items():
            made = ec2.create_volume(AvailabilityZone=ZONE, **{"Size": 20, "VolumeType": "gp3", **given})[
                "VolumeId"
            ]
            eventually(lambda one=made: _state(ec2, one) == "available", 60)
            ec2.attach_volume(Device=device, InstanceId=ids[1], VolumeId=made)
            attached[device] = made
        return Fleet(*ids, attached)

    def host_says(self, fleet: Fleet, **said: Any) -> None:
        self.answers.script("describe_base", *[said] * 9, instance_id=fleet.replica)

    def init(self, fleet: Fleet, *more: str, env: str = "local") -> Said:
        typed = ("--env", env, "--source", fleet.source, "--replica", fleet.replica, *more)
        return self.types("init", *typed)

    def types(self, *typed: str) -> Said:
        environment = peaker_environment(AWS_ENDPOINT_URL=self.cloud.endpoint_url, PWD=str(self.root))
        return peaker(*typed, environment=environment | self.exports, folder=self.root)

    def plan(self, cluster: str) -> Any:
        said = self.types("plan", cluster, "--env", "local", "--json")
        assert said.out, said.err
        return said.document

    def refusals(self, cluster: str) -> list[str]:
        """What stands against a plan: a name has no replica that serves before the first check of the replicas."""
        return [one["reason"] for one in self.plan(cluster)["refusals"]]

    def text(self, env: str = "local") -> str:
        return (self.environments / f"{env}.yaml").read_text(encoding="utf-8")

    def environment(self, env: str = "local") -> Environment:
        return load_environment(env, self.environments)


def _state(ec2: Any, volume: str) -> str:
    found = ec2.describe_volumes(Filters=[{"Name": "volume-id", "Values": [volume]}])["Volumes"]
    return str(found[0]["State"]) if found else "not shown yet"


@pytest.fixture(scope="module")
def answers() -> HostAnswers:
    return HostAnswers()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, answers: HostAnswers) -> Iterator[LocalCloud]:
    settings = CloudSettings(
        describe_delay_seconds=0.02, snapshot_seconds=0.05, lambda_preload=PURE, balancer_lateness=PROMPT
    )
    folder = tmp_path_factory.mktemp("cloud")
    with LocalCloud(simulated_dataplane(answers), folder, clock_scale=60, settings=settings) as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path, cloud: LocalCloud, answers: HostAnswers) -> Desk:
    return Desk(tmp_path, cloud, answers)


def two_volumes(desk: Desk) -> Fleet:
    fleet = desk.fleet(
        "orders",
        MYSQL,
        {"/dev/sdf": {"Iops": 6000, "Throughput": 250}, "/dev/sdg": {"VolumeType": "io2", "Iops": 4000}},
    )
    mounts = [
        _mounted("/var/lib/mysql", [fleet.volumes["/dev/sdf"]]),
        _mounted("/var/lib/mysql-log", [fleet.volumes["/dev/sdg"]]),
    ]
    desk.host_says(fleet, mounts=mounts, reads_per_second=300.0, busy_share=0.2)
    return fleet


def raid_under_lvm(desk: Desk) -> Fleet:
    devices = ("/dev/sdf", "/dev/sdg", "/dev/sdh", "/dev/sdi")
    fleet = desk.fleet("search", MYSQL, {device: {} for device in devices})
    mounts = [_mounted("/data/mysql", list(fleet.volumes.values()), filesystem="ext4", layout="raid0_lvm")]
    desk.host_says(fleet, mounts=mounts, port=3307)
    route53, ec2 = desk.cloud.client("route53"), desk.cloud.client("ec2")
    zone = route53.create_hosted_zone(
        Name=DNS_ZONE, CallerReference="1", VPC={"VPCRegion": "us-east-1", "VPCId": VPC},
        HostedZoneConfig={"PrivateZone": True},
    )["HostedZone"]["Id"]  # fmt: skip
    [address] = [
        one["Instances"][0]["PrivateIpAddress"]
        for one in ec2.describe_instances(InstanceIds=[fleet.replica])["Reservations"]
    ]
    record = {
        "Name": f"search.{DNS_ZONE}", "Type": "A", "TTL": 30, "SetIdentifier": "own", "Weight": 100,
        "ResourceRecords": [{"Value": address}],
    }  # fmt: skip
    batch = {"Changes": [{"Action": "CREATE", "ResourceRecordSet": record}]}
    route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch=batch)
    return fleet


def mariadb(desk: Desk) -> Fleet:
    fleet = desk.fleet("stock", MARIADB, {"/dev/sdf": {"VolumeType": "gp2", "Size": 400}})
    mounts = [_mounted("/var/lib/mysql", [fleet.volumes["/dev/sdf"]])]
    said = {
        "engine": "mariadb",
        "version": "10.11.6-MariaDB-log",
        "binlog_expire_seconds": 86_400,
        "port": 3316,
    }
    desk.host_says(fleet, mounts=mounts, **said)
    return fleet


def _mounted(
    point: str, volumes: list[str], filesystem: str = "xfs", layout: str = "single"
) -> dict[str, Any]:
    return {
        "mount_point": point, "filesystem": filesystem, "device": "/dev/nvme1n1", "layout": layout,
        "volume_ids": volumes,
    }  # fmt: skip


def settings_of(written: Mapping[str, Any], prefix: str = "") -> set[str]:
    """The settings that a file needs for a cluster: each once, however many volumes or zones have it."""
    found = set()
    for name, value in written.items():
        items = value if isinstance(value, tuple | list) else [value]
        if name != "subnets" and all(isinstance(one, Mapping) for one in items):
            found |= {one for item in items for one in settings_of(item, f"{prefix}{name}.")}
        else:
            found.add(f"{prefix}{name}")
    return found


def _deployed(desk: Desk, output: Path) -> None:
    synthesized(desk, output, "local")
    deploy(output, desk.cloud.endpoint_url)


def synthesized(desk: Desk, output: Path, environment: str) -> None:
    """What scripts/synth writes for the desk's own file."""

    def load(name: str, **given: Any) -> Environment:
        return load_environment(name, desk.environments, **given)

    with mock.patch.object(stacks.application, "load_environment", load):
        stacks.application.build_app(
            environment=environment, output=output, context={"bundle": "sources"}, checked=False
        ).synth()
    lead_bundles_here(output)


def test_a_second_time_changes_nothing_and_a_second_cluster_leaves_the_rest_as_it_is(desk: Desk) -> None:
    first, second = two_volumes(desk), mariadb(desk)
    assert desk.init(first, "--cluster", "orders").status == 0
    path = desk.environments / "local.yaml"
    path.write_text(
        desk.text().replace("clusters:", "# ours\nclusters:") + "\n# The end.\nretain_state: false\n"
    )
    before = desk.text()
    said = desk.init(first, "--cluster", "orders")
    assert (said.status, desk.text()) == (0, before)
    assert "has the cluster orders already: nothing is changed" in said.out
    assert desk.init(second, "--cluster", "stock").status == 0
    after, kept = desk.text().splitlines(), before.splitlines()
    at, count = after.index("  - name: stock"), len(after) - len(kept)
    added = after[at : at + count]
    assert after[:at] + after[at + count :] == kept
    assert not [line for line in added if "subnet" in line or "security_group" in line], (
        "they are in the defaults"
    )
    assert [one.name for one in desk.environment().clusters] == ["orders", "stock"]
    assert desk.environment().clusters[1].security_group_ids == (GROUP,)


def test_an_example_that_somebody_filled_in_is_added_to(desk: Desk) -> None:
    fleet, path = two_volumes(desk), desk.environments / "prod.yaml"
    example = (ROOT / "environments" / "prod.yaml").read_text(encoding="utf-8")
    path.write_text(example, encoding="utf-8")
    said = desk.init(fleet, "--cluster", "shop", env="prod")
    assert "environments/prod.yaml, in place of the example: cluster shop" in said.out, said
    own = example.replace('"222222222222"', '"123456789012"').replace("vpc-0b0d0000000000001", VPC)
    path.write_text(own, encoding="utf-8")
    said = desk.init(fleet, "--cluster", "shop", env="prod")
    assert "environments/prod.yaml: cluster shop" in said.out, said
    assert [one for one in own.splitlines() if one not in desk.text("prod").splitlines()] == []
    assert [one["name"] for one in yaml.safe_load(desk.text("prod"))["clusters"]] == ["orders", "shop"]


def test_each_line_says_what_was_read_and_what_was_guessed_and_none_is_a_default(desk: Desk) -> None:
    assert desk.init(two_volumes(desk), "--cluster", "orders").status == 0
    text = desk.text()
    assert "max_replicas: 3  # guessed: the base replicas and 2 more; --max-replicas" in text
    assert "# guessed: 300 reads/s at 20% of its processors, so many at 60%; --capacity" in text
    assert "mount_point: /var/lib/mysql}  # read there" in text
    for default in (
        "mode:",
        "engine:",
        "min_replicas",
        "filesystem",
        "layout",
        "read_endpoint",
        "health_port",
    ):
        assert default not in text


def test_without_an_account_it_reads_what_three_lines_wrote(desk: Desk) -> None:
    fleet = two_volumes(desk)
    ec2 = desk.cloud.client("ec2")
    attached = {"Name": "attachment.instance-id", "Values": [fleet.replica]}
    documents = [
        ec2.describe_instances(InstanceIds=[fleet.source, fleet.replica]),
        ec2.describe_volumes(Filters=[attached]),
        ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [VPC]}]),
    ]
    path = desk.root / "describe.json"
    path.write_text("\n".join(json.dumps(one, default=str, indent=4) for one in documents))
    said = desk.init(fleet, "--cluster", "orders", "--from", "describe.json", env="away")
    assert said.status == 0, said.err
    [cluster] = desk.environment("away").clusters
    assert [one.mount_point for one in cluster.volumes] == ["/var/lib/mysql", "/var/lib/mysql-log"]
    assert "# guessed: xfs, mounted as usual; --mount" in desk.text("away")
    assert (desk.environment("away").account, desk.environment("away").vpc_id) == ("123456789012", VPC)
    path.write_text(json.dumps(documents[0], default=str))
    said = desk.init(fleet, "--from", "describe.json", env="else")
    assert said.status == 1
    assert "describe.json: lacks the output of" in said.err
    assert "aws ec2 describe-volumes" in said.err


def test_a_host_that_nobody_can_ask_is_named_with_the_options_that_help(desk: Desk) -> None:
    fleet = desk.fleet("blind", MYSQL, {f"/dev/sd{letter}": {} for letter in "fgh"})
    desk.answers.fail("describe_base", "PythonTooOld", instance_id=fleet.replica)
    said = desk.init(fleet)
    assert said.status == 1
    assert "give --mount DEVICES=PATH[:FILESYSTEM[:LAYOUT]]" in said.err
    assert "PythonTooOld on purpose" in said.err
    said = desk.init(
        fleet,
        "--mount",
        "/dev/sdf,/dev/sdg=/data:ext4:raid0",
        "--mount",
        "/dev/sdh=/logs",
        "--engine",
        "mariadb",
    )
    assert said.status == 0, said.err
    [cluster] = desk.environment().clusters
    assert [(one.name, one.mount_point, one.layout) for one in cluster.volumes] == [
        ("data-1", "/data", "raid0"), ("data-2", "/data", "raid0"), ("logs", "/logs", "single")
    ]  # fmt: skip
    assert cluster.engine == "mariadb"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--source": "i-0123456789abcdef0"}, "--source i-0123456789abcdef0: there is no such instance here"),
        ({"--replica": "orders-replica"}, "is neither an instance id"),
        ({"--replica": "tag:Name=wrong-source"}, "is the source: give a replica that follows it"),
        ({"--cluster": "Orders!"}, "name: "),
        ({"--dns": "reads.nowhere"}, "no hosted zone of the account has that name"),
        ({"--mount": "/dev/sdz=/data"}, "must be DEVICES=PATH"),
        ({"--from": "nothing.json"}, "--from nothing.json: cannot be read"),
        (
            {"--from": "nothing.json", "--tag": ""},
            "--from asks nobody: leave it out, and type the create-tags lines",
        ),
    ],
)
def test_what_is_wrong_is_told_by_its_option_and_nothing_is_written(
    desk: Desk, wrong: Fleet, changed: Mapping[str, str], said: str
) -> None:
    given = {
        "--env": "local",
        "--source": wrong.source,
        "--replica": wrong.replica,
        "--cluster": "orders",
        **changed,
    }
    ended = desk.types("init", *[word for pair in given.items() for word in pair if word])
    assert ended.status in (1, 2)
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not list(desk.environments.glob("*.yaml"))


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory, cloud: LocalCloud, answers: HostAnswers) -> Fleet:
    desk = Desk(tmp_path_factory.mktemp("wrong"), cloud, answers)
    return desk.fleet("wrong", MYSQL, {"/dev/sdf": {}})


# Last, as its schedules are at work from then on.
def test_three_fleets_come_from_nothing_to_a_plan_by_six_values_each(desk: Desk, tmp_path: Path) -> None:
    fleets = {"orders": two_volumes(desk), "search": raid_under_lvm(desk), "stock": mariadb(desk)}
    for name, fleet in fleets.items():
        said = desk.init(fleet, "--tag")
        assert (said.status, said.err.count("Traceback")) == (0, 0), said.err
        assert said.out.rstrip().endswith(
            f"peaker doctor {name} --env local\n  peaker plan {name} --env local"
        )
    orders, search, stock = desk.environment().clusters
    assert [(one.name, one.mount_point, one.volume_type, one.iops) for one in orders.volumes] == [
        ("data", "/var/lib/mysql", "gp3", 6000),
        ("log", "/var/lib/mysql-log", "io2", 4000),
    ]
    assert orders.capacity_per_replica == 900
    assert {(one.layout, one.filesystem, one.mount_point) for one in search.volumes} == {
        ("raid0_lvm", "ext4", "/data/mysql")
    }
    assert (search.read_endpoint.kind, search.read_endpoint.port) == ("route53", 3307)
    assert search.read_endpoint.model_dump()["record_name"] == f"search.{DNS_ZONE}"
    assert (stock.engine, stock.limits.prewarm_deadline_minutes) == ("mariadb", 1440)
    assert (stock.volumes[0].iops, stock.volumes[0].throughput_mib_per_s) == (3000, 250)
    for cluster in orders, search, stock:
        assert len(settings_of(cluster.model_dump(exclude_unset=True))) <= 16
    _deployed(desk, tmp_path / "cdk.out")
    for name, fleet in fleets.items():
        for verb in ("prepare-base", "register-base"):
            said = desk.types(verb, name, fleet.replica, "--env", "local")
            assert said.status == 0, said.err
        deadline = time.monotonic() + 240
        while (against := desk.refusals(name)) and time.monotonic() < deadline:
            time.sleep(2)  # a plan is a run of a workflow
        assert against == [], name
        assert desk.plan(name)["donor"] == fleet.replica
