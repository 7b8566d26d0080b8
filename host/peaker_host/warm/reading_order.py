"""The reading order of a volume: the tiers of blocks that a prewarm reads, the most urgent first.

recovery: redo, undo, system tablespace, data dictionary, which mysqld reads before it answers, so that it may start
while the last hot blocks are read. hot: blocks that hold pages of the donor's buffer pool, most pages first. used: the
rest that the filesystem has allocated. remainder: the rest of the snapshot.
"""

from dataclasses import dataclass
from typing import Callable, Iterable, List, Optional, Sequence, Tuple

from peaker_host.blocks.database_files import Tablespace, hot_blocks, pages_in
from peaker_host.blocks.ranges import (
    Range,
    blocks_of_bytes,
    difference,
    intersection,
    ordered_intersection,
)

URGENT_TIERS = ("recovery", "hot")
"""A database needs these before it may serve."""
REMAINDER = "remainder"
NamedBlocks = Sequence[Tuple[str, List[Range]]]


@dataclass(frozen=True)
class PrewarmRequest:
    """A request of a run: rates in MiB/s for each volume.

    With a background rate a volume whose urgent tiers are read goes on at that rate: from then on a database may serve
    from it; 0 goes on as before. The remainder is read at its own rate, once the volume is mounted; 0 leaves it out.
    """

    run_id: str
    background_rate_mib_per_s: float = 0.0
    remainder_rate_mib_per_s: float = 0.0

    @property
    def with_remainder(self) -> bool:
        """Tells whether the remainder is asked for."""
        return self.remainder_rate_mib_per_s > 0


@dataclass(frozen=True)
class Tier:
    """One step of the order: a name and block ranges in reading order."""

    name: str
    ranges: List[Range]


@dataclass(frozen=True)
class Volume:
    """A volume's facts that decide its order, in blocks of 512 KiB.

    `listed`: what the snapshot holds, None where the list is missing; `used`: what the filesystem has allocated.
    `recovery`: of the files that the server reads before it answers. The calls read the device: the headers of all
    tablespaces, and the donor's page list, which may lie on another volume; None where there is none.
    """

    size_bytes: int
    listed: Optional[List[Range]] = None
    used: Sequence[Range] = ()
    recovery: Sequence[Range] = ()
    tablespaces: Callable[[], List[Tablespace]] = list
    page_list: Optional[Callable[[], Iterable[bytes]]] = None

    @property
    def present(self) -> List[Range]:
        """Returns the blocks that the snapshot holds, or all of the device."""
        everything = blocks_of_bytes([(0, self.size_bytes)])
        return everything if self.listed is None else intersection(self.listed, everything)


def urgent_blocks_of(volume: Volume) -> NamedBlocks:
    """Returns the urgent tiers; no block is hot without a page list."""
    tablespaces = volume.tablespaces() if volume.page_list is not None else []
    pages = pages_in(volume.page_list()) if volume.page_list is not None and tablespaces else ()
    return [("recovery", list(volume.recovery)), ("hot", hot_blocks(pages, tablespaces))]


def tiers_of(first: NamedBlocks, volume: Volume, with_remainder: bool) -> List[Tier]:
    """Returns the tiers `first`, then `used` and (when asked for) the remainder, each block once.

    All but the remainder are only where the filesystem has data and the snapshot holds it.
    """
    wanted = intersection(list(volume.used), volume.present)
    tiers = []
    for name, ranges in (*first, ("used", wanted)):
        kept = ordered_intersection(ranges, wanted)
        tiers.append(Tier(name, kept))
        wanted = difference(wanted, kept)
    if with_remainder:
        taken = [block_range for tier in tiers for block_range in tier.ranges]
        tiers.append(Tier(REMAINDER, difference(volume.present, taken)))
    return tiers
