"""The compact list of a snapshot's blocks, as the hosts read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.storage.block_list import BlockRuns, block_list_text, runs_of
from peaker_host.blocks.block_list import load


@given(st.sets(st.integers(0, 200)))
def test_runs_hold_exactly_the_blocks(blocks: set[int]) -> None:
    found = runs_of(sorted(blocks))
    assert {index for first, count in found.runs for index in range(first, first + count)} == blocks
    assert found.blocks == len(blocks)
    assert all(sum(one) < other[0] for one, other in zip(found.runs, found.runs[1:], strict=False))


def test_blocks_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="block 3 comes after block 5"):
        runs_of([4, 5, 3])


def test_the_host_reads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "blocks.json"
    path.write_text(block_list_text({"data": runs_of([0, 1, 2, 9]), "log": BlockRuns((), 0)}))
    assert load(str(path)) == {"data": [(0, 3), (9, 1)], "log": []}
    assert json.loads(path.read_text())["volumes"]["data"] == "0-2,9"
