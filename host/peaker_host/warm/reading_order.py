"""The reading order of a volume: the tiers of blocks that a prewarm reads, the most urgent first.

recovery: redo, undo, system tablespace, data dictionary, which mysqld reads before it answers, so that it may start
while the last hot blocks are read. hot: blocks that hold pages of the donor's buffer pool, most pages first. used: the
rest that the filesystem has allocated. remainder: the rest of the snapshot.
"""

from dataclasses import dataclass
from typing import List, Sequence, Tuple

from peaker_host.blocks.ranges import Range, difference, intersection, ordered_intersection

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
        return self.remainder_rate_mib_per_s > 0


@dataclass(frozen=True)
class Tier:
    """One step of the order: a name and block ranges in reading order."""

    name: str
    ranges: List[Range]


def tiers_of(
    urgent: NamedBlocks, used: Sequence[Range], present: Sequence[Range], with_remainder: bool
) -> List[Tier]:
    """Returns the urgent tiers, then `used` and (when asked for) the remainder, each block once.

    `used` has the filesystem allocated, `present` the snapshot holds; all but the remainder are in both.
    """
    wanted = intersection(used, present)
    tiers = []
    for name, ranges in (*urgent, ("used", wanted)):
        kept = ordered_intersection(ranges, wanted)
        tiers.append(Tier(name, kept))
        wanted = difference(wanted, kept)
    if with_remainder:
        taken = [block_range for tier in tiers for block_range in tier.ranges]
        tiers.append(Tier(REMAINDER, difference(present, taken)))
    return tiers
