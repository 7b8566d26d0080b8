"""Join the source, follow it until caught up, and say what clients still do here."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

from peaker_host.client_statements import read_counters
from peaker_host.errors import (
    BinlogsGone,
    CatchUpTimeout,
    DatabaseUnreachable,
    ErrantTransactions,
    InvalidHostSettings,
    ReplicationNotConfigured,
    ReplicationStopped,
)
from peaker_host.files import read_json
from peaker_host.gtid_sets import count_missing, count_missing_mariadb, is_subset
from peaker_host.mysql_client import MysqlClient, RemoteLogin, admin_client, sql_text
from peaker_host.processes import Processes
from peaker_host.replica_status import DIALECTS, ReplicaStatus, read_status
from peaker_host.settings import Settings

_BINLOGS_GONE_ERROR = 1236
_JOIN_SECONDS = 30.0
_SAMPLE_SECONDS = 0.5
_STOPPED_SAMPLES = 6


@dataclass(frozen=True)
class Credentials:
    """How the channel logs in at the source."""

    user: str
    password: str
    port: int


# An idle source says each second that it is there, so that a cut network shows within seconds.
HEARTBEAT_PERIOD_SECONDS = 1


@dataclass(frozen=True)
class SourcePosition:
    """What the source has executed, and what of it is no longer in its binary logs."""

    executed: str
    purged: str


def start_replication(
    settings: Settings, processes: Processes, source_host: str, say: Callable[[str], None]
) -> Dict[str, Any]:
    """Point the channel at the source by GTID and start both threads.

    Raises BinlogsGone, ErrantTransactions, ReplicationNotConfigured, ReplicationStopped.
    """
    client = admin_client(settings, processes)
    credentials = _credentials(settings, client)
    position = _source_position(settings, processes, source_host, credentials, say)
    executed = _executed(client, settings.engine)
    if position is not None and settings.engine == "mysql":
        _check_positions(position, executed)
    before = read_status(client, settings.engine)
    joined = before is not None and before.running and before.source_host == source_host
    if not joined:
        if settings.engine == "mariadb" and not executed:
            executed = _adopt_binlog_position(client)
        for statement in join_statements(settings.engine, source_host, credentials):
            client.execute(statement)
        say(f"the channel points at {source_host}")
    status = _await_threads(client, settings.engine)
    return {
        "source_host": source_host,
        "already_running": joined,
        "io_running": status.io_running,
        "sql_running": status.sql_running,
        "lag_seconds": status.lag_seconds,
        "gtid_set": executed,
        "gtid_behind": None if position is None else _behind(settings.engine, position.executed, executed),
        "source_checked": position is not None,
    }


def join_statements(engine: str, source_host: str, credentials: Credentials) -> List[str]:
    """The statements that (re)make the channel. MySQL keeps the stored user; MariaDB's file does not survive."""
    host = sql_text(source_host)
    if engine == "mysql":
        return [
            "STOP REPLICA",
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = {host}, SOURCE_PORT = {credentials.port},"
            f" SOURCE_USER = {sql_text(credentials.user)}, SOURCE_PASSWORD = {sql_text(credentials.password)},"
            " SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 5, GET_SOURCE_PUBLIC_KEY = 1,"
            f" SOURCE_HEARTBEAT_PERIOD = {HEARTBEAT_PERIOD_SECONDS}",
            "START REPLICA",
        ]
    return [
        "STOP SLAVE",
        "RESET SLAVE ALL",
        f"CHANGE MASTER TO MASTER_HOST = {host}, MASTER_PORT = {credentials.port},"
        f" MASTER_USER = {sql_text(credentials.user)}, MASTER_PASSWORD = {sql_text(credentials.password)},"
        f" MASTER_CONNECT_RETRY = 5, MASTER_HEARTBEAT_PERIOD = {HEARTBEAT_PERIOD_SECONDS},"
        " MASTER_USE_GTID = slave_pos",
        "START SLAVE",
    ]


