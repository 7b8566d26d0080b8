"""The systemd unit of the health responder: what it runs, as whom, and what becomes of it when it ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from host_bench import Host, ScriptedProcesses
from peaker_host.health.unit import UNIT, install_health_service


def test_the_service_is_installed_once_and_started_again(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("systemctl")
    install_health_service(host.settings, programs)
    install_health_service(host.settings, programs)
    calls = [argv[1:] for argv, _ in programs.calls]
    assert calls == [["daemon-reload"], ["enable", UNIT], ["restart", UNIT], ["start", UNIT]]
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
    install_health_service(host.settings, programs)
    unit = (host.root / "units" / UNIT).read_text()
    assert f"ExecStart={sys.executable} {package} health --port 9200\n" in unit
