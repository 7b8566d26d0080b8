"""The buffer pool's page list: written by the donor before the snapshot, loaded by its copy.

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
from typing import Any, Callable, Dict, Iterator, List, Tuple

from peaker_host.blocks.database_files import PAGE_LIST_FILE
from peaker_host.database.mysql_client import MysqlClient, sql_text
from peaker_host.machine.errors import BufferPoolTimeout, DatabaseUnreachable, UnreadableFile
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import understood

_PERCENT = "innodb_buffer_pool_dump_pct"
_FILENAME = "innodb_buffer_pool_filename"


def dump_buffer_pool(client: MysqlClient, settings: Settings, percent: int, timeout_seconds: float) -> int:
    """Write `ib_buffer_pool` into the data directory now, whatever the donor calls its own list.

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
        wanted: Dict[str, Any] = {_PERCENT: percent, _FILENAME: name}
        changed = {name: value for name, value in wanted.items() if str(facts[name]) != str(value)}
        if changed:
            write_json(_note_path(settings), {"set": changed, "was": {name: facts[name] for name in changed}})
        before = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
        try:
            client.execute(*_assignments(changed), "SET GLOBAL innodb_buffer_pool_dump_now = ON")
            pages = _await_dump(client, path, before, timeout_seconds)
            _copy_list(path, os.path.join(str(facts["datadir"]), PAGE_LIST_FILE))
            return pages
        finally:
            # An unreachable server keeps the note: the next command puts its settings back.
            with contextlib.suppress(DatabaseUnreachable):
                _restore(client, settings)


def restore_dump_settings(client: MysqlClient, settings: Settings) -> bool:
    """Put back what a dump that was killed has left changed; says whether there was anything. One that runs is left
    alone, and a server that does not answer keeps its note."""
    if not os.path.exists(_note_path(settings)):
        return False
    with _locked(settings, wait=False) as held:
        if not held:
            return False
        try:
            return _restore(client, settings)
        except DatabaseUnreachable:
            return False


def begin_buffer_pool_load(client: MysqlClient) -> None:
    """Let the server load the pages named in ib_buffer_pool while other things go on; once per start of the server."""
    status = _status_text(client, "Innodb_buffer_pool_load_status")
    if not status or "not started" in status:
        # A replica that Peaker launched reads the name at its start. MariaDB cannot be told it later.
        own = str(client.json({"name": f"@@GLOBAL.{_FILENAME}"})["name"])
        naming = [] if own == PAGE_LIST_FILE else [f"SET GLOBAL {_FILENAME} = {sql_text(PAGE_LIST_FILE)}"]
        client.execute(*naming, "SET GLOBAL innodb_buffer_pool_load_now = ON")


def load_buffer_pool(
    client: MysqlClient, timeout_seconds: float, say: Callable[[str], None]
) -> Dict[str, Any]:
    """Wait until the pages named in ib_buffer_pool are loaded; begin it where nobody did."""
    started = time.monotonic()
    begin_buffer_pool_load(client)
    deadline = started + timeout_seconds
    said = started
    while time.monotonic() < deadline:
        status = _status_text(client, "Innodb_buffer_pool_load_status")
        if "completed" in status or "Cannot open" in status:
            pages = _status_text(client, "Innodb_buffer_pool_pages_data")
            return {
                "pages": int(pages or 0),
                "seconds": round(time.monotonic() - started, 3),
                "page_list_found": "completed" in status,
            }
        if time.monotonic() - said >= 2:
            said = time.monotonic()
            say(status)
        time.sleep(0.2)
    raise BufferPoolTimeout(f"the buffer pool was not loaded within {timeout_seconds:g} s")


def _await_dump(client: MysqlClient, path: str, before_ns: int, timeout_seconds: float) -> int:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        status = _status_text(client, "Innodb_buffer_pool_dump_status")
        fresh = os.path.exists(path) and os.stat(path).st_mtime_ns > before_ns
        if fresh and "completed" in status:
            with open(path, "rb") as file:
                return sum(1 for _ in file)
        time.sleep(0.2)
    raise BufferPoolTimeout(f"the page list was not dumped within {timeout_seconds:g} s")


def _copy_list(path: str, place: str) -> None:
    """Never half a list under the name that the copy loads, and none beside it on a disk that is full."""
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
    note = read_json(_note_path(settings))
    if note is None:
        return False
    changed, was = _noted(note, _note_path(settings))
    now = client.json({name: f"@@GLOBAL.{name}" for name in changed})
    ours = {name: was[name] for name, value in changed.items() if str(now[name]) == str(value)}
    if ours:
        client.execute(*_assignments(ours))
    os.unlink(_note_path(settings))
    return True


def _noted(note: Dict[str, Any], path: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """What was set and what it was before; of no other variables than a dump's, for their names go into statements."""
    with understood(UnreadableFile, path, f"put {_PERCENT} and {_FILENAME} back yourself and delete it"):
        changed, was = note["set"], note["was"]
        if not set(changed) <= set(was) or not set(was) <= {_PERCENT, _FILENAME}:
            raise ValueError(f"it names other variables than {_PERCENT} and {_FILENAME}")
        if not all(type(value) in (int, str) for value in (*changed.values(), *was.values())):
            raise ValueError("a value in it is neither a number nor a text")
        return dict(changed), dict(was)


def _assignments(values: Dict[str, Any]) -> List[str]:
    return [
        f"SET GLOBAL {name} = {value if isinstance(value, int) else sql_text(str(value))}"
        for name, value in values.items()
    ]


def _note_path(settings: Settings) -> str:
    return os.path.join(settings.state_dir, "donor-settings.json")


@contextlib.contextmanager
def _locked(settings: Settings, wait: bool) -> Iterator[bool]:
    """Held while a dump runs; the kernel lets go of it when the process is killed."""
    os.makedirs(settings.state_dir, exist_ok=True)
    with open(os.path.join(settings.state_dir, "donor-settings.lock"), "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def _status_text(client: MysqlClient, name: str) -> str:
    rows = client.rows(f"SHOW GLOBAL STATUS LIKE '{name}'")
    return (rows[0].get("Value") or "") if rows else ""
