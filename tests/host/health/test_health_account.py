"""The responder's own account in the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_bench import Host, ScriptedProcesses, json_row, table
from peaker_host.database.mysql_client import admin_client
from peaker_host.health.account import ensure_health_account, health_client
from peaker_host.machine.errors import CommandFailed, DatabaseUnreachable, SuperReadOnlyNotRestored


class TestAccount:
    """The account that the responder logs in with; the administrator's is never used for that."""

    @pytest.fixture(autouse=True)
    def accepting(self, programs: ScriptedProcesses) -> None:
        programs.on("CREATE USER").on("super_read_only = ON").on("SELECT 1", answer=table({"1": 1}))
        programs.on("@@GLOBAL.super_read_only", answer=json_row(on=1))

    def ensure(self, host: Host, programs: ScriptedProcesses) -> bool:
        return ensure_health_account(host.settings, programs, admin_client(host.settings, programs))

    def test_it_is_made_once_unlogged_with_little_more_than_a_look(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        assert self.ensure(host, programs) is True
        (made,) = programs.said("CREATE USER")
        assert "sql_log_bin = 0" in made.split("CREATE USER")[0]
        assert [line for line in made.split(";\n") if "GRANT" in line] == [
            f"GRANT {right} TO 'peaker_health_local'@'localhost'"
            for right in ("REPLICATION CLIENT ON *.*", "SELECT ON performance_schema.*")
        ]
        path = Path(host.settings.health_defaults_file)
        assert path.stat().st_mode & 0o777 == 0o600
        assert self.ensure(host, programs) is False
        assert len(programs.said("CREATE USER")) == 1

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

    def test_what_lies_in_the_home_directory_is_never_read(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        health_client(host.settings, programs).rows("SELECT 1")
        assert programs.environments[-1] == {"HOME": "/nonexistent"}

    def test_the_responder_logs_in_with_it(self, host: Host, programs: ScriptedProcesses) -> None:
        health_client(host.settings, programs).rows("SELECT 1")
        (argv, _) = programs.calls[-1]
        assert f"--defaults-extra-file={host.settings.health_defaults_file}" in argv
