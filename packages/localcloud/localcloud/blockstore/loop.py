"""Loop devices: files as block devices."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from localcloud.blockstore.layout import run
from localcloud.dataplane import BlockDevice, DataPlaneError

EBS_MAX_IO_KIB = 256
"""The largest I/O that an EBS volume takes at once; the kernel splits larger ones (AWS EBS guide)."""
EBS_READ_AHEAD_KIB = 128
"""Linux's read-ahead on an EBS volume unless it is raised by hand (AWS EBS guide, HDD volumes)."""


def attach_loop(file: Path) -> BlockDevice:
    """Attach a file with direct I/O. The kernel makes a device node when all existing ones are taken."""
    path = run(["losetup", "--direct-io=on", "--find", "--show", str(file)]).strip()
    if (_sysfs(path) / "loop" / "dio").read_text().strip() != "1":
        detach_loop(path)
        raise DataPlaneError(f"{path}: no direct I/O to {file}; the page cache would hide first reads")
    number = os.stat(path).st_rdev
    return BlockDevice(path=path, major=os.major(number), minor=os.minor(number))


def queue_as_ebs(device: BlockDevice) -> None:
    """Let the kernel split requests at 256 KiB and read 128 KiB ahead, as it does on an EBS volume.

    iostat's request sizes are then a volume's own, and buffered reads have no more under way than there: the kernel
    would give a loop device four times the read-ahead.
    """
    queue = _sysfs(device.path) / "queue"
    limit_kib = min(EBS_MAX_IO_KIB, int((queue / "max_hw_sectors_kb").read_text()))
    (queue / "max_sectors_kb").write_text(str(limit_kib))
    (queue / "read_ahead_kb").write_text(str(EBS_READ_AHEAD_KIB))


def detach_loop(path: str) -> None:
    """Detach; where the device is still open the kernel does it when the last user closes it."""
    try:
        run(["losetup", "--detach", path])
    except DataPlaneError:
        if backing_file(path) is not None:
            raise


def backing_file(path: str) -> str | None:
    """The backing file as the kernel names it now, None when the device is free."""
    try:
        return (_sysfs(path) / "loop" / "backing_file").read_text().rstrip("\n")
    except OSError:
        return None


def loops_under(folder: Path) -> Iterator[tuple[str, str]]:
    """(device, backing file) of each loop device whose file is or was under the folder."""
    for entry in sorted(Path("/sys/block").glob("loop*")):
        device = f"/dev/{entry.name}"
        file = backing_file(device)
        if file is not None and file.removesuffix(" (deleted)").startswith(f"{folder}/"):
            yield device, file


def loops_of(file: Path) -> list[str]:
    """Devices whose backing file is exactly this one."""
    return [device for device, found in loops_under(file.parent) if found == str(file)]


def wait_until_free(devices: dict[str, str], timeout_seconds: float) -> dict[str, str]:
    """Wait for detached devices (path to backing file) to be given back; returns those still held."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        held = {path: file for path, file in devices.items() if backing_file(path) == file}
        if not held or time.monotonic() >= deadline:
            return held
        time.sleep(0.02)


def _sysfs(path: str) -> Path:
    return Path("/sys/block") / Path(path).name
