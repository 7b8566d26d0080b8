"""This module finds the device that a person means, and says why one cannot be measured: each reason has its
remedy.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_CANNOT_OPEN = {
    errno.EACCES: "you may not read it; run the command with sudo",
    errno.EPERM: "you may not read it; run the command with sudo",
    errno.EBUSY: "it is in use by something that lets nobody else open it",
    errno.ENOMEDIUM: "it has no medium",
    errno.ENXIO: "the node is there, but there is no such device behind it (was the volume detached?)",
    errno.ENODEV: "the node is there, but there is no such device behind it (was the volume detached?)",
    errno.EIO: "it does not answer (input/output error): look at the kernel's log (dmesg)",
}


def why_not_measurable(path: str) -> str | None:
    """Returns the reason why this path is no readable block device; None when it is one."""
    if not path.strip():
        return "an empty path is no device; give one such as /dev/nvme1n1"
    try:
        kind = os.stat(path).st_mode
    except OSError as error:
        return f"{path}: {_not_there(path, error)}"
    except ValueError as error:
        return f"{path!r}: {error}"
    if stat.S_ISDIR(kind):
        return f"{path} is a directory, not a block device; lsblk lists them"
    if stat.S_ISREG(kind):
        return f"{path} is a file, not a block device; lsblk lists them"
    if not stat.S_ISBLK(kind):
        return f"{path} is not a block device; lsblk lists them"
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return f"{path}: {_CANNOT_OPEN.get(error.errno or 0, error.strerror)}"
    return None


def _not_there(path: str, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "you may not look into its directory; run the command with sudo"
    if error.errno == errno.ELOOP:
        return "its links lead in a circle"
    if error.errno == errno.ENOTDIR:
        return "a part of the path is not a directory"
    if error.errno != errno.ENOENT:
        return error.strerror or str(error)
    if os.path.islink(path):
        return f"the link leads to {os.readlink(path)}, which does not exist"
    if not path.startswith("/") and os.path.exists(f"/dev/{path}"):
        return f"no such file or directory; did you mean /dev/{path}?"
    near = (
        sorted(one.name for one in Path("/sys/class/block").glob("*"))
        if os.path.isdir("/sys/class/block")
        else []
    )
    return f"no such device; there are {', '.join(near[:12]) or 'none'}"
