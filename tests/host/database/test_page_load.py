"""The buffer pool's page list: dumped on a donor that serves, loaded into a copy before it serves."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host, ScriptedProcesses, json_row, quiet, table
from peaker_host.database import page_load
from peaker_host.machine.errors import BufferPoolTimeout, CommandFailed

NOT_STARTED = "Loading of buffer pool not started"
LOADING = "Loaded 10/90 pages"
FIRST_END, SECOND_END, THIRD_END = (
    f"Buffer pool(s) load completed at 261126  6:30:{second}" for second in ("08", "11", "13")
)
ABORTED = "Buffer pool(s) load aborted on request"
MISSING = "Cannot open '/var/lib/mysql/ib_buffer_pool' for reading: No such file or directory"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that passes by waiting alone."""
    now = [0.0]
    monkeypatch.setattr(page_load.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(page_load.time, "sleep", lambda seconds: now.append(now.pop() + seconds))


class Copy:
    """A server that was started on a copy, and what it says of its loads, one answer after the other."""

    def __init__(self, host: Host, programs: ScriptedProcesses, *statuses: str, **variables: Any) -> None:
        self.host, self.programs, self.statuses = host, programs, list(statuses)
        self.client = host.client(programs)
        self.variables: dict[str, Any] = {
            "innodb_buffer_pool_filename": "ib_buffer_pool",
            "innodb_io_capacity": 200,
            "innodb_io_capacity_max": 2000,
            **variables,
        }
        self.capacity_of_loads: list[Any] = []
        self.counts = {
            "pages_free": ["1000"],
            "pages_total": ["8192"],
            "pages_data": ["7000"],
            "pages_read": ["0"],
        }
        programs.on("JSON_OBJECT", "@@GLOBAL", answer=lambda _: json_row(**self.variables))
        programs.on("SET GLOBAL", answer=self._set)
        programs.on("load_status", answer=lambda _: table({"n": "x", "Value": self._next(self.statuses)}))
        for name, counts in self.counts.items():
            programs.on(name, answer=lambda _, counts=counts: table({"n": "x", "Value": self._next(counts)}))

    def load(self, timeout_seconds: float = 5, say: Callable[[str], Any] = quiet) -> dict[str, Any]:
        return page_load.load_buffer_pool(self.client, self.host.settings, timeout_seconds, say)

    def begin(self) -> None:
        page_load.begin_buffer_pool_load(self.client)

    @property
    def capacities(self) -> tuple[int, int]:
        return self.variables["innodb_io_capacity"], self.variables["innodb_io_capacity_max"]

    @staticmethod
    def _next(answers: list[str]) -> str:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _set(self, text: str) -> str:
        for name, value in re.findall(r"SET GLOBAL (\w+) = ([^;\n]+)", text):
            self.variables[name] = int(value) if value.isdigit() else value.strip("'")
            if name == "innodb_buffer_pool_load_now":
                self.capacity_of_loads.append(self.variables["innodb_io_capacity"])
            assert self.variables["innodb_io_capacity"] <= self.variables["innodb_io_capacity_max"]
        return ""


def test_it_waits_for_the_end_and_loads_what_the_catch_up_evicted(
    host: Host, programs: ScriptedProcesses
) -> None:
    copy = Copy(host, programs, NOT_STARTED, LOADING, FIRST_END, LOADING, SECOND_END)
    found = copy.load()
    assert (found["pages"], found["page_list_found"], found["loads"]) == (7000, True, 2)
    assert len(copy.capacity_of_loads) == 2


def test_it_loads_until_a_load_reads_next_to_nothing(host: Host, programs: ScriptedProcesses) -> None:
    """What a load reads evicts others in a full pool, fewer each time."""
    copy = Copy(host, programs, NOT_STARTED, FIRST_END, SECOND_END, SECOND_END, THIRD_END)
    copy.counts["pages_read"][:] = ["7000", "7600", "7600", "7670"]
    assert copy.load()["loads"] == 3


def test_a_pool_with_room_is_loaded_once(host: Host, programs: ScriptedProcesses) -> None:
    """Nothing was evicted from it."""
    copy = Copy(host, programs, NOT_STARTED, FIRST_END)
    copy.counts["pages_free"][:] = ["2500"]
    assert copy.load()["loads"] == 1


def test_the_end_of_the_first_load_is_not_taken_for_the_second_ones(
    host: Host, programs: ScriptedProcesses
) -> None:
    """InnoDB tells the second in which a load ended, and goes on telling it until the next one is at work."""
    copy = Copy(host, programs, NOT_STARTED, FIRST_END, FIRST_END, FIRST_END, SECOND_END)
    assert copy.load()["loads"] == 2
    assert copy.statuses == [SECOND_END]


def test_a_copy_that_waits_for_its_pages_alone_is_not_held_to_what_a_serving_server_may_read(
    host: Host, programs: ScriptedProcesses
) -> None:
    """At innodb_io_capacity = 200 the pages of a pool of 100 GB would take seven hours."""
    copy = Copy(host, programs, NOT_STARTED, FIRST_END, SECOND_END)
    copy.load()
    assert copy.capacity_of_loads == [200, 20_000], "beside the catch-up, then alone"
    assert copy.capacities == (200, 2000), "and is put back before it serves"


def test_the_list_is_found_whatever_the_image_calls_its_own(host: Host, programs: ScriptedProcesses) -> None:
    copy = Copy(host, programs, NOT_STARTED, innodb_buffer_pool_filename="of the image")
    copy.begin()
    assert copy.variables["innodb_buffer_pool_filename"] == "ib_buffer_pool"


def test_a_load_that_runs_already_is_not_begun_again(host: Host, programs: ScriptedProcesses) -> None:
    Copy(host, programs, LOADING).begin()
    assert not programs.said("load_now")


def test_a_copy_without_a_list_is_not_asked_twice(host: Host, programs: ScriptedProcesses) -> None:
    copy = Copy(host, programs, NOT_STARTED, MISSING)
    found = copy.load()
    assert (found["page_list_found"], found["loads"]) == (False, 1)
    assert len(copy.capacity_of_loads) == 1
    assert copy.capacities == (200, 2000)


@pytest.mark.parametrize(
    "end",
    [
        "Error parsing '/srv/d/ib_buffer_pool', unable to load buffer pool (stage 1)",
        "Error reading '/srv/d/ib_buffer_pool', unable to load buffer pool (stage 1)",
        "Cannot allocate 65536 bytes: Cannot allocate memory",
        ABORTED,
        NOT_STARTED,
    ],
    ids=["torn list", "unreadable list", "no memory", "somebody ended it", "the server started anew"],
)
def test_a_load_that_has_failed_is_not_waited_for(host: Host, programs: ScriptedProcesses, end: str) -> None:
    found = Copy(host, programs, NOT_STARTED, NOT_STARTED, LOADING, end).load()
    assert (found["page_list_found"], found["loads"]) == (False, 1)


@pytest.mark.parametrize("before", [NOT_STARTED, ABORTED])
def test_a_load_that_was_just_begun_has_not_ended_yet(
    host: Host, programs: ScriptedProcesses, before: str
) -> None:
    """Its thread says a moment later that it is at work."""
    assert Copy(host, programs, before, before, LOADING, FIRST_END, SECOND_END).load()["page_list_found"]


def test_it_gives_up_in_time_and_puts_the_limits_back(host: Host, programs: ScriptedProcesses) -> None:
    copy = Copy(host, programs, NOT_STARTED, LOADING)
    with pytest.raises(BufferPoolTimeout):
        copy.load(0.5)
    assert copy.capacities == (200, 2000)


def test_a_second_load_that_takes_too_long_costs_no_build(host: Host, programs: ScriptedProcesses) -> None:
    copy = Copy(host, programs, NOT_STARTED, FIRST_END, LOADING)
    found = copy.load(0.5)
    assert (found["page_list_found"], found["loads"]) == (True, 2)
    assert programs.said("innodb_buffer_pool_load_abort = ON")


@pytest.mark.parametrize("killed_between_the_two", [False, True])
def test_what_a_killed_command_raised_is_put_back_by_the_next_one(
    host: Host, programs: ScriptedProcesses, killed_between_the_two: bool
) -> None:
    copy = Copy(host, programs, FIRST_END, FIRST_END, SECOND_END)
    killed_while_it_loaded(copy)
    assert copy.capacities == (20_000, 20_000)
    if killed_between_the_two:
        copy.variables["innodb_io_capacity"] = 200
    copy.load()
    assert copy.capacities == (200, 2000)


def killed_while_it_loaded(copy: Copy) -> None:
    page_load._raise_limits(copy.client, copy.host.settings)


def look_at_health(copy: Copy) -> None:
    """Its answer is of no matter here."""
    copy.host.call("report_health", "--health", "{}", programs=copy.programs)


def test_what_a_killed_load_raised_is_put_back_by_the_next_look_at_health(
    host: Host, programs: ScriptedProcesses
) -> None:
    copy = Copy(host, programs, FIRST_END)
    killed_while_it_loaded(copy)
    look_at_health(copy)
    assert copy.capacities == (200, 2000)


def test_a_load_that_runs_is_not_slowed_by_a_look_at_health(host: Host, programs: ScriptedProcesses) -> None:
    copy = Copy(host, programs, NOT_STARTED, FIRST_END, SECOND_END)
    seen: list[tuple[int, int]] = []
    copy.load(say=lambda _: (look_at_health(copy), seen.append(copy.capacities)))
    assert seen == [(20_000, 20_000)] * 2
    assert copy.capacities == (200, 2000)


def test_a_load_that_was_given_up_is_begun_anew(host: Host, programs: ScriptedProcesses) -> None:
    Copy(host, programs, ABORTED).begin()
    assert programs.said("load_now")


class Donor:
    """A server whose settings can be set, and that dumps into the file that they name."""

    def __init__(self, host: Host, programs: ScriptedProcesses, **settings: Any) -> None:
        self.host, self.programs = host, programs
        self.client = host.client(programs)
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
        path = self.datadir / self.settings["innodb_buffer_pool_filename"]
        path.write_text("1,1\n1,2\n2,9\n")
        written = time.time() + len(self.dumps_as_percent)
        os.utime(path, (written, written))


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


def test_the_same_command_sent_twice_restores_once_and_fails_neither_time(
    host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands that load the pool see its end in the same moment; each restores what the note of both says."""
    donor = Donor(host, programs)
    killed_while_it_dumped(donor)
    note, execute = Path(host.settings.state_dir) / "donor-settings.json", donor.client.execute
    monkeypatch.setattr(donor.client, "execute", lambda *given: (execute(*given), note.unlink()))
    assert page_load.restore_dump_settings(donor.client, host.settings)
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 25


def test_a_dump_that_runs_is_not_disturbed(host: Host, programs: ScriptedProcesses) -> None:
    donor = Donor(host, programs)
    killed_while_it_dumped(donor)
    with (Path(host.settings.state_dir) / "donor-settings.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not page_load.restore_dump_settings(donor.client, host.settings)
    assert donor.settings["innodb_buffer_pool_dump_pct"] == 100
