"""One volume that holds an older copy: what may differ is brought, and nothing before a look says that it can be so.

Which blocks may differ is the union of lists between two snapshots of one volume each (ListChangedBlocks): what the
donor changed between the copy's snapshot and the new one, and what the copy wrote since it was made. The lists are
believed only as far as the volume bears them out: blocks that none of them names must be the new snapshot's already.
"""

from __future__ import annotations

import hashlib
import random
from typing import Iterable, List, Sequence, Set, Tuple

from peaker_host.blocks.ranges import Range, difference
from peaker_host.fill.filled_volume import FilledVolume, drawn
from peaker_host.fill.snapshot_source import SnapshotSource
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import VolumeUnrelated

Pair = Tuple[str, str]
"""An earlier and a later snapshot of one volume."""

# Of lists that leave out 5 % of what differs by the unlisted blocks, 4 in 100 would pass such a look; the comparison at
# the end is of more.
BLOCKS_LOOKED_AT = 64


class ChangedVolume(FilledVolume):
    """A changed block that the new snapshot does not hold is overwritten with zeros."""

    def __init__(
        self,
        device: BlockDevice,
        volume_id: str,
        source: SnapshotSource,
        journal_path: str,
        pairs: Sequence[Pair],
    ) -> None:
        """Raises what SnapshotSource.changed and FilledVolume raise, and VolumeUnrelated: before the first write."""
        self._name = f"{source.snapshot_id} by {_digest(pairs)}"
        changed: Set[int] = set()
        for first, second in pairs:
            changed.update(source.changed(first, second))
        self._changed = _ranges(sorted(changed))
        super().__init__(device, volume_id, source, journal_path)

    @property
    def journal_name(self) -> str:
        """Of the lists too: by others the volume has to be looked at again."""
        return self._name

    @property
    def brings(self) -> List[Range]:
        """What any list names."""
        return self._changed

    def _refuse_other_content(self) -> None:
        unlike = self._first_difference(self._unchanged(BLOCKS_LOOKED_AT, random.SystemRandom()))
        if unlike is not None:
            raise VolumeUnrelated(
                f"block {unlike} of {self.device.path} is not that of {self.source.snapshot_id}, and no list calls it "
                "changed: the lists do not say all that differs, or the volume was written since; nothing was written"
            )

    def _drawn(self, samples: int, generator: random.Random) -> List[int]:
        return self._unchanged(samples, generator) + drawn(self._changed, samples // 2, generator)

    def _unchanged(self, samples: int, generator: random.Random) -> List[int]:
        """Blocks that must be right without having been brought: those of the snapshot, and zeros."""
        listed = self.source.tokens.ranges()
        kept = drawn(difference(listed, self._changed), samples, generator)
        return kept + drawn(difference(self._behind(listed), self._changed), samples // 4, generator)


def _digest(pairs: Iterable[Pair]) -> str:
    return hashlib.sha256(" ".join("-".join(pair) for pair in sorted(pairs)).encode()).hexdigest()[:16]


def _ranges(indices: Sequence[int]) -> List[Range]:
    found: List[Range] = []
    for index in indices:
        if found and sum(found[-1]) == index:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((index, 1))
    return found
