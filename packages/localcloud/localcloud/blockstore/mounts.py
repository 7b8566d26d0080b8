"""What is mounted in this namespace, read from /proc so that a dead mount cannot hang us."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from localcloud.blockstore.layout import run
from localcloud.dataplane import DataPlaneError


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo."""

    device: str
    mount_point: str
    filesystem: str
    source: str


def mounts() -> list[Mount]:
    """All mounts, in the order in which they were made."""
    found = []
    for row in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = row.split(" - ", 1)
        fields, tail = before.split(), after.split()
        found.append(Mount(fields[2], _unescape(fields[4]), tail[0], _unescape(tail[1])))
    return found


def unmount(mount_point: str) -> None:
    """Unmount; where something still uses it, take it out of the tree and let the last user end it."""
    try:
        run(["umount", mount_point])
    except DataPlaneError:
        run(["umount", "--lazy", mount_point])


def abort_fuse(device: str) -> None:
    """End every request that waits for the daemon behind a FUSE mount (device "0:52" in mountinfo)."""
    connection = device.split(":")[1]
    control = Path("/sys/fs/fuse/connections")
    if (control / connection).is_dir():
        _write_abort(control / connection)
        return
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "fusectl", "fusectl", folder], capture_output=True).returncode != 0:
            return
        try:
            _write_abort(Path(folder) / connection)
        finally:
            run(["umount", folder])


def _write_abort(connection: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(connection / "abort", os.O_WRONLY)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
