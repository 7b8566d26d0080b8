"""Join the source, follow it until caught up, and say what clients still do here."""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, List, Optional

from peaker_host.database.client_statements import host_is_another, read_counters
from peaker_host.database.mysql_client import MysqlClient, admin_client, sql_text
from peaker_host.database.replica_status import (
    DIALECTS,
    ReplicaStatus,
    count_missing,
    count_missing_mariadb,
    for_channel,
    only_channel,
    read_status,
)
from peaker_host.machine.errors import (
    BinlogsGone,
    CatchUpTimeout,
    DatabaseUnreachable,
    ReplicationNotConfigured,
    ReplicationStopped,
    UnclearAnswer,
    understood,
)
from peaker_host.machine.settings import Machine, Settings
from peaker_host.replicate.errant import refuse_errant
from peaker_host.replicate.identity import own_server_id
from peaker_host.replicate.source_login import (
    Credentials,
    SourcePosition,
    ask_position,
    followed_source,
    login_at,
    one_line,
    read_credentials,
    read_record,
    refuse_other_filters,
)

# A source that restarts recovers its redo log first, which takes minutes; the receiver asks it every five seconds.
CONNECTING_SECONDS = 600.0
# A thread that stopped by an error stays so; one that is just being started shows as stopped for a look or two.
STOPPED_SAMPLES = 6


class Standstill:
    """Looks in a row at which a thread did not run, and since when the receiver has been asking for its source."""

    def __init__(self) -> None:
        self._stopped_samples = 0
        self._connecting_since: Optional[float] = None

    def is_final(self, status: Optional[ReplicaStatus], at_seconds: float) -> bool:
        """Take in a look; says whether nothing more can be hoped for. None: the server did not tell."""
        if status is not None and (status.running or status.awaits_source):
            self._stopped_samples = 0
            if status.running:
                self._connecting_since = None
            elif self._connecting_since is None:
                self._connecting_since = at_seconds
            return (
                self._connecting_since is not None
                and at_seconds - self._connecting_since >= CONNECTING_SECONDS
            )
        self._stopped_samples += 1
        return status is not None and self._stopped_samples >= STOPPED_SAMPLES


_BINLOGS_GONE_ERROR = 1236
_JOIN_SECONDS = 30.0
_SAMPLE_SECONDS = 0.5
# An idle source says each second that it is there, so that a cut network shows within seconds.
HEARTBEAT_PERIOD_SECONDS = 1
# One every five seconds, for five days. MySQL's default of 10 is over within a minute, and the receiver then stays
# stopped though its source is back; MariaDB's is 100,000.
_RETRY_COUNT = 86_400


def start_replication(machine: Machine, source_host: str, say: Callable[[str], None]) -> Dict[str, Any]:
    """Point the channel at the source by GTID and start both threads.

    Raises BinlogsGone, ErrantTransactions, FiltersDiffer, ReplicationNotConfigured, ReplicationStopped,
    UnsupportedChannels.
    """
    client = admin_client(machine)
    channel = only_channel(client, machine.engine) or ""
    credentials = read_credentials(machine, client, channel)

    def ask() -> Optional[SourcePosition]:
        return ask_position(machine, source_host, credentials, say)

    # What is here is read before and after the source is asked: a replica that applies meanwhile has nothing that its
    # source lacks, and lacks nothing that it has just got.
    earlier = _executed(client, machine.engine)
    position = ask()
    executed = _executed(client, machine.engine)
    if position is not None:
        _refuse_purged(machine.engine, position, executed)
        if machine.engine == "mysql":
            refuse_errant(earlier, position, ask)
    before = read_status(client, machine.engine)
    host = credentials.host_for(source_host)
    joined = before is not None and before.running and before.source_host in (source_host, host)
    drawn = None
    if not joined:
        drawn = own_server_id(machine, client, login_at(machine, source_host, credentials), say)
        if machine.engine == "mariadb" and not executed:
            executed = _adopt_binlog_position(client)
        *making, start = join_statements(
            machine.engine, host, credentials, channel, read_record(machine.datadir).get("status", {})
        )
        for statement in making:
            client.execute(statement)
        refuse_other_filters(client, machine.engine, machine.datadir)
        client.execute(start)
        say(f"the channel points at {host}")
    status = _await_threads(client, machine.engine)
    return {
        "source_host": source_host,
        "already_running": joined,
        "server_id": drawn,
        "io_running": status.io_running,
        "sql_running": status.sql_running,
        "lag_seconds": status.lag_seconds,
        "gtid_set": executed,
        "gtid_behind": None if position is None else _behind(machine.engine, position.executed, executed),
        "source_checked": position is not None and position.purged is not None,
    }


