"""One look at the replica, and what is wrong with it: a fault, or lag alone.

Lag alone can be forgiven while too few replicas are good (serving_floor); a fault never can. A server that has no place
for one more connection was not looked at: it is full. A source that cannot be reached is no fault of this replica's,
and all replicas have it at once: it counts as lag, as old as the last word of the source. What is not known is said as
None and listed in `unknown`; an unknown lag is a fault.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from peaker_host.database.mysql_client import LOGIN_REFUSED, MysqlClient, is_from_server
from peaker_host.database.replica_status import (
    DIALECTS,
    ReplicaStatus,
    count_missing,
    count_missing_mariadb,
    status_from,
)
from peaker_host.health.policy import HealthPolicy
from peaker_host.machine.errors import MISFITS, HostError
from peaker_host.machine.manifest import present_manifest
from peaker_host.machine.settings import Settings

FAULT, LAG, FULL = "fault", "lag", "full"
# A slow answer is one bad sample; two of them and the pause between stay below STALE_SECONDS of the responder.
QUERY_TIMEOUT_SECONDS = 2.0
# A source that does nothing sends a heartbeat per interval; one may be lost, and a busy host may be late.
_HEARTBEATS_MISSED = 2.5
_LEAST_SILENCE_SECONDS = 3.0
# MySQL stops when a volume is full; so much is left for people to make room while it drains.
LEAST_FREE_DISK_PERCENT = 5.0
# max_connections, and the server's own max_user_connections: what clients hold, not what ails it.
_NO_PLACE = (1040, 1203)
_MAY_NOT_ASK = (1142, 1227)
_NO_LOGIN_FILE = "Could not open required defaults file"
# Times that the server has not seen yet are 0000-00-00. The first transaction that is not applied is in the hands of
# the coordinator (while it is delayed) or of a worker.
_MYSQL_FACTS = {
    "instruments": "@@GLOBAL.performance_schema",
    "received": "(SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status LIMIT 1)",
    "executed": "@@GLOBAL.gtid_executed",
    "heartbeats": "(SELECT COUNT_RECEIVED_HEARTBEATS FROM performance_schema.replication_connection_status LIMIT 1)",
    "heartbeat_interval_seconds": (
        "(SELECT HEARTBEAT_INTERVAL FROM performance_schema.replication_connection_configuration LIMIT 1)"
    ),
    "contact_age_seconds": (
        "(SELECT TIMESTAMPDIFF(MICROSECOND, GREATEST(LAST_HEARTBEAT_TIMESTAMP,"
        " LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP), NOW(6)) / 1e6"
        " FROM performance_schema.replication_connection_status LIMIT 1)"
    ),
    "unapplied_seconds": (
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
_MARIADB_FACTS = {
    "executed": "@@GLOBAL.gtid_slave_pos",
    "heartbeats": (
        "(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
        " WHERE VARIABLE_NAME = 'SLAVE_RECEIVED_HEARTBEATS')"
    ),
    "heartbeat_interval_seconds": (
        "(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
        " WHERE VARIABLE_NAME = 'SLAVE_HEARTBEAT_PERIOD')"
    ),
}


@dataclass(frozen=True)
class Sample:
    """A sample is one look at the server; None is unknown. `problem` and `kind` are empty when it is good.

    `lag_seconds` is the greater of what the server says (`server_lag_seconds`) and of the age at the source of the
    first transaction that is not applied (`unapplied_seconds`). `staleness_seconds` also counts the silence of the
    source: what it has committed since it was last heard of cannot be here. While the receiver asks for a source that
    is away, the server knows no lag, and the staleness is that silence.
    """

    problem: str
    kind: str = ""
    is_source: Optional[bool] = None
    read_only: Optional[bool] = None
    receiver_runs: Optional[bool] = None
    applier_runs: Optional[bool] = None
    lag_seconds: Optional[float] = None
    staleness_seconds: Optional[float] = None
    server_lag_seconds: Optional[float] = None
    unapplied_seconds: Optional[float] = None
    transactions_behind: Optional[int] = None
    source_silent_seconds: Optional[float] = None
    heartbeat_interval_seconds: Optional[float] = None
    free_disk_percent: Optional[Dict[str, float]] = None
    unknown: Tuple[str, ...] = ()


class SourceSilence:
    """Source silence is the time since anything came from the source, from changes between samples. Times are
    monotonic seconds.

    A transaction that takes long to arrive brings no heartbeat and counts as queued only at its end, but it moves the
    position in the source's log.
    """

    def __init__(self) -> None:
        self._marker: Optional[Tuple[str, str, str]] = None
        self._changed_at: Optional[float] = None

    def silent_seconds(self, status: ReplicaStatus, heartbeats: Any, now: float) -> Optional[float]:
        """Returns the seconds in which nothing arrived; None until something arrived while this looked."""
        marker = (status.read_position, status.received_gtids, str(heartbeats))
        if self._marker is not None and marker != self._marker:
            self._changed_at = now
        self._marker = marker
        return None if self._changed_at is None else now - self._changed_at


def take_sample(
    client: MysqlClient,
    engine: str,
    policy: HealthPolicy,
    free_disk_percent: Dict[str, float],
    silence: SourceSilence,
    now: float,
) -> Sample:
    """Ask the server: read only, both threads, lag, word from the source; and is there room on its disks.

    Anything else than clear good news is a problem. `free_disk_percent` is by mount point.
    """
    dialect = DIALECTS[engine]
    facts_wanted = _MYSQL_FACTS if engine == "mysql" else _MARIADB_FACTS
    try:
        facts, rows = client.json_and_rows(
            {"read_only": dialect.read_only_expression, **facts_wanted},
            dialect.show_status,
            QUERY_TIMEOUT_SECONDS,
        )
        seen = _Answers(engine, facts, status_from(rows, engine), free_disk_percent)
        return seen.source_sample(policy) if seen.is_source else seen.replica_sample(policy, silence, now)
    except (HostError, *MISFITS) as error:
        return _no_answer(str(error), free_disk_percent)


class _Answers:
    def __init__(
        self, engine: str, facts: Dict[str, Any], status: Optional[ReplicaStatus], free: Dict[str, float]
    ) -> None:
        self.engine, self.facts, self.status, self.free = engine, facts, status, free
        self.read_only = bool(int(facts["read_only"]))
        self.is_source = status is None and not self.read_only

    def source_sample(self, policy: HealthPolicy) -> Sample:
        """A source is good only where the cluster lets it serve reads."""
        refused = "" if policy.source_serves_reads else "it is the source, which serves no reads"
        problem = refused or disk_problem(self.free)
        return Sample(
            problem,
            FAULT if problem else "",
            is_source=True,
            read_only=False,
            free_disk_percent=self.free,
        )

    def replica_sample(self, policy: HealthPolicy, silence: SourceSilence, now: float) -> Sample:
        behind, silent = self._behind(), self._silent(silence, now)
        unapplied = _seconds(self.facts.get("unapplied_seconds")) if behind else None
        lag = self._lag(unapplied)
        fault = next(filter(None, self._faults(policy, lag, silent)), "")
        late = "" if fault else self._late(policy, lag, silent)
        return Sample(
            fault or late,
            FAULT if fault else LAG if late else "",
            is_source=False,
            read_only=self.read_only,
            receiver_runs=None if self.status is None else self.status.io_running,
            applier_runs=None if self.status is None else self.status.sql_running,
            lag_seconds=lag,
            staleness_seconds=self._staleness(lag, unapplied, silent),
            server_lag_seconds=None if self.status is None else _seconds(self.status.lag_seconds),
            unapplied_seconds=unapplied,
            transactions_behind=behind,
            source_silent_seconds=silent,
            heartbeat_interval_seconds=self._interval(),
            free_disk_percent=self.free,
            unknown=self._unknown(behind, silent),
        )

    def _faults(self, policy: HealthPolicy, lag: Optional[float], silent: Optional[float]) -> List[str]:
        return [
            "" if self.read_only else "the database accepts writes",
            _thread_problem(self.status),
            "the lag is unknown" if lag is None and not self._awaits_source() else "",
            "the source was not heard of yet" if silent is None and self._must_be_heard() else "",
            disk_problem(self.free),
        ]

    def _late(self, policy: HealthPolicy, lag: Optional[float], silent: Optional[float]) -> str:
        if self._awaits_source() and self.status is not None:
            return f"the source cannot be reached, it was heard of {silent:.1f} s ago: {self.status.io_error}"
        if lag is not None and lag > policy.lag_seconds:
            return f"lag {lag:.1f} s is over {policy.lag_seconds:g} s"
        if silent is not None and silent > silence_limit_seconds(self._interval()):
            return f"the source was not heard of for {silent:.1f} s"
        return ""

    def _staleness(
        self, lag: Optional[float], unapplied: Optional[float], silent: Optional[float]
    ) -> Optional[float]:
        if self._awaits_source():
            return None if silent is None else max(silent, unapplied or 0.0)
        return None if lag is None else max(lag, silent or 0.0)

    def _awaits_source(self) -> bool:
        return self.status is not None and self.status.awaits_source

    def _must_be_heard(self) -> bool:
        """Tells whether the source is away, so that only its last word dates the replica."""
        return self._tells_contact() or self._awaits_source()

    def _tells_contact(self) -> bool:
        """Tells whether this server knows the time of its source's last word."""
        if self.engine == "mariadb":
            return True
        return bool(int(self.facts.get("instruments") or 0)) and self._interval() != 0

    def _interval(self) -> Optional[float]:
        return _seconds(self.facts.get("heartbeat_interval_seconds"))

    def _silent(self, silence: SourceSilence, now: float) -> Optional[float]:
        if self.status is None:
            return None
        unheard = _seconds(silence.silent_seconds(self.status, self.facts.get("heartbeats"), now))
        if not self._must_be_heard():
            return None
        told = _seconds(self.facts.get("contact_age_seconds"))
        return min((max(0.0, age) for age in (told, unheard) if age is not None), default=None)

    def _behind(self) -> Optional[int]:
        """Transactions that were received and are not applied; None where the server does not tell."""
        executed = self.facts.get("executed")
        if executed is None:
            return None
        if self.engine == "mariadb":
            received = self.status.received_gtids if self.status else ""
            return count_missing_mariadb(received, str(executed)) if received else None
        if self.facts.get("received") is None:
            return None
        return count_missing(str(self.facts["received"]), str(executed))

    def _lag(self, unapplied: Optional[float]) -> Optional[float]:
        """The server's own figure is too small while a transaction is delayed or large: its age counts then."""
        if self.status is None or self.status.lag_seconds is None:
            return None
        return max(float(self.status.lag_seconds), unapplied or 0.0)

    def _unknown(self, behind: Optional[int], silent: Optional[float]) -> Tuple[str, ...]:
        missing = [
            name
            for name, value in (("transactions_behind", behind), ("source_silent_seconds", silent))
            if value is None
        ]
        told = self.engine == "mysql" and bool(int(self.facts.get("instruments") or 0))
        return tuple(missing if told else [*missing, "unapplied_seconds"])


