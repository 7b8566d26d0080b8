"""This module counts the statements of clients over the network, from the server's own statistics.

performance_schema counts statements per account; those of this host itself are Peaker's, the administrator's and a
monitoring agent's and are left out, over the socket and over loopback. Replication threads have no account there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.machine.errors import ServerRestarted, UnclearAnswer
from peaker_host.machine.understanding import understood

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
    """Tells whether performance_schema is on."""
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
