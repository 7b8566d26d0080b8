"""The login with which Peaker looks at a server that others built."""

from __future__ import annotations

import os
import stat
import tempfile
from typing import Optional

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.donor.base_checks import ServerFacts, read_facts
from peaker_host.donor.base_step import DONE, THERE, Refusal, Step, looked
from peaker_host.machine.errors import DatabaseUnreachable
from peaker_host.machine.files import read_text, write_atomically
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings

_AS_ROOT = "[client]\nuser=root\n"
PREPARE = "run peaker prepare-base for this instance"
# What prepare_donor does to the server: it must be allowed, and this changes nothing.
_MAY_DUMP = "SET GLOBAL innodb_buffer_pool_dump_pct = @@GLOBAL.innodb_buffer_pool_dump_pct"


class Administrator:
    """The login with which Peaker looks at the server and dumps its page list: tried from a file of its own for the
    time of the `with` block, and kept as admin.cnf only by `keep`."""

    def __init__(self, settings: Settings, processes: Processes, given: str) -> None:
        self._settings, self._processes, self._given = settings, processes, given
        self._path = ""
        self.facts: Optional[ServerFacts] = None

    def __enter__(self) -> "Administrator":
        descriptor, self._path = tempfile.mkstemp(prefix="peaker-admin-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self._text())
        self.client = MysqlClient(self._processes, self._settings.mysql_client, self._path)
        self.step = looked("administrator", self._try)
        return self

    def __exit__(self, *_: object) -> None:
        os.unlink(self._path)

    def keep(self, facts: ServerFacts) -> Step:
        """Write admin.cnf where it says something else. A login that others keep is included, never copied."""
        path, text = self._settings.admin_defaults_file, self._to_keep(facts)
        if text is None:
            return self.step
        write_atomically(path, text, mode=0o600)
        return Step("administrator", DONE, f"{self.step.detail}; {path} written")

    def look_kept(self, facts: ServerFacts) -> "str | Step":
        """The step where admin.cnf is as it should be; else a refusal."""
        if self.step.state != THERE or self._to_keep(facts) is None:
            return self.step
        raise Refusal(f"{self.step.detail}, but {self._settings.admin_defaults_file} is not made", PREPARE)

    def _to_keep(self, facts: ServerFacts) -> Optional[str]:
        """Returns the wanted content of admin.cnf; None where it is right already."""
        path = self._settings.admin_defaults_file
        if not self._given and os.path.exists(path):
            return None
        socket = f"[client]\nsocket={facts.socket}\n" if facts.socket else ""
        text = f"{self._text()}{socket}"
        return None if read_text(path) == text else text

    def _text(self) -> str:
        if self._given:
            return f"!include {self._given}\n"
        own = self._settings.admin_defaults_file
        return f"!include {own}\n" if os.path.exists(own) else _AS_ROOT

    def _try(self) -> str:
        if self._given:
            refuse_open_file(self._given)
        elif os.path.exists(self._settings.admin_defaults_file):
            refuse_open_file(self._settings.admin_defaults_file)
        try:
            who = str(self.client.json({"who": "CURRENT_USER()"})["who"])
        except DatabaseUnreachable as error:
            own = self._settings.admin_defaults_file
            source = self._given or (f"{own} says" if os.path.exists(own) else "root, by the socket")
            raise Refusal(
                f"no login as {source}: {error}",
                "put the login of an administrator into an option file of the host that only root can read, and name it"
                ": --admin-defaults-file /root/peaker-admin.cnf (docs/base-replica.md has the least rights)",
            ) from error
        try:
            self.client.execute(_MAY_DUMP)
        except DatabaseUnreachable as error:
            raise Refusal(
                f"{who} may not dump the buffer pool's page list: {error}",
                f"GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO {who}; MariaDB: SUPER",
            ) from error
        self.facts = read_facts(self.client)
        return f"{who} logs in"


def refuse_open_file(path: str) -> None:
    """Raise Refusal unless it is a file of root's that nobody else can read: it holds a login."""
    try:
        facts = os.stat(path)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}", "name an option file that is on this host") from error
    if not stat.S_ISREG(facts.st_mode):
        raise Refusal(f"{path} is no file", "name an option file that is on this host")
    if facts.st_uid != 0 or facts.st_mode & 0o077:
        raise Refusal(
            f"{path} is not root's alone (mode {facts.st_mode & 0o777:o}): it holds a login",
            f"chown root {path}; chmod 600 {path}",
        )
