"""A replica's status, its one channel and its position have one form for MySQL 8.4/9.x and MariaDB.

GTID sets are texts that are counted and subtracted; tags (8.4 and later) are kept as part of the source id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from peaker_host.blocks.ranges import Range, difference, merged, total
from peaker_host.database.mysql_client import MysqlClient, sql_text
from peaker_host.machine.errors import UnclearAnswer, UnsupportedChannels, understood, whole

_GROUP_CHANNELS = ("group_replication_applier", "group_replication_recovery")
_ALL_OF_MARIADB = "SHOW ALL SLAVES STATUS"
# As the receiver says it while it has no connection: MySQL's and MariaDB's words.
_CONNECTING = ("Connecting", "Preparing")
# The source cannot be reached, shuts down or has no room at the moment: what MySQL's receiver itself takes for the
# network's (`is_network_error` of rpl_replica.cc), a name that is not found (2005), a handshake cut off (2026, 2055).
_SOURCE_AWAY = frozenset({0, 1040, 1053, 1159, 1161, 2002, 2003, 2005, 2006, 2013, 2026, 2055})


@dataclass(frozen=True)
class ReplicaStatus:
    """One replication channel. `lag_seconds` is None when the server does not know it.

    `io_connecting`: the receiver has no connection and asks for one again and again; it is not running then.
    `read_position` changes whenever anything of the source's log arrives; `received_gtids` is told by MariaDB only.
    """

    source_host: str
    user: str
    io_running: bool
    sql_running: bool
    lag_seconds: Optional[int]
    io_error_number: int
    io_error: str
    sql_error_number: int
    sql_error: str
    read_position: str = ""
    received_gtids: str = ""
    channel: str = ""
    io_connecting: bool = False
    applier_state: str = ""

    @property
    def applies_one_by_one(self) -> bool:
        """Tells whether the applier waits for a transaction before the next: its workers cannot work side by side."""
        return self.running and "dependent transaction" in self.applier_state

    @property
    def awaits_source(self) -> bool:
        """Tells whether the receiver only waits for an absent source. A refused login is no such wait."""
        return self.io_connecting and self.sql_running and self.io_error_number in _SOURCE_AWAY

    @property
    def running(self) -> bool:
        return self.io_running and self.sql_running


@dataclass(frozen=True)
class Dialect:
    """Statements and names that differ between the engines."""

    show_status: str
    start: str
    stop: str
    prefix: str
    thread_prefix: str
    lag_column: str
    executed_set: str
    server_uuid: str
    skip_start_option: str
    skip_start_expression: str
    read_only_expression: str
    read_only_options: str


DIALECTS: Dict[str, Dialect] = {
    "mysql": Dialect(
        show_status="SHOW REPLICA STATUS",
        start="START REPLICA",
        stop="STOP REPLICA",
        prefix="Source",
        thread_prefix="Replica",
        lag_column="Seconds_Behind_Source",
        executed_set="@@GLOBAL.gtid_executed",
        server_uuid="@@GLOBAL.server_uuid",
        skip_start_option="skip_replica_start = ON",
        skip_start_expression="@@GLOBAL.skip_replica_start",
        read_only_expression="IF(@@GLOBAL.super_read_only, 1, 0)",
        read_only_options="read_only = ON\nsuper_read_only = ON",
    ),
    "mariadb": Dialect(
        show_status="SHOW SLAVE STATUS",
        start="START SLAVE",
        stop="STOP SLAVE",
        prefix="Master",
        thread_prefix="Slave",
        lag_column="Seconds_Behind_Master",
        executed_set="@@GLOBAL.gtid_slave_pos",
        server_uuid="CONCAT('server-', @@GLOBAL.server_id)",
        skip_start_option="skip_slave_start = ON",
        # MariaDB has the option, but no variable that tells.
        skip_start_expression="1",
        # A switch up to MariaDB 11; from 12 on a word: OFF, ON, NO_LOCK, NO_LOCK_NO_ADMIN.
        read_only_expression="IF(CAST(@@GLOBAL.read_only AS CHAR) IN ('0', 'OFF'), 0, 1)",
        read_only_options="read_only = ON",
    ),
}


def read_status(client: MysqlClient, engine: str, timeout_seconds: float = 30.0) -> Optional[ReplicaStatus]:
    """The channel's status; None when the server is no replica."""
    dialect = DIALECTS[engine]
    return status_from(client.rows(dialect.show_status, timeout_seconds), engine)


def status_from(rows: List[Dict[str, Optional[str]]], engine: str) -> Optional[ReplicaStatus]:
    """The status out of the rows that `show_status` gave: of several channels the one that is worst off."""
    statuses = [_status_of(row, DIALECTS[engine]) for row in rows]
    return max(statuses, key=_how_bad, default=None)


def _how_bad(status: ReplicaStatus) -> Tuple[bool, bool, int]:
    return not status.running, status.lag_seconds is None, status.lag_seconds or 0