def wait_for_catch_up(
    settings: Settings,
    processes: Processes,
    lag_gate_seconds: int,
    samples_needed: int,
    timeout_seconds: float,
    say: Callable[[str], None],
) -> Dict[str, Any]:
    """Wait for N samples in a row with both threads running, the lag at or under its gate, and everything
    applied that the source had executed when the wait began.

    Raises CatchUpTimeout and ReplicationStopped with the samples seen.
    """
    client = admin_client(settings, processes)
    started = time.monotonic()
    target = _target(settings, processes, client, say)
    behind = None if target is None else _behind(settings.engine, target, _executed(client, settings.engine))
    samples: List[Dict[str, Any]] = []
    good = stopped = 0
    while time.monotonic() - started < timeout_seconds:
        sample, status = _lag_sample(settings, client, target, time.monotonic() - started)
        samples.append(sample)
        good = good + 1 if is_good(sample, lag_gate_seconds) else 0
        stopped = 0 if status is not None and status.running else stopped + 1
        if good >= samples_needed:
            return _caught_up(samples, behind, target is not None, time.monotonic() - started)
        if stopped >= _STOPPED_SAMPLES and status is not None:
            _raise_stopped(status, {"samples": _thinned(samples)})
        if len(samples) % 10 == 1:
            say(
                f"lag {sample['lag_seconds']} s, {sample['gtid_behind']} transactions behind the starting point"
            )
        time.sleep(_SAMPLE_SECONDS)
    raise CatchUpTimeout(
        f"the lag was not at or under {lag_gate_seconds} s for {samples_needed} samples within {timeout_seconds:g} s",
        {"samples": _thinned(samples), "gtid_behind_at_start": behind},
    )


def is_good(sample: Dict[str, Any], lag_gate_seconds: int) -> bool:
    """One lag sample that counts: both threads, a known lag under the gate, the starting point reached."""
    lag = sample["lag_seconds"]
    reached = sample["gtid_behind"] in (0, None)
    return bool(sample["running"]) and lag is not None and lag <= lag_gate_seconds and reached


def client_activity(settings: Settings, processes: Processes) -> Dict[str, Any]:
    """Client connections over the network, their open transactions and running statements, and the statements that
    they ever sent. A connection without either is idle: a pool keeps it, and nothing is lost when it ends.

    Replication and local connections are not counted. `client_statements` only grows while the server runs, so that
    two looks show whether anything came between; None when the server keeps no statistics.
    """
    client = admin_client(settings, processes)
    clients = (
        "FROM information_schema.PROCESSLIST AS p WHERE p.HOST NOT LIKE 'localhost%' AND p.HOST <> ''"
        " AND p.USER NOT IN ('system user', 'event_scheduler', 'unauthenticated user')"
        " AND p.COMMAND NOT IN ('Binlog Dump', 'Binlog Dump GTID', 'Daemon', 'Connect')"
    )
    facts = client.json(
        {
            "connections": f"(SELECT COUNT(*) {clients})",
            "running_statements": f"(SELECT COUNT(*) {clients} AND p.COMMAND <> 'Sleep')",
            "transactions": "(SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t"
            f" WHERE t.trx_mysql_thread_id IN (SELECT p.ID {clients}))",
        }
    )
    counters = read_counters(client)
    found: Dict[str, Any] = {name: int(value) for name, value in facts.items()}
    return dict(found, client_statements=None if counters is None else counters.statements)


def source_binlog_expire_seconds(
    settings: Settings, processes: Processes, client: MysqlClient
) -> Optional[int]:
    """How long the source keeps its binary logs, in seconds (0: for ever); None when that cannot be known now."""
    try:
        status = read_status(client, settings.engine)
        if status is None:
            return None
        login = _credentials(settings, client)
        with RemoteLogin(
            settings, processes, status.source_host, login.port, login.user, login.password
        ) as source:
            return int(
                source.json({"seconds": "@@GLOBAL.binlog_expire_logs_seconds"}, timeout_seconds=15.0)[
                    "seconds"
                ]
            )
    except (DatabaseUnreachable, ReplicationNotConfigured):
        return None


def _credentials(settings: Settings, client: MysqlClient) -> Credentials:
    """From the credentials file when there is one, else what MySQL stored in the data directory."""
    path = settings.replication_credentials_file
    content = read_json(path) if os.path.exists(path) else None
    if content is not None:
        if not isinstance(content.get("user"), str) or not isinstance(content.get("password"), str):
            raise InvalidHostSettings(f"{path}: needs the texts user and password")
        return Credentials(content["user"], content["password"], int(content.get("port", 3306)))
    if settings.engine == "mysql":
        rows = client.rows(
            "SELECT User_name, User_password, Port FROM mysql.slave_master_info WHERE User_name <> '' LIMIT 1"
        )
        if rows:
            return Credentials(
                rows[0]["User_name"] or "", rows[0]["User_password"] or "", int(rows[0]["Port"] or 3306)
            )
    raise ReplicationNotConfigured(f"no replication user: neither {path} nor the data directory names one")


def _source_position(
    settings: Settings, processes: Processes, host: str, credentials: Credentials, say: Callable[[str], None]
) -> Optional[SourcePosition]:
    """Ask the source itself, with the channel's own user; None when it does not let that user in."""
    expressions = {"executed": "@@GLOBAL.gtid_executed", "purged": "@@GLOBAL.gtid_purged"}
    if settings.engine == "mariadb":
        expressions = {"executed": "@@GLOBAL.gtid_binlog_pos", "purged": "''"}
    try:
        with RemoteLogin(
            settings, processes, host, credentials.port, credentials.user, credentials.password
        ) as source:
            facts = source.json(expressions, timeout_seconds=15.0)
    except DatabaseUnreachable as error:
        say(f"the source could not be asked for its position: {error}")
        return None
    return SourcePosition(_one_line(facts["executed"]), _one_line(facts["purged"]))