def join_statements(
    engine: str,
    host: str,
    credentials: Credentials,
    channel: str = "",
    donor: Optional[Dict[str, str]] = None,
) -> List[str]:
    """The statements that (re)make the channel; the last one starts it.

    MySQL keeps of the channel what is not named: its encryption, its verification. MariaDB's channel does not survive
    a copy: it is made anew with what the donor's showed (`donor`, its SHOW SLAVE STATUS).
    """
    user, password = sql_text(credentials.user), sql_text(credentials.password)
    if engine == "mysql":
        clause = for_channel(channel)
        key = ", GET_SOURCE_PUBLIC_KEY = 1" if credentials.encryption.gets_public_key else ""
        return [
            f"STOP REPLICA{clause}",
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = {sql_text(host)}, SOURCE_PORT = {credentials.port},"
            f" SOURCE_USER = {user}, SOURCE_PASSWORD = {password},"
            f" SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 5,"
            f" SOURCE_RETRY_COUNT = {_RETRY_COUNT}{key},"
            f" SOURCE_HEARTBEAT_PERIOD = {HEARTBEAT_PERIOD_SECONDS}{clause}",
            f"START REPLICA{clause}",
        ]
    return [
        "STOP SLAVE",
        "RESET SLAVE ALL",
        f"CHANGE MASTER TO MASTER_HOST = {sql_text(host)}, MASTER_PORT = {credentials.port},"
        f" MASTER_USER = {user}, MASTER_PASSWORD = {password},"
        f" MASTER_CONNECT_RETRY = 5, MASTER_HEARTBEAT_PERIOD = {HEARTBEAT_PERIOD_SECONDS},"
        f" MASTER_USE_GTID = slave_pos{_mariadb_options(credentials, donor or {})}",
        "START SLAVE",
    ]


def _mariadb_options(credentials: Credentials, donor: Dict[str, str]) -> str:
    encryption = credentials.encryption
    # Said where they are off too: MariaDB 11.4 and later turn both on.
    options = [f"MASTER_SSL = {int(encryption.encrypted)}"]
    options += [f"MASTER_SSL_VERIFY_SERVER_CERT = {int(encryption.verified)}"]
    if encryption.encrypted:
        names = {option: option.replace("-", "_").upper() for option in encryption.files}
        options += [f"MASTER_{names[option]} = {sql_text(path)}" for option, path in encryption.files.items()]
    for shown, option in (
        ("Replicate_Do_Domain_Ids", "DO_DOMAIN_IDS"),
        ("Replicate_Ignore_Domain_Ids", "IGNORE_DOMAIN_IDS"),
        ("Replicate_Ignore_Server_Ids", "IGNORE_SERVER_IDS"),
    ):
        ids = [
            part.strip()
            for part in donor.get(shown, "").split(",")
            if re.fullmatch(r"[0-9]{1,20}", part.strip())
        ]
        options += [f"{option} = ({', '.join(ids)})"] if ids else []
    return "".join(f", {option}" for option in options)


def wait_for_catch_up(
    machine: Machine,
    lag_gate_seconds: int,
    samples_needed: int,
    timeout_seconds: float,
    say: Callable[[str], None],
) -> Dict[str, Any]:
    """Wait for N samples in a row with both threads running, the lag at or under its gate, and everything
    applied that the source had executed when the wait began.

    A receiver that asks for a source that is away is waited for, some minutes; a stopped thread is not. Raises
    BinlogsGone, CatchUpTimeout and ReplicationStopped with the samples seen.
    """
    client = admin_client(machine)
    started = time.monotonic()
    target = _target(machine, client, say)
    behind = None if target is None else _behind(machine.engine, target, _executed(client, machine.engine))
    samples: List[Dict[str, Any]] = []
    good, standstill = 0, Standstill()
    while time.monotonic() - started < timeout_seconds:
        at_seconds = time.monotonic() - started
        sample, status = _lag_sample(machine, client, target, at_seconds)
        samples.append(sample)
        good = good + 1 if is_good(sample, lag_gate_seconds) else 0
        if good >= samples_needed:
            return {
                "samples": _thinned(samples),
                "lag_seconds": sample["lag_seconds"],
                "gtid_behind_at_start": behind,
                "source_position_known": target is not None,
                "caught_up_seconds": round(time.monotonic() - started, 3),
            }
        if standstill.is_final(status, at_seconds) and status is not None:
            _raise_stopped(status, {"samples": _thinned(samples)})
        if len(samples) % 10 == 1:
            say(
                f"lag {sample['lag_seconds']} s, {sample['gtid_behind']} transactions behind the starting point"
            )
        time.sleep(_SAMPLE_SECONDS)
    raise CatchUpTimeout(
        f"the lag was not at or under {lag_gate_seconds} s for {samples_needed} samples within {timeout_seconds:g} s"
        f"{why_serial(samples)}",
        {"samples": _thinned(samples), "gtid_behind_at_start": behind},
    )