@understood(UnclearAnswer, "the status of the replication channel")
def _status_of(row: Dict[str, Optional[str]], dialect: Dialect) -> ReplicaStatus:
    lag = row.get(dialect.lag_column)
    return ReplicaStatus(
        source_host=row.get(f"{dialect.prefix}_Host") or "",
        user=row.get(f"{dialect.prefix}_User") or "",
        io_running=row.get(f"{dialect.thread_prefix}_IO_Running") == "Yes",
        sql_running=row.get(f"{dialect.thread_prefix}_SQL_Running") == "Yes",
        lag_seconds=None if lag is None else whole(lag, dialect.lag_column),
        io_error_number=whole(row.get("Last_IO_Errno") or 0, "Last_IO_Errno"),
        io_error=row.get("Last_IO_Error") or "",
        sql_error_number=whole(row.get("Last_SQL_Errno") or 0, "Last_SQL_Errno"),
        sql_error=row.get("Last_SQL_Error") or "",
        read_position=f"{row.get(f'{dialect.prefix}_Log_File')}:{row.get(f'Read_{dialect.prefix}_Log_Pos')}",
        received_gtids=row.get("Gtid_IO_Pos") or "",
        channel=row.get("Channel_Name") or "",
        io_connecting=row.get(f"{dialect.thread_prefix}_IO_Running") in _CONNECTING,
        applier_state=row.get(f"{dialect.thread_prefix}_SQL_Running_State") or "",
    )


def channel_names(client: MysqlClient, engine: str) -> List[str]:
    """The names of all channels; the default one's is empty."""
    if engine == "mariadb":
        return [row.get("Connection_name") or "" for row in client.rows(_ALL_OF_MARIADB)]
    return [row.get("Channel_Name") or "" for row in client.rows("SHOW REPLICA STATUS")]


def only_channel(client: MysqlClient, engine: str) -> Optional[str]:
    """The name of the one channel, empty for the default one; None where there is none.

    Raises UnsupportedChannels for several, for Group Replication, and for a named one of MariaDB.
    """
    names = channel_names(client, engine)
    shown = ", ".join(repr(name) if name else "the default channel" for name in names)
    if len(names) > 1:
        raise UnsupportedChannels(
            f"this server has {len(names)} replication channels: {shown}. A copy could follow one source only; choose "
            "a donor with one channel",
            {"channels": names},
        )
    if any(name in _GROUP_CHANNELS for name in names):
        raise UnsupportedChannels(
            f"this server is a member of Group Replication ({shown}), not a replica of one source",
            {"channels": names},
        )
    if engine == "mariadb" and any(names):
        raise UnsupportedChannels(
            f"this server's replication connection has a name ({shown}); of MariaDB only the default connection is "
            "supported",
            {"channels": names},
        )
    return names[0] if names else None


def for_channel(name: str) -> str:
    """The clause that ends a statement of MySQL; nothing for the default channel."""
    return f" FOR CHANNEL {sql_text(name)}" if name else ""


_TAG = re.compile(r"[A-Za-z_][0-9A-Za-z_]{0,31}")

GtidSet = Dict[str, List[Range]]


@understood(UnclearAnswer, "a GTID set")
def parse_gtid_set(text: str) -> GtidSet:
    """`uuid[:tag]:1-5:8,uuid2:1` as (start, length) ranges by source. Raises UnclearAnswer on other text."""
    found: GtidSet = {}
    for part in text.replace("\n", "").replace(" ", "").split(","):
        if not part:
            continue
        source, *pieces = part.split(":")
        key = source.lower()
        for piece in pieces:
            if _TAG.fullmatch(piece):
                key = f"{source.lower()}:{piece}"
                continue
            first, _, last = piece.partition("-")
            low = whole(first, "the begin of an interval", 1)
            high = whole(last or first, "the end of an interval", low)
            found.setdefault(key, []).append((low, high - low + 1))
    return {source: merged(ranges) for source, ranges in found.items()}


def count_missing(wanted: str, present: str) -> int:
    """Number of transactions in the first set that are not in the second."""
    have = parse_gtid_set(present)
    return sum(
        total(difference(ranges, have.get(source, []))) for source, ranges in parse_gtid_set(wanted).items()
    )


def subtracted(wanted: str, present: str) -> str:
    """The first set without the second, as text; empty when nothing is left."""
    have = parse_gtid_set(present)
    parts = []
    for source, ranges in parse_gtid_set(wanted).items():
        left = difference(ranges, have.get(source, []))
        shown = [
            f"{first}-{first + length - 1}" if length > 1 else f"{first}" for first, length in left if length
        ]
        parts += [":".join([source, *shown])] if shown else []
    return ",".join(parts)


def count_missing_mariadb(wanted: str, present: str) -> int:
    """Number of sequences that a MariaDB position (`domain-server-sequence,...`) lacks of another, over its domains."""
    have = _domains(present)
    return sum(max(0, sequence - have.get(domain, 0)) for domain, sequence in _domains(wanted).items())


@understood(UnclearAnswer, "a MariaDB position")
def _domains(text: str) -> Dict[int, int]:
    positions: Dict[int, int] = {}
    for part in text.replace(" ", "").split(","):
        if part:
            domain, _, sequence = (whole(number, "a part of it") for number in part.split("-"))
            positions[domain] = max(positions.get(domain, 0), sequence)
    return positions
