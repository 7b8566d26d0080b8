"""The systemd unit of the health responder: what it runs, as whom, and what becomes of it when it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host, ScriptedProcesses, json_row, table
from peaker_host.health import sample, unit
from peaker_host.health.unit import (
    UNIT,
    ensure_health_account,
    health_client,
    install_health_service,
    is_short,
    kept_hours,
    shorten_retention,
    unit_text,
)
from peaker_host.machine.errors import CommandFailed, DatabaseUnreachable, SuperReadOnlyNotRestored
from peaker_host.machine.settings import Settings, package_place

LISTENS = """
import sys
from peaker_host.health.server import drop_privileges
from peaker_host.health.server import listen
listen(["127.0.0.1"], int(sys.argv[1]))
drop_privileges()
print(next(line for line in open("/proc/self/status") if line.startswith("CapEff")))
"""


def test_a_service_whose_file_a_killed_command_left_is_told_to_systemd(
    host: Host, programs: ScriptedProcesses
) -> None:
    """Also one of an older release that systemd has given up: it would refuse the start."""
    programs.on("systemctl").on("daemon-reload", answer=CommandFailed("killed"))
    with pytest.raises(CommandFailed):
        install_health_service(host.machine(programs))
    programs.on("daemon-reload").calls.clear()
    install_health_service(host.machine(programs))
    calls = [argv[1:] for argv, _ in programs.calls]
    assert calls == [["daemon-reload"], ["enable", UNIT], ["reset-failed", UNIT], ["restart", UNIT]]
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
    install_health_service(host.machine(programs))
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


def config(host: Host) -> Path:
    return Path(host.settings.agent_config)


@pytest.mark.parametrize(
    "written",
    [
        None,
        {},
        {
            "Ssm": {"RunCommandLogsRetentionDurationHours": 336, "Endpoint": "vpce"},
            "Mds": {"CommandWorkersLimit": 5},
        },
    ],
    ids=["no file", "an empty one", "the owner's own"],
)
def test_eight_hours_are_written_and_everything_else_of_the_owner_stays(
    host: Host, written: dict[str, Any] | None
) -> None:
    if written is not None:
        config(host).parent.mkdir(parents=True, exist_ok=True)
        config(host).write_text(json.dumps(written))
    assert not is_short(kept_hours(host.settings))
    shorten_retention(host.settings)
    found = json.loads(config(host).read_text())
    before = written or {}
    assert found == {**before, "Ssm": {**before.get("Ssm", {}), "RunCommandLogsRetentionDurationHours": 8}}
    assert is_short(kept_hours(host.settings))


def tables_of_a_sample() -> list[str]:
    """The tables of performance_schema that the responder asks, in the order in which a sample names them first."""
    named = re.findall(r"performance_schema\.\w+", " ".join(sample._MYSQL_FACTS.values()))
    return [table for table in dict.fromkeys(named) if not table.startswith("@@")]


class StrictAccounts:
    """A server's accounts under `validate_password` (MEDIUM) and a `password_history`, as MySQL answers for them."""

    def __init__(self) -> None:
        self.passwords: dict[str, str] = {}
        self._before: dict[str, set[str]] = {}

    def answer(self, text: str) -> str:
        for line, statement in enumerate(text.split(";\n"), 1):
            found = re.search(r"(CREATE|ALTER|DROP) USER (IF (?:NOT )?EXISTS )?('\S+'@'\S+')", statement)
            if found:
                self._run(line, found[1], bool(found[2]), found[3], statement)
        return ""

    def _run(self, line: int, verb: str, leniently: bool, name: str, statement: str) -> None:
        there = name in self.passwords
        if there is (verb == "CREATE"):
            if leniently:
                return
            raise CommandFailed(f"ERROR 1396 (HY000) at line {line}: Operation {verb} USER failed for {name}")
        if verb == "DROP":
            del self.passwords[name], self._before[name]
            return
        given = re.search(r"IDENTIFIED BY '([^']*)'", statement)
        password = given[1] if given else ""
        kinds = (r"[a-z]", r"[A-Z]", r"[0-9]", r"[^a-zA-Z0-9]", r".{8}")
        if not all(re.search(kind, password) for kind in kinds):
            raise CommandFailed(
                f"ERROR 1819 (HY000) at line {line}: Your password does not satisfy the current policy requirements"
            )
        if password in self._before.setdefault(name, set()):
            raise CommandFailed(f"ERROR 3638 (HY000) at line {line}: Cannot use these credentials for {name}")
        self._before[name].add(password)
        self.passwords[name] = password


