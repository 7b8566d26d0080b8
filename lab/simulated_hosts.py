"""Hosts that answer Peaker's documents as healthy ones do, for a data plane that has no hosts.

A new host has nothing of Peaker's: no document runs before the host package came, and nothing answers the load
balancer's probe before `prepare_base` or `start_database` has started the responder. They live on the cloud's clock. A
prewarm reads at a steady rate and ends, a replica that starts to replicate is behind and catches up. What a document
prints is the contract with `peaker_host`; nothing of Peaker is imported here.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lab.rehearsed_hosts import rehearsal_answer
from localcloud.dataplane import RunResult
from localcloud.simulated.hosts import After

# Stands for an id of the host itself.
FROM_THE_HOST = "from the host"
DEFAULT_HEALTH_PORT = 9200
DONOR_UUID = "0d0d0d0d-0000-11f1-8000-000000000001"

# A document that is not here is done, and has no numbers to tell.
HEALTHY: Mapping[str, Mapping[str, Any]] = {
    "install_host_package": {"installed": True, "sha256": "ab" * 32},
    "prepare_base": {
        "changed": True,
        "steps": [
            {"name": name, "state": state, "detail": detail, "remedy": ""}
            for name, state, detail in (
                ("administrator", "done", "root@localhost logs in; /etc/peaker/admin.cnf written"),
                ("version", "already there", "8.4.3"),
                ("replication", "already there", "follows the source, read-only, lag 0 s"),
                ("health account", "already there", "/etc/peaker/health.cnf logs in"),
                ("health responder", "done", "peaker-health.service started on port 9200"),
                ("health answer", "already there", "answers 200: read only, replicating, in time"),
            )
        ],
    },
    # Where its volumes are mounted a host in memory does not say.
    "describe_base": {
        "engine": "mysql",
        "version": "8.4.3",
        "port": 3306,
        "binlog_expire_seconds": 604_800,
        "reads_per_second": 140.0,
        "busy_share": 0.2,
        "mounts": None,
        "unknown": {},
    },
    "prepare_donor": {
        "gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77",
        "lag_seconds": 0,
        "buffer_pool_pages": 812,
        "server_uuid": DONOR_UUID,
        "data_bytes": 3 * 1024**3,
    },
    "assemble_storage": {"members": [{"name": "data"}, {"name": "log"}], "bytes": 6 * 1024**3},
    "start_prewarm": {"pid": 4711, "already_running": False},
    "report_prewarm": {
        "state": "done",
        "blocks_done": 6144,
        "blocks_total": 6144,
        "bytes_read": 3 * 1024**3,
        "rate_mib_per_s": 250.0,
        "eta_seconds": 0,
        "elapsed_seconds": 12.3,
    },
    "verify_storage": {
        "verdict": "warm",
        "await_first_ms": 0.71,
        "await_second_ms": 0.7,
        "ratio": 1.01,
        "cold_share_upper": 0.01,
        "reason": "0 of 256 first reads were slow",
    },
    "start_database": {
        "server_uuid": FROM_THE_HOST,
        "server_id": 7,
        "read_only": True,
        "started_seconds": 1.4,
    },
    "start_replication": {"io_running": True, "sql_running": True, "source_checked": True},
    "wait_for_catch_up": {
        "samples": [{"lag_seconds": 0, "running": True, "gtid_behind": 0}] * 3,
        "gtid_behind_at_start": 12,
        "caught_up_seconds": 2.5,
    },
    "check_mounts": {
        "mounts": [
            {"name": "data", "mount_point": "/var/lib/mysql", "problem": ""},
            {"name": "log", "mount_point": "/var/lib/mysql-log", "problem": ""},
        ]
    },
    "load_buffer_pool": {"pages": 812, "seconds": 0.4, "page_list_found": True},
    "drain_replica": {
        "connections": 0,
        "transactions": 0,
        "running_statements": 0,
        "client_statements": 4711,
    },
    "measure_service": {
        "measurable": True,
        "queries": 5000,
        "errors": 0,
        "mean_ms": 0.41,
        "window_seconds": 2,
    },
    "stop_database": {
        "gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-99",
        "binlog_expire_seconds": 604_800,
        "stopped_seconds": 2.1,
    },
    "report_work": {"at_work": True},
    "set_maintenance": {"maintenance": "off"},
    "report_health": {
        "http_status": 200,
        "state": "good",
        "why": "in time",
        "lag_seconds": 0.0,
        "reads_per_second": 140.0,
    },
}


# What the shell of a document says where the host package was never installed.
NO_PACKAGE = RunResult(
    2,
    "",
    "python3: can't open file '/opt/peaker/current/peaker_host.pyz': [Errno 2] No such file or directory\n",
)
# These need no package of Peaker's on the host.
_WITHOUT_PACKAGE = ("report_work", "describe_base")
MIB = 1024 * 1024
BLOCKS_PER_MIB = 2


class Clock(Protocol):
    """The cloud's clock."""

    def epoch(self) -> float:
        """Cloud time in epoch seconds."""

    def real_seconds(self, cloud_seconds: float) -> float:
        """Returns the wall clock's seconds of cloud seconds."""


