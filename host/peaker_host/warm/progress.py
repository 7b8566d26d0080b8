"""Progress computes an engine's rate and remaining time; the lock names the one engine.

The lock of the host's one engine is an open file description lock (fcntl(2), Linux 3.15): it can be asked for without
being taken, and ends with the process.
"""

from __future__ import annotations

import fcntl
import math
import os
import struct
from collections import deque
from typing import IO, Any, Deque, Dict, Iterable, Optional, Tuple

from peaker_host.machine.errors import PrewarmAlreadyRunning
from peaker_host.machine.files import open_lock_file
from peaker_host.machine.settings import Settings

MIB = 1024 * 1024
RATE_SECONDS = 60.0
_STEP_SECONDS = 0.4


class MeanRate:
    """Bytes per second over the last minute: a stall of seconds does not make hours of the time left."""

    def __init__(self, now: float) -> None:
        self._points: Deque[Tuple[float, int]] = deque([(now, 0)])

    def observe(self, now: float, bytes_read: int) -> float:
        """MiB/s of the last minute, or since the start; 0 until there is something to divide by."""
        if now - self._points[-1][0] >= _STEP_SECONDS:
            self._points.append((now, bytes_read))
            while len(self._points) > 2 and now - self._points[1][0] >= RATE_SECONDS:
                self._points.popleft()
        since, before = self._points[0]
        until, latest = self._points[-1]
        return (latest - before) / MIB / (until - since) if until > since else 0.0


def eta_seconds(volumes: Iterable[Tuple[int, float]], state: str) -> Optional[float]:
    """Seconds until the last volume is done, from each one's blocks of 0.5 MiB left and its MiB/s.

    Volumes are fetched side by side and each at its own rate (EBS fetches per volume), so that their sum would tell too
    little time as long as a small one is at work. None while a volume with blocks left has no rate.
    """
    if state == "done":
        return 0.0
    waiting = [(left, rate) for left, rate in volumes if left]
    if any(rate <= 0 for _, rate in waiting):
        return None
    return round(max((left * 0.5 / rate for left, rate in waiting), default=0.0), 1)


def expected_mib_per_s(readers: int, await_cold_ms: Optional[float], at_most: float = math.inf) -> float:
    """MiB/s of whole blocks that so many readers bring at such an await of cold reads; 0 where that is not known."""
    return min(at_most, readers * 0.5 / (await_cold_ms / 1000)) if await_cold_ms else 0.0


def sentence(progress: Dict[str, Any]) -> str:
    eta = progress["eta_seconds"]
    return (
        f"{progress['blocks_done']} of {progress['blocks_total']} blocks, {progress['rate_mib_per_s']} MiB/s, "
        f"{'unknown time' if eta is None else f'{eta:g} s'} left"
    )


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
