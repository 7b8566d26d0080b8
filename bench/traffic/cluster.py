"""The cluster under test: a local cloud with Peaker deployed, a source and one base replica, and steady demand."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from peaker_cli.control_plane import ControlPlane

from bench.traffic.clients import NICENESS, POOLS, processors
from lab import seed
from lab.cluster import Hosts, RunningCluster, bring_up
from lab.endpoint import Endpoint
from lab.local_cloud import CloudTime, RunningCloud, await_end_of_earlier, local_cloud
from lab.prepare import prepare
from localcloud.cleanup import clean
from localcloud.deploy import deploy
from peaker_contract.catalogue import state_of
from peaker_contract.errors import LeaseHeld
from peaker_contract.names import cluster_parameter

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".localcloud"
ENVIRONMENT, CLUSTER, REGION = "local", "orders", "us-east-1"
PORT = 4566
HISTORY_DAYS = 28
# Cloud seconds per real second while workflows run: their waits shrink, the data plane's work does not.
WORKFLOW_SCALE = 30.0
# Short, because the cloud's clock runs faster than MySQL: a step is two real seconds.
SETTINGS = {
    "ramp": {"shares": [0.3, 1.0], "step_seconds": 60},
    "retirement": {"idle_seconds": 60, "park": "never"},
}
# A warm function reads its settings anew after a minute (adapters/ssm/clusters.py).
SETTINGS_KEPT_SECONDS = 61.0
# 2.3 GiB beside the demonstration's dataset: with less the steps that move no data would hide what a prewarm takes.
HISTORY_ROWS = 300_000
_HISTORY = f"""
mysql --defaults-extra-file=/etc/peaker/admin.cnf <<'SQL'
SET SESSION sql_log_bin = 0;
SET GLOBAL super_read_only = OFF;
CREATE DATABASE history;
CREATE TABLE history.pages (id INT PRIMARY KEY, filler VARBINARY(7600) NOT NULL);
SET SESSION cte_max_recursion_depth = {HISTORY_ROWS};
INSERT INTO history.pages
    WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {HISTORY_ROWS})
    SELECT id, REPEAT('h', 7600) FROM n;
