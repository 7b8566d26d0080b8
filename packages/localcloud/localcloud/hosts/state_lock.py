"""Who uses a state directory: the mark that its processes carry, and the lock of the one live server."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import IO

from localcloud.dataplane import DataPlaneError

# In the environment of every process of a local cloud: the absolute path of its state directory.
PROCESS_MARK = "PEAKER_LOCALCLOUD"

_LOCK_NAME = "server.lock"
_guard = threading.Lock()
_held: dict[Path, tuple[IO[str], int]] = {}


def process_mark(state_directory: Path) -> dict[str, str]:
    """The environment entry of processes that belong to this state directory."""
    return {PROCESS_MARK: str(state_directory.resolve())}


class StateLock:
    """Held while a local cloud lives; several parts of one process may hold it together.

    A record lock, not flock: forked workers must not keep it after the server was killed.
    """

    def __init__(self, state_directory: Path) -> None:
        self._path = state_directory.resolve() / _LOCK_NAME
        self._holds = False

    def acquire(self) -> None:
        """Raises DataPlaneError when another process holds it."""
        with _guard:
            if self._holds:
                return
            file, count = _held.get(self._path, (None, 0))
            _held[self._path] = (file or _open_locked(self._path), count + 1)
            self._holds = True

    def release(self) -> None:
        """Safe to call twice."""
        with _guard:
            if not self._holds:
                return
            file, count = _held.pop(self._path)
            if count > 1:
                _held[self._path] = (file, count - 1)
            else:
                file.close()
            self._holds = False


def live_server(state_directory: Path) -> int | None:
    """The process that holds the lock (this one included), or None."""
    path = state_directory.resolve() / _LOCK_NAME
    with _guard:
        if path in _held:
            return os.getpid()
        if not path.is_file():
            return None
        with path.open("r+") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return int(file.read().strip() or 0)
    return None


def _open_locked(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        raise DataPlaneError(
            f"a local cloud already runs in {path.parent} (process {owner}): stop it, or use another --state"
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
