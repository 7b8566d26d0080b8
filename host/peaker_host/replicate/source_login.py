"""This module logs in at the replica's source and reads the source's position.

The donor's channel came with the copy, and its encryption is kept: nothing here sends the password over a connection
that the channel itself would not use. The channel record describes it in the data directory, because MariaDB's
master.info is not crash-safe and replication filters are in no file there. No password is in the record.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, field
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple

from peaker_host.database.mysql_client import MysqlClient, option_line, remote_login, sql_text
from peaker_host.database.replica_status import DIALECTS, read_status
from peaker_host.machine.errors import (
    DatabaseUnreachable,
    FiltersDiffer,
    InvalidHostSettings,
    ReplicationNotConfigured,
    UnclearAnswer,
    UnreadableFile,
    understood,
    whole,
)
from peaker_host.machine.files import read_json, write_atomically
from peaker_host.machine.settings import Machine, Settings, read_login

FILE = "peaker-channel.json"
_FILTERS = (
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
    "Replicate_Ignore_Server_Ids",
)
_LONGEST_SHOWN = 500
_OF_THE_CHANNEL = ("Host", "Port")


def write_record(client: MysqlClient, engine: str, datadir: str) -> None:
    """Writes the record on the donor, before its snapshot."""
    rows = client.rows(DIALECTS[engine].show_status)
    prefix = DIALECTS[engine].prefix
    kept = [*_FILTERS, *(f"{prefix}_{name}" for name in _OF_THE_CHANNEL)]
    status = {
        name: value
        for name, value in (rows[0] if rows else {}).items()
        if value and (name in kept or "_SSL_" in name)
    }
    text = json.dumps({"version": 1, "engine": engine, "status": status}, indent=1) + "\n"
    path = os.path.join(datadir, FILE)
    write_atomically(path, text, mode=0o600)


def read_record(datadir: str) -> Dict[str, Any]:
    """The record that came with the copy; empty when there is none. Raises UnreadableFile."""
    path = os.path.join(datadir, FILE)
    record = read_json(path) or {}
    status = record.get("status", {})
    if not isinstance(status, dict) or not all(isinstance(value, str) for value in status.values()):
        raise UnreadableFile(
            f"{path} cannot be read: its status is no object of texts; build from another donor"
        )
    return record


def refuse_other_filters(client: MysqlClient, engine: str, datadir: str) -> None:
    """A copy must replicate what its donor did. Raises FiltersDiffer that names both sides.

    MariaDB's domain and server ids belong to the channel and are made with it; all else comes from the configuration.
    """
    record = read_record(datadir)
    if not record or record.get("engine") != engine:
        return
    rows = client.rows(DIALECTS[engine].show_status)
    own: Dict[str, Optional[str]] = rows[0] if rows else {}
    if not rows:
        return
    wanted = record.get("status", {})
    differing: List[str] = [
        f"{name}: {_shown(own.get(name))} here, {_shown(wanted.get(name))} on the donor"
        for name in _FILTERS
        if _as_set(own.get(name)) != _as_set(wanted.get(name))
    ]
    if differing:
        raise FiltersDiffer(
            f"this replica would not apply what its donor applies: {'; '.join(differing)}. Set the donor's filters in "
            "the image's configuration"
        )


def _shown(filters: Optional[str]) -> str:
    return (filters or "none")[:_LONGEST_SHOWN]


def _as_set(text: Optional[str]) -> "set[str]":
    return {part.strip() for part in (text or "").split(",") if part.strip()}


_ASK_SECONDS = 15.0
# Column of mysql.slave_master_info and of SHOW SLAVE STATUS, option of the client.
_TLS_FILES = (
    ("Ssl_ca", "Master_SSL_CA_File", "ssl-ca"),
    ("Ssl_capath", "Master_SSL_CA_Path", "ssl-capath"),
    ("Ssl_cert", "Master_SSL_Cert", "ssl-cert"),
    ("Ssl_key", "Master_SSL_Key", "ssl-key"),
    ("Ssl_cipher", "Master_SSL_Cipher", "ssl-cipher"),
    ("Ssl_crl", "Master_SSL_Crl", "ssl-crl"),
    ("Ssl_crlpath", "Master_SSL_Crlpath", "ssl-crlpath"),
)


@dataclass(frozen=True)
class Encryption:
    """Encryption describes the channel: is it encrypted, is the source's certificate verified, with which
    files (by client option); may the password's public key come from the source itself (`gets_public_key`),
    which nothing vouches for.
    """

    encrypted: bool = False
    verified: bool = False
    files: Dict[str, str] = field(default_factory=dict)
    gets_public_key: bool = False
    public_key_path: str = ""

    def client_lines(self, engine: str) -> List[str]:
        """Lines of a client's option file that make its connection like the channel's."""
        files = [option_line(option, path) for option, path in self.files.items()]
        if engine == "mariadb":
            # Either is on from 11.4 on where nothing is said.
            verify = f"{'' if self.verified else 'skip-'}ssl-verify-server-cert"
            return ["ssl", verify, *files] if self.encrypted else ["skip-ssl"]
        key = ["get-server-public-key"] if self.gets_public_key else []
        key += [option_line("server-public-key-path", self.public_key_path)] if self.public_key_path else []
        return [f"ssl-mode={self._mode()}", *(files if self.encrypted else []), *key]

    def _mode(self) -> str:
        if not self.encrypted:
            return "DISABLED"
        if self.verified:
            return "VERIFY_IDENTITY"
        return "VERIFY_CA" if {"ssl-ca", "ssl-capath"} & set(self.files) else "REQUIRED"


@dataclass(frozen=True)
class Credentials:
    """The channel's login at the source; `host` is the name or address that the donor used, empty if unknown."""

    user: str
    password: str
    port: int
    host: str = ""
    encryption: Encryption = field(default_factory=Encryption)

    def host_for(self, address: str) -> str:
        """The source's name instead of its address where the certificate is verified and the name is that address's."""
        if not self.encryption.verified or not self.host or self.host == address:
            return address
        try:
            found = {str(entry[4][0]) for entry in socket.getaddrinfo(self.host, self.port)}
        except (OSError, ValueError):
            return address
        return self.host if address in found else address


