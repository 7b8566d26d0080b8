"""Faults on a serving replica under load: how soon the endpoint stops sending to it, and what clients notice.

Each is made on the host as an operator could, and taken back. The cloud's clock runs at the real pace meanwhile, so
that the health interval is the target group's own (10 s), as on AWS.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.traffic.clients import POOLS, PoolKind, Read, ReaderProcess, connect, query_one
from bench.traffic.cluster import Say, Stage, run_workflow
from bench.traffic.figures import Detection, detect
from lab.cluster import Hosts
from lab.endpoint import Endpoint

# A new connection ten times a second shows to the tenth of a second where the endpoint sends.
SCOUTS = PoolKind("scouts", 3, 0.0, 0.2, tests_idle=False)
CALM_SECONDS, AFTER_SECONDS, LIMIT_SECONDS = 5.0, 15.0, 90.0
_ADMIN = "mysql --defaults-extra-file=/etc/peaker/admin.cnf"


@dataclass(frozen=True)
class Fault:
    """A way to break a replica, and what mends it; shell scripts that run on its host."""

    name: str
    breaks: str
    mends: str


@dataclass(frozen=True)
class FaultRound:
    """One fault, what the readers noticed, and why the health responder said that it is bad."""

    detection: Detection
    reason: str


FAULTS = (
    Fault(
        "replication broken",
        f"{_ADMIN} -e 'STOP REPLICA SQL_THREAD'",
        f"{_ADMIN} -e 'START REPLICA'",
    ),
    Fault(
        "lag",
        f"{_ADMIN} -e 'STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY=3600; START REPLICA'",
        f"{_ADMIN} -e 'STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY=0; START REPLICA'",
    ),
    Fault(
        "disk full",
        "fallocate -l $(($(stat -f -c '%a * %S' /var/lib/mysql-log) - (16 << 20))) /var/lib/mysql-log/full",
        "rm -f /var/lib/mysql-log/full",
    ),
    Fault(
        "network cut",
        "ip link set eth0 down",
        "ip link set eth0 up && ip route add default via 10.77.0.1 || true",
    ),
    Fault("mysqld killed", "pkill -9 -x mysqld", "systemctl start mysql"),
)


def break_things(stage: Stage, say: Say, faults: Sequence[Fault] = FAULTS) -> list[FaultRound]:
    """Each fault once on a peak replica that a scale_out puts into service beside the base replica."""
    with ReaderProcess(stage.readers):
        status, _, _ = run_workflow(stage, "scale_out", {"reason": "bench: a replica to break"}, 300)
    if not status.startswith("SUCCEEDED"):
        raise RuntimeError(f"scale_out: {status}")
    replicas = stage.replicas()
    victim = next(one for one in replicas if one != stage.cluster.base_replica_id)
    stage.cloud.set_clock(1.0)
    try:
        return [_once(stage, fault, victim, replicas[victim], say) for fault in faults]
    finally:
        stage.cloud.set_clock(30.0)


def _once(stage: Stage, fault: Fault, victim: str, address: str, say: Say) -> FaultRound:
    hosts = Hosts(stage.control.client("ssm"))
    server = _server_uuid(stage, address)
    interval = _interval_seconds(stage)
    _await_state(stage, victim, healthy=True)
    with ReaderProcess(stage.readers, (*POOLS, SCOUTS)) as readers:
        time.sleep(CALM_SECONDS)
        broken_at = time.time()
        hosts.script(victim, fault.breaks)
        try:
            _await_state(stage, victim, healthy=False)
            time.sleep(AFTER_SECONDS)
            reason = _why(address)
            ended_at = time.time()
            traffic = readers.stop()
        finally:
            hosts.script(victim, fault.mends)
    gate = float(stage.settings["gates"]["lag_seconds"])
    began_at = _passed_gate(traffic.reads, server, gate, broken_at) if fault.name == "lag" else broken_at
    window = (began_at, ended_at)
    seen = detect(fault.name, server, window, traffic.reads, traffic.attempts, interval, gate)
    say(f"{fault.name}: detected after {seen.seconds:.1f} s, {seen.intervals:.2f} intervals; {reason}")
    return FaultRound(seen, reason)


def _passed_gate(reads: Sequence[Read], server: str, gate_seconds: float, after: float) -> float:
    """When that server's answers were first staler than the gate."""
    stale = [
        r.sent_at
        for r in reads
        if r.server == server and r.sent_at > after and (r.stale_seconds or 0) > gate_seconds
    ]
    return min(stale, default=after)


def _server_uuid(stage: Stage, address: str) -> str:
    readers = stage.readers
    direct = Endpoint(
        address, 3306, readers.user, readers.password, readers.database, readers.tables, readers.table_size
    )
    connection = connect(direct)
    try:
        return str(query_one(connection, "SELECT @@server_uuid"))
    finally:
        connection.close()


def _interval_seconds(stage: Stage) -> float:
    arn = stage.cluster.target_group_arn
    groups: Any = stage.control.client("elbv2").describe_target_groups(TargetGroupArns=[arn])["TargetGroups"]
    return float(groups[0]["HealthCheckIntervalSeconds"])


def _await_state(stage: Stage, instance_id: str, *, healthy: bool) -> None:
    elbv2, deadline = stage.control.client("elbv2"), time.monotonic() + LIMIT_SECONDS
    state = ""
    while time.monotonic() < deadline:
        answer = elbv2.describe_target_health(
            TargetGroupArn=stage.cluster.target_group_arn, Targets=[{"Id": instance_id}]
        )
        state = answer["TargetHealthDescriptions"][0]["TargetHealth"]["State"]
        if (state == "healthy") is healthy:
            return
        time.sleep(0.2)
    raise RuntimeError(f"{instance_id} is {state} after {LIMIT_SECONDS:.0f} s, healthy should be {healthy}")


def _why(address: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}:9200/health", timeout=2) as answer:
            body = json.load(answer)
    except urllib.error.HTTPError as error:
        body = json.load(error)
    except OSError as error:
        return f"no answer ({error})"
    return str(body.get("why"))