SET GLOBAL super_read_only = ON;
SQL
"""
# Of each table, what the readers ask for: it fits the buffer pool, so that latency shows who serves and not the disk
# that all volumes of this machine share. A newcomer has it in memory only when its buffer pool was loaded.
WORKING_SET_ROWS = 10_000
SERVING_PROCESSES = ("mysqld", "haproxy")
VOLUME_STORE = "coldvol"
# What the pools ask for, in queries per second: each of their connections queries once per pause.
OFFERED_QUERIES_PER_S = sum(pool.size / pool.pause_seconds for pool in POOLS)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """A running cluster and the ways to reach it."""

    cloud: RunningCloud
    control: ControlPlane
    cluster: RunningCluster
    clock: CloudTime
    readers: Endpoint
    readers_first: ReadersFirst

    @property
    def settings(self) -> dict[str, Any]:
        """The cluster's settings as deployed."""
        parameter = self.control.client("ssm").get_parameter(Name=_parameter())
        settings: dict[str, Any] = json.loads(parameter["Parameter"]["Value"])
        return settings

    def change_settings(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Deploy other values of some blocks: `{"retirement": {"park": "always"}}`; returns when they are in use."""
        before, settings = self.settings, self.settings
        for block, values in changes.items():
            settings[block] = {**settings[block], **values}
        if settings == before:
            return
        self.control.client("ssm").put_parameter(
            Name=_parameter(), Value=json.dumps(settings), Overwrite=True
        )
        time.sleep(SETTINGS_KEPT_SECONDS)

    def replicas(self) -> dict[str, str]:
        """Addresses of the replicas that run, by instance id."""
        filters = [
            {"Name": "tag:peaker:cluster", "Values": [CLUSTER]},
            {"Name": "tag:peaker:role", "Values": ["replica"]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        found = self.control.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return {one["InstanceId"]: one["PrivateIpAddress"] for entry in found for one in entry["Instances"]}


@contextmanager
def stage(scale: float, say: Say) -> Iterator[Stage]:
    """A deployed cluster with demand; everything is gone at the end, also of an earlier run that was killed."""
    await_end_of_earlier(STATE)
    for line in clean(STATE):
        say(f"left by an earlier run, removed: {line}")
    kept = prepare(STATE, say)
    templates = _synthesize(say)
    with local_cloud(ROOT, STATE, PORT) as cloud:
        control = ControlPlane(ENVIRONMENT, REGION, cloud.endpoint_url)
        say("deploying")
        deploy(templates, cloud.endpoint_url, progress=lambda _: None)
        parameter = control.client("ssm").get_parameter(Name=_parameter())
        settings = json.loads(parameter["Parameter"]["Value"])
        prepare_base = cloud.prepare_base(ENVIRONMENT, CLUSTER, REGION)
        cluster = bring_up(control.client, cloud.admin, settings, kept, prepare_base, say)
        say("the base replica's history: some three minutes")
        Hosts(control.client("ssm")).script(cluster.base_replica_id, _HISTORY)
        start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=1)
        _load_history(cloud, settings["load_metric"], start)
        cloud.set_clock(scale, start)
        dataset = seed.Dataset()
        readers = Endpoint(
            "127.0.0.1", cluster.listener_port, seed.APPLICATION_USER, seed.APPLICATION_PASSWORD,
            dataset.database, dataset.tables, WORKING_SET_ROWS,
        )  # fmt: skip
        clock = CloudTime(STATE / "clock.json")
        readers_first = ReadersFirst(cloud.process.pid)
        readers_first.start()
        try:
            yield Stage(cloud, control, cluster, clock, readers, readers_first)
        finally:
            readers_first.stop()


class ReadersFirst(threading.Thread):
    """Gives each side its own processors, and MySQL the processor before the local cloud's control plane.

    On AWS the base replica, a newcomer that prewarms and starts, and the workflows' functions are machines of their
    own. Here they share one, and without this the latency of reads would show a neighbour that starts: what serves
    when the bench begins keeps the first half of the processors, everything that comes later has the others, and
    there the control plane gets what the servers leave. A newcomer's MySQL has the first half too from its
    registration until it is drained: no machine of its own would run the functions that watch it.
    """

    def __init__(self, control_plane_pid: int) -> None:
        super().__init__(name="readers-first", daemon=True)
        self._control_plane = control_plane_pid
        self._stopping = threading.Event()
        self._newcomers_serve = False
        self._drains = False

    def run(self) -> None:
        first = self._part()
        while not self._stopping.wait(0.25):
            for process in Path("/proc").glob("[0-9]*"):
                if process.name not in first and _name_of(process) in SERVING_PROCESSES:
                    _for_each_thread(process, self._take_newcomer)

    def _part(self) -> set[str]:
        """Give each side its processors, and return what serves from the beginning, by process id."""
        serving, others = processors()
        first: set[str] = set()
        # What the control plane starts from now on inherits both; the servers among that are preferred again later.
        _for_each_thread(Path("/proc/self"), lambda thread: os.sched_setaffinity(thread, others))
        for process in Path("/proc").glob("[0-9]*"):
            if _is_python_of(process, self._control_plane):
                _for_each_thread(process, _only_when_idle)
                _for_each_thread(process, lambda thread: os.sched_setaffinity(thread, others))
            elif _name_of(process).startswith(VOLUME_STORE):
                _for_each_thread(process, lambda thread: os.sched_setaffinity(thread, others))
            elif _name_of(process) in SERVING_PROCESSES:
                first.add(process.name)
                _for_each_thread(process, lambda thread: os.sched_setaffinity(thread, serving))
        return first

    def _take_newcomer(self, thread: int) -> None:
        serving, others = processors()
        _before_others(thread)
        os.sched_setaffinity(thread, serving if self._newcomers_serve else others)

    def entered(self, state: str) -> None:
        """Follow a workflow: a newcomer serves once it registers, and no more once it is drained."""
        if state == state_of("register_replica"):
            self._newcomers_serve = True
        elif self._drains and state != state_of("drain_replica"):
            self._newcomers_serve = False
        self._drains = state == state_of("drain_replica")

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self.join(5)


def _name_of(process: Path) -> str:
    # A process may end between the listing and the look.
    with contextlib.suppress(OSError):
        return (process / "comm").read_text().strip()
    return ""


def _is_python_of(process: Path, ancestor: int) -> bool:
    """The local cloud's server, and the functions' workers that it started."""
    with contextlib.suppress(OSError):
        parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
        return str(ancestor) in (process.name, parent) and _name_of(process).startswith("python")
    return False


def _for_each_thread(process: Path, change: Callable[[int], None]) -> None:
    """Each thread has a priority of its own; those that it starts later inherit it."""
    with contextlib.suppress(OSError):
        for thread in (process / "task").iterdir():
            change(int(thread.name))


def _only_when_idle(thread: int) -> None:
    os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def _before_others(thread: int) -> None:
    os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, thread, NICENESS)


def _parameter() -> str:
    return cluster_parameter(ENVIRONMENT, CLUSTER)


def _load_history(cloud: RunningCloud, metric: Mapping[str, Any], start: datetime) -> None:
    period = timedelta(seconds=int(metric["period_seconds"]))
    count = timedelta(days=HISTORY_DAYS) // period
    points = [[(start - period * (count - i)).isoformat(), OFFERED_QUERIES_PER_S] for i in range(count)]
    wanted = {key: metric[key] for key in ("namespace", "name", "dimensions")}
    cloud.admin("metrics/history", wanted | {"points": points})


def _synthesize(say: Say) -> Path:
    say("synthesizing environments/local.yaml")
    output = ROOT / "cdk.out" / ENVIRONMENT
    subprocess.run(
        [str(ROOT / "scripts" / "synth"), ENVIRONMENT, "--output", str(output)],
        check=True,
        capture_output=True,
    )
    return output


def run_workflow(
    stage_: Stage, workflow: str, request: Mapping[str, Any], limit_seconds: float
) -> tuple[str, dict[str, float], float]:
    """Start a workflow by hand and follow it; returns (status and cause, first entry of each state, end).

    Times are epoch seconds as seen from here, four looks a second. When a scheduled run holds the lease for a
    moment it is started again, as a person would.
    """
    for _ in range(10):
        arn = stage_.control.start(workflow, {"cluster": CLUSTER, **request})
        entered: dict[str, float] = {}

        def note(state: str, entered: dict[str, float] = entered) -> None:
            entered.setdefault(state, time.time())
            stage_.readers_first.entered(state)

        execution = stage_.control.wait(arn, limit_seconds, note, poll_seconds=0.25)
        if not execution.is_refused or execution.output["error"] != LeaseHeld.__name__:
            break
        time.sleep(1.0)
    if execution.is_refused:
        return f"REFUSED {execution.output['error']}: {execution.output['reason']}", entered, time.time()
    cause = "" if execution.failure is None else f" {execution.failure[0]}: {execution.failure[1]}"
    return execution.status + cause, entered, time.time()