@dataclass(frozen=True)
class SourcePosition:
    """A position has the source's executed transactions, and those purged from its binary logs; None where it
    does not tell.
    """

    executed: str
    purged: Optional[str]


def read_credentials(settings: Settings, client: MysqlClient, channel: str = "") -> Credentials:
    """User and password from the credentials file when there is one, else what MySQL stored in the data directory.

    Raises ReplicationNotConfigured, InvalidHostSettings, UnreadableFile.
    """
    login = read_login(settings)
    stored = _stored(settings, client, channel)
    host, encryption = stored.get("Host") or "", _encryption(settings.engine, stored)
    if login is not None:
        port = login.port or _port(stored)
        return Credentials(login.user, login.password, port, host, encryption)
    if stored.get("User_name"):
        return Credentials(
            stored["User_name"],
            stored.get("User_password") or "",
            _port(stored),
            host,
            encryption,
        )
    file = settings.replication_credentials_file
    raise ReplicationNotConfigured(f"no replication user: neither {file} nor the data directory names one")


def _port(stored: Dict[str, str]) -> int:
    with understood(InvalidHostSettings, "the channel in the data directory"):
        return whole(stored.get("Port") or 3306, "the port", 1, 65535)


def followed_source(settings: Settings, client: MysqlClient) -> Optional[Tuple[str, Credentials]]:
    """(host of the source, login there) of the server's channel; None without a channel.

    Raises DatabaseUnreachable, UnclearAnswer, and what read_credentials raises.
    """
    status = read_status(client, settings.engine)
    if status is None:
        return None
    return status.source_host, read_credentials(settings, client, status.channel)


def login_at(machine: Machine, host: str, credentials: Credentials) -> ContextManager[MysqlClient]:
    return remote_login(
        machine,
        credentials.host_for(host),
        credentials.port,
        credentials.user,
        credentials.password,
        credentials.encryption.client_lines(machine.engine),
    )


