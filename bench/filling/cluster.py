"""The cluster under measurement: real hosts and volumes on a slow snapshot store; what a run may do is set as it goes.

Nothing on the hosts is told where AWS is: credentials come from the metadata service at its own address, blocks from
the EBS endpoint under its own name. The replicas' role has the permission set `host`, which IAM enforces.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from peaker_cli.control_plane import ControlPlane, Execution

from environments.schema import load_environment
from lab import seed
from lab.cluster import AS_ROOT, Hosts, RunningCluster, bring_up
from lab.endpoint import Endpoint
from lab.local_cloud import CloudTime, RunningCloud, local_cloud
from lab.prepare import prepare
from lab.readers import pooled_readers
from localcloud.cleanup import clean
from localcloud.deploy import deploy
from localcloud.hosts.images import MYSQL_IMAGE_ID, ensure_image
from localcloud.plugins import VARIABLE
from peaker_contract.names import cluster_parameter
from stacks.naming import Names
from stacks.rights.hosts import fill_volumes
from stacks.rights.role_statements import policy_document

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / ".localcloud" / "images"
ENVIRONMENT, CLUSTER, REGION = "local", "orders", "us-east-1"
PORT = 4567
# Cloud seconds per real second: waits of the workflows shrink, the work of hosts does not.
CLOCK_SCALE = 30.0
DAYS_AHEAD = timedelta(days=1)
LIMIT_SECONDS = 600.0
FOLLOWS_WITHIN_SECONDS = 60
# Transactions a second, of fourteen statements each, on the first rows of each table.
READS_PER_S = 10.0
WORKING_SET_ROWS = 10_000
# A step of the ramp is two real seconds.
SHORT: dict[str, dict[str, Any]] = {
    "ramp": {"shares": [1.0], "step_seconds": 60, "min_queries": 20},
}
# Its bandwidth for EBS (593 MiB/s) is no bound here, so that a plan finds a fill the quickest; r6i.large has 81 MiB/s.
INSTANCE_TYPE = "r6i.4xlarge"
# The base replica, and one by each way.
MAX_REPLICAS = 4

Say = Callable[[str], None]


class RunFailed(Exception):
    """A run of the bench did not end well; the message is its own."""


@dataclass(frozen=True)
class Stage:
    """A running cluster."""

    cloud: RunningCloud
    control: ControlPlane
    clock: CloudTime
    cluster: RunningCluster

    def let_runs(self, **prewarm: Any) -> None:
        """From now on the settings allow these of what `prewarm` allows, and nothing else."""
        _set(self.control, {"prewarm": {"direct_fill": False, "clone_mib_per_s": None, **prewarm}})

    def settle(self, **blocks: Mapping[str, Any]) -> None:
        """From now on these settings hold, each within its block."""
        _set(self.control, blocks)

    def on_source(self, statements: str) -> str:
        """What the source's server answers its administrator, a line a row. Raises BringUpError."""
        return self._asked(self.cluster.source_id, statements)

    def base_has_followed(self) -> None:
        """Until the base replica has what the source has now. Raises BringUpError, and RunFailed after a minute."""
        gtids = self.on_source("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')")
        wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', {FOLLOWS_WITHIN_SECONDS})"
        if self._asked(self.cluster.base_replica_id, wait) != "0":
            raise RunFailed(f"the base replica lacks some of {gtids} after {FOLLOWS_WITHIN_SECONDS} s")

    def _asked(self, instance_id: str, statements: str) -> str:
        script = (
            f"{AS_ROOT} --batch --skip-column-names {seed.Dataset().database} -e {shlex.quote(statements)}"
        )
        return Hosts(self.control.client("ssm")).script(instance_id, script).strip()

    def planned(self, ready_by: datetime | None) -> dict[str, Any]:
        """What a scale_out would do now. Raises RunFailed."""
        ended = self._ended("scale_out", {"mode": "plan", **_until(ready_by)}, lambda _: None)
        found: dict[str, Any] = ended.output
        return found

    def scale_out(self, ready_by: datetime | None, say: Say) -> dict[str, Any]:
        """A replica; the run's receipt. Raises RunFailed."""
        self._ended("scale_out", _until(ready_by), say)
        return self._newest_receipt()

    def scale_in(self, say: Say) -> dict[str, Any]:
        """One replica less; the run's receipt. Raises RunFailed."""
        self._ended("scale_in", {}, say)
        return self._newest_receipt()

    def failing_scale_out(self, say: Say) -> str:
        """The error that a run ended with. Raises RunFailed where it ended well."""
        ended = self._waited("scale_out", {}, say)
        if ended.failure is None:
            raise RunFailed(f"scale_out: {ended.status}, and was to fail")
        return ended.failure[0]

    def _newest_receipt(self) -> dict[str, Any]:
        return self.control.receipt(str(self.control.runs(CLUSTER, 1)[0]["run_id"]))

    def _ended(self, workflow: str, request: dict[str, Any], say: Say) -> Execution:
        ended = self._waited(workflow, request, say)
        if ended.status != "SUCCEEDED" or ended.is_refused:
            raise RunFailed(f"{workflow}: {ended.status}: {ended.failure_text or ended.output}")
        return ended

    def _waited(self, workflow: str, request: dict[str, Any], say: Say) -> Execution:
        arn = self.control.start(workflow, {"cluster": CLUSTER, **request})
        return self.control.wait(arn, LIMIT_SECONDS, say, poll_seconds=0.5)


