"""One prewarm engine per host: a lock on prewarm.lock that a look at the engine never takes.

Open file description locks (fcntl(2), Linux 3.15) can be asked for without being taken, and end with the process.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import IO, Optional

from peaker_host.machine.errors import PrewarmAlreadyRunning
from peaker_host.machine.settings import Settings

# struct flock on 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


def take_lock(settings: Settings, run_id: str) -> IO[str]:
    """Held until the file is closed. Raises PrewarmAlreadyRunning."""
    lock = _open(settings)
    try:
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        lock.close()
        raise PrewarmAlreadyRunning("another prewarm runs on this host") from error
    lock.truncate(0)
    lock.write(f"{os.getpid()} {run_id}\n")
    lock.flush()
    return lock


def holder(settings: Settings, run_id: str) -> Optional[int]:
    """Process id of the engine that runs now. Raises PrewarmAlreadyRunning when it is another run's."""
    with _open(settings) as lock:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = _FLOCK.unpack(fcntl.fcntl(lock, fcntl.F_OFD_GETLK, asked))[0]
        if found == fcntl.F_UNLCK:
            return None
        lock.seek(0)
        pid, _, run = lock.read().strip().partition(" ")
    if run != run_id:
        raise PrewarmAlreadyRunning(f"the prewarm of run {run or 'unknown'} runs on this host")
    return int(pid)


def _open(settings: Settings) -> IO[str]:
    """Opens the lock's file for root alone: another user who could open it could keep every engine from starting."""
    os.makedirs(settings.state_dir, exist_ok=True)
    path = os.path.join(settings.state_dir, "prewarm.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "a+", encoding="ascii")
