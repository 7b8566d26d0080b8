"""Looks of a storage proof: the next one after a verdict that was not warm. Pure.

Hours of prewarm stand behind a proof, so that one look of a noisy minute does not throw them away (I4 still holds:
only `warm` passes). The receipt shows every look.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from peaker.domain.decoding import Frozen
from peaker.domain.runs.ledger import RunPart

Remedy = Literal["none", "cold", "all"]

LOOKS_AT_MOST = 4
# First sample of blocks of the first look; each later one begins with four times as many.
SAMPLE_BLOCKS = 256
SAMPLE_GROWTH = 4
# So few blocks (2 GiB) are read in less time than noise takes to pass.
READ_IN_FULL_BLOCKS = 4096
PAUSE_SECONDS = 60


class Look(Frozen):
    """One look and what was done before it."""

    at: datetime
    verdict: Literal["warm", "not_warm", "unknown"]
    reason: str = ""
    remedy: Remedy = "none"
    blocks_sampled: int | None = None
    cold_share_upper: float | None = None


class NextLook(Frozen):
    """How to look next, how long to wait before, and why."""

    remedy: Remedy = "none"
    sample_blocks: int = SAMPLE_BLOCKS
    pause_seconds: int = 0
    why: str = ""


class StorageLooks(RunPart):
    """The looks so far, and how to look next."""

    ledger_name = "storage_looks"

    looks: tuple[Look, ...] = ()
    next: NextLook = NextLook()


def next_look(looks: Sequence[Look], blocks_used: int | None) -> NextLook | None:
    """What to do after these looks; None when the volumes are not warm for good.

    blocks_used: how many blocks must be warm, None where the host did not say. A second `not_warm` ends it: what was
    cold has been read again by then.
    """
    if not looks:
        return NextLook()
    if len(looks) >= LOOKS_AT_MOST or looks[-1].verdict == "warm":
        return None
    sample = SAMPLE_BLOCKS * SAMPLE_GROWTH ** len(looks)
    if looks[-1].verdict == "not_warm":
        if any(look.verdict == "not_warm" for look in looks[:-1]):
            return None
        return NextLook(remedy="cold", sample_blocks=sample, why="the cold neighbourhoods are read again")
    if looks[-1].remedy == "all":
        return None
    if blocks_used is not None and blocks_used <= READ_IN_FULL_BLOCKS:
        return NextLook(remedy="all", sample_blocks=sample, why=f"all {blocks_used} blocks are read again")
    if len(looks) == LOOKS_AT_MOST - 1:
        return NextLook(remedy="all", sample_blocks=sample, why="all blocks are read again")
    pause = PAUSE_SECONDS * 2 ** (len(looks) - 1)
    return NextLook(sample_blocks=sample, pause_seconds=pause, why=f"more is sampled {pause} s later")


def blocks_used(volumes: object) -> int | None:
    """The sum over the volumes of a proof; None where one does not say."""
    counts = [_blocks(volume) for volume in volumes] if isinstance(volumes, list) and volumes else [None]
    return None if None in counts else sum(count for count in counts if count is not None)


def _blocks(volume: Any) -> int | None:
    count = volume.get("blocks_used") if isinstance(volume, dict) else None
    return count if isinstance(count, int) else None
