"""The systemctl of the machine images, on unit files in a temporary folder."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloud_rig.resources import eventually
from localcloud.hosts import service_control
from localcloud.hosts.service_control import Layout, Services, main, parse_seconds

NOTIFIES = (
    "import os, socket, time; time.sleep(0.3); s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM);"
    " s.sendto(b'STATUS=up\\nREADY=1', os.environ['NOTIFY_SOCKET']); time.sleep(60)"
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("etc", "lib", "log", "run"):
        (tmp_path / name).mkdir()
    return Layout(
        (tmp_path / "etc", tmp_path / "lib"), tmp_path / "state", tmp_path / "log", tmp_path / "run"
    )


class Units:
    """Writes unit files and stops what the test left running."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.names: list[str] = []

    def write(self, name: str, service: str, directory: int = 1) -> None:
        path = self.layout.unit_directories[directory] / f"{name}.service"
        path.write_text(
            f"[Unit]\nDescription=x\n[Service]\n{service}\n[Install]\nWantedBy=multi-user.target\n"
        )
        self.names.append(name)

    def run(self, *arguments: str) -> int:
        return main(list(arguments), self.layout)

    def log(self, name: str) -> str:
        return (self.layout.log_directory / f"{name}.service.log").read_text()

    def logged(self, name: str, text: str) -> None:
        """A started service runs, and writes when its turn comes."""
        eventually(lambda: self.log(name) == text)


@pytest.fixture
def units(layout: Layout):  # type: ignore[no-untyped-def]
    units = Units(layout)
    yield units
    for name in units.names:
        Services(layout).stop(name)


def test_a_service_whose_volume_is_not_mounted_is_skipped_without_an_error(
    units: Units, layout: Layout, tmp_path: Path
) -> None:
    units.write("db", "ExecStart=/bin/sleep 60")
    drop_in = layout.unit_directories[0] / "db.service.d" / "volumes.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(f"[Unit]\nConditionPathIsMountPoint={tmp_path}\n")
    assert (units.run("start", "db"), units.run("is-active", "db")) == (0, 3)
    drop_in.write_text("[Unit]\nConditionPathIsMountPoint=/proc\n")
    assert (units.run("start", "db"), units.run("is-active", "db")) == (0, 0)


def test_a_service_starts_is_active_and_stops(units: Units, capsys: pytest.CaptureFixture[str]) -> None:
    units.write("web", "ExecStart=/bin/sh -c 'echo serving peaker; exec sleep 60'")
    assert units.run("is-active", "web") == 3
    assert units.run("start", "web.service") == 0
    assert units.run("start", "web") == 0
    assert units.run("is-active", "web") == 0
    units.logged("web", "serving peaker\n")
    assert units.run("status", "web") == 0
    assert units.run("stop", "web") == 0
    assert units.run("is-active", "web") == 3
    assert units.run("stop", "web") == 0
    assert units.log("web") == "serving peaker\n"
    printed = capsys.readouterr().out.splitlines()
    assert (printed[0], printed[1], printed[-1]) == ("inactive", "active", "inactive")