def is_good(sample: Dict[str, Any], lag_gate_seconds: int) -> bool:
    """One lag sample that counts: both threads, a known lag under the gate, the starting point reached."""
    lag = sample["lag_seconds"]
    reached = sample["gtid_behind"] in (0, None)
    return bool(sample["running"]) and lag is not None and lag <= lag_gate_seconds and reached


@understood(UnclearAnswer, "the list of clients")
def client_activity(machine: Machine) -> Dict[str, Any]:
    """Client connections over the network, their open transactions and running statements, and the statements that
    they ever sent. A connection without either is idle: a pool keeps it, and nothing is lost when it ends.

    Replication and connections of this host itself, also over loopback, are not counted. `client_statements` only grows
    while the server runs, so that two looks show whether anything came between; None when the server keeps no
    statistics.
    """
    client = admin_client(machine)
    clients = (
        f"FROM information_schema.PROCESSLIST AS p WHERE {host_is_another('p.HOST')} AND p.HOST <> ''"
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


def _adopt_binlog_position(client: MysqlClient) -> str:
    position = one_line(client.json({"gtid": "@@GLOBAL.gtid_binlog_pos"})["gtid"])
    if position:
        client.execute("STOP SLAVE", "RESET SLAVE ALL", f"SET GLOBAL gtid_slave_pos = {sql_text(position)}")
    return position


def _refuse_purged(engine: str, position: SourcePosition, executed: str) -> None:
    missing = _behind(engine, position.purged or "", executed)
    if missing:
        raise BinlogsGone(
            f"the source has purged {missing} transactions that this replica lacks; build it from a newer snapshot",
            {"gtid_purged": position.purged, "gtid_executed": executed},
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
    receiver = "runs" if status.io_running else "connecting" if status.io_connecting else "stopped"
    applier = "runs" if status.sql_running else "stopped"
    raise ReplicationStopped(f"receiver {receiver}, applier {applier}: {why}", numbers)


def _target(machine: Machine, client: MysqlClient, say: Callable[[str], None]) -> Optional[str]:
    found = followed_source(machine, client)
    if found is None:
        raise ReplicationNotConfigured("the server reports no replication channel")
    position = ask_position(machine, *found, say)
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
        **({"one_by_one": True} if status and status.applies_one_by_one else {}),
    }, status


def why_serial(samples: List[Dict[str, Any]]) -> str:
    """Says that the apply is serial and not at fault; empty where threads stopped, or it came nearer."""
    lags = [sample["lag_seconds"] for sample in samples if sample["lag_seconds"] is not None]
    serial = sum("one_by_one" in sample for sample in samples)
    if not lags or lags[-1] < lags[0] or 2 * serial < len(samples):
        return ""
    return (
        f": apply is serial. Both threads run, the lag went from {lags[0]} to {lags[-1]} s, and in {serial} of "
        f"{len(samples)} looks the applier waited for a dependent transaction to commit. On the source let commits be "
        "grouped or write in smaller transactions; more workers help only where transactions are independent"
    )


def _thinned(samples: List[Dict[str, Any]], keep: int = 40) -> List[Dict[str, Any]]:
    """About `keep` samples, evenly spread and always with the last hundred, which the gate is read from: the result
    line is limited."""
    step = max(1, -(-len(samples) // keep))
    return samples[:-100][::step] + samples[-100:]


def _executed(client: MysqlClient, engine: str) -> str:
    return one_line(client.json({"gtid": DIALECTS[engine].executed_set})["gtid"])


def _behind(engine: str, target: str, executed: str) -> int:
    return count_missing(target, executed) if engine == "mysql" else count_missing_mariadb(target, executed)
