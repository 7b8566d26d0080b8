"""The command-line client: what it gives and what it never shows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from host_bench import ScriptedProcesses, json_row
from peaker_host.database.mysql_client import MysqlClient, RemoteLogin, sql_text
from peaker_host.database.replica_status import read_status
from peaker_host.machine.errors import CommandFailed, DatabaseUnreachable
from peaker_host.machine.settings import Machine, Settings


class TestClient:
    def test_null_escapes_and_column_names(self, programs: ScriptedProcesses) -> None:
        programs.on("SELECT", answer="a\tb\tc\nNULL\tx\\ty\\\\z\\n\t\n")
        rows = MysqlClient(programs, "mysql", "/f").rows("SELECT 1")
        assert rows == [{"a": None, "b": "x\ty\\z\n", "c": ""}]

    def test_an_error_of_the_client_is_an_unreachable_database(self, programs: ScriptedProcesses) -> None:
        programs.on("mysql", answer=CommandFailed("mysql ended with exit code 1: ERROR 2002"))
        with pytest.raises(DatabaseUnreachable, match="ERROR 2002"):
            MysqlClient(programs, "mysql", "/f").rows("SELECT 1")

    def test_no_rows_is_an_empty_list(self, programs: ScriptedProcesses) -> None:
        programs.on("SHOW", answer="")
        assert read_status(MysqlClient(programs, "mysql", "/f"), "mysql") is None

    def test_statements_and_passwords_never_stand_on_the_command_line(
        self, programs: ScriptedProcesses
    ) -> None:
        seen: dict[str, Any] = {}

        def look(text: str) -> str:
            path = text.split("--defaults-extra-file=")[1].split()[0]
            seen.update(content=Path(path).read_text(), mode=os.stat(path).st_mode & 0o777, path=path)
            return json_row(x=1)

        programs.on("SELECT", answer=look)
        with RemoteLogin(Machine.of(Settings(), programs), "10.0.0.1", 3306, "repl", 'se"c\\ret') as client:
            client.json({"x": "1"})
        assert 'password="se\\"c\\\\ret"' in seen["content"]
        assert seen["mode"] == 0o600
        assert not os.path.exists(seen["path"])
        assert all("ret" not in " ".join(argv) for argv, _ in programs.calls)

    def test_text_is_quoted(self) -> None:
        assert sql_text("a'b\\c") == "'a''b\\\\c'"
