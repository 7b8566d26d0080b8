"""One prewarm engine per host: a lock on prewarm.lock that a look at the engine never takes.

Open file description locks (fcntl(2), Linux 3.15) can be asked for without being taken, and end with the process.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import IO, Optional

from peaker_host.machine.errors import PrewarmAlreadyRunning
from peaker_host.machine.files import open_lock_file
from peaker_host.machine.settings import Settings

_FILE = "prewarm.lock"
# struct flock on 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


def take_lock(settings: Settings, run_id: str) -> IO[str]:
    """Held until the file is closed. Raises PrewarmAlreadyRunning."""
    lock = open_lock_file(settings.state_path(_FILE))
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
    with open_lock_file(settings.state_path(_FILE)) as lock:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = _FLOCK.unpack(fcntl.fcntl(lock, fcntl.F_OFD_GETLK, asked))[0]
        if found == fcntl.F_UNLCK:
            return None
        lock.seek(0)
        pid, _, run = lock.read().strip().partition(" ")
    if run != run_id:
        raise PrewarmAlreadyRunning(f"the prewarm of run {run or 'unknown'} runs on this host")
    return int(pid)