def _adopt_binlog_position(client: MysqlClient) -> str:
    """A copy of a source has no replica position of its own: its binary log's end is where it stands."""
    position = _one_line(client.json({"gtid": "@@GLOBAL.gtid_binlog_pos"})["gtid"])
    if position:
        client.execute("STOP SLAVE", "RESET SLAVE ALL", f"SET GLOBAL gtid_slave_pos = {sql_text(position)}")
    return position


def _check_positions(position: SourcePosition, executed: str) -> None:
    if not is_subset(position.purged, executed):
        missing = count_missing(position.purged, executed)
        raise BinlogsGone(
            f"the source has purged {missing} transactions that this replica lacks; build it from a newer snapshot",
            {"gtid_purged": position.purged, "gtid_executed": executed},
        )
    errant = count_missing(executed, position.executed)
    if errant:
        raise ErrantTransactions(
            f"this replica holds {errant} transactions that the source does not",
            {"source_gtid_executed": position.executed, "gtid_executed": executed},
        )


def _await_threads(client: MysqlClient, engine: str) -> ReplicaStatus:
    deadline = time.monotonic() + _JOIN_SECONDS
    good = 0
    while True:
        status = read_status(client, engine)
        good = good + 1 if status is not None and status.running else 0
        if good >= 2 and status is not None:
            return status
        if status is not None and (status.sql_error_number or status.io_error_number == _BINLOGS_GONE_ERROR):
            _raise_stopped(status, {})
        if time.monotonic() >= deadline:
            if status is None:
                raise ReplicationNotConfigured("the server reports no replication channel")
            _raise_stopped(status, {})
        time.sleep(0.3)


def _raise_stopped(status: ReplicaStatus, numbers: Dict[str, Any]) -> None:
    if status.io_error_number == _BINLOGS_GONE_ERROR and "server_uuid" not in status.io_error:
        raise BinlogsGone(f"the source no longer has what this replica needs: {status.io_error}", numbers)
    why = status.sql_error or status.io_error or "no error is recorded"
    receiver, applier = (
        "runs" if running else "stopped" for running in (status.io_running, status.sql_running)
    )
    raise ReplicationStopped(f"receiver {receiver}, applier {applier}: {why}", numbers)


def _target(
    settings: Settings, processes: Processes, client: MysqlClient, say: Callable[[str], None]
) -> Optional[str]:
    status = read_status(client, settings.engine)
    if status is None:
        raise ReplicationNotConfigured("the server reports no replication channel")
    credentials = _credentials(settings, client)
    position = _source_position(settings, processes, status.source_host, credentials, say)
    return None if position is None else position.executed


def _lag_sample(
    settings: Settings, client: MysqlClient, target: Optional[str], at_seconds: float
) -> "tuple[Dict[str, Any], Optional[ReplicaStatus]]":
    try:
        status = read_status(client, settings.engine)
        behind = (
            None if target is None else _behind(settings.engine, target, _executed(client, settings.engine))
        )
    except DatabaseUnreachable as error:
        return {
            "at_seconds": round(at_seconds, 1),
            "lag_seconds": None,
            "running": False,
            "gtid_behind": None,
            "problem": str(error)[:200],
        }, None
    return {
        "at_seconds": round(at_seconds, 1),
        "lag_seconds": status.lag_seconds if status else None,
        "running": bool(status and status.running),
        "gtid_behind": behind,
    }, status


def _caught_up(
    samples: List[Dict[str, Any]], behind: Optional[int], known: bool, seconds: float
) -> Dict[str, Any]:
    return {
        "samples": _thinned(samples),
        "lag_seconds": samples[-1]["lag_seconds"],
        "gtid_behind_at_start": behind,
        "source_position_known": known,
        "caught_up_seconds": round(seconds, 3),
    }


def _thinned(samples: List[Dict[str, Any]], keep: int = 40) -> List[Dict[str, Any]]:
    """About `keep` samples, evenly spread and always with the last hundred, which the gate is read from: the result
    line is limited."""
    step = max(1, -(-len(samples) // keep))
    return samples[:-100][::step] + samples[-100:]


def _executed(client: MysqlClient, engine: str) -> str:
    return _one_line(client.json({"gtid": DIALECTS[engine].executed_set})["gtid"])


def _behind(engine: str, target: str, executed: str) -> int:
    return count_missing(target, executed) if engine == "mysql" else count_missing_mariadb(target, executed)


def _one_line(value: Any) -> str:
    return str(value or "").replace("\n", "")
