"""Fixtures of the host package's tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_bench import Host, ScriptedProcesses

from localcloud.blockstore import ColdBlockStore


@pytest.fixture
def host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Host]:
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    with contextlib.ExitStack() as volumes:
        yield Host(tmp_path, volumes, capsys)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ColdBlockStore]:
    """Of cold volumes."""
    with ColdBlockStore(tmp_path / "store", pool_bytes=8 << 30) as store:
        yield store


@pytest.fixture
def programs() -> ScriptedProcesses:
    return ScriptedProcesses()
