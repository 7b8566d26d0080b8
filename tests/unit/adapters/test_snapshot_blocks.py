"""The list of a snapshot's blocks has an end in time: a prewarm without it reads what the filesystem's map names."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

from peaker.adapters.ec2.snapshot_blocks import EbsSnapshotBlocks
from peaker.domain.reading import Unknown


def test_a_list_that_comes_too_slowly_is_unknown() -> None:
    pages = count()

    def page(**_: object) -> dict[str, object]:
        return {"Blocks": [{"BlockIndex": next(pages)}], "NextToken": "more"}

    clock = count(0.0, 40.0)
    listed = EbsSnapshotBlocks(SimpleNamespace(list_snapshot_blocks=page), seconds=lambda: next(clock))  # type: ignore[arg-type]
    found = listed.held("snap-1", 700, 90.0)
    assert found == Unknown("snap-1: 3 pages took more than 90 s")