@dataclass(frozen=True)
class Pace:
    """The pace of hosts on the cloud's clock: a prewarm's rate, and a new replica's lag.

    `hot_share` of what is read is hot, and read first.
    """

    prewarm_mib: float = 3072.0
    rate_mib_per_s: float = 25.0
    behind_seconds: float = 120.0
    apply_speed: float = 4.0
    hot_share: float = 0.1

    @property
    def prewarm_seconds(self) -> float:
        return self.prewarm_mib / self.rate_mib_per_s

    @property
    def hot_seconds(self) -> float:
        """Returns the seconds until a database may start."""
        return self.hot_share * self.prewarm_seconds


@dataclass(frozen=True)
class Answer:
    """A document's result without its envelope, and the cloud seconds that it takes."""

    result: Mapping[str, Any]
    after_seconds: float = 0.0


class SimulatedAnswers:
    """The responder of a simulated data plane; every host is healthy. With `bare` hosts begin without the package."""

    def __init__(self, clock: Clock, pace: Pace | None = None, bare: bool = True) -> None:
        self._clock = clock
        self._pace = pace or Pace()
        self._prewarms: dict[tuple[str, str], float] = {}
        self._replicating: dict[str, float] = {}
        self._databases: set[str] = set()
        self._bare = bare
        self._packages: set[str] = set()
        # The port at which each listens.
        self._responders: dict[str, int] = {}
        # Documents that hosts had begun when they went down.
        self._begun: set[tuple[str, str]] = set()
        self._lost: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def answers_probes(self, instance_id: str, port: int) -> bool:
        """Tells whether the health responder was started on this host, and listens at this port."""
        return self._responders.get(instance_id) == port

    def went_down(self, instance_id: str) -> None:
        """The host goes down: nobody works on what it had begun, and its prewarm has ended."""
        with self._lock:
            self._lost |= {one for one in self._begun if one[0] == instance_id}
            self._prewarms = {key: at for key, at in self._prewarms.items() if key[0] != instance_id}
            self._databases.discard(instance_id)

    def __call__(
        self, instance_id: str, argv: Sequence[str], environment: Mapping[str, str]
    ) -> RunResult | After:
        document = document_of(argv[-1])
        if document is None:
            return self._other_script(instance_id, argv, environment)
        missing = without_a_parameter(argv[-1], environment)
        if missing is not None:
            return missing
        with self._lock:
            if document == "install_host_package":
                self._packages.add(instance_id)
            if document not in _WITHOUT_PACKAGE and self._bare and instance_id not in self._packages:
                return NO_PACKAGE
        answer = self.answer(document, instance_id, environment)
        with self._lock:
            self._begun.add((instance_id, document))
            self._lost.discard((instance_id, document))
        return After(self._clock.real_seconds(answer.after_seconds), as_run_result(document, answer.result))

    def _other_script(
        self, instance_id: str, argv: Sequence[str], environment: Mapping[str, str]
    ) -> RunResult | After:
        """Answers a script that belongs to no document, as those of a rehearsal."""
        if found := re.search(r"http\.server (\d+)", argv[-1]):
            self._responders[instance_id] = int(found[1])
        return rehearsal_answer(argv, environment)

    def answer(self, document: str, instance_id: str, environment: Mapping[str, str]) -> Answer:
        """Returns the host's answer to a document of Peaker's; parameters are the variables SSM_<name>."""
        with self._lock:
            run_id = environment.get("SSM_RunId", "")
            if document == "report_work":
                asked = (instance_id, environment.get("SSM_Command", ""))
                return Answer({"at_work": asked not in self._lost})
            if document == "prepare_base":
                return self._prepare_base(instance_id, environment)
            if document == "stop_database":
                self._databases.discard(instance_id)
            if document == "verify_storage":
                return Answer({**HEALTHY[document], "mounted": instance_id in self._databases})
            if document == "start_prewarm":
                return self._start_engine(instance_id, run_id)
            if document == "report_prewarm":
                return self._report_prewarm(instance_id, run_id)
            if document == "start_database":
                self._responders[instance_id] = health_port(environment)
                self._databases.add(instance_id)
            if document == "start_replication":
                self._replicating.setdefault(instance_id, self._clock.epoch())
            if document == "wait_for_catch_up":
                return self._wait_for_catch_up(instance_id)
            if document == "report_health":
                lag = round(self._lag_seconds(instance_id), 1)
                return Answer({**HEALTHY[document], "lag_seconds": lag})
            return Answer(own(HEALTHY.get(document, {}), instance_id))

    def _prepare_base(self, instance_id: str, environment: Mapping[str, str]) -> Answer:
        mode = environment.get("SSM_Mode", "prepare")
        first, prepared = HEALTHY["prepare_base"], instance_id in self._responders
        there = [{**step, "state": "already there"} for step in first["steps"]]
        own = {"server_id": int(instance_id[-6:], 16), "source_host": "10.77.1.10"}
        if mode == "check" and not prepared:
            missing = {"detail": "is not made", "remedy": "run peaker prepare-base for this instance"}
            undone = [
                {**step, "state": "refused", **missing} for step in first["steps"] if step["state"] == "done"
            ]
            steps = [*(step for step in first["steps"] if step["state"] != "done"), *undone]
            return Answer(
                {"ok": False, "error": "BaseNotPrepared", "message": "refused", "steps": steps, **own}
            )
        if mode == "check":
            return Answer({"changed": False, "steps": there, **own})
        self._responders[instance_id] = health_port(environment)
        return Answer({"changed": False, "steps": there} if prepared else first)

    def _start_engine(self, instance_id: str, run_id: str) -> Answer:
        running = (instance_id, run_id) in self._prewarms
        self._prewarms.setdefault((instance_id, run_id), self._clock.epoch())
        return Answer({**HEALTHY["start_prewarm"], "already_running": running})

    def _report_prewarm(self, instance_id: str, run_id: str) -> Answer:
        started = self._prewarms.get((instance_id, run_id))
        if started is None:
            return Answer({"state": "dead", "message": "no engine was started for this run"})
        return Answer(prewarm_report(self._pace, self._clock.epoch() - started))

    def _wait_for_catch_up(self, instance_id: str) -> Answer:
        lag = self._lag_seconds(instance_id)
        left = lag / (self._pace.apply_speed - 1)
        result = {**HEALTHY["wait_for_catch_up"], "caught_up_seconds": round(left, 1)}
        return Answer(result, after_seconds=left)

    def _lag_seconds(self, instance_id: str) -> float:
        started = self._replicating.get(instance_id)
        if started is None:
            return 0.0
        applied = (self._clock.epoch() - started) * (self._pace.apply_speed - 1)
        return max(0.0, self._pace.behind_seconds - applied)


