"""docs/first-hour.md, typed line by line in its order by somebody with an unknown fleet and an empty account."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.simulated_hosts import Pace, SimulatedAnswers
from localcloud.deploy import DeployFailed, deploy, destroy
from localcloud.server import LocalCloud
from tests.deployed.test_init import Desk, Fleet, answers, cloud, desk, synthesized, two_volumes
from tests.support.deployed_product import Said
from tests.support.pages import FIRST_HOUR, blocks, joined

__all__ = ["answers", "cloud", "desk"]
pytestmark = pytest.mark.timeout(900)

# What another test runs, or only an account.
ELSEWHERE = {
    "scripts/setup deploy": "tests/installation/test_setup.py",
    "npx cdk bootstrap -c env=prod": "tests/installation/test_setup.py",
    "aws ec2 ": "tests/host/machine/test_image_recipe.py tries the script; an instance that runs it needs AWS",
}
ASK = ("scale-out", "scale-in", "abort", "pause")
# Half a day of the cloud's clock: a run that is to be stopped must not be through before.
SLOW = Pace(prewarm_mib=1_000_000.0)
# A fresh cluster has no history of its load, which doctor and status say.
EXITS = {"doctor": (0, 1), "status": (0, 1, 2)}


class FirstHour:
    """A person who follows the page; `said` has what each line printed."""

    def __init__(self, desk: Desk, fleet: Fleet, output: Path) -> None:
        self.desk, self.fleet, self.output = desk, fleet, output
        self.said: dict[str, str] = {}

    def types(self, line: str) -> None:
        if line.startswith(tuple(ELSEWHERE)):
            return
        program, *words = shlex.split(line)
        if line.startswith("peaker scale-in"):
            self._is_not_removed_while_its_replica_serves()
        if program == "peaker":
            self._peaker(line, words)
        elif program == "export":
            assert [word.partition("=")[0] for word in words] == ["PATH", "PEAKER_ENV"], (
                "a shell has the command then"
            )
            self.desk.exports["PEAKER_ENV"] = words[1].partition("=")[2]
        elif program == "$EDITOR":
            self._edits(self.desk.root / words[0])
        elif program == "scripts/synth":
            synthesized(self.desk, self.output, words[0])
        elif program == "aws":
            self._empties(words[-1])
        else:
            assert words[:1] in (["cdk"],), line
            {"deploy": deploy, "destroy": destroy}[words[1]](self.output, self.desk.cloud.endpoint_url)

    def _peaker(self, line: str, words: list[str]) -> None:
        ids = {"i-0123456789abcdef0": self.fleet.source, "i-0123456789abcdef1": self.fleet.replica}
        typed = [ids.get(word, word) for word in words] + (["--yes"] if words[0] in ASK else [])
        deadline = time.monotonic() + 240
        if "--no-follow" in words:
            self.desk.answers.hosts = SimulatedAnswers(self.desk.cloud.clock, SLOW, bare=False)
        ended = self.desk.types(*typed)
        while self._is_early(words, ended) and time.monotonic() < deadline:
            time.sleep(2)
            ended = self.desk.types(*typed)
        if words[0] == "abort":
            self.desk.answers.hosts = None
        assert ended.status in EXITS.get(words[0], (0,)), f"{line}\n{ended.out}\n{ended.err}"
        assert "Traceback" not in ended.err
        self.said[line] = self.said.get(line, "") + ended.out

    def _is_early(self, words: list[str], ended: Said) -> bool:
        """The load balancer finds the replica healthy minutes later; a run that is to be stopped has made volumes."""
        if words[0] == "plan":
            return ended.status != 0
        stops = words[0] == "status" and self.desk.answers.hosts is not None
        return stops and "ReportPrewarm" not in ended.out

    def _edits(self, path: Path) -> None:
        """Writes what the page's YAML says into the file that init wrote."""
        [block] = re.findall(r"```yaml\n(.*?)```", FIRST_HOUR.read_text(encoding="utf-8"), re.DOTALL)
        wanted, written = yaml.safe_load(block), yaml.safe_load(path.read_text(encoding="utf-8"))
        for cluster in written["clusters"]:
            cluster.update(next(one for one in wanted["clusters"] if one["name"] == cluster["name"]))
        path.write_text(yaml.safe_dump({**wanted, **written}, sort_keys=False), encoding="utf-8")

    def _is_not_removed_while_its_replica_serves(self) -> None:
        """CloudFormation refuses before anything is gone, and `peaker allow-removal` says what is left."""
        before = stacks(self.desk.cloud)
        refused = self.desk.types("allow-removal", "orders")
        assert refused.status == 1
        assert "in service: i-" in refused.err
        assert "peaker-prod-orders-replica-shortage" in refused.err
        with pytest.raises(
            DeployFailed, match=r"Peaker-prod-orders.* while TerminationProtection is enabled"
        ):
            destroy(self.output, self.desk.cloud.endpoint_url)
        assert stacks(self.desk.cloud) == before

    def _empties(self, place: str) -> None:
        """S3 deletes no bucket that holds files, so the removal ends there until they are gone (docs/operating.md)."""
        bucket = place.removeprefix("s3://").replace("ACCOUNT-REGION", "123456789012-us-east-1")
        s3 = self.desk.cloud.client("s3")
        s3.put_object(Bucket=bucket, Key="runs/scale-out-orders-1/hot.json", Body=b"{}")
        with pytest.raises(DeployFailed, match="BucketNotEmpty"):
            destroy(self.output, self.desk.cloud.endpoint_url)
        for one in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
            s3.delete_object(Bucket=bucket, Key=one["Key"])


