"""The buffer pool's page list: dumped on a donor that serves, loaded on its copy."""

from __future__ import annotations

import errno
import fcntl
import re
import time
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host, ScriptedProcesses, json_row, table
from peaker_host.database import page_load
from peaker_host.database.mysql_client import admin_client
from peaker_host.machine.errors import BufferPoolTimeout, CommandFailed
from peaker_host.machine.settings import Machine


def quiet(_text: str) -> None:
    pass


class Donor:
    """A server whose settings can be set, and that dumps into the file that they name."""

    def __init__(self, host: Host, programs: ScriptedProcesses, **settings: Any) -> None:
        self.host, self.programs = host, programs
        self.client = admin_client(Machine.of(host.settings, programs))
        self.datadir = Path(host.settings.datadir)
        self.datadir.mkdir()
        self.settings: dict[str, Any] = {
            "innodb_buffer_pool_dump_pct": 25,
            "innodb_buffer_pool_filename": "ib_buffer_pool",
            **settings,
        }
        self.dumps_as_percent: list[Any] = []
        programs.on("JSON_OBJECT", "@@GLOBAL", answer=self._says).on("SET GLOBAL", answer=self._set)
        programs.on("dump_status", answer=table({"n": "x", "Value": "dump completed at 251121  1:02:03"}))

    def dump(self, timeout_seconds: float = 240) -> int:
        return page_load.dump_buffer_pool(self.client, self.host.settings, 100, timeout_seconds)

    def _says(self, _text: str) -> str:
        return json_row(datadir=f"{self.datadir}/", **self.settings)

    def _set(self, text: str) -> str:
        if self.host.settings.engine == "mariadb" and "SET GLOBAL innodb_buffer_pool_filename" in text:
            raise CommandFailed("ERROR 1238: Variable 'innodb_buffer_pool_filename' is a read only variable")
        for name, value in re.findall(r"SET GLOBAL (\w+) = ([^;\n]+)", text):
            if name == "innodb_buffer_pool_dump_now":
                self.dumps_as_percent.append(self.settings["innodb_buffer_pool_dump_pct"])
                self.write_list()
            else:
                self.settings[name] = int(value) if value.isdigit() else value.strip("'")
        return ""

    def write_list(self) -> None:
        time.sleep(0.02)
        (self.datadir / self.settings["innodb_buffer_pool_filename"]).write_text("1,1\n1,2\n2,9\n")


def test_a_dump_lists_all_pages_and_leaves_the_donor_as_it_was(
    host: Host, programs: ScriptedProcesses
) -> None:
    donor = Donor(host, programs)
    assert donor.dump() == 3
    assert donor.dumps_as_percent == [100]
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25


def test_a_donor_that_calls_its_list_otherwise_still_gives_one_that_its_copy_finds(
    host: Host, programs: ScriptedProcesses
) -> None:
    donor = Donor(host, programs, innodb_buffer_pool_filename="warm_pages")
    assert donor.dump() == 3
    assert (donor.datadir / "ib_buffer_pool").exists()
    assert donor.settings["innodb_buffer_pool_filename"] == "warm_pages"


def test_a_mariadb_that_calls_its_list_otherwise_cannot_be_told_another_name_and_its_list_is_copied(
    host: Host, programs: ScriptedProcesses
) -> None:
    host.configure(engine="mariadb")
    donor = Donor(host, programs, innodb_buffer_pool_filename="warm_pages")
    (donor.datadir / "ib_buffer_pool").write_text("of a year ago\n")
    assert donor.dump() == 3
    assert (donor.datadir / "ib_buffer_pool").read_text() == "1,1\n1,2\n2,9\n"
    assert donor.settings["innodb_buffer_pool_filename"] == "warm_pages"
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25


def test_a_full_disk_leaves_no_half_list_in_the_donors_data_directory(
    host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_source: str, target: str) -> None:
        Path(target).write_text("1,")
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr("shutil.copyfile", full)
    host.configure(engine="mariadb")
    donor = Donor(host, programs, innodb_buffer_pool_filename="warm_pages")
    with pytest.raises(OSError, match="No space left"):
        donor.dump()
    assert [path.name for path in donor.datadir.iterdir()] == ["warm_pages"]
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25


def test_a_list_that_was_there_before_does_not_count(host: Host, programs: ScriptedProcesses) -> None:
    donor = Donor(host, programs)
    donor.write_list()
    donor.write_list = lambda: None  # type: ignore[method-assign]
    with pytest.raises(BufferPoolTimeout):
        donor.dump(timeout_seconds=0.5)
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25, "also after a failure"


def killed_while_it_dumped(donor: Donor) -> None:
    """What SIGKILL leaves: the settings changed, and the note."""

    class KilledError(BaseException):
        pass

    def die(*_: Any) -> None:
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_load, "_await_dump", die)
        real, calls = page_load._restore, []
        patch.setattr(
            page_load, "_restore", lambda *given: calls.append(1) or (len(calls) < 2 and real(*given))
        )
        with pytest.raises(KilledError):
            donor.dump()
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 100


def test_what_a_killed_dump_changed_is_put_back_by_the_next_command(
    host: Host, programs: ScriptedProcesses
) -> None:
    donor = Donor(host, programs)
    killed_while_it_dumped(donor)
    assert page_load.restore_dump_settings(donor.client, host.settings)
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25
    assert not page_load.restore_dump_settings(donor.client, host.settings), "once"


def test_a_dump_after_a_killed_one_still_knows_what_the_donor_had(
    host: Host, programs: ScriptedProcesses
) -> None:
    donor = Donor(host, programs)
    killed_while_it_dumped(donor)
    donor.dump()
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25


def test_a_value_that_somebody_set_meanwhile_is_left_alone(host: Host, programs: ScriptedProcesses) -> None:
    donor = Donor(host, programs)
    killed_while_it_dumped(donor)
    donor.settings["innodb_buffer_pool_dump_pct"] = 40
    page_load.restore_dump_settings(donor.client, host.settings)
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 40


def test_a_server_that_is_down_keeps_the_note(host: Host, programs: ScriptedProcesses) -> None:
    donor = Donor(host, programs)
    killed_while_it_dumped(donor)
    programs.on("JSON_OBJECT", answer=CommandFailed("ERROR 2002"))
    assert not page_load.restore_dump_settings(donor.client, host.settings)
    programs.on("JSON_OBJECT", answer=donor._says)
    assert page_load.restore_dump_settings(donor.client, host.settings)
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25


def test_a_dump_that_runs_is_not_disturbed(host: Host, programs: ScriptedProcesses) -> None:
    donor = Donor(host, programs)
    killed_while_it_dumped(donor)
    with (Path(host.settings.state_dir) / "donor-settings.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not page_load.restore_dump_settings(donor.client, host.settings)
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 100
