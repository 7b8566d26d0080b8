"""A person at a shell, and the situation that each runbook is for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cloud_rig.clocks import at_scale
from lab.simulated_hosts import Pace
from tests.support import ready_commands
from tests.support.deployed_product import REGION, DeployedProduct, eventually, peaker_environment

# A day and a half of the cloud's clock: by its deadline of two days, or the run would end by itself.
SLOW = Pace(prewarm_mib=3_000_000.0)
EXAMPLE_INSTANCE, EXAMPLE_VOLUME = "i-0123456789abcdef0", "vol-0123456789abcdef0"
EXAMPLE_SNAPSHOT = "snap-0123456789abcdef0"
EXAMPLE_RUN = "scale-out-orders-20261121T014000-9f3a"

# Version 1 of the AWS CLI, which the package index has, passes a payload as it is; version 2 must be told to. For SQS
# it does not look at AWS_ENDPOINT_URL.
_AWS = """\
#!/bin/bash
words=()
while [ $# -gt 0 ]; do
    if [ "$1" = --cli-binary-format ]; then shift 2; else words+=("$1"); shift; fi
done
exec {commands} aws --endpoint-url "$AWS_ENDPOINT_URL" "${{words[@]}}"
"""
_PEAKER = """\
#!/bin/bash
exec {commands} peaker "$@"
"""


# `peaker status` exits with 1 to 3 where a cluster does not stand well, as monitoring plugins do: it has run. The verbs
# ask at a terminal, which a test has not.
STATUS_EXITS = """
peaker() {
  local ended=0
  case $1 in
    abort|pause|resume) set -- "$@" --yes;;
    # tests/deployed/test_first_hour.py follows runs to their end.
    scale-out|scale-in|retire) set -- "$@" --yes --no-follow;;
  esac
  command peaker "$@" || ended=$?
  if [[ $1 == status && $ended -le 3 ]]; then return 0; fi
  return $ended
}"""


@dataclass
class Person:
    """Somebody at bash in a folder of their own; a peak replica serves, which the run `run_id` made."""

    product: DeployedProduct
    desk: Path
    run_id: str

    @classmethod
    def of(cls, product: DeployedProduct, desk: Path) -> Person:
        programs = desk / "bin"
        programs.mkdir()
        for name, text in (("aws", _AWS), ("peaker", _PEAKER)):
            (programs / name).write_text(text.format(commands=ready_commands.start()))
            (programs / name).chmod(0o755)
        product.starts_nothing_by_itself()
        person = cls(product, desk, "")
        person.builds_a_peak()
        person.builds_no_more()
        return replace(person, run_id=product.run_ids()[-1])

    def peaks_in_service(self) -> list[str]:
        """The instance ids of the peak replicas that serve."""
        rows = self.product.rows("cluster#orders", "replica#")
        serving = [row["sk"]["S"] for row in rows if row["state"]["S"] == "in_service"]
        return [name.removeprefix("replica#") for name in serving]

    def builds_a_peak(self) -> None:
        self.product.answers.healthy()
        with fast(self.product):
            self.product.finish(self.product.start("scale_out"))

    def builds_no_more(self) -> None:
        """Runs that a page starts fail early: it only starts them, and a whole one takes long."""
        self.product.answers.fail("prepare_donor", "BufferPoolTimeout")

    def waits_for_calm(self) -> None:
        """Until no execution runs and none holds the cluster's lease; what a page started may go on for an hour of the
        cloud's time, and after it the look at the shortage that a release starts."""
        with fast(self.product):
            eventually(lambda: not self._runs_anything() and self.product.lease_is_free(), seconds=600)

    def _runs_anything(self) -> bool:
        stepfunctions = self.client("stepfunctions")
        return any(
            stepfunctions.list_executions(stateMachineArn=one["stateMachineArn"], statusFilter="RUNNING")[
                "executions"
            ]
            for one in stepfunctions.list_state_machines()["stateMachines"]
        )

    def types(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run lines as one bash script that ends at the first command that fails, and names it."""
        traced = f"set -euo pipefail\ntrap 'echo \"FAILED: $BASH_COMMAND\" >&2' ERR\n{STATUS_EXITS}\n{script}"
        return subprocess.run(
            ["bash", "-c", traced],
            cwd=self.desk,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
        )

    @property
    def environment(self) -> dict[str, str]:
        return peaker_environment(
            PATH=f"{self.desk / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            AWS_ENDPOINT_URL=self.product.cloud.endpoint_url,
            AWS_ACCESS_KEY_ID="local",
            AWS_SECRET_ACCESS_KEY="local",
            AWS_REGION=REGION,
            AWS_DEFAULT_REGION=REGION,
            AWS_PAGER="",
            PEAKER_ENV="local",
        )

    def own_values(self, text: str, instance_id: str | None = None) -> str:
        """The lines with this deployment's values in the place of the page's examples."""
        values = {
            "PEAKER_ENV=prod": "PEAKER_ENV=local",
            "--env prod": "--env local",
            EXAMPLE_INSTANCE: instance_id or self.product.cluster.base_replica_id,
            EXAMPLE_RUN: self.run_id,
            "--instance-profile-name NAME": "--instance-profile-name peaker-replica",
            "<run>": self.run_id,
        }
        for example, value in values.items():
            text = text.replace(example, value)
        return text

    def client(self, service: str) -> Any:
        return self.product.cloud.client(service)

    def queue(self, rule: str) -> str:
        name = f"peaker-local-orders-{rule}-undelivered"
        return str(self.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])


def fast(product: DeployedProduct) -> AbstractContextManager[None]:
    """Ten times as fast: schedules then invoke so many functions that nothing else gets on, so not for long."""
    return at_scale(product.cloud.clock, 10 * product.cloud.clock.scale)


Situation = Callable[[Person, str], str]


def _a_run_at_work(person: Person, text: str) -> str:
    person.product.answers.healthy()
    person.product.hosts_take_their_time(SLOW)
    person.product.start("scale_out")
    eventually(lambda: not person.product.lease_is_free())
    return text


def _a_failed_run(person: Person, text: str) -> str:
    with fast(person.product):
        person.product.finish(person.product.start("scale_out"), expected="FAILED")
    return text


def _an_event_that_was_not_delivered(person: Person, text: str) -> str:
    [rule] = person.client("events").list_rules(NamePrefix="peaker-local-orders-replica-shortage")["Rules"]
    [target] = person.client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
    event = {
        "id": str(uuid.uuid4()),
        "source": "aws.cloudwatch",
        "detail-type": "CloudWatch Alarm State Change",
        "time": "2026-01-01T00:00:00Z",
        "detail": {"alarmName": rule["Name"], "state": {"value": "ALARM", "reason": "a shortage"}},
    }
    told = {"RULE_ARN": rule["Arn"], "TARGET_ARN": target["Arn"], "ERROR_CODE": "NO_PERMISSIONS"}
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in told.items()}
    person.client("sqs").send_message(
        QueueUrl=person.queue("replica-shortage"),
        MessageBody=json.dumps(event),
        MessageAttributes=attributes,
    )
    return text


def _a_lost_page(person: Person, text: str) -> str:
    """The queue that a deployment with `alarm_email` has; the local environment has no mail."""
    person.client("sqs").create_queue(QueueName="peaker-local-operator-alarms-undelivered")
    return text


def _a_replica_to_retire(person: Person, text: str) -> str:
    """It serves still, or another one is built.

    Its responder is stopped before the run is started, as the page's last step says: the run takes it away.
    """
    if not person.peaks_in_service():
        person.builds_a_peak()
    lines = text.replace(EXAMPLE_INSTANCE, person.peaks_in_service()[0]).splitlines()
    stop = next(line for line in lines if "systemctl stop peaker-health" in line)
    lines.remove(stop)
    started = max(index for index, line in enumerate(lines) if line.startswith("peaker retire"))
    lines.insert(started, stop)
    return "\n".join(lines)


def _leftovers(person: Person, text: str) -> str:
    """An instance to terminate, one to stop, a volume and a snapshot that a run left."""
    ec2 = person.client("ec2")
    left, kept = (_instance(ec2) for _ in range(2))
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")["VolumeId"]
    filters = [{"Name": "volume-id", "Values": [volume]}]
    eventually(
        lambda: [one["State"] for one in ec2.describe_volumes(Filters=filters)["Volumes"]] == ["available"]
    )
    snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    wanted = [{"Name": "snapshot-id", "Values": [snapshot]}]
    eventually(
        lambda: [one["State"] for one in ec2.describe_snapshots(Filters=wanted)["Snapshots"]] == ["completed"]
    )
    text = re.sub(r"(stop-instances --instance-ids) \S+", rf"\1 {kept}", text)
    values = {EXAMPLE_INSTANCE: left, EXAMPLE_VOLUME: volume, EXAMPLE_SNAPSHOT: snapshot}
    for example, value in values.items():
        text = text.replace(example, value)
    return text


def _instance(ec2: Any) -> str:
    made = ec2.run_instances(
        ImageId="ami-0a770000000000097",
        InstanceType="r6i.large",
        MinCount=1,
        MaxCount=1,
        SubnetId="subnet-0a77000000000001a",
    )
    instance_id = str(made["Instances"][0]["InstanceId"])
    filters = [{"Name": "instance-id", "Values": [instance_id]}]

    def state() -> str:
        found = ec2.describe_instances(Filters=filters)["Reservations"]
        return str(found[0]["Instances"][0]["State"]["Name"]) if found else ""

    eventually(lambda: state() == "running")
    return instance_id


SITUATIONS: Mapping[str, Situation] = {
    "abort-run": _a_run_at_work,
    "workflow-failed": _a_failed_run,
    "event-not-delivered": _an_event_that_was_not_delivered,
    "dead-letter": _an_event_that_was_not_delivered,
    "page-not-delivered": _a_lost_page,
    "retire-replica-now": _a_replica_to_retire,
    "undo-incomplete": _leftovers,
}
