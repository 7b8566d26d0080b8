"""Take a filesystem from its place, though somebody looks at it just then."""

from __future__ import annotations

import time

from peaker_host.machine.errors import CommandFailed
from peaker_host.machine.processes import Processes

# What umount(8) says for EBUSY of umount(2), which any path that is being looked up below the place is enough for: a
# monitoring agent that measures all filesystems, a process that is just ending, a mount namespace that is just made.
_BUSY = "target is busy"
_BUSY_SECONDS = 60.0
_AGAIN_SECONDS = 0.1
_UMOUNT_SECONDS = 900.0


def unmount(processes: Processes, point: str, busy_seconds: float = _BUSY_SECONDS) -> None:
    """Unmount; while it is busy again and again, for `busy_seconds`. Raises CommandFailed."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            processes.run(["umount", point], timeout_seconds=_UMOUNT_SECONDS)
            return
        except CommandFailed as error:
            if _BUSY not in str(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_AGAIN_SECONDS)
