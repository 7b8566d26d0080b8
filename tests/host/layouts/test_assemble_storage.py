"""assemble_storage: what a host lacks is said before anything is read from its volumes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import host_bench
import pytest
from host_bench import Host, Volume
from peaker_host.layouts.mounts import unmount
from peaker_host.machine.errors import CommandFailed
from peaker_host.machine.settings import Processes


def assemble(host: Host) -> dict[str, object]:
    asked = (
        "--volumes",
        host.request(Volume("vol-0e57000000000000a", "", host.root)),
        "--wait-seconds",
        "0.01",
    )
    return host.call("assemble_storage", *asked)


def test_a_mariadb_image_without_the_replication_login_is_refused_before_the_prewarm(host: Host) -> None:
    login = host.root / "replication.json"
    host.configure(engine="mariadb", replication_credentials_file=str(login))
    said = assemble(host)
    assert said["error"] == "ReplicationNotConfigured"
    assert str(login) in str(said["message"])


def test_with_the_login_it_goes_on_to_the_volumes(host: Host) -> None:
    login: Path = host.root / "replication.json"
    login.write_text(json.dumps({"user": "repl", "password": "secret"}))
    host.configure(engine="mariadb", replication_credentials_file=str(login))
    assert assemble(host)["error"] == "DeviceNotFound", "nothing is attached here"


@pytest.mark.parametrize(
    "login",
    [
        '{"user": "repl"}',
        '{"user": 7, "password": "secret"}',
        '{"user": "repl", "password": "s", "port": 0.5}',
    ],
)
def test_a_login_that_nobody_understands_is_refused_before_the_prewarm(host: Host, login: str) -> None:
    path = host.root / "replication.json"
    path.write_text(login)
    host.configure(replication_credentials_file=str(path))
    said = assemble(host)
    assert said["error"] == "InvalidHostSettings"
    assert str(path) in str(said["message"])


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
