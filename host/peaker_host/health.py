"""Answers the load balancer's question: may this replica get connections?

200 after enough good samples in a row, 503 after enough bad ones or without a recent one, 404 while maintenance is on.
A sample that could not be taken, a lag that is NULL and a source that was not heard of are bad: unknown is not healthy.
The body says why.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional, Tuple

from peaker_host.errors import HostError
from peaker_host.files import write_atomically
from peaker_host.gtid_sets import count_missing
from peaker_host.health_policy import HealthPolicy, load_policy
from peaker_host.manifest import present_manifest
from peaker_host.mysql_client import MysqlClient
from peaker_host.replica_status import DIALECTS, ReplicaStatus, read_status
from peaker_host.settings import Settings

SAMPLE_SECONDS = 1.0
STALE_SECONDS = 5.0
# The source says that it is there at least this often (see replication.HEARTBEAT_PERIOD_SECONDS); one may be lost.
SILENCE_LIMIT_SECONDS = 3.0
_QUERY_TIMEOUT_SECONDS = 3.0
# Times that MySQL has not seen yet are 0000-00-00; the first transaction that is not applied is in the hands of the
# coordinator (while it is delayed) or of a worker.
_MYSQL_PROGRESS = {
    "received": "(SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status LIMIT 1)",
    "executed": "@@GLOBAL.gtid_executed",
    "contact_age_seconds": (
        "(SELECT TIMESTAMPDIFF(MICROSECOND, GREATEST(LAST_HEARTBEAT_TIMESTAMP,"
        " LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP), NOW(6)) / 1e6"
        " FROM performance_schema.replication_connection_status LIMIT 1)"
    ),
    "waiting_seconds": (
        "(SELECT MAX(seconds) FROM ("
        "SELECT TIMESTAMPDIFF(MICROSECOND, APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP, NOW(6)) / 1e6 AS seconds"
        " FROM performance_schema.replication_applier_status_by_worker"
        " WHERE APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP > '2000-01-01'"
        " UNION ALL "
        "SELECT TIMESTAMPDIFF(MICROSECOND, PROCESSING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP, NOW(6)) / 1e6"
        " FROM performance_schema.replication_applier_status_by_coordinator"
        " WHERE PROCESSING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP > '2000-01-01') AS unapplied)"
    ),
}


@dataclass(frozen=True)
class Sample:
    """One look at the replica. `problem` is empty when it is good; what is None is not known.

    `lag_seconds` is the greater of what the server says and of the age of the first transaction that is not applied.
    """

    problem: str
    lag_seconds: Optional[float]
    transactions_behind: Optional[int] = None
    source_silent_seconds: Optional[float] = None
    free_disk_percent: Optional[float] = None


class HealthState:
    """Samples in a row, and the latest one. Pure: times are arguments (monotonic seconds)."""

    def __init__(self, good_samples: int, bad_samples: int) -> None:
        self._needed = {True: good_samples, False: bad_samples}
        self._is_good = False
        self._in_a_row = {True: 0, False: 0}
        self._latest: Optional[Sample] = None
        self._taken_at = 0.0
        self._lock = threading.Lock()

    def add(self, sample: Sample, now: float) -> None:
        """Take in a sample; it turns the answer when enough of its kind came in a row."""
        with self._lock:
            kind = not sample.problem
            self._in_a_row = {kind: self._in_a_row[kind] + 1, not kind: 0}
            if self._in_a_row[kind] >= self._needed[kind]:
                self._is_good = kind
            self._latest, self._taken_at = sample, now

    def answer(self, maintenance: bool, now: float) -> Tuple[int, Dict[str, Any]]:
        """HTTP status and JSON body."""
        with self._lock:
            latest, age, is_good = self._latest, now - self._taken_at, self._is_good
            in_a_row = dict(self._in_a_row)
        if maintenance:
            return 404, {"state": "maintenance", "why": "maintenance is on"}
        if latest is None:
            return 503, {"state": "bad", "why": "no sample yet"}
        body: Dict[str, Any] = {name: value for name, value in asdict(latest).items() if name != "problem"}
        body.update(
            good_samples=in_a_row[True], bad_samples=in_a_row[False], sample_age_seconds=round(age, 1)
        )
        if age > STALE_SECONDS:
            return 503, dict(body, state="bad", why=f"the last sample is {age:.1f} s old")
        if is_good:
            once = f" (the last sample was not: {latest.problem})" if latest.problem else ""
            return 200, dict(body, state="good", why=f"read only, replicating, lag under its limit{once}")
        if latest.problem:
            return 503, dict(body, state="bad", why=latest.problem)
        return 503, dict(body, state="bad", why=f"{in_a_row[True]} of {self._needed[True]} good samples")


def take_sample(
    client: MysqlClient, engine: str, policy: HealthPolicy, free_disk_percent: Dict[str, float]
) -> Sample:
    """Ask the server: read only, both threads, lag, word from the source; and is there room on its disks.

    Anything else than clear good news is a problem. `free_disk_percent` is by mount point.
    """
    least = min(free_disk_percent.values(), default=None)
    progress = _MYSQL_PROGRESS if engine == "mysql" else {}
    questions = {"read_only": DIALECTS[engine].read_only_expression, **progress}
    try:
        facts = client.json(questions, _QUERY_TIMEOUT_SECONDS)
        status = read_status(client, engine, _QUERY_TIMEOUT_SECONDS)
    except (HostError, ValueError, KeyError, IndexError) as error:
        return Sample(f"the database did not answer: {error}", None, free_disk_percent=least)
    behind, silent = _behind(facts), _seconds(facts.get("contact_age_seconds"))
    lag = _lag(status, facts, behind)
    problems = [
        "" if int(facts["read_only"]) else "the database accepts writes",
        _thread_problem(status),
        _lag_problem(lag, policy),
        _silence_problem(silent) if engine == "mysql" else "",
        _disk_problem(free_disk_percent, policy),
    ]
    return Sample(next((text for text in problems if text), ""), lag, behind, silent, least)


def _behind(facts: Dict[str, Any]) -> Optional[int]:
    """Transactions that were received and are not applied; None where the engine does not tell."""
    if facts.get("received") is None or facts.get("executed") is None:
        return None
    return count_missing(_one_line(facts["received"]), _one_line(facts["executed"]))


def _lag(status: Optional[ReplicaStatus], facts: Dict[str, Any], behind: Optional[int]) -> Optional[float]:
    """The server's own figure is NULL or too small while a transaction is delayed or large: its age counts then."""
    if status is None or status.lag_seconds is None:
        return None
    waiting = _seconds(facts.get("waiting_seconds")) if behind else None
    return max(float(status.lag_seconds), waiting or 0.0)


