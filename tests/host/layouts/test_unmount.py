"""A filesystem leaves its place though somebody looks at it: `umount` calls it busy, and is asked again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import host_bench
import pytest
from peaker_host.layouts.mounts import unmount
from peaker_host.machine.errors import CommandFailed
from peaker_host.machine.settings import Processes


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    subprocess.run(["mount", "-t", "tmpfs", "none", str(tmp_path)], check=True)
    yield tmp_path
    if os.path.ismount(tmp_path):
        host_bench.unmount(tmp_path)


def test_a_monitoring_agent_that_looks_just_then_is_waited_for(place: Path) -> None:
    with host_bench.watched(place) as processes:
        unmount(processes, str(place))
    assert not os.path.ismount(place)
    assert "target is busy" in processes.refused[0]


def test_one_that_stays_is_told_after_the_time(place: Path) -> None:
    with (place / "looked-at").open("w"), pytest.raises(CommandFailed, match="target is busy"):
        unmount(Processes(), str(place), busy_seconds=0)
    assert os.path.ismount(place)


def test_what_is_refused_for_another_reason_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="not mounted"):
        unmount(Processes(), str(tmp_path))