def source_binlog_expire_seconds(machine: Machine, client: MysqlClient) -> Optional[int]:
    """Returns the seconds that the source keeps its binary logs (0: for ever); None when that cannot be known now."""
    try:
        found = followed_source(machine, client)
        if found is None:
            return None
        with login_at(machine, *found) as source:
            wanted = {"seconds": "@@GLOBAL.binlog_expire_logs_seconds"}
            return whole(
                source.json(wanted, timeout_seconds=_ASK_SECONDS)["seconds"], "binlog_expire_logs_seconds"
            )
    except (DatabaseUnreachable, ReplicationNotConfigured, UnclearAnswer, ValueError):
        return None


def ask_position(
    machine: Machine, host: str, credentials: Credentials, say: Callable[[str], None]
) -> Optional[SourcePosition]:
    """Ask the source itself, with the channel's own user; None when it does not let that user in."""
    try:
        with login_at(machine, host, credentials) as source:
            if machine.engine == "mariadb":
                facts = source.json({"executed": "@@GLOBAL.gtid_binlog_pos"}, timeout_seconds=_ASK_SECONDS)
                return SourcePosition(one_line(facts["executed"]), _purged_of_mariadb(source, say))
            facts = source.json(
                {"executed": "@@GLOBAL.gtid_executed", "purged": "@@GLOBAL.gtid_purged"},
                timeout_seconds=_ASK_SECONDS,
            )
    except DatabaseUnreachable as error:
        say(f"the source could not be asked for its position: {error}")
        return None
    return SourcePosition(one_line(facts["executed"]), one_line(facts["purged"]))


def one_line(value: Any) -> str:
    """A GTID set without its line breaks; empty for NULL."""
    return str(value or "").replace("\n", "")


def _purged_of_mariadb(source: MysqlClient, say: Callable[[str], None]) -> Optional[str]:
    """Returns the beginning of the oldest binary log. Its list needs the right BINLOG MONITOR."""
    try:
        logs = source.rows("SHOW BINARY LOGS", timeout_seconds=_ASK_SECONDS)
        if not logs:
            return ""
        oldest = sql_text(logs[0].get("Log_name") or "")
        begins = source.json({"purged": f"BINLOG_GTID_POS({oldest}, 4)"}, timeout_seconds=_ASK_SECONDS)
    except DatabaseUnreachable as error:
        say(
            f"the source does not show its binary logs (grant BINLOG MONITOR to the replication user): {error}"
        )
        return None
    return one_line(begins["purged"])


def _stored(settings: Settings, client: MysqlClient, channel: str) -> Dict[str, str]:
    """Reads the login that came with the copy: MySQL's own table, or for MariaDB the record that
    prepare_donor wrote.
    """
    if settings.engine == "mysql":
        rows = client.rows(
            f"SELECT * FROM mysql.slave_master_info WHERE Channel_name = {sql_text(channel)} AND User_name <> ''"
        )
        return {name: value or "" for name, value in rows[0].items()} if rows else {}
    status = read_record(settings.datadir).get("status", {})
    known = {column: status.get(shown) or "" for column, shown, _ in _TLS_FILES}
    return {
        **known,
        "Host": status.get("Master_Host") or "",
        "Port": status.get("Master_Port") or "",
        "Enabled_ssl": "1" if status.get("Master_SSL_Allowed") == "Yes" else "0",
        "Ssl_verify_server_cert": "1" if status.get("Master_SSL_Verify_Server_Cert") == "Yes" else "0",
    }


def _encryption(engine: str, stored: Dict[str, str]) -> Encryption:
    return Encryption(
        encrypted=stored.get("Enabled_ssl") == "1",
        verified=stored.get("Ssl_verify_server_cert") == "1",
        files={option: stored[column] for column, _, option in _TLS_FILES if stored.get(column)},
        gets_public_key=stored.get("Get_public_key") == "1",
        public_key_path=stored.get("Public_key_path") or "",
    )
