"""The buffer pool's page list, which the donor dumps before the snapshot, and its load into a copy's buffer pool.

Server variables that either changes for a while are put back: at its end, also a failed one; and when it was killed, by
the next command (report_health comes every `health.check_minutes`), which finds the note of their former values.

The first load begins when the server starts, beside the catch-up. It puts pages into the pool that nobody has asked for
yet, and in a pool that is full those are what InnoDB evicts for what the catch-up reads: 3/8 of them, the lowest
numbers first, before any that came by itself and will not be asked for again. So before readers come they are loaded
again, which finds in memory what is still there; what that evicts in turn is less each time, and soon the rest of what
came by itself. Measured on MySQL 9.7, a pool of 4,096 pages, 2,690 of them listed, 380 others changed meanwhile: 447
of the listed ones lacked before the second load, 419, 125 and 45 after the second, third and fourth; of the 890 that
were asked for all the time 329, and none after the second.

While a server is at work InnoDB loads no more than innodb_io_capacity pages a second (200 by default up to MySQL 8.0
and in MariaDB: 2,710 pages took 11.6 s, and 0.5 s without that limit), which for a pool of 100 GB is seven hours. Where
a copy has caught up and waits for its pages alone, the limit is raised until they are there; not before, for changed
pages would be written sooner, hence oftener, in hours of catch-up.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple

from peaker_host.blocks.database_files import PAGE_LIST_FILE
from peaker_host.database.mysql_client import MysqlClient, sql_text, status_text
from peaker_host.machine.errors import BufferPoolTimeout, DatabaseUnreachable, UnreadableFile, understood
from peaker_host.machine.files import open_lock_file, read_json, write_json
from peaker_host.machine.settings import Settings


@dataclass(frozen=True)
class TemporaryVariables:
    """The variables `names` may be changed, in this order; they are restored in the other."""

    path: str
    names: Tuple[str, ...]

    @property
    def noted(self) -> bool:
        return os.path.exists(self.path)

    def note(self, wanted: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
        """Writes the note of the values `now`, and returns the statements that set the `wanted` ones."""
        changed = {name: wanted[name] for name in self.names if str(now[name]) != str(wanted[name])}
        if changed:
            write_json(self.path, {"set": changed, "was": {name: now[name] for name in changed}})
        return _assignments(changed)

    def restore(self, client: MysqlClient) -> bool:
        """Restores the noted values; says whether there were any. Raises DatabaseUnreachable, UnreadableFile."""
        note = read_json(self.path)
        if note is None:
            return False
        changed, was = self._read(note)
        now = client.json({name: f"@@GLOBAL.{name}" for name in changed})
        ours = {
            name: was[name]
            for name in reversed(self.names)
            if name in changed and str(now[name]) == str(changed[name])
        }
        if ours:
            client.execute(*_assignments(ours))
        # Another command may have restored them at the same time.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        return True

    def restore_of_killed(self, client: MysqlClient) -> bool:
        """Restores the values that a killed command noted; says whether there were any. A command that runs is left
        alone, and a server that does not answer keeps its note."""
        with contextlib.suppress(BlockingIOError, DatabaseUnreachable):
            if self.noted:
                with self.held(fcntl.LOCK_EX | fcntl.LOCK_NB):
                    return self.restore(client)
        return False

    @contextlib.contextmanager
    def held(self, how: int = fcntl.LOCK_EX) -> Iterator[None]:
        """Locks them; the kernel unlocks them when the process is killed. With LOCK_NB it raises BlockingIOError."""
        with open_lock_file(f"{os.path.splitext(self.path)[0]}.lock") as file:
            fcntl.flock(file, how)
            yield

    def _read(self, note: Any) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """Reads the values that were set and those before, of `names` alone, which go into statements."""
        named = " and ".join(self.names)
        with understood(UnreadableFile, self.path, f"put {named} back yourself and delete it"):
            changed, was = note["set"], note["was"]
            if not set(changed) <= set(was) or not set(was) <= set(self.names):
                raise ValueError(f"it names other variables than {named}")
            if not all(type(value) in (int, str) for value in (*changed.values(), *was.values())):
                raise ValueError("a value in it is neither a number nor a text")
            return dict(changed), dict(was)


def _assignments(values: Mapping[str, Any]) -> List[str]:
    return [
        f"SET GLOBAL {name} = {value if isinstance(value, int) else sql_text(str(value))}"
        for name, value in values.items()
    ]


# Of the buffer pool's pages so many are listed at most.
DUMP_PERCENT = 75
# 312 MiB/s of pages, more than most volumes give.
LOADED_PAGES_PER_S = 20_000
# Each comes closer, and takes a second and what it reads.
MOST_LOADS = 5
_FILENAME = "innodb_buffer_pool_filename"
# The second is never above the first: they are raised in this order, and put back in the other.
_CAPACITIES = ("innodb_io_capacity_max", "innodb_io_capacity")
# Completed or aborted; no list, or no memory for it; a list that cannot be read; a server that was started anew.
_ENDED = ("Buffer pool(s) load ", "Cannot ", "Error ", "Loading of buffer pool not started")
_LOAD_NOW = "SET GLOBAL innodb_buffer_pool_load_now = ON"


def begin_buffer_pool_load(client: MysqlClient) -> str:
    """Starts the load of the pages named in ib_buffer_pool in the background, once per start of the server.

    Returns the status that the server goes on telling until the load is at work; empty where one was begun before.
    """
    status = _load_status(client)
    if status and "not started" not in status and "aborted" not in status:
        return ""
    # A replica that Peaker launched reads the name at its start. MariaDB cannot be told it later.
    named = str(client.json({_FILENAME: f"@@GLOBAL.{_FILENAME}"})[_FILENAME]) == PAGE_LIST_FILE
    naming = [] if named else [f"SET GLOBAL {_FILENAME} = {sql_text(PAGE_LIST_FILE)}"]
    client.execute(*naming, _LOAD_NOW)
    return status


def load_buffer_pool(
    client: MysqlClient, settings: Settings, timeout_seconds: float, say: Callable[[str], None]
) -> Dict[str, Any]:
    """Wait until the pages named in ib_buffer_pool are loaded, then load those that were evicted meanwhile.

    Begins it where nobody did. Raises BufferPoolTimeout; for a later load that does not end in time no build fails.
    """
    started = time.monotonic()
    deadline = started + timeout_seconds
    before = begin_buffer_pool_load(client)
    loads = 1
    with _limits_raised(client, settings):
        ended = _await_end(client, deadline, say, after=before)
        found = "completed" in ended
        again = found
        while again and loads < MOST_LOADS and _is_full(client):
            again = _load_again(client, ended, deadline, say)
            loads, ended = loads + 1, _load_status(client)
    return {
        "pages": _count(client, "buffer_pool_pages_data"),
        "seconds": round(time.monotonic() - started, 3),
        "page_list_found": found,
        "loads": loads,
    }


def _is_full(client: MysqlClient) -> bool:
    """InnoDB evicts nothing before it has used all but the pages that it keeps free, an eighth or less by default."""
    free, whole = _count(client, "buffer_pool_pages_free"), _count(client, "buffer_pool_pages_total")
    return free < whole / 4


def _load_again(client: MysqlClient, ended: str, deadline: float, say: Callable[[str], None]) -> bool:
    """Loads evicted pages again; tells whether that may have evicted more than a hundredth of the pool in turn.

    False also where the time was over first: the build goes on with what is there.
    """
    # Its page cleaner frees pages once a second; and two ends within one second could not be told apart.
    time.sleep(1.1)
    before = _count(client, "pages_read")
    client.execute(_LOAD_NOW)
    try:
        _await_end(client, deadline, say, after=ended)
    except BufferPoolTimeout as error:
        client.execute("SET GLOBAL innodb_buffer_pool_load_abort = ON")
        say(f"pages that were evicted since they were loaded are not loaded again: {error}")
        return False
    return _count(client, "pages_read") - before > _count(client, "buffer_pool_pages_data") / 100


def _await_end(client: MysqlClient, deadline: float, say: Callable[[str], None], after: str) -> str:
    """Waits for the end of a load and returns its status; `after` is what the server said before it was at work."""
    started = said = time.monotonic()
    while (now := time.monotonic()) < deadline:
        status = _load_status(client)
        if status != after:
            if status.startswith(_ENDED):
                say(status)
                return status
            after = ""
        if now - said >= 2:
            said = now
            say(status)
        time.sleep(0.2)
    raise BufferPoolTimeout(f"the buffer pool was not loaded within {deadline - started:g} s")


@contextlib.contextmanager
def _limits_raised(client: MysqlClient, settings: Settings) -> Iterator[None]:
    """Raises the limits until the block ends; a second command that loads at the same time may do so too."""
    limits = temporary_capacities(settings)
    with limits.held(fcntl.LOCK_SH):
        try:
            _raise_limits(client, settings)
            yield
        finally:
            limits.restore(client)


def _raise_limits(client: MysqlClient, settings: Settings) -> None:
    borrowed = temporary_capacities(settings)
    # A command that was killed may have raised one of them: its note knows what that was.
    borrowed.restore(client)
    now = client.json({name: f"@@GLOBAL.{name}" for name in _CAPACITIES})
    wanted = {name: max(LOADED_PAGES_PER_S, int(now[name])) for name in _CAPACITIES}
    if assignments := borrowed.note(wanted, now):
        client.execute(*assignments)


def _load_status(client: MysqlClient) -> str:
    return status_text(client, "Innodb_buffer_pool_load_status")


def _count(client: MysqlClient, name: str) -> int:
    return int(status_text(client, f"Innodb_{name}") or 0)


def temporary_capacities(settings: Settings) -> TemporaryVariables:
    """Returns the variables that are raised until the pages are loaded."""
    return TemporaryVariables(settings.state_path("load-settings.json"), _CAPACITIES)


_PERCENT = "innodb_buffer_pool_dump_pct"


def dump_buffer_pool(client: MysqlClient, settings: Settings, percent: int, timeout_seconds: float) -> int:
    """Dumps the page list as `ib_buffer_pool` into the data directory.

    Returns the number of pages in it; raises BufferPoolTimeout.
    """
    with _temporary(settings).held():
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
    """Restores the variables of a killed dump; says whether there were any."""
    return _temporary(settings).restore_of_killed(client)


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
