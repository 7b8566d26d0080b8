"""What a replica says of itself, in the words of its version."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from host_bench import A, B, ScriptedProcesses, json_row
from peaker_host.database.mysql_client import MysqlClient, remote_login, sql_text
from peaker_host.database.replica_status import (
    DIALECTS,
    count_missing,
    count_missing_mariadb,
    subtracted,
)
from peaker_host.machine.errors import CommandFailed, DatabaseUnreachable
from peaker_host.machine.settings import Machine, Settings


def evaluated(expression: str, name: str, value: object) -> int:
    """An expression over one variable. SQLite takes a text as a number in a condition as MariaDB does: ON is 0."""
    with sqlite3.connect(":memory:") as database:
        words = expression.replace("IF(", "IIF(").replace(f"@@GLOBAL.{name}", "?")
        (found,) = database.execute(f"SELECT {words}", (value,)).fetchone()
    return int(found)


@pytest.mark.parametrize(
    ("value", "is_on"),
    [(1, 1), (0, 0), ("ON", 1), ("OFF", 0), ("NO_LOCK", 1), ("NO_LOCK_NO_ADMIN", 1)],
)
def test_read_only_of_mariadb_is_a_switch_up_to_11_and_a_word_from_12_on(value: object, is_on: int) -> None:
    assert evaluated(DIALECTS["mariadb"].read_only_expression, "read_only", value) == is_on


class TestGtidSets:
    def test_missing_transactions_are_counted_over_sources_and_gaps(self) -> None:
        assert count_missing(f"{A}:1-10:15,\n{B}:1-3", f"{A}:1-4:15") == 9

    def test_a_tag_is_a_source_of_its_own(self) -> None:
        assert count_missing(f"{A}:1-5:blue:1-2", f"{A}:1-5:green:1-2") == 2

    def test_case_and_the_empty_set(self) -> None:
        assert count_missing(f"{A.upper()}:1-3", f"{A}:1-3") == 0
        assert count_missing("", f"{A}:1") == 0
        assert count_missing(f"{A}:1-3", "") == 3

    def test_what_is_missing_is_told_as_a_set(self) -> None:
        assert subtracted(f"{A}:1-10:15,{B}:1-3:blue:7", f"{A}:1-4:6-10,{B}:1-3") == f"{A}:5:15,{B}:blue:7"
        assert subtracted(f"{A}:1-3", f"{A}:1-9") == ""

    def test_mariadb_positions_compare_by_domain(self) -> None:
        assert count_missing_mariadb("0-1-21,1-7-5", "0-3-18") == 8
        assert count_missing_mariadb("0-1-21", "0-2-30") == 0


class TestClient:
    def test_null_escapes_and_column_names(self, programs: ScriptedProcesses) -> None:
        programs.on("SELECT", answer="a\tb\tc\nNULL\tx\\ty\\\\z\\n\t\n")
        rows = MysqlClient(programs, "mysql", "/f").rows("SELECT 1")
        assert rows == [{"a": None, "b": "x\ty\\z\n", "c": ""}]

    def test_an_error_of_the_client_is_an_unreachable_database(self, programs: ScriptedProcesses) -> None:
        programs.on("mysql", answer=CommandFailed("mysql ended with exit code 1: ERROR 2002"))
        with pytest.raises(DatabaseUnreachable, match="ERROR 2002"):
            MysqlClient(programs, "mysql", "/f").rows("SELECT 1")

    def test_statements_and_passwords_never_stand_on_the_command_line(
        self, programs: ScriptedProcesses
    ) -> None:
        seen: dict[str, Any] = {}

        def look(text: str) -> str:
            path = text.split("--defaults-extra-file=")[1].split()[0]
            seen.update(content=Path(path).read_text(), mode=os.stat(path).st_mode & 0o777, path=path)
            return json_row(x=1)

        programs.on("SELECT", answer=look)
        with remote_login(Machine.of(Settings(), programs), "10.0.0.1", 3306, "repl", 'se"c\\ret') as client:
            client.json({"x": "1"})
        assert 'password="se\\"c\\\\ret"' in seen["content"]
        assert seen["mode"] == 0o600
        assert not os.path.exists(seen["path"])
        assert all("ret" not in " ".join(argv) for argv, _ in programs.calls)

    def test_text_is_quoted(self) -> None:
        assert sql_text("a'b\\c") == "'a''b\\\\c'"
