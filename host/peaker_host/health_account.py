"""The responder's own database account: it may see how replication stands, and nothing else.

Where the owner of the cluster made one (docs/read-endpoint.md) and its client file is here, that one is used. Otherwise
it is made on this server alone (its creation is not logged), so that it neither needs a change on the source nor makes
this replica differ from it in GTIDs.
"""

from __future__ import annotations

import os
import secrets
from typing import List

from peaker_host.errors import DatabaseUnreachable
from peaker_host.files import write_atomically
from peaker_host.mysql_client import MysqlClient, sql_text
from peaker_host.processes import Processes
from peaker_host.settings import Settings

ACCOUNT = "peaker_health_local"
_MAY_SEE = {
    "mysql": ("REPLICATION CLIENT ON *.*", "SELECT ON performance_schema.*"),
    "mariadb": ("REPLICA MONITOR ON *.*",),
}


def ensure_health_account(settings: Settings, processes: Processes, admin: MysqlClient) -> bool:
    """Keep the account that works, else make one with a new password and write its client file; says whether it did.

    It must be called before the server serves reads: MySQL's super_read_only is off for a moment.
    """
    if os.path.exists(settings.health_defaults_file) and _works(health_client(settings, processes)):
        return False
    password = secrets.token_urlsafe(24)
    name = f"{sql_text(ACCOUNT)}@'localhost'"
    statements = [
        "SET SESSION sql_log_bin = 0",
        f"CREATE USER IF NOT EXISTS {name}",
        f"ALTER USER {name} IDENTIFIED BY {sql_text(password)}",
        *(f"GRANT {right} TO {name}" for right in _MAY_SEE[settings.engine]),
    ]
    if settings.engine == "mysql":
        _while_writable(admin, statements)
    else:
        admin.execute(*statements)
    text = f"[client]\nuser={ACCOUNT}\npassword={password}\n"
    write_atomically(settings.health_defaults_file, text, mode=0o600)
    return True


def _while_writable(admin: MysqlClient, statements: List[str]) -> None:
    """Accounts are written like other rows. read_only stays on meanwhile, and super_read_only is on again also when a
    statement fails."""
    try:
        admin.execute("SET GLOBAL super_read_only = OFF", *statements)
    finally:
        admin.execute("SET GLOBAL super_read_only = ON")


def _works(client: MysqlClient) -> bool:
    try:
        client.rows("SELECT 1", timeout_seconds=10.0)
    except DatabaseUnreachable:
        return False
    return True


def health_client(settings: Settings, processes: Processes) -> MysqlClient:
    """The server as the responder sees it. Without the account every question fails, which is bad, not good."""
    socket = _socket_line(settings)
    return MysqlClient(processes, settings.mysql_client, settings.health_defaults_file, socket)


def _socket_line(settings: Settings) -> List[str]:
    """Where the administrator's file names a socket, the responder uses the same."""
    if not os.path.exists(settings.admin_defaults_file):
        return []
    with open(settings.admin_defaults_file, encoding="utf-8") as file:
        named = [line.split("=", 1)[1].strip() for line in file if line.strip().startswith("socket")]
    return [f"--socket={named[0]}"] if named else []
