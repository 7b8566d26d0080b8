"""This module counts the statements of clients over the network, from the server's own statistics.

performance_schema counts statements per account; those of this host itself are Peaker's, the administrator's and a
monitoring agent's and are left out, over the socket and over loopback. Replication threads have no account there. The
counters of the last look are kept in a file, so that `measure_reads` misses nothing between two looks.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, Optional, Tuple

from peaker_host.database.mysql_client import MysqlClient, status_text
from peaker_host.machine.errors import (
    MISFITS,
    HostError,
    ServerRestarted,
    UnclearAnswer,
    UnreadableFile,
    decoded,
    understood,
)
from peaker_host.machine.files import boot_id, read_json, write_json
from peaker_host.machine.settings import Settings

# MariaDB's default, and a variable that a running server does not change.
NOT_COUNTED = "performance_schema is OFF, so that Peaker cannot count the clients' reads"
# With name resolution loopback is what /etc/hosts calls it: localhost, localhost6. A process list has the port behind.
_THIS_HOST = ("localhost%", "127.%", "::1", "::1:%", "::ffff:127.%")
# SUM_TIMER_WAIT is in picoseconds (MySQL manual, performance schema statement summary tables).
_PICOSECONDS_PER_MS = 1_000_000_000


def host_is_another(column: str) -> str:
    """The SQL condition that a host, with or without its port, is another one than the server's own."""
    return " AND ".join(f"{column} NOT LIKE '{pattern}'" for pattern in _THIS_HOST)


_SUMS = (
    "FROM performance_schema.events_statements_summary_by_account_by_event_name"
    f" WHERE HOST IS NOT NULL AND {host_is_another('HOST')}"
    " AND (EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME = 'statement/com/Execute')"
)


@dataclass(frozen=True)
class StatementCounters:
    """Statement counters since the server's start: statements, failed ones, and their time in ms."""

    statements: int
    errors: int
    milliseconds: float


@understood(UnclearAnswer, "the server's switches")
def counts_statements(client: MysqlClient) -> bool:
    # MariaDB puts a switch into JSON as the bare word ON, which is none.
    return bool(int(client.json({"on": "IF(@@GLOBAL.performance_schema, 1, 0)"})["on"]))


@understood(UnclearAnswer, "the statement counters")
def read_counters(client: MysqlClient) -> Optional[StatementCounters]:
    """Reads the statement counters; None when the server keeps none (performance_schema is off)."""
    if not counts_statements(client):
        return None
    sums = client.json(
        {
            "statements": f"(SELECT COALESCE(SUM(COUNT_STAR), 0) {_SUMS})",
            "errors": f"(SELECT COALESCE(SUM(SUM_ERRORS), 0) {_SUMS})",
            "picoseconds": f"(SELECT COALESCE(SUM(SUM_TIMER_WAIT), 0) {_SUMS})",
        }
    )
    return StatementCounters(
        int(sums["statements"]), int(sums["errors"]), float(sums["picoseconds"]) / _PICOSECONDS_PER_MS
    )


def measure_service(
    client: MysqlClient, window_seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Dict[str, Any]:
    """Measures the server's queries, errors and mean latency in ms in the window (None without queries)."""
    before = read_counters(client)
    if before is None:
        return {
            "measurable": False,
            "queries": 0,
            "errors": 0,
            "mean_ms": None,
            "window_seconds": window_seconds,
        }
    sleep(window_seconds)
    after = read_counters(client)
    if after is None or after.statements < before.statements:
        raise ServerRestarted("its statement counters began again within the window")
    queries = after.statements - before.statements
    spent = after.milliseconds - before.milliseconds
    return {
        "measurable": True,
        "queries": queries,
        "errors": after.errors - before.errors,
        "mean_ms": round(spent / queries, 4) if queries else None,
        "window_seconds": window_seconds,
    }


# A second look so soon after the first one tells the same: a repeated command, or two checks side by side.
SHORTEST_WINDOW_SECONDS = 5.0
# Uptime is in whole seconds, read a moment before the clock.
_SAME_START_SECONDS = 3.0
_BEGUN = "counting begins with this look: it is the first, or the server or the machine started anew"
_FILE = "client_reads.json"


@dataclass(frozen=True)
class Look:
    """Counters at a moment, in seconds since the machine `boot_id` booted, and the rate that was told then."""

    boot_id: str
    at_seconds: float
    server_started_seconds: float
    statements: int
    reads_per_second: Optional[float] = None


def reads_since(last: Optional[Look], now: Look) -> Tuple[Look, Optional[float]]:
    """Returns the look to keep, and the statements a second since the last one; None where they are unknown. Pure."""
    if last is None or last.boot_id != now.boot_id or now.at_seconds < last.at_seconds:
        return now, None
    moved_seconds = abs(now.server_started_seconds - last.server_started_seconds)
    if moved_seconds > _SAME_START_SECONDS or now.statements < last.statements:
        return now, None
    elapsed_seconds = now.at_seconds - last.at_seconds
    if elapsed_seconds < SHORTEST_WINDOW_SECONDS:
        return last, last.reads_per_second
    rate = round((now.statements - last.statements) / elapsed_seconds, 4)
    return Look(**{**asdict(now), "reads_per_second": rate}), rate


def measure_reads(settings: Settings, client: MysqlClient) -> Dict[str, Any]:
    """Client statements a second since the last look; None where that cannot be known, and then why."""
    try:
        now = _look(client)
        if now is None:
            return {"reads_per_second": None, "reads_unknown": NOT_COUNTED}
        kept, rate = reads_since(_stored(settings), now)
        write_json(settings.state_path(_FILE), asdict(kept))
    except (OSError, HostError, *MISFITS) as error:
        return {"reads_per_second": None, "reads_unknown": f"{type(error).__name__}: {error}"}
    return {"reads_per_second": rate, "reads_unknown": _BEGUN if rate is None else ""}


def _look(client: MysqlClient) -> Optional[Look]:
    uptime_seconds = float(status_text(client, "Uptime"))
    counters = read_counters(client)
    if counters is None:
        return None
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    return Look(boot_id(), at, at - uptime_seconds, counters.statements)


def _stored(settings: Settings) -> Optional[Look]:
    try:
        stored: Look = decoded(Look, read_json(settings.state_path(_FILE)) or {})
        return stored
    except (UnreadableFile, *MISFITS):
        return None
