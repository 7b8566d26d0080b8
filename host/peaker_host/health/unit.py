"""What the health responder needs on its host: its systemd unit, its own database account, and commands' folders that
the SSM agent keeps for hours, not for 14 days (its default: of a command a minute those would be 20,000).

Where the owner of the cluster made an account (docs/read-endpoint.md) and its client file is here, that one is used.
Otherwise it is made on this server alone (its creation is not logged), so that it neither needs a change on the source
nor makes this replica differ from it in GTIDs. It may see how replication stands, and nothing else.
"""

from __future__ import annotations

import json
import os
import secrets
from typing import List, Optional

from peaker_host.database.mysql_client import MysqlClient, sql_text
from peaker_host.machine.errors import DatabaseUnreachable, SuperReadOnlyNotRestored
from peaker_host.machine.files import read_json, write_atomically
from peaker_host.machine.settings import Machine, Settings, package_command

UNIT = "peaker-health.service"
CURRENT_PACKAGE = "/opt/peaker/current/peaker_host.pyz"

# What makes it end at once, such as a wrong host.json or a port that another has, a person mends later than five tries
# take, after which systemd gives up for good. StartLimitInterval is that setting's name before systemd 230.
_RESTART = """Restart=always
RestartSec=2
StartLimitInterval=0
"""
# The process that looks needs the files and sockets of others, and may be told a port below 1024; the one that answers
# becomes nobody. No setting here gives them a mount namespace of their own: volumes come and go beneath them.
_LIMITS = """NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_NET_BIND_SERVICE CAP_SETUID CAP_SETGID
RestrictSUIDSGID=yes
LimitNOFILE=1024
TasksMax=64
MemoryMax=256M
"""


def install_health_service(machine: Machine) -> None:
    """Write the unit and (re)start it. Doing it again changes nothing but the responder's start time.

    Whatever the file says already: a command that was killed behind it has told systemd nothing.
    """
    write_atomically(os.path.join(machine.unit_dir, UNIT), unit_text(machine))
    machine.processes.run(["systemctl", "daemon-reload"])
    machine.systemctl("enable", UNIT)
    # What systemd has given up it does not start before it is told so.
    machine.systemctl("reset-failed", UNIT)
    machine.processes.run(["systemctl", "restart", UNIT])


