"""The systemd unit of the health responder: what it runs, as whom, and what becomes of it when it ends."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from host_bench import Host, ScriptedProcesses
from peaker_host.health.unit import UNIT, install_health_service, unit_text
from peaker_host.machine.settings import Machine, Settings, package_place

LISTENS = """
import sys
from peaker_host.health.server import drop_privileges
from peaker_host.health.server import listen
listen(["127.0.0.1"], int(sys.argv[1]))
drop_privileges()
print(next(line for line in open("/proc/self/status") if line.startswith("CapEff")))
"""


def test_the_service_is_installed_once_and_started_again(host: Host, programs: ScriptedProcesses) -> None:
    """Also one of an older release that systemd has given up: it would refuse the start."""
    programs.on("systemctl")
    install_health_service(Machine.of(host.settings, programs))
    install_health_service(Machine.of(host.settings, programs))
    calls = [argv[1:] for argv, _ in programs.calls]
    assert calls == [
        *(["daemon-reload"], ["enable", UNIT], ["reset-failed", UNIT], ["restart", UNIT]),
        *(["reset-failed", UNIT], ["start", UNIT]),
    ]
    unit = (host.root / "units" / UNIT).read_text()
    assert "health --port 9200" in unit


def test_the_unit_runs_the_python_that_wrote_it(
    host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """/usr/bin/python3 may be the distribution's, too old, beside a newer one that the commands run on."""
    package = tmp_path / "peaker_host.pyz"
    package.touch()
    monkeypatch.setattr("peaker_host.health.unit.CURRENT_PACKAGE", str(package))
    programs.on("systemctl")
    install_health_service(Machine.of(host.settings, programs))
    unit = (host.root / "units" / UNIT).read_text()
    assert f"ExecStart={sys.executable} {package} health --port 9200\n" in unit


def sections(text: str) -> dict[str, list[str]]:
    """The lines of a unit file by its sections."""
    parts = (part.partition("]\n") for part in text.split("[")[1:])
    return {name: body.split("\n") for name, _, body in parts}


def test_a_responder_that_ends_at_once_is_started_until_its_cause_is_mended() -> None:
    """A wrong host.json, or a port that another held for ten seconds: systemd gave up for good after five starts."""
    parts = sections(unit_text(Settings()))
    assert "StartLimitIntervalSec=0" in parts["Unit"]
    assert "Restart=always" in parts["Service"]
    assert "StartLimitInterval=0" in parts["Service"], "of systemd before 230"


def test_the_responder_may_listen_below_1024_and_the_process_that_answers_can_no_more() -> None:
    """health_port: 80 is a setting that is allowed; root alone may not bind it where the unit takes the capability."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("bounding sets need root and setpriv")
    (line,) = (one for one in sections(unit_text(Settings()))["Service"] if one.startswith("Capability"))
    kept = [f"+{name.removeprefix('CAP_').lower()}" for name in line.partition("=")[2].split()]
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-all,{','.join(kept)}", sys.executable, "-c", LISTENS, str(low_port())],
        env={"PYTHONPATH": package_place()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["CapEff:", "0" * 16], done.stderr


def low_port() -> int:
    """A port of loopback that nobody has and that it takes a privilege to bind."""
    for port in range(1023, 0, -1):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("every port below 1024 is taken")
