"""The donor's filesystem is frozen for a moment, and never for longer, whatever happens to the process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from host_bench import MIB, Host
from peaker_host.machine.freeze import freeze, freeze_all, mount_roots

pytestmark = pytest.mark.real
HOST_PACKAGES = Path(__file__).resolve().parents[3] / "host"
FREEZE_AND_DIE = """
import fcntl, os, signal, sys, time
from peaker_host.machine import freeze
class Dying:
    @staticmethod
    def ioctl(descriptor, request, argument):
        fcntl.ioctl(descriptor, request, argument)
        os.kill(os.getpid(), signal.SIGKILL)
freeze.fcntl = Dying
freeze.FREEZE_LIMIT_SECONDS = float(sys.argv[2])
slow = float(sys.argv[3])
freeze._sync = lambda descriptor: time.sleep(slow)
freeze.freeze(sys.argv[1])
"""
FREEZE_AND_HANG = FREEZE_AND_DIE.replace("os.kill(os.getpid(), signal.SIGKILL)", "time.sleep(3600)")


def writes_go_on(point: Path) -> None:
    try:
        subprocess.run(["touch", str(point / "written")], check=True, timeout=20)
    finally:
        subprocess.run(["fsfreeze", "-u", str(point)], check=False, capture_output=True)


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_it_says_for_how_long_the_filesystem_stood(host: Host, kind: str) -> None:
    with host.mounted(host.volume(300 * MIB, kind)) as point:
        found = freeze(str(point))
        assert found.seconds is not None
        assert found.seconds > 0
        writes_go_on(point)


@pytest.mark.parametrize(("limit", "sync"), [(5.0, 0.0), (0.1, 0.6)], ids=["at once", "after a long sync"])
def test_a_filesystem_frozen_by_a_process_that_is_killed_is_thawed(
    host: Host, limit: float, sync: float
) -> None:
    """Also when the sync before the freeze took longer than the guard waits."""
    with host.mounted(host.volume(300 * MIB, "ext4")) as point:
        argv = [sys.executable, "-c", FREEZE_AND_DIE, str(point), str(limit), str(sync)]
        killed = subprocess.run(argv, cwd=HOST_PACKAGES, check=False)
        assert killed.returncode == -signal.SIGKILL
        writes_go_on(point)


def test_a_filesystem_frozen_by_a_process_that_hangs_is_thawed_at_the_limit(host: Host) -> None:
    with host.mounted(host.volume(300 * MIB, "ext4")) as point:
        argv = [sys.executable, "-c", FREEZE_AND_HANG, str(point), "0.2", "0"]
        with subprocess.Popen(argv, cwd=HOST_PACKAGES) as hanging:
            try:
                writes_go_on(point)
            finally:
                hanging.kill()


def test_a_freeze_of_somebody_else_is_said_and_left_alone(host: Host) -> None:
    with host.mounted(host.volume(300 * MIB, "xfs")) as point:
        subprocess.run(["fsfreeze", "-f", str(point)], check=True)
        found = freeze(str(point))
        thawed = subprocess.run(["fsfreeze", "-u", str(point)], check=False)
        assert (found.seconds, thawed.returncode) == (None, 0)
        assert "not frozen" in found.why


def test_a_data_directory_behind_a_link_is_frozen_where_it_lies(host: Host) -> None:
    with host.mounted(host.volume(300 * MIB, "xfs")) as point:
        (point / "mysql").mkdir()
        link = host.root / "mysql"
        link.symlink_to(point / "mysql")
        assert mount_roots([str(link), str(point)]) == [str(point)]
        (found,) = freeze_all([str(link)]).values()
        assert found.seconds is not None
