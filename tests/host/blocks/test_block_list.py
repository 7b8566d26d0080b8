"""The snapshot's block list as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peaker_host.blocks.block_list import fetch, load, present_blocks
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.machine.errors import BlockListUnreadable

from tests.support.downloads import CUT, Downloads, serving


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_blocks_and_ranges_of_them_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "l", {"block_bytes": 524288, "volumes": {"data": "7, 0-2", "log": ""}})
    assert load(path) == {"data": [(0, 3), (7, 1)], "log": []}


def test_a_volume_is_found_by_id_before_name_and_without_its_list_all_of_it_counts() -> None:
    lists = {"vol-1": [(0, 1)], "data": [(5, 9)]}
    assert present_blocks(lists, "vol-1", "data", 8 * BLOCK_BYTES) == [(0, 1)]
    assert present_blocks(lists, "vol-2", "data", 8 * BLOCK_BYTES - 1) == [(5, 3)]
    assert present_blocks(lists, "vol-2", "log", 7 * BLOCK_BYTES + 1) == [(0, 8)]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "Expecting"),
        ([], "volumes"),
        ({"volumes": {"data": "5-2"}}, r"volumes\.data"),
        ({"volumes": {"data": "-1"}}, r"volumes\.data"),
        ({"volumes": {"data": 7}}, r"volumes\.data"),
        ({"block_bytes": 4096, "volumes": {}}, "block_bytes"),
    ],
)
def test_a_bad_list_is_refused_with_its_place(tmp_path: Path, content: Any, named: str) -> None:
    with pytest.raises(BlockListUnreadable, match=named):
        load(write(tmp_path / "l", content))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, in seconds; nobody waits."""
    slept: list[float] = []
    monkeypatch.setattr("peaker_host.blocks.block_list.time.sleep", slept.append)
    return slept


class TestAStoreThatIsBusy:
    """A run without its block list reads whatever the filesystem's map names."""

    @pytest.fixture
    def downloads(self) -> Iterator[Downloads]:
        with serving(b'{"volumes": {"data": "0-2"}}') as served:
            yield served

    @pytest.mark.parametrize("first", [[503, 503], [500], [429], [CUT], [CUT, 503, CUT, 503]])
    def test_it_is_asked_again(
        self, tmp_path: Path, downloads: Downloads, pauses: list[float], first: list[int]
    ) -> None:
        downloads.first = list(first)
        fetch(downloads.url, str(tmp_path / "l"))
        assert load(str(tmp_path / "l")) == {"data": [(0, 3)]}
        assert pauses == [1, 2, 4, 8][: len(first)]

    @pytest.mark.parametrize(("status", "told"), [(503, "HTTPError 503"), (CUT, "IncompleteRead")])
    def test_after_five_tries_the_last_answer_is_told(
        self, tmp_path: Path, downloads: Downloads, pauses: list[float], status: int, told: str
    ) -> None:
        downloads.first = [status] * 5
        with pytest.raises(BlockListUnreadable, match=told) as refused:
            fetch(downloads.url, str(tmp_path / "l"))
        assert "secret" not in str(refused.value)
        assert (downloads.asked, pauses) == (5, [1, 2, 4, 8])

    def test_a_store_that_drips_is_left_when_the_time_is_up(
        self,
        tmp_path: Path,
        downloads: Downloads,
        pauses: list[float],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("peaker_host.blocks.block_list._ALL_TRIES_SECONDS", 0.0)
        with pytest.raises(BlockListUnreadable, match="TimeoutError"):
            fetch(downloads.url, str(tmp_path / "l"))
        assert (downloads.asked, pauses) == (1, [])

    @pytest.mark.parametrize("status", [403, 404])
    def test_an_address_that_is_good_no_more_is_not_asked_again(
        self, tmp_path: Path, downloads: Downloads, pauses: list[float], status: int
    ) -> None:
        downloads.first = [status]
        with pytest.raises(BlockListUnreadable, match=f"HTTPError {status}"):
            fetch(downloads.url, str(tmp_path / "l"))
        assert (downloads.asked, pauses) == (1, [])
