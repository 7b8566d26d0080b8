"""The journal of one volume."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from peaker_host import journal as journal_module
from peaker_host.journal import BlockSet, Journal


def open_journal(path: Path, volume_id: str = "vol-1", uuid: str = "u", blocks: int = 1000) -> Journal:
    return Journal(str(path), volume_id, uuid, blocks)


def test_what_was_appended_is_there_after_reopening_without_a_close(tmp_path: Path) -> None:
    first = open_journal(tmp_path / "j")
    first.append(0, 2)
    first.append(10, 1)
    second = open_journal(tmp_path / "j")
    assert second.done.ranges() == [(0, 2), (10, 1)]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_torn_last_record_loses_only_itself(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    journal = open_journal(path)
    journal.append(0, 2)
    journal.append(50, 2)
    os.truncate(path, path.stat().st_size - cut)
    assert open_journal(path).done.ranges() == [(0, 2)]


def test_garbage_after_the_last_record_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "j"
    open_journal(path).append(3, 1)
    with path.open("ab") as file:
        file.write(b"\0" * 24)
    again = open_journal(path)
    assert again.done.ranges() == [(3, 1)]
    again.append(4, 1)
    assert open_journal(path).done.ranges() == [(3, 2)]


@pytest.mark.parametrize("other", [{"volume_id": "vol-2"}, {"uuid": "v"}, {"blocks": 999}])
def test_another_volume_s_journal_counts_for_nothing(tmp_path: Path, other: dict[str, object]) -> None:
    open_journal(tmp_path / "j").append(3, 1)
    assert open_journal(tmp_path / "j", **other).done.count == 0  # type: ignore[arg-type]


def test_a_long_journal_is_rewritten_short_and_keeps_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_REWRITE_RECORDS", 100)
    path = tmp_path / "j"
    journal = open_journal(path)
    for block in range(150):
        journal.append(block, 1)
    long = path.stat().st_size
    journal.sync()
    assert path.stat().st_size < long / 10
    journal.append(200, 1)
    assert open_journal(path).done.ranges() == [(0, 150), (200, 1)]


def test_a_block_set_counts_each_block_once_and_stays_in_its_limit() -> None:
    blocks = BlockSet(10)
    blocks.add(8, 5)
    blocks.add(9, 1)
    assert (blocks.count, blocks.ranges(), 8 in blocks, 7 in blocks) == (2, [(8, 2)], True, False)
