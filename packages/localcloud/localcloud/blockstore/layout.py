"""Where a state directory keeps what, and the commands that touch it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from localcloud.dataplane import DataPlaneError

PACKAGES = "apt-get install -y gcc libc6-dev pkg-config libfuse3-dev xfsprogs util-linux mount kmod"


class Layout:
    """The paths of one block store, resolved: the kernel reports backing files and mounts by their real paths."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir.resolve()
        self.pool_image = self.state_dir / "pool.img"
        self.pool = self.state_dir / "pool"
        self.volumes = self.state_dir / "volumes"
        self.socket = self.state_dir / "coldvol.sock"
        self.lock = self.state_dir / "blockstore.lock"
        self.log = self.state_dir / "logs" / "coldvol.log"


def run(argv: Sequence[str], *, timeout_seconds: float = 120) -> str:
    """Run a command and return its stdout; DataPlaneError carries what it said when it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    except FileNotFoundError:
        raise DataPlaneError(f"{argv[0]} is not installed. Remedy: {PACKAGES}") from None
    except subprocess.TimeoutExpired:
        raise DataPlaneError(f"{' '.join(argv)}: no end after {timeout_seconds:g} s") from None
    if done.returncode != 0:
        reason = done.stderr.strip() or f"exit status {done.returncode}"
        raise DataPlaneError(f"{' '.join(argv)}: {reason}")
    return done.stdout


def check_machine() -> None:
    """Raise DataPlaneError, naming the remedy, where this machine cannot carry volumes."""
    if os.geteuid() != 0:
        raise DataPlaneError("volumes need root (loop devices, mounts). Remedy: run as root")
    for tool in ("mkfs.xfs", "losetup", "mount", "umount", "fstrim"):
        if shutil.which(tool) is None:
            raise DataPlaneError(f"{tool} is not installed. Remedy: {PACKAGES}")
    for filesystem in ("xfs", "fuse"):
        if not _kernel_has(filesystem):
            raise DataPlaneError(f"this kernel has no {filesystem}. Remedy: modprobe {filesystem}")
    for node, module in (("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")):
        if not Path(node).exists():
            raise DataPlaneError(f"{node} is missing. Remedy: modprobe {module}")


def _kernel_has(filesystem: str) -> bool:
    if _is_listed(filesystem):
        return True
    if shutil.which("modprobe"):
        subprocess.run(["modprobe", filesystem], capture_output=True, check=False)
    return _is_listed(filesystem)


def _is_listed(filesystem: str) -> bool:
    return filesystem in Path("/proc/filesystems").read_text().split()
