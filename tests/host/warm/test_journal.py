"""The journal of one volume."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from peaker_host.warm.journal import Journal


def open_journal(path: Path, volume_id: str = "vol-1", uuid: str = "u", blocks: int = 1000) -> Journal:
    return Journal(str(path), volume_id, uuid, blocks)


def test_what_was_appended_is_there_after_reopening_without_a_close(tmp_path: Path) -> None:
    first = open_journal(tmp_path / "j")
    first.append(0, 2)
    first.append(10, 1)
    second = open_journal(tmp_path / "j")
    assert second.done.ranges() == [(0, 2), (10, 1)]


@pytest.mark.parametrize("size", [0, 100, 4096, 4200])
def test_a_file_of_another_length_is_started_anew(tmp_path: Path, size: int) -> None:
    path = tmp_path / "j"
    open_journal(path).append(3, 1)
    os.truncate(path, size)
    again = open_journal(path)
    assert again.done.count == 0
    again.append(4, 1)
    again.close()
    assert open_journal(path).done.ranges() == [(4, 1)]


@pytest.mark.parametrize("other", [{"volume_id": "vol-2"}, {"uuid": "v"}, {"blocks": 999}])
def test_another_volume_s_journal_counts_for_nothing(tmp_path: Path, other: dict[str, object]) -> None:
    open_journal(tmp_path / "j").append(3, 1)
    assert open_journal(tmp_path / "j", **other).done.count == 0  # type: ignore[arg-type]


def test_it_counts_each_block_once_and_stays_in_its_limit(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j", blocks=10)
    journal.append(8, 5)
    journal.append(9, 1)
    blocks = journal.done
    assert (blocks.count, blocks.ranges(), 8 in blocks, 7 in blocks) == (2, [(8, 2)], True, False)
