"""The blocks that a run's snapshots hold, as the compact text that the hosts read. Pure.

    {"block_bytes": 524288, "volumes": {"data": "0-99,105,200-299"}}

512 KiB is the block of the EBS direct APIs (botocore, ebs:ListSnapshotBlocks), whose pages are of 100 to 10,000.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

BLOCK_BYTES = 512 * 1024
# The largest page of a list: 4.9 GiB of volume.
BLOCKS_PER_PAGE = 10_000


@dataclass(frozen=True)
class BlockRuns:
    """Blocks in ascending order as (first, count), and how many there are."""

    runs: tuple[tuple[int, int], ...]
    blocks: int


def runs_of(indices: Iterable[int]) -> BlockRuns:
    """Ascending block indices as runs. Raises ValueError where they do not ascend."""
    runs: list[tuple[int, int]] = []
    blocks = 0
    for index in indices:
        if runs and index < sum(runs[-1]):
            raise ValueError(f"block {index} comes after block {sum(runs[-1]) - 1}")
        if runs and index == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
        blocks += 1
    return BlockRuns(tuple(runs), blocks)


def block_list_text(volumes: Mapping[str, BlockRuns]) -> str:
    """The document for the hosts; volumes by name."""
    texts = {
        name: ",".join(
            str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in of.runs
        )
        for name, of in volumes.items()
    }
    return json.dumps({"block_bytes": BLOCK_BYTES, "volumes": texts}, separators=(",", ":"))