def _set(control: ControlPlane, blocks: Mapping[str, Mapping[str, Any]]) -> None:
    ssm, name = control.client("ssm"), cluster_parameter(ENVIRONMENT, CLUSTER)
    settings: dict[str, Any] = json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    for block, values in blocks.items():
        settings[block] = {**settings[block], **values}
    ssm.put_parameter(Name=name, Value=json.dumps(settings), Overwrite=True)


def _until(ready_by: datetime | None) -> dict[str, str]:
    return {} if ready_by is None else {"ready_by": ready_by.isoformat()}


@contextmanager
def stage(state_dir: Path, store: str, say: Say) -> Iterator[Stage]:
    """A source and a base replica, and Peaker deployed; everything is gone at the end.

    `store` is a plugin of the local cloud: how quick what volumes are made from is.
    """
    ensure_image(MYSQL_IMAGE_ID, IMAGES)
    clean(state_dir)
    shutil.rmtree(state_dir, ignore_errors=True)
    state_dir.mkdir(parents=True)
    (state_dir / "images").symlink_to(IMAGES)
    os.environ[VARIABLE] = ",".join(("lab.plugin", store))
    try:
        kept = prepare(state_dir, say)
        templates = _synthesized(state_dir / "templates")
        with local_cloud(ROOT, state_dir, PORT) as cloud:
            control = ControlPlane(ENVIRONMENT, REGION, cloud.endpoint_url)
            say("deploying")
            deploy(templates, cloud.endpoint_url, progress=lambda _: None)
            settings = _settings(control)
            prepare_base = cloud.prepare_base(ENVIRONMENT, CLUSTER, REGION)
            cluster = bring_up(control.client, cloud.admin, settings, kept, prepare_base, say)
            _give_rights(control.client("iam"), settings["instance_profile"])
            cloud.load_steadily(settings["load_metric"], 140.0)
            cloud.set_clock(CLOCK_SCALE, datetime.now(UTC) + DAYS_AHEAD)
            dataset = seed.Dataset()
            readers = Endpoint(
                "127.0.0.1", cluster.listener_port, seed.APPLICATION_USER, seed.APPLICATION_PASSWORD,
                dataset.database, dataset.tables, WORKING_SET_ROWS,
            )  # fmt: skip
            with pooled_readers(readers, state_dir, READS_PER_S):
                yield Stage(cloud, control, CloudTime(state_dir / "clock.json"), cluster)
    finally:
        del os.environ[VARIABLE]
        clean(state_dir)
        (state_dir / "images").unlink(missing_ok=True)
        shutil.rmtree(state_dir)


def _give_rights(iam: Any, role: str) -> None:
    """What the set `host` has beyond the agent's calls where a cluster may be filled directly."""
    document = policy_document(fill_volumes(Names(load_environment(ENVIRONMENT))))
    iam.put_role_policy(RoleName=role, PolicyName="peaker-host", PolicyDocument=json.dumps(document))


def _settings(control: ControlPlane) -> dict[str, Any]:
    """The cluster's settings, deployed with SHORT."""
    ssm, name = control.client("ssm"), cluster_parameter(ENVIRONMENT, CLUSTER)
    settings: dict[str, Any] = json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    settings["instance_type"] = INSTANCE_TYPE
    settings["max_replicas"] = MAX_REPLICAS
    for block, values in SHORT.items():
        settings[block] = {**settings[block], **values}
    ssm.put_parameter(Name=name, Value=json.dumps(settings), Overwrite=True)
    return settings


def _synthesized(output: Path) -> Path:
    subprocess.run(
        [str(ROOT / "scripts" / "synth"), ENVIRONMENT, "--output", str(output)],
        check=True,
        capture_output=True,
    )
    return output
