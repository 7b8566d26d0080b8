"""Freezes and thaws a filesystem once, so that its maps are on the device and its log is short.

A guard in a process of its own thaws it when this one is stopped or killed in between. Its time begins with the
freeze, not with the sync before it, and it goes on until there is something to thaw: FIFREEZE writes out what is left
and may itself take long.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional

_FIFREEZE = 0xC0045877
_FITHAW = 0xC0045878
FREEZE_LIMIT_SECONDS = 5.0
# Waits for `f`; thaws at the limit, or as soon as the pipe ends without `x`. EINVAL: not frozen (yet).
_GUARD_PROGRAM = """\
import errno,fcntl,os,select,sys
d=os.open(sys.argv[1],os.O_RDONLY)
os.write(1,b'r')
if os.read(0,1)!=b'f': sys.exit()
def thaw():
    try:
        fcntl.ioctl(d,int(sys.argv[3]),0)
    except OSError as e:
        return e.errno!=errno.EINVAL
    return True
wait=float(sys.argv[2])
while not select.select([0],[],[],wait)[0]:
    if thaw(): sys.exit()
    wait=0.05
if os.read(0,1)!=b'x': thaw()
"""


@dataclass(frozen=True)
class Freeze:
    """A freeze has the seconds for which a filesystem stood; None and the reason where it could not be frozen."""

    seconds: Optional[float]
    why: str = ""


def freeze_all(directories: Iterable[str]) -> Dict[str, Freeze]:
    """Freeze each filesystem on which the directories lie, by mount point; never the root filesystem."""
    return {root: freeze(root) for root in mount_roots(directories)}


def freeze(path: str) -> Freeze:
    """Write the filesystem out, freeze it, thaw it. One that cannot be frozen (no right, not supported) is synced."""
    guard = subprocess.Popen(
        [sys.executable, "-c", _GUARD_PROGRAM, path, str(FREEZE_LIMIT_SECONDS), str(_FITHAW)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    assert guard.stdout is not None
    assert guard.stdin is not None
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        guard.stdout.read(1)
        _sync(descriptor)
        guard.stdin.write(b"f")
        started = time.monotonic()
        try:
            fcntl.ioctl(descriptor, _FIFREEZE, 0)
        except OSError as error:
            # Frozen by somebody else (EBUSY): theirs to thaw.
            guard.stdin.write(b"x")
            return Freeze(None, f"{path} was not frozen: {error.strerror}")
        _thaw(descriptor)
        seconds = time.monotonic() - started
        guard.stdin.write(b"x")
        return Freeze(seconds)
    except BrokenPipeError:
        # The guard has thawed at its limit and ended.
        return Freeze(time.monotonic() - started)
    finally:
        guard.stdin.close()
        guard.wait(timeout=FREEZE_LIMIT_SECONDS + 5)
        guard.stdout.close()
        os.close(descriptor)


def mount_roots(directories: Iterable[str]) -> List[str]:
    """The mount points on which the directories truly lie (links followed), each once, never the root filesystem."""
    roots: List[str] = []
    for directory in directories:
        path = os.path.realpath(directory)
        while not os.path.ismount(path):
            path = os.path.dirname(path)
        if path != "/" and path not in roots:
            roots.append(path)
    return roots


def _sync(descriptor: int) -> None:
    """This filesystem alone (syncfs(2)): others may take minutes and do not matter."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _thaw(descriptor: int) -> None:
    try:
        fcntl.ioctl(descriptor, _FITHAW, 0)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the guard was first
            raise