def unit_text(settings: Settings) -> str:
    """The unit file. It follows the `current` link, so that a newer package is used after a restart. Its Python is the
    one that this command runs on: another one of the host may be too old."""
    interpreter, *package = package_command()
    if os.path.exists(CURRENT_PACKAGE):
        package = [CURRENT_PACKAGE]
    return (
        "[Unit]\n"
        "Description=Peaker health responder\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "StartLimitIntervalSec=0\n\n"
        "[Service]\n"
        f"ExecStart={' '.join([interpreter, *package])} health --port {settings.health_port}\n"
        f"{_RESTART}"
        f"{_LIMITS}\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


RETENTION_HOURS = 8
FIELD = "RunCommandLogsRetentionDurationHours"
_SECTION = "Ssm"


def kept_hours(settings: Settings) -> Optional[float]:
    """Returns the hours of the agent's configuration; None where the agent's default holds. Raises UnreadableFile."""
    section = (read_json(settings.agent_config) or {}).get(_SECTION)
    hours = section.get(FIELD) if isinstance(section, dict) else None
    if isinstance(hours, bool) or not isinstance(hours, (int, float)) or hours <= 0:
        return None
    return float(hours)


def is_short(hours: Optional[float]) -> bool:
    return hours is not None and hours <= RETENTION_HOURS


def shorten_retention(settings: Settings) -> None:
    """Writes RETENTION_HOURS into the agent's configuration unless it keeps them for less; the rest of that file stays.

    It counts from the agent's next start. Raises UnreadableFile.
    """
    if is_short(kept_hours(settings)):
        return
    content = read_json(settings.agent_config) or {}
    section = content.get(_SECTION)
    changed = {**(section if isinstance(section, dict) else {}), FIELD: RETENTION_HOURS}
    write_atomically(settings.agent_config, json.dumps({**content, _SECTION: changed}, indent=4) + "\n")


ACCOUNT, OWNERS_ACCOUNT = "peaker_health_local", "peaker_health"
# Turning super_read_only on waits for a transaction that is being applied.
_RESTORE_TRIES, _RESTORE_WAIT_SECONDS = 6, 10
# One of each kind that validate_password and MariaDB's simple_password_check ask for; a random text may lack one.
_STRONG = "Aa1_"
# The tables that a sample asks (sample.py).
_TABLES = (
    "replication_connection_status",
    "replication_connection_configuration",
    "replication_applier_status_by_worker",
    "replication_applier_status_by_coordinator",
)
_MAY_SEE = {
    "mysql": ("REPLICATION CLIENT ON *.*", *(f"SELECT ON performance_schema.{table}" for table in _TABLES)),
    "mariadb": ("REPLICA MONITOR ON *.*",),
}


def ensure_health_account(machine: Machine, admin: MysqlClient) -> bool:
    """Keep the account that works, else make one with a new password and write its client file; says whether it did.

    MySQL's super_read_only is off for a moment where it was on; read_only stays on.
    """
    if os.path.exists(machine.health_defaults_file) and login_problem(machine) is None:
        return False
    password = _STRONG + secrets.token_urlsafe(24)
    name = f"{sql_text(ACCOUNT)}@'localhost'"
    statements = [
        "SET SESSION sql_log_bin = 0",
        # Made anew with its password: a policy refuses an account without one, and a history the same one twice.
        f"DROP USER IF EXISTS {name}",
        f"CREATE USER {name} IDENTIFIED BY {sql_text(password)} PASSWORD EXPIRE NEVER",
        *(f"GRANT {right} TO {name}" for right in _MAY_SEE[machine.engine]),
    ]
    if machine.engine == "mysql":
        _while_writable(admin, statements)
    else:
        admin.execute(*statements)
    text = f"[client]\nuser={ACCOUNT}\npassword={password}\n"
    write_atomically(machine.health_defaults_file, text, mode=0o600)
    return True


def statements_for_the_source(engine: str) -> List[str]:
    """Returns the statements by which the owner makes the account on the source."""
    name = f"{sql_text(OWNERS_ACCOUNT)}@'localhost'"
    return [
        f"CREATE USER {name} IDENTIFIED BY '<password>' WITH MAX_USER_CONNECTIONS 5",
        *(f"GRANT {right} TO {name}" for right in _MAY_SEE[engine]),
    ]


def _while_writable(admin: MysqlClient, statements: List[str]) -> None:
    """Accounts are written like other rows. read_only stays on meanwhile, and super_read_only is on again also when a
    statement fails; where it was off it stays off."""
    if not int(admin.json({"on": "@@GLOBAL.super_read_only"})["on"]):
        admin.execute(*statements)
        return
    try:
        admin.execute("SET GLOBAL super_read_only = OFF", *statements)
    finally:
        _restore_super_read_only(admin)


def _restore_super_read_only(admin: MysqlClient) -> None:
    # It waits for what is being applied, and while it waits nothing else can commit: not for long, but again.
    briefly = f"SET SESSION lock_wait_timeout = {_RESTORE_WAIT_SECONDS}"
    for tries_left in reversed(range(_RESTORE_TRIES)):
        try:
            admin.execute(briefly, "SET GLOBAL super_read_only = ON")
            return
        except DatabaseUnreachable as error:
            if not tries_left:
                raise SuperReadOnlyNotRestored(
                    "super_read_only is OFF and could not be turned on again, read_only is ON: "
                    f"{error}. Turn it on: SET GLOBAL super_read_only = ON"
                ) from error


def login_problem(machine: Machine) -> Optional[str]:
    try:
        health_client(machine).rows("SELECT 1", timeout_seconds=10.0)
    except DatabaseUnreachable as error:
        return str(error)
    return None


def health_client(machine: Machine) -> MysqlClient:
    """The server as the responder sees it. Without the account every question fails, which is bad, not good."""
    socket = _socket_line(machine)
    return MysqlClient(machine.processes, machine.mysql_client, machine.health_defaults_file, socket)


def _socket_line(settings: Settings) -> List[str]:
    """Names the socket of the administrator's file for the responder, where that file has one."""
    if not os.path.exists(settings.admin_defaults_file):
        return []
    with open(settings.admin_defaults_file, encoding="utf-8") as file:
        named = [line.split("=", 1)[1].strip() for line in file if line.strip().startswith("socket")]
    return [f"--socket={named[0]}"] if named else []