class TestAccount:
    """The account that the responder logs in with; the administrator's is never used for that."""

    @pytest.fixture(autouse=True)
    def accounts(self, programs: ScriptedProcesses) -> StrictAccounts:
        accounts = StrictAccounts()
        programs.on("super_read_only = ON").on("SELECT 1", answer=table({"1": 1}))
        programs.on("CREATE USER", answer=accounts.answer)
        programs.on("@@GLOBAL.super_read_only", answer=json_row(on=1))
        return accounts

    def ensure(self, host: Host, programs: ScriptedProcesses) -> bool:
        return ensure_health_account(host.machine(programs), host.client(programs))

    def test_it_is_made_once_unlogged_with_little_more_than_a_look(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        assert self.ensure(host, programs) is True
        (made,) = programs.said("CREATE USER")
        assert "sql_log_bin = 0" in made.split("CREATE USER")[0]
        assert [line for line in made.split(";\n") if "GRANT" in line] == [
            f"GRANT {right} TO 'peaker_health_local'@'localhost'"
            for right in (
                "REPLICATION CLIENT ON *.*",
                *(f"SELECT ON {table}" for table in tables_of_a_sample()),
            )
        ]
        path = Path(host.settings.health_defaults_file)
        assert path.stat().st_mode & 0o777 == 0o600
        assert self.ensure(host, programs) is False
        assert len(programs.said("CREATE USER")) == 1

    def test_a_password_policy_accepts_whatever_is_drawn(
        self,
        host: Host,
        programs: ScriptedProcesses,
        accounts: StrictAccounts,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A random text may have no capital, no digit or no special character: ERROR 1819 on one host in a few."""
        monkeypatch.setattr(unit.secrets, "token_urlsafe", lambda _: "qwertzuiopasdfghjklyxcvbnmqwertz")
        assert self.ensure(host, programs) is True
        (password,) = accounts.passwords.values()
        assert f"password={password}\n" in Path(host.settings.health_defaults_file).read_text()
        (made,) = [line for line in programs.said("CREATE USER")[0].split(";\n") if "CREATE USER" in line]
        assert made.endswith("PASSWORD EXPIRE NEVER"), (
            "default_password_lifetime would shut the responder out"
        )

    def test_an_account_that_came_with_the_copy_gets_a_password_that_is_known_here(
        self, host: Host, programs: ScriptedProcesses, accounts: StrictAccounts
    ) -> None:
        """The donor has the same unit, its password is in the donor's own file."""
        name = "'peaker_health_local'@'localhost'"
        accounts.answer(f"CREATE USER {name} IDENTIFIED BY 'Donors-0wn-one'")
        assert self.ensure(host, programs) is True
        kept = Path(host.settings.health_defaults_file).read_text()
        assert f"password={accounts.passwords[name]}\n" in kept
        assert "Donors-0wn-one" not in kept

    def test_the_owner_s_own_account_is_used_as_it_is(self, host: Host, programs: ScriptedProcesses) -> None:
        path = Path(host.settings.health_defaults_file)
        path.write_text("[client]\nuser=peaker_health\npassword=x\n")
        assert self.ensure(host, programs) is False
        assert "peaker_health\n" in path.read_text()

    def test_a_failure_never_leaves_the_server_writable(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("CREATE USER", answer=CommandFailed("ERROR 1396"))
        with pytest.raises(DatabaseUnreachable):
            self.ensure(host, programs)
        assert programs.calls[-1][1].endswith("SET GLOBAL super_read_only = ON;\n")

    def test_where_super_read_only_was_off_it_stays_off(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("@@GLOBAL.super_read_only", answer=json_row(on=0))
        assert self.ensure(host, programs) is True
        assert not programs.said("SET GLOBAL super_read_only")

    def test_super_read_only_is_turned_on_again_though_a_long_transaction_is_being_applied(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        busy = iter([CommandFailed("ERROR 1205 (HY000): Lock wait timeout exceeded")] * 2)

        def turn_on(_text: str) -> str:
            if (error := next(busy, None)) is not None:
                raise error
            return ""

        programs.on("super_read_only = ON", answer=turn_on)
        assert self.ensure(host, programs) is True
        assert len(programs.said("super_read_only = ON")) == 3
        assert all("lock_wait_timeout" in line for line in programs.said("super_read_only = ON"))

    def test_a_super_read_only_that_stays_off_is_told_by_its_name(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("super_read_only = ON", answer=CommandFailed("ERROR 1205 (HY000): Lock wait timeout"))
        with pytest.raises(SuperReadOnlyNotRestored, match="SET GLOBAL super_read_only = ON"):
            self.ensure(host, programs)

    def test_the_responder_logs_in_with_it_and_reads_nothing_of_the_home_directory(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        health_client(host.machine(programs)).rows("SELECT 1")
        assert programs.environments[-1] == {"HOME": "/nonexistent"}
        (argv, _) = programs.calls[-1]
        assert f"--defaults-extra-file={host.settings.health_defaults_file}" in argv
