"""The reading orders: which blocks of a volume a prewarm reads, in which order. A new one is declared here alone.

recovery: redo, undo, system tablespace, data dictionary: what mysqld touches before it answers, so that it may start
while the last hot blocks are read. hot: blocks that hold pages of the donor's buffer pool, most pages first. used: the
rest that the filesystem has allocated. remainder: what is left of the snapshot, when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from peaker_host.blocks.database_files import Tablespace, pages_in
from peaker_host.blocks.hot_pages import hot_blocks
from peaker_host.blocks.ranges import (
    Range,
    blocks_of_bytes,
    difference,
    intersection,
    ordered_intersection,
)

URGENT_TIERS = ("recovery", "hot")
"""What a database needs before it may serve."""
REMAINDER = "remainder"

Tiers = Sequence[Tuple[str, List[Range]]]


@dataclass(frozen=True)
class Tier:
    """One step of the order: a name and block ranges in reading order."""

    name: str
    ranges: List[Range]


@dataclass(frozen=True)
class Volume:
    """A volume gives an order its facts, in blocks of 512 KiB.

    `listed`: what the snapshot holds, None where nobody knows; `used`: what the filesystem has allocated. `recovery`:
    of the files that the server reads before it answers. The calls read the device: the headers of all tablespaces,
    and the donor's page list, which may lie on another volume; None where there is none.
    """

    size_bytes: int
    listed: Optional[List[Range]] = None
    used: Sequence[Range] = ()
    recovery: Sequence[Range] = ()
    tablespaces: Callable[[], List[Tablespace]] = list
    page_list: Optional[Callable[[], Iterable[bytes]]] = None

    @property
    def everything(self) -> List[Range]:
        """All of the device."""
        return blocks_of_bytes([(0, self.size_bytes)])

    @property
    def present(self) -> List[Range]:
        """Returns the blocks that the snapshot holds, or all of the device."""
        return self.everything if self.listed is None else intersection(self.listed, self.everything)


@dataclass(frozen=True)
class ReadingOrder:
    """`tiers` gives names and block ranges, the first first. Of tiers of an order that needs the filesystem's map, only
    what is used and in the snapshot is read, each block once, and the rest that is used comes after them as `used`.

    needs_map: the log is replayed and the map read. needs_page_list: it tells which blocks are hot, so that a database
    may serve before all is read. needs_block_list: without the snapshot's list it is refused.
    """

    meaning: str
    tiers: Callable[[Volume], Tiers]
    needs_map: bool = False
    needs_page_list: bool = False
    needs_block_list: bool = False


def _blocks_of_page_list(volume: Volume) -> List[Range]:
    if volume.page_list is None:
        return []
    tablespaces = volume.tablespaces()
    return hot_blocks(pages_in(volume.page_list()), tablespaces) if tablespaces else []


def _hot(volume: Volume) -> Tiers:
    return [("recovery", list(volume.recovery)), ("hot", _blocks_of_page_list(volume))]


def _used(volume: Volume) -> Tiers:
    return [("recovery", list(volume.recovery)), ("hot", [])]


READING_ORDERS: Dict[str, ReadingOrder] = {
    "hot": ReadingOrder(
        "recovery files, then pages of the donor's buffer pool, then the rest that is used",
        _hot,
        needs_map=True,
        needs_page_list=True,
    ),
    "used": ReadingOrder(
        "recovery files, then the rest that is used, as it lies on the device", _used, needs_map=True
    ),
    "full": ReadingOrder("the whole device, as it lies", lambda volume: [("full", volume.everything)]),
    "blocks": ReadingOrder(
        "what the snapshot holds, as it lies",
        lambda volume: [("snapshot", volume.present)],
        needs_block_list=True,
    ),
}


def tiers_of(name: str, volume: Volume, with_remainder: bool = False) -> List[Tier]:
    """The whole order of a volume; with its remainder when asked for, where the filesystem's map says what that is."""
    order = READING_ORDERS[name]
    first = order.tiers(volume)
    if not order.needs_map:
        return [Tier(name, ranges) for name, ranges in first]
    return each_once(first, volume, with_remainder)


def each_once(first: Tiers, volume: Volume, with_remainder: bool) -> List[Tier]:
    """These tiers, then `used` and (when asked for) `remainder`; all but the last only where the filesystem has data
    and the snapshot holds it."""
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