def disk_problem(free_disk_percent: Dict[str, float]) -> str:
    for mount_point, percent in sorted(free_disk_percent.items()):
        if percent < LEAST_FREE_DISK_PERCENT:
            return f"{percent:.1f} % of {mount_point} is free, {LEAST_FREE_DISK_PERCENT:g} % needed"
    return ""


def free_disk_percents(settings: Settings) -> Dict[str, float]:
    """Free space for the server, in percent, on the volumes that this host's storage was assembled from; on the data
    directory where none was."""
    try:
        mount_points = present_manifest(settings).mount_points
    except HostError:
        mount_points = [settings.datadir]
    found = {}
    for mount_point in mount_points:
        if os.path.isdir(mount_point):
            space = os.statvfs(mount_point)
            found[mount_point] = round(100.0 * space.f_bavail / space.f_blocks, 2) if space.f_blocks else 0.0
    return found


def _no_answer(error: str, free_disk_percent: Dict[str, float]) -> Sample:
    kind, problem = FAULT, f"the database did not answer: {error}"
    if is_from_server(error, *_NO_PLACE):
        # The room on its disks is known without it.
        nearly_full = disk_problem(free_disk_percent)
        crowded = f"the database has no place for one more connection: {error}"
        kind, problem = (FAULT, nearly_full) if nearly_full else (FULL, crowded)
    elif is_from_server(error, *LOGIN_REFUSED, *_MAY_NOT_ASK) or _NO_LOGIN_FILE in error:
        problem = (
            f"the responder's database account is missing or refused, see docs/read-endpoint.md: {error}"
        )
    return Sample(problem, kind, free_disk_percent=free_disk_percent)


def _thread_problem(status: Optional[ReplicaStatus]) -> str:
    if status is None:
        return "no replication channel"
    if not status.io_running and not status.awaits_source:
        return f"the receiver thread does not run: {status.io_error}"
    if not status.sql_running:
        return f"the applier thread does not run: {status.sql_error}"
    return ""


def silence_limit_seconds(heartbeat_interval_seconds: Optional[float]) -> float:
    """Returns the seconds that a source may be silent, from its channel's heartbeat interval."""
    return max(_LEAST_SILENCE_SECONDS, _HEARTBEATS_MISSED * (heartbeat_interval_seconds or 0.0))


def _seconds(value: Any) -> Optional[float]:
    if value is None:
        return None
    seconds = float(value)
    if not math.isfinite(seconds):
        raise ValueError(f"a time of {value} s")
    return round(seconds, 3)
