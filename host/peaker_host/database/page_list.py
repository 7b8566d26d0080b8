"""The buffer pool's page list, which the donor writes before the snapshot.

The donor serves meanwhile, so its settings are put back: at the end of the dump, also a failed one; and when the
dump was killed, by the next prepare_donor or report_health (every `health.check_minutes`), which find the note that
was left. A value that somebody changed meanwhile is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from typing import Iterator

from peaker_host.blocks.database_files import PAGE_LIST_FILE
from peaker_host.database.mysql_client import MysqlClient, status_text
from peaker_host.database.temporary_variables import TemporaryVariables
from peaker_host.machine.errors import BufferPoolTimeout, DatabaseUnreachable
from peaker_host.machine.files import open_lock_file
from peaker_host.machine.settings import Settings

_PERCENT = "innodb_buffer_pool_dump_pct"
_FILENAME = "innodb_buffer_pool_filename"


def dump_buffer_pool(client: MysqlClient, settings: Settings, percent: int, timeout_seconds: float) -> int:
    """Dumps the page list as `ib_buffer_pool` into the data directory.

    Returns the number of pages in it; raises BufferPoolTimeout.
    """
    with _locked(settings, wait=True):
        _restore(client, settings)
        facts = client.json(
            {"datadir": "@@GLOBAL.datadir", **{n: f"@@GLOBAL.{n}" for n in (_PERCENT, _FILENAME)}}
        )
        # MariaDB cannot be told another name while it runs: its own list is copied.
        name = str(facts[_FILENAME]) if settings.engine == "mariadb" else PAGE_LIST_FILE
        path = os.path.join(str(facts["datadir"]), name)
        before = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
        assignments = _temporary(settings).note({_PERCENT: percent, _FILENAME: name}, facts)
        try:
            client.execute(*assignments, "SET GLOBAL innodb_buffer_pool_dump_now = ON")
            pages = _await_dump(client, path, before, timeout_seconds)
            _copy_list(path, os.path.join(str(facts["datadir"]), PAGE_LIST_FILE))
            return pages
        finally:
            # An unreachable server keeps the note: the next command puts its settings back.
            with contextlib.suppress(DatabaseUnreachable):
                _restore(client, settings)


def restore_dump_settings(client: MysqlClient, settings: Settings) -> bool:
    """Restores the variables of a killed dump; says whether there were any. A running dump is left alone, and a server
    that does not answer keeps its note."""
    if not _temporary(settings).noted:
        return False
    with _locked(settings, wait=False) as held:
        if not held:
            return False
        try:
            return _restore(client, settings)
        except DatabaseUnreachable:
            return False


def _await_dump(client: MysqlClient, path: str, before_ns: int, timeout_seconds: float) -> int:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        status = status_text(client, "Innodb_buffer_pool_dump_status")
        fresh = os.path.exists(path) and os.stat(path).st_mtime_ns > before_ns
        if fresh and "completed" in status:
            with open(path, "rb") as file:
                return sum(1 for _ in file)
        time.sleep(0.2)
    raise BufferPoolTimeout(f"the page list was not dumped within {timeout_seconds:g} s")


def _copy_list(path: str, place: str) -> None:
    """Copies the page list in one step, so that the copy never loads half of one."""
    if os.path.realpath(path) == os.path.realpath(place):
        return
    temporary = f"{place}.peaker"
    try:
        shutil.copyfile(path, temporary)
        owner = os.stat(path)
        os.chmod(temporary, owner.st_mode & 0o777)
        os.chown(temporary, owner.st_uid, owner.st_gid)
        os.replace(temporary, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _restore(client: MysqlClient, settings: Settings) -> bool:
    return _temporary(settings).restore(client)


def _temporary(settings: Settings) -> TemporaryVariables:
    return TemporaryVariables(settings.state_path("donor-settings.json"), (_PERCENT, _FILENAME))


@contextlib.contextmanager
def _locked(settings: Settings, wait: bool) -> Iterator[bool]:
    """Locks the dump; the kernel unlocks it when the process is killed."""
    with open_lock_file(settings.state_path("donor-settings.lock")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
