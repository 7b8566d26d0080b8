"""What a replica says of itself, in the words of its version."""

from __future__ import annotations

import sqlite3

import pytest
from peaker_host.database.replica_status import DIALECTS


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


@pytest.mark.parametrize("value", [0, 1])
def test_super_read_only_of_mysql_is_a_switch(value: int) -> None:
    assert evaluated(DIALECTS["mysql"].read_only_expression, "super_read_only", value) == value
