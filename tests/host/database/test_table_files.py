"""Tables that a clone would bring empty, by their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from peaker_host.database.table_files import tables_not_innodb


@pytest.fixture
def datadir(tmp_path: Path) -> Path:
    """As a server of InnoDB alone has it: its own logs are tables of CSV."""
    for name in (
        "mysql/general_log.CSV",
        "mysql/slow_log.CSV",
        "shop/orders.ibd",
        "ibdata1",
        "ib_buffer_pool",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_a_server_of_innodb_has_none(datadir: Path) -> None:
    assert tables_not_innodb(str(datadir)) == []


def test_each_is_named_with_its_engine(datadir: Path) -> None:
    for name in ("old.MYD", "old.MYI", "feed.CSV", "past.ARZ", "all.MRG"):
        (datadir / "shop" / name).touch()
    assert tables_not_innodb(str(datadir)) == [
        "shop.all (MERGE)",
        "shop.feed (CSV)",
        "shop.old (MyISAM)",
        "shop.past (ARCHIVE)",
    ]


def test_rocksdb_is_seen_by_its_directory(datadir: Path) -> None:
    (datadir / ".rocksdb").mkdir()
    assert tables_not_innodb(str(datadir)) == [".rocksdb"]


def test_of_many_the_first_are_named(datadir: Path) -> None:
    for number in range(30):
        (datadir / "shop" / f"old{number:02}.MYD").touch()
    *named, more = tables_not_innodb(str(datadir))
    assert (len(named), more) == (10, "and 20 more")
