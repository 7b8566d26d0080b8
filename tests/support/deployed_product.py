"""The product's own stacks on the local cloud with a simulated data plane, and the `peaker` command against them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.schema import load_environment
from lab.cluster import RunningCluster
from lab.make_cluster import make_cluster
from lab.plugin import PURE
from lab.simulated_hosts import Pace, SimulatedAnswers
from localcloud.deploy import deploy
from localcloud.extensions.ec2.capacity_reservations import PLATFORM
from localcloud.extensions.ec2.images import bill_as
from localcloud.extensions.ec2.state import ec2_state
from localcloud.extensions.elbv2.lateness import PROMPT
from localcloud.open_cloud import CloudSettings
from localcloud.server import LocalCloud
from localcloud.simulated_dataplane import SimulatedDataPlane, simulated_dataplane
from tests.support import ready_commands
from tests.support.assembly import assembly
from tests.support.host_answers import HostAnswers
from tests.support.workflow_cloud import leader_module

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT, CLUSTER, REGION = "local", "orders", "us-east-1"
# Seconds of the cloud's clock in a second.
FAST = 60.0


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The standard output as JSON."""
        return json.loads(self.out)


def peaker_command(*arguments: str) -> list[str]:
    """The command of this checkout."""
    return [sys.executable, "-m", "peaker_cli.app", *arguments]


def peaker_environment(**changes: str) -> dict[str, str]:
    """The environment of a person without any AWS set-up, and this checkout's packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    paths = [str(ROOT / folder) for folder in ready_commands.CODE]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(paths),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "COLUMNS": "160",
        **changes,
    }


def peaker(*arguments: str, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Said:
    """Run the command to its end, in the folder if one is given."""
    done = subprocess.run(
        [ready_commands.start(), "peaker", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(environment or peaker_environment()),
        cwd=folder,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@dataclass
class DeployedProduct:
    """The open local cloud with the stacks in it, one cluster, and scripted hosts."""

    cloud: LocalCloud
    plane: SimulatedDataPlane
    answers: HostAnswers
    cluster: RunningCluster

    def peaker(self, command: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Said:
        """The command in the deployed environment."""
        return peaker(command, *arguments, *self.where, environment=environment)

    @property
    def where(self) -> tuple[str, ...]:
        return ("--env", ENVIRONMENT, "--region", REGION, "--endpoint", self.cloud.endpoint_url)

    def hosts_take_their_time(self, pace: Pace) -> None:
        """From now on prewarms progress and replicas catch up at this pace, on the cloud's clock."""
        self.answers.hosts = SimulatedAnswers(self.cloud.clock, pace, bare=False)

    def hosts_are_bare(self) -> None:
        """From now on no host has anything of Peaker's until it comes there."""
        self.answers.hosts = SimulatedAnswers(self.cloud.clock)

    @contextmanager
    def image_billed_as(self, platform: str) -> Iterator[None]:
        """Meanwhile EC2 bills whatever was launched from the cluster's image as this."""
        backend = ec2_state(self.cloud).backend
        [settings] = [one for one in load_environment(ENVIRONMENT).clusters if one.name == CLUSTER]
        bill_as(backend, settings.image_id, platform)
        yield
        bill_as(backend, settings.image_id, PLATFORM)

    def starts_nothing_by_itself(self) -> None:
        """Runs begin by hand only: a run that a schedule or an alarm starts would hold the lease, or take a replica."""
        events = self.cloud.client("events")
        for rule in events.list_rules()["Rules"]:
            if "ScheduleExpression" in rule or "CloudWatch Alarm" in rule.get("EventPattern", ""):
                events.disable_rule(Name=rule["Name"])

    def starts_by_itself_again(self) -> None:
        events = self.cloud.client("events")
        for rule in events.list_rules()["Rules"]:
            events.enable_rule(Name=rule["Name"])

    @contextmanager
    def other_settings(self, **changes: Any) -> Iterator[None]:
        """Meanwhile the deployed settings of the cluster say something else."""
        ssm, name = self.cloud.client("ssm"), f"/peaker/{ENVIRONMENT}/clusters/{CLUSTER}"
        before = ssm.get_parameter(Name=name)["Parameter"]["Value"]
        ssm.put_parameter(Name=name, Value=json.dumps({**json.loads(before), **changes}), Overwrite=True)
        try:
            yield
        finally:
            ssm.put_parameter(Name=name, Value=before, Overwrite=True)

    def functions_start_cold(self) -> None:
        """From now on every function reads the settings anew: a warm one keeps them for a minute."""
        functions = self.cloud.client("lambda")
        for page in functions.get_paginator("list_functions").paginate():
            for one in page["Functions"]:
                functions.update_function_configuration(
                    FunctionName=one["FunctionName"], Description="settings changed"
                )

    def start(self, workflow: str, **given: Any) -> str:
        """Start an execution of the cluster, as the console does; its ARN."""
        stepfunctions, order = self.cloud.client("stepfunctions"), {"cluster": CLUSTER, **given}
        machines = stepfunctions.list_state_machines()["stateMachines"]
        arn = next(one["stateMachineArn"] for one in machines if one["name"] == f"peaker-local-{workflow}")
        return str(
            stepfunctions.start_execution(stateMachineArn=arn, input=json.dumps(order))["executionArn"]
        )

    def status_of(self, execution_arn: str) -> str:
        answer = self.cloud.client("stepfunctions").describe_execution(executionArn=execution_arn)
        return str(answer["status"])

    def finish(self, execution_arn: str, expected: str = "SUCCEEDED") -> None:
        """Wait until the execution has ended so."""
        eventually(lambda: self.status_of(execution_arn) != "RUNNING", seconds=400)
        answer = self.cloud.client("stepfunctions").describe_execution(executionArn=execution_arn)
        assert answer["status"] == expected, answer

    def run_ids(self) -> list[str]:
        """The cluster's runs in the ledger, oldest first."""
        return [row["run_id"]["S"] for row in self.rows(f"cluster#{CLUSTER}", "run#")]

    def rows(self, pk: str, sk: str) -> list[dict[str, Any]]:
        answer = self.cloud.client("dynamodb").query(
            TableName="peaker-local-ledger",
            KeyConditionExpression="pk = :pk AND begins_with(sk, :sk)",
            ExpressionAttributeValues={":pk": {"S": pk}, ":sk": {"S": sk}},
        )
        return list(answer["Items"])

    def lease_is_free(self) -> bool:
        rows = self.rows(f"cluster#{CLUSTER}", "lease")
        return not rows or rows[0]["run_id"]["S"] == "-"


