"""A server for the time of a clone: without a network of its own, on a data directory that is thrown away.

`CLONE INSTANCE ... DATA DIRECTORY` writes the copy beside it (MySQL 8.4 manual, "Cloning to a Named Directory"), so
that nothing is restarted, and what a clone that failed has left is one directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Callable, List, Optional

from peaker_host.clone.moved_in import give
from peaker_host.clone.request import Donor
from peaker_host.database.mysql_client import MysqlClient, sql_text
from peaker_host.machine.errors import (
    CloneRefused,
    CommandFailed,
    DatabaseStartFailed,
    DatabaseUnreachable,
    HostError,
    Interrupted,
)
from peaker_host.machine.files import read_text
from peaker_host.machine.processes import Processes
from peaker_host.machine.replication_login import ReplicationLogin
from peaker_host.machine.settings import Settings

FOLDER = ".peaker-clone"
_START_SECONDS = 120.0
_STOP_SECONDS = 120.0
_LOOK_SECONDS = 1.0
# Longer than a prewarm may take (limits.prewarm_deadline_minutes at most): the run's deadline ends it before.
_CLONE_SECONDS = 4 * 86_400.0
_TAIL_CHARACTERS = 600
# Of the stages that copy (MySQL 8.4 manual, "The clone_progress Table").
_OF_COPYING = "FROM performance_schema.clone_progress WHERE STAGE IN ('FILE COPY', 'PAGE COPY', 'REDO COPY'))"
_DONE, _TOTAL = "(SELECT SUM(DATA) " + _OF_COPYING, "(SELECT SUM(ESTIMATE) " + _OF_COPYING


@dataclass(frozen=True)
class Copied:
    """Bytes of the copy that are there, and of which so many are expected."""

    bytes_done: int
    bytes_total: int


class Recipient:
    """Its folder is `datadir`/.peaker-clone, on the volume that is to be written."""

    def __init__(
        self, settings: Settings, processes: Processes, datadir: str, say: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._processes = processes
        self._say = say
        self.folder = os.path.join(datadir, FOLDER)
        self.copy = os.path.join(self.folder, "copy")
        self._own = os.path.join(self.folder, "server")
        self._log = os.path.join(self.folder, "error.log")
        socket = os.path.join(self.folder, "server.sock")
        self._client = MysqlClient(processes, settings.mysql_client, "", [f"--socket={socket}"])
        self._process: Optional["subprocess.Popen[str]"] = None
        self._said = ""

    def start(self) -> None:
        """Raises DatabaseStartFailed with the end of its error log."""
        os.makedirs(self.folder, mode=0o700)
        give(self.folder, self._settings.mysql_user)
        self._say("a server is made that takes the clone")
        try:
            self._processes.run([*self._argv(), "--initialize-insecure"], timeout_seconds=_START_SECONDS)
        except CommandFailed as error:
            raise DatabaseStartFailed(f"{error}: {self._tail()}") from error
        self._process = self._processes.start([*self._argv(), "--plugin-load-add=mysql_clone.so"])
        self._await_up(self._process)

    def _await_up(self, process: "subprocess.Popen[str]") -> None:
        deadline = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self._client.wait_until_up(_LOOK_SECONDS):
                return
        self.end()
        raise DatabaseStartFailed(
            f"the server for the clone does not answer, exit code {process.returncode}: {self._said} {self._tail()}"
        )

    def clone(
        self,
        donor: Donor,
        login: ReplicationLogin,
        rate_mib_per_s: int,
        stop: threading.Event,
        tell: Callable[[Copied], None],
    ) -> None:
        """Copy the donor, encrypted on its way, at no more than so many MiB/s; `tell` hears every second how far it is.

        Raises CloneRefused with what the servers say, Interrupted when `stop` is set meanwhile.
        """
        statements = (
            f"SET GLOBAL clone_valid_donor_list = {sql_text(f'{donor.host}:{donor.port}')}",
            f"SET GLOBAL clone_max_data_bandwidth = {int(rate_mib_per_s)}",
            f"CLONE INSTANCE FROM {sql_text(login.user)}@{sql_text(donor.host)}:{int(donor.port)} "
            f"IDENTIFIED BY {sql_text(login.password)} DATA DIRECTORY = {sql_text(self.copy)} REQUIRE SSL",
        )
        ended: List[Optional[HostError]] = []
        worker = threading.Thread(target=self._execute, args=(statements, ended), daemon=True)
        worker.start()
        while worker.is_alive() and not stop.is_set():
            worker.join(_LOOK_SECONDS)
            found = self._copied()
            if found is not None:
                tell(found)
        if worker.is_alive():
            # The statement ends with its server.
            self.end()
            worker.join()
            raise Interrupted("the clone was told to end")
        if ended[0] is not None:
            raise CloneRefused(f"clone of {donor.host}:{donor.port}: {ended[0]}")

    def end(self) -> None:
        """Shut it down. What it does not do in time is not waited for: its data is thrown away."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            _, self._said = process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def end_left_over(self) -> None:
        """Kill what an engine that was killed has left at work here: a server, or one that was just being made."""
        own = f"--datadir={self._own}\0"
        left = [one for one in os.listdir("/proc") if one.isdigit() and own in _read(f"/proc/{one}/cmdline")]
        deadline = time.monotonic() + _STOP_SECONDS
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        while any(_has_files(pid) for pid in left) and time.monotonic() < deadline:
            time.sleep(0.05)

    def _execute(self, statements: "tuple[str, ...]", ended: List[Optional[HostError]]) -> None:
        try:
            self._client.execute(*statements, timeout_seconds=_CLONE_SECONDS)
            ended.append(None)
        except HostError as error:
            ended.append(error)

    def _copied(self) -> Optional[Copied]:
        """None while there is nothing to tell."""
        try:
            found = self._client.json({"done": _DONE, "total": _TOTAL})
        except (DatabaseUnreachable, CommandFailed):
            return None
        total = int(found["total"] or 0)
        return Copied(min(int(found["done"] or 0), total), total) if total else None

    def _argv(self) -> List[str]:
        """By the option files of the host, which say what must be as on the donor (page size, lower_case_table_names);
        but in places of its own, small, and known to nobody."""
        inside = ("datadir", "innodb-log-group-home-dir", "innodb-undo-directory", "innodb-data-home-dir")
        return [
            self._settings.mysql_server,
            f"--user={self._settings.mysql_user}",
            *(f"--{name}={self._own}" for name in inside),
            f"--log-error={self._log}",
            f"--pid-file={os.path.join(self.folder, 'server.pid')}",
            f"--socket={os.path.join(self.folder, 'server.sock')}",
            f"--relay-log={os.path.join(self._own, 'relay')}",
            f"--relay-log-index={os.path.join(self._own, 'relay.index')}",
            "--disable-log-bin",
            "--skip-networking",
            "--skip-replica-start",
            "--loose-mysqlx=OFF",
            "--read-only=OFF",
            "--super-read-only=OFF",
            "--event-scheduler=OFF",
            "--general-log=OFF",
            "--slow-query-log=OFF",
            # Nothing of its own has to outlive it; what it clones it flushes itself.
            "--innodb-doublewrite=OFF",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=64M",
            "--innodb-redo-log-capacity=64M",
            "--innodb-buffer-pool-load-at-startup=OFF",
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
        ]

    def _tail(self) -> str:
        """Of its error log: what it calls an error, the first of which is the cause; else the last lines."""
        told = (read_text(self._log) or "").strip()
        errors = "\n".join(line for line in told.splitlines() if "[ERROR]" in line)
        return errors[:_TAIL_CHARACTERS] or told[-_TAIL_CHARACTERS:]


def _has_files(pid: str) -> bool:
    """A process that ends gives its memory back first, its files with its last thread (proc(5), `stat`: Z, X)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    stats = [_read(f"/proc/{pid}/task/{one}/stat") or ") X" for one in threads]
    return any(stat.rpartition(")")[2].split()[0] not in ("Z", "X") for stat in stats)


def _read(path: str) -> str:
    """Of a process that may end meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        return read_text(path) or ""
    return ""
