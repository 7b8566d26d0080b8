"""The EBS direct APIs list the blocks that a snapshot holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.domain.decoding import understood
from peaker.domain.reading import Unknown
from peaker.domain.storage.block_list import BLOCKS_PER_PAGE, BlockRuns, runs_of
from peaker_contract.errors import AwsCallRejected

if TYPE_CHECKING:
    from mypy_boto3_ebs import EBSClient
    from mypy_boto3_ebs.type_defs import ListSnapshotBlocksResponseTypeDef


class EbsSnapshotBlocks:
    """Port SnapshotBlocks."""

    def __init__(
        self,
        ebs: EBSClient,
        blocks_per_page: int = BLOCKS_PER_PAGE,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ebs = ebs
        self._size = blocks_per_page
        self._seconds = seconds

    def held(self, snapshot_id: str, pages_at_most: int, seconds_at_most: float) -> BlockRuns | Unknown:
        until = self._seconds() + seconds_at_most
        pages: list[list[int]] = []
        with translated("ebs:ListSnapshotBlocks"):
            for page in self._pages(snapshot_id):
                pages.append(page)
                if len(pages) > pages_at_most:
                    return Unknown(
                        f"{snapshot_id} has more than {pages_at_most} pages of {self._size} blocks"
                    )
                if self._seconds() > until:
                    return Unknown(f"{snapshot_id}: {len(pages)} pages took more than {seconds_at_most:g} s")
        with understood(AwsCallRejected, f"ebs:ListSnapshotBlocks: the list of {snapshot_id}"):
            return runs_of(chain.from_iterable(pages))

    def _pages(self, snapshot_id: str) -> Iterator[list[int]]:
        answer: ListSnapshotBlocksResponseTypeDef = self._ebs.list_snapshot_blocks(
            SnapshotId=snapshot_id, MaxResults=self._size
        )
        while True:
            yield [block["BlockIndex"] for block in answer.get("Blocks", ())]
            token = answer.get("NextToken")
            if not token:
                return
            answer = self._ebs.list_snapshot_blocks(
                SnapshotId=snapshot_id, MaxResults=self._size, NextToken=token
            )