def _thread_problem(status: Optional[ReplicaStatus]) -> str:
    if status is None:
        return "no replication channel"
    if not status.io_running:
        return f"the receiver thread does not run: {status.io_error}"
    if not status.sql_running:
        return f"the applier thread does not run: {status.sql_error}"
    return ""


def _lag_problem(lag_seconds: Optional[float], policy: HealthPolicy) -> str:
    if lag_seconds is None:
        return "the lag is unknown"
    if lag_seconds > policy.lag_seconds:
        return f"lag {lag_seconds:.1f} s is over {policy.lag_seconds:g} s"
    return ""


def _silence_problem(silent_seconds: Optional[float]) -> str:
    if silent_seconds is None:
        return "the source was not heard of yet"
    if silent_seconds > SILENCE_LIMIT_SECONDS:
        return f"the source was not heard of for {silent_seconds:.1f} s"
    return ""


def _disk_problem(free_disk_percent: Dict[str, float], policy: HealthPolicy) -> str:
    for mount_point, percent in sorted(free_disk_percent.items()):
        if percent < policy.min_free_disk_percent:
            return f"{percent:.1f} % of {mount_point} is free, {policy.min_free_disk_percent:g} % needed"
    return ""


def _seconds(value: Any) -> Optional[float]:
    return None if value is None else round(float(value), 3)


def _one_line(text: Any) -> str:
    return str(text).replace("\n", "")


def free_disk_percents(mount_points: List[str]) -> Dict[str, float]:
    """Free space for the server per mount point, in percent of the file system."""
    found = {}
    for mount_point in mount_points:
        space = os.statvfs(mount_point)
        found[mount_point] = round(100.0 * space.f_bavail / space.f_blocks, 2) if space.f_blocks else 0.0
    return found


def serve(
    settings: Settings, client: MysqlClient, port: int, stop: threading.Event, address: str = "0.0.0.0"
) -> ThreadingHTTPServer:
    """Start sampling and answering in threads of their own; returns the server (its port when 0 was asked)."""
    policy = load_policy(settings)
    state = HealthState(policy.good_samples, policy.bad_samples)
    server = _Server((address, port), _handler(state, settings.maintenance_path))
    sampler = threading.Thread(
        target=_sample_forever,
        args=(state, lambda: take_sample(client, settings.engine, policy, _room(settings)), stop),
        daemon=True,
    )
    sampler.start()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
    return server


def _room(settings: Settings) -> Dict[str, float]:
    """Of the volumes that this host's storage was assembled from; of the data directory where none was."""
    try:
        mount_points = [member.mount_point for member in present_manifest(settings).members]
    except HostError:
        mount_points = [settings.datadir]
    return free_disk_percents([one for one in mount_points if os.path.isdir(one)])


def set_maintenance(settings: Settings, on: bool) -> Dict[str, Any]:
    """Turn maintenance on or off; saying it twice changes nothing."""
    path = settings.maintenance_path
    was = os.path.exists(path)
    if on and not was:
        write_atomically(path, "on\n")
    elif not on and was:
        os.unlink(path)
    return {"maintenance": "on" if on else "off", "changed": on != was}


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True


def _sample_forever(state: HealthState, take: Callable[[], Sample], stop: threading.Event) -> None:
    while not stop.is_set():
        state.add(take(), time.monotonic())
        stop.wait(SAMPLE_SECONDS)


def _handler(state: HealthState, maintenance_path: str) -> type:
    class Handler(BaseHTTPRequestHandler):
        """Every path gets the same answer."""

        def do_GET(self) -> None:
            """Answer a probe."""
            status, body = state.answer(os.path.exists(maintenance_path), time.monotonic())
            content = json.dumps(body).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Probes come every few seconds from several places; they are not logged."""

    return Handler
