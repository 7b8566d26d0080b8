"""A replica is parked: the server is down and its filesystems have left their places, whoever looks at them then."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_bench import MIB, Host, ScriptedProcesses, json_row, unmount
from peaker_host.machine.errors import CommandFailed
from peaker_host.machine.settings import Processes

pytestmark = pytest.mark.real


@pytest.fixture
def data(host: Host) -> Iterator[Path]:
    """The data volume at its place."""
    volume = host.volume(300 * MIB, "xfs")
    place = host.root / "place0"
    host.configure(datadir=str(place))
    assert host.call("assemble_storage", "--volumes", host.request(volume))["ok"]
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", volume.path, str(place)], check=True)
    yield place
    if os.path.ismount(place):
        unmount(place)


@pytest.fixture
def parked(host: Host, programs: ScriptedProcesses) -> ScriptedProcesses:
    """Of a host whose server is down before the command comes; `umount` is the real one."""
    programs.on("systemctl")
    programs.on("gtid_executed", answer=CommandFailed("ERROR 2002 (HY000): Can't connect"))
    programs.on("umount", answer=lambda text: Processes().run(text.split()).stdout)
    return programs


def stop(host: Host, programs: ScriptedProcesses) -> dict[str, Any]:
    return host.call("stop_database", programs=programs)


def test_the_filesystems_leave_their_places_and_a_second_command_finds_it_done(
    host: Host, data: Path, parked: ScriptedProcesses
) -> None:
    assert stop(host, parked)["ok"]
    assert not os.path.ismount(data)
    assert stop(host, parked)["ok"]


def test_a_second_command_says_where_the_server_stood_as_the_first_did(
    host: Host, data: Path, parked: ScriptedProcesses
) -> None:
    """Systems Manager calls a command undelivered that ran, and it is sent again."""
    parked.on("gtid_executed", answer=json_row(gtid_set="c292c1fa-e550-11f1-9eb5-c2cd5b392683:1-9"))
    parked.on("SHOW REPLICA STATUS", answer="")
    first = stop(host, parked)
    parked.on("gtid_executed", answer=CommandFailed("ERROR 2002 (HY000): Can't connect"))
    second = stop(host, parked)
    assert first["gtid_set"] == "c292c1fa-e550-11f1-9eb5-c2cd5b392683:1-9"
    assert second["gtid_set"] == first["gtid_set"]