def prewarm_report(pace: Pace, elapsed_seconds: float) -> dict[str, Any]:
    """Returns report_prewarm's output so long after the engine's start."""
    elapsed = min(elapsed_seconds, pace.prewarm_seconds)
    done = elapsed >= pace.prewarm_seconds
    read_mib = pace.rate_mib_per_s * elapsed
    return {
        "state": "done" if done else "running",
        "blocks_done": int(read_mib * BLOCKS_PER_MIB),
        "blocks_total": int(pace.prewarm_mib * BLOCKS_PER_MIB),
        "bytes_read": int(read_mib * MIB),
        "rate_mib_per_s": pace.rate_mib_per_s,
        "eta_seconds": round(pace.prewarm_seconds - elapsed, 1),
        "elapsed_seconds": round(elapsed, 1),
        "hot_warm_seconds": round(pace.hot_seconds, 1) if elapsed >= pace.hot_seconds else None,
        "hot_eta_seconds": round(max(0.0, pace.hot_seconds - elapsed), 1),
    }


def health_port(environment: Mapping[str, str]) -> int:
    """Returns the responder's port: its document's, else the host package's default."""
    return int(environment.get("SSM_HealthPort", DEFAULT_HEALTH_PORT))


def own(result: Mapping[str, Any], instance_id: str) -> dict[str, Any]:
    """A healthy answer with what is a host's own."""
    if result.get("server_uuid") == FROM_THE_HOST:
        return {**result, "server_uuid": f"uuid-of-{instance_id}"}
    return dict(result)


def as_run_result(document: str, result: Mapping[str, Any]) -> RunResult:
    """The output of a host command: its last line is the result as JSON."""
    envelope = {"version": 1, "command": document, "ok": True, **result}
    return RunResult(0 if envelope["ok"] else 1, f"progress\n{json.dumps(envelope)}\n", "")


def without_a_parameter(script: str, environment: Mapping[str, str]) -> RunResult | None:
    """Returns the shell's failure under `set -u` where an old agent set no variable for the first parameter
    that is used.
    """
    unset = next(
        (one for one in re.findall(r"\$\{?(SSM_\w+)\b(?!-)", script) if one not in environment), None
    )
    return None if unset is None else RunResult(2, "", f"_script.sh: 3: {unset}: parameter not set\n")


def document_of(script: str) -> str | None:
    """Returns the Peaker document that a step's script belongs to; None for anybody else's script."""
    found = re.search(r"peaker_host\.pyz (?:\\\n\s*)?([a-z_]+)", script)
    if found and found.group(1) in HEALTHY:
        return found.group(1)
    if "SSM_Command" in script:
        return "report_work"
    if "peaker_host.donor.describe_base" in script:
        return "describe_base"
    return "install_host_package" if "SSM_PackageUrl" in script else None