def test_a_service_that_ends_by_itself_is_failed_until_reset(
    units: Units, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # It ends when it may: what ends before `start` has looked at it is a failed start.
    may_end = tmp_path / "may-end"
    units.write("crash", f"ExecStart=/bin/sh -c 'until test -e {may_end}; do sleep 0.05; done; exit 1'")
    assert units.run("start", "crash") == 0
    may_end.touch()
    eventually(lambda: units.run("is-active", "crash") != 0)
    assert capsys.readouterr().out.splitlines()[-1] == "failed"
    units.run("reset-failed", "crash")
    units.run("is-active", "crash")
    assert capsys.readouterr().out == "inactive\n"


def test_a_service_that_cannot_start_says_where_to_look(
    units: Units, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # `start` looks for a tenth of a second whether it ends; here for as long as the machine takes to run it.
    ended_within = service_control._ended_within
    monkeypatch.setattr(service_control, "_ended_within", lambda process, _: ended_within(process, 120))
    units.write("broken", "ExecStart=/bin/sh -c 'echo no such disk >&2; exit 7'")
    assert units.run("start", "broken") == 1
    assert "broken.service.log" in capsys.readouterr().err
    assert units.log("broken") == "no such disk\n"


def test_a_notifying_service_has_started_when_it_says_so(units: Units) -> None:
    units.write("db", f'Type=notify\nExecStart=/usr/bin/env python3 -c "{NOTIFIES}"')
    started = time.monotonic()
    assert units.run("start", "db") == 0
    assert time.monotonic() - started >= 0.3
    assert units.run("is-active", "db") == 0


def test_a_notifying_service_that_dies_or_hangs_is_a_failed_start(
    units: Units, capsys: pytest.CaptureFixture[str]
) -> None:
    units.write("dies", "Type=notify\nExecStart=/bin/sh -c 'exit 3'")
    units.write("hangs", "Type=notify\nTimeoutStartSec=500ms\nExecStart=/bin/sleep 60")
    assert units.run("start", "dies") == 1
    assert "status 3" in capsys.readouterr().err
    assert units.run("start", "hangs") == 1
    assert "TimeoutStartSec" in capsys.readouterr().err
    assert units.run("is-active", "hangs") == 3


def test_a_service_that_ignores_the_stop_signal_is_killed_at_the_limit(units: Units) -> None:
    deaf = "/bin/sh -c 'trap \"\" TERM; echo deaf; sleep 600; sleep 600'"
    units.write("stubborn", f"TimeoutStopSec=300ms\nExecStart={deaf}")
    units.run("start", "stubborn")
    units.logged("stubborn", "deaf\n")
    started = time.monotonic()
    assert units.run("stop", "stubborn") == 0
    assert 0.3 <= time.monotonic() - started < 300
    assert units.run("is-active", "stubborn") == 3


def test_a_unit_in_etc_wins_and_a_drop_in_changes_it(units: Units, layout: Layout) -> None:
    units.write("web", "ExecStart=/bin/echo from lib", directory=1)
    units.write("web", "ExecStart=/bin/echo from etc", directory=0)
    drop_in = layout.unit_directories[0] / "web.service.d" / "more.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nExecStart=\nExecStart=/bin/echo from drop-in\n")
    assert units.run("start", "web") == 0
    units.logged("web", "from drop-in\n")


def test_a_service_has_no_capability_that_its_unit_does_not_name(units: Units) -> None:
    """Not even as root: CAP_CHOWN is 0, CAP_NET_BIND_SERVICE 10, and all others are gone."""
    bounded = "ExecStart=/bin/grep CapBnd /proc/self/status\nCapabilityBoundingSet="
    units.write("some", f"{bounded}CAP_CHOWN\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE")
    units.write("odd", f"{bounded}CAP_OF_TOMORROW")
    assert units.run("start", "some") == 0
    units.logged("some", f"CapBnd:\t{1 << 0 | 1 << 10:016x}\n")
    assert units.run("start", "odd") == 5


class TestStartLimit:
    """Of systemd.unit(5): five starts in ten seconds, however they come about."""

    ENDS = "ExecStart=/bin/true"

    @pytest.fixture(autouse=True)
    def _a_clock_of_looks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It goes on by a thousandth of a second at each look: all starts are within seconds on any machine."""
        looks = itertools.count()
        counted = SimpleNamespace(monotonic=lambda: next(looks) / 1000, sleep=time.sleep)
        monkeypatch.setattr(service_control, "time", counted)

    def test_the_sixth_start_is_refused_until_the_unit_is_reset(
        self, units: Units, capsys: pytest.CaptureFixture[str]
    ) -> None:
        units.write("quick", self.ENDS)
        assert [units.run("restart", "quick") for _ in range(6)] == [0] * 5 + [1]
        assert "start-limit-hit" in capsys.readouterr().err
        units.run("is-active", "quick")
        assert capsys.readouterr().out == "failed\n"
        assert (units.run("reset-failed", "quick"), units.run("start", "quick")) == (0, 0)

    def test_a_unit_may_have_another_limit_or_none(self, units: Units) -> None:
        units.write("two", f"{self.ENDS}\nStartLimitBurst=2")
        units.write("short", f"{self.ENDS}\nStartLimitIntervalSec=1us")
        units.write("none", f"{self.ENDS}\nStartLimitIntervalSec=0")
        assert [units.run("restart", "two") for _ in range(3)] == [0, 0, 1]
        for name in ("short", "none"):
            assert [units.run("restart", name) for _ in range(7)] == [0] * 7

    def test_what_runs_already_is_not_started_and_not_counted(self, units: Units) -> None:
        units.write("web", "ExecStart=/bin/sleep 60")
        assert [units.run("start", "web") for _ in range(7)] == [0] * 7


def test_enable_links_the_unit(units: Units, layout: Layout) -> None:
    units.write("web", "ExecStart=/bin/sleep 60")
    assert units.run("is-enabled", "web") == 1
    assert units.run("enable", "web") == 0
    assert (layout.unit_directories[0] / "multi-user.target.wants" / "web.service").is_symlink()
    assert units.run("is-enabled", "web") == 0
    assert units.run("disable", "web") == 0
    assert units.run("is-enabled", "web") == 1


def test_show_prints_properties(units: Units, capsys: pytest.CaptureFixture[str]) -> None:
    units.write("web", "ExecStart=/bin/sleep 60")
    units.run("start", "web")
    assert units.run("show", "--property=ActiveState", "web") == 0
    assert units.run("show", "--property=LoadState,MainPID", "absent") == 0
    assert capsys.readouterr().out == "ActiveState=active\nLoadState=not-found\nMainPID=0\n"


def test_show_tells_a_units_own_name_its_command_and_whether_it_is_masked(
    units: Units, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    units.write("mariadb", "ExecStart=/bin/sleep 60")
    (layout.unit_directories[1] / "mysql.service").symlink_to("mariadb.service")
    (layout.unit_directories[0] / "mysqld.service").symlink_to("/dev/null")
    for name in ("mysql", "mysqld"):
        assert units.run("show", "--property=Id,LoadState,ExecStart", name) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Id=mariadb.service", "LoadState=loaded"]
    assert lines[2].startswith("ExecStart={ path=/bin/sleep ; argv[]=/bin/sleep 60 ; ")
    assert lines[4] == "LoadState=masked"


def test_a_drop_in_of_a_unit_holds_under_each_of_its_names(units: Units, layout: Layout) -> None:
    units.write("mariadb", "ExecStart=/bin/sleep 60")
    (layout.unit_directories[1] / "mysql.service").symlink_to("mariadb.service")
    drop_in = layout.unit_directories[0] / "mariadb.service.d" / "volumes.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Unit]\nConditionPathIsMountPoint=/nowhere\n")
    assert (units.run("start", "mysql"), units.run("is-active", "mysql")) == (0, 3)


def test_status_shows_the_end_of_the_log(units: Units, capsys: pytest.CaptureFixture[str]) -> None:
    units.write("web", "ExecStart=/bin/sh -c 'echo one; echo two; echo three; exec sleep 60'")
    units.run("start", "web")
    units.logged("web", "one\ntwo\nthree\n")
    capsys.readouterr()
    assert units.run("status", "--no-pager", "--lines=2", "web") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "web.service: active (running)"
    assert lines[-2:] == ["two", "three"]
    units.run("stop", "web")
    assert units.run("status", "web") == 3


def test_unknown_units_types_and_verbs_are_errors(units: Units) -> None:
    units.write("old", "Type=forking\nExecStart=/bin/true")
    assert units.run("start", "absent") == 4
    assert units.run("status", "absent") == 4
    assert units.run("start", "old") == 5
    assert units.run("isolate", "x") == 1
    assert units.run("daemon-reload") == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 90.0), ("5", 5.0), ("5min 20s", 320.0), ("250ms", 0.25), ("infinity", float("inf"))],
)
def test_time_spans(text: str, seconds: float) -> None:
    assert parse_seconds(text, 90.0) == seconds
