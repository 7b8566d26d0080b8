"""The responder's own database account: it may see how replication stands, and nothing else.

It exists on this server alone (its creation is not logged), so that it neither needs a change on the source nor makes
this replica differ from it in GTIDs.
"""

from __future__ import annotations

import os
import secrets

from peaker_host.files import write_atomically
from peaker_host.mysql_client import MysqlClient, sql_text
from peaker_host.processes import Processes
from peaker_host.settings import Settings

ACCOUNT = "peaker_health_local"
_MAY_SEE = {
    "mysql": ("REPLICATION CLIENT ON *.*", "SELECT ON performance_schema.*"),
    "mariadb": ("REPLICA MONITOR ON *.*",),
}


def ensure_health_account(settings: Settings, client: MysqlClient) -> None:
    """Make the account with a new password and write its client file. The server must not serve reads yet."""
    password = secrets.token_urlsafe(24)
    name = f"{sql_text(ACCOUNT)}@'localhost'"
    statements = [
        "SET SESSION sql_log_bin = 0",
        f"CREATE USER IF NOT EXISTS {name}",
        f"ALTER USER {name} IDENTIFIED BY {sql_text(password)}",
        *(f"GRANT {right} TO {name}" for right in _MAY_SEE[settings.engine]),
    ]
    if settings.engine == "mysql":
        # Accounts are written like other rows; read_only stays on meanwhile.
        statements = ["SET GLOBAL super_read_only = OFF", *statements, "SET GLOBAL super_read_only = ON"]
    client.execute(*statements)
    text = f"[client]\nuser={ACCOUNT}\npassword={password}\n"
    write_atomically(settings.health_defaults_file, text, mode=0o600)


def health_client(settings: Settings, processes: Processes) -> MysqlClient:
    """The server as the responder sees it. Without the account every question fails, which is bad, not good."""
    socket = _socket_line(settings)
    return MysqlClient(processes, settings.mysql_client, settings.health_defaults_file, socket)


def _socket_line(settings: Settings) -> list[str]:
    """Where the administrator's file names a socket, the responder uses the same."""
    if not os.path.exists(settings.admin_defaults_file):
        return []
    with open(settings.admin_defaults_file, encoding="utf-8") as file:
        named = [line.split("=", 1)[1].strip() for line in file if line.strip().startswith("socket")]
    return [f"--socket={named[0]}"] if named else []