def test_the_page_leads_from_nothing_to_a_run_and_back_to_nothing(desk: Desk, tmp_path: Path) -> None:
    fleet = two_volumes(desk)
    person = FirstHour(desk, fleet, tmp_path / "cdk.out")
    for line in (one.strip() for block in blocks(FIRST_HOUR) for one in joined(block)):
        if line:
            person.types(line)
    assert "would be built" in person.said["peaker plan orders"]
    assert "has ended well" in person.said["peaker scale-out orders"]
    assert "has ended well" in person.said["peaker scale-in orders"]
    assert "was undone; peaker receipt" in person.said['peaker abort orders last --reason "to see the undo"']
    receipts = person.said["peaker receipt last"]
    assert "scale_out of orders: rolled back" in receipts
    assert "why: stopped by hand: to see the undo" in receipts
    assert "scale_out of orders: succeeded" in receipts
    assert "scale_in of orders: succeeded" in receipts
    assert left(desk.cloud) == {"instances": {fleet.source, fleet.replica}}


def stacks(cloud: LocalCloud) -> list[tuple[str, str, int]]:
    """Each with its state and how much it holds."""
    cloudformation = cloud.client("cloudformation")
    return [
        (
            one["StackName"],
            one["StackStatus"],
            len(cloudformation.list_stack_resources(StackName=one["StackName"])["StackResourceSummaries"]),
        )
        for one in cloudformation.describe_stacks()["Stacks"]
    ]


def left(cloud: LocalCloud) -> dict[str, Any]:
    """What is in the account beside the fleet's volumes and the bootstrap's bucket."""
    reservations = cloud.client("ec2").describe_instances()["Reservations"]
    running = {
        one["InstanceId"]
        for group in reservations
        for one in group["Instances"]
        if one["State"]["Name"] != "terminated"
    }
    found = {
        "instances": running,
        "snapshots": [
            one["SnapshotId"]
            for one in cloud.client("ec2").describe_snapshots(OwnerIds=["self"])["Snapshots"]
            if any(tag["Key"] == "peaker:owner" for tag in one.get("Tags", ()))
        ],
        "stacks": cloud.client("cloudformation").describe_stacks()["Stacks"],
        "functions": cloud.client("lambda").list_functions()["Functions"],
        "workflows": cloud.client("stepfunctions").list_state_machines()["stateMachines"],
        "tables": cloud.client("dynamodb").list_tables()["TableNames"],
        "balancers": cloud.client("elbv2").describe_load_balancers()["LoadBalancers"],
        "logs": [
            one["logGroupName"]
            for one in cloud.client("logs").describe_log_groups()["logGroups"]
            if "peaker-prod" in one["logGroupName"]
        ],
        "buckets": [
            one["Name"]
            for one in cloud.client("s3").list_buckets()["Buckets"]
            if "peaker-prod" in one["Name"]
        ],
    }
    return {name: value for name, value in found.items() if value}