def eventually(look: Callable[[], Any], seconds: float = 400.0) -> Any:
    """The first truthy answer; fails with the last one when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(0.2)  # each look costs as much as a step of a workflow
    return answer


def synthesize(output: Path) -> Path:
    """The local environment's templates; its functions run from this checkout and this Python's packages."""
    assembly(ENVIRONMENT, output)
    lead_bundles_here(output)
    return output


def lead_bundles_here(output: Path) -> None:
    """The functions of an assembly run from this checkout and this Python's packages."""
    for bundle in output.rglob("asset.*.zip"):
        with zipfile.ZipFile(bundle, "a") as archive:
            archive.writestr(*leader_module())


@contextmanager
def deployed_product(folder: Path, clock_scale: float = FAST) -> Iterator[DeployedProduct]:
    """Open a cloud with the stacks and a cluster that serves; nothing is left of it afterwards."""
    templates = synthesize(folder / "cdk.out")
    answers = HostAnswers()
    plane = simulated_dataplane(answers)
    settings = CloudSettings(
        describe_delay_seconds=0.02, snapshot_seconds=0.05, lambda_preload=PURE, balancer_lateness=PROMPT
    )
    with LocalCloud(plane, folder / "state", clock_scale=clock_scale, settings=settings) as cloud:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        deploy(templates, cloud.endpoint_url)
        cluster = make_cluster(cloud.endpoint_url, ENVIRONMENT, CLUSTER, None, lambda _: None)
        yield DeployedProduct(cloud, plane, answers, cluster)
