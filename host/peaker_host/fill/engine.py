"""The fill engine of one run: what the prewarm engine does, with blocks that are written instead of read.

It holds the same lock and publishes the same progress (`report_prewarm`). It ends only when every block that the
snapshot holds is on the volume, flushed, and a sample of them was read back and held against the snapshot.
"""

from __future__ import annotations

import random
from typing import Callable, Dict, List, Optional

from peaker_host.blocks.live_blocks import LiveBlocks, keep_live_blocks, kept_live_blocks
from peaker_host.blocks.ranges import intersection, merged
from peaker_host.fill.plan import FillPlanner
from peaker_host.fill.request import FillRequest
from peaker_host.fill.volume_fill import VolumeFill
from peaker_host.machine.errors import StorageNotAssembled
from peaker_host.machine.manifest import present_manifest
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.warm.engine import Engine
from peaker_host.warm.planned import PlannedVolume
from peaker_host.warm.record import note_refill
from peaker_host.warm.volume_work import VolumeWork

# Of blocks of which 2 % were wrong, all of so many are right in 6 of 1,000 fills; each carried its checksum on its way.
BLOCKS_COMPARED = 256


class FillEngine(Engine):
    """Fills the volumes of one request; one engine per host at a time."""

    def __init__(
        self, settings: Settings, processes: Processes, request: FillRequest, say: Callable[[str], None]
    ) -> None:
        super().__init__(settings, processes, request, say)
        self._filler = FillPlanner(settings, processes, request, self._stop, say)
        self._fills: List[VolumeFill] = []
        self._changes = bool(request.changed)
        self.compared = 0

    def _plan(self) -> List[PlannedVolume]:
        if self._changes:
            note_refill(self._settings, self._request.run_id, written=False)
        planned: List[PlannedVolume] = list(self._filler.plan())
        if self._changes:
            # Before the first write: from here on the volumes are neither copy.
            note_refill(self._settings, self._request.run_id, written=True)
        self._planner.hot_unknown = self._filler.hot_unknown
        return planned

    def _work(self, volume: PlannedVolume, depth: Optional[int]) -> VolumeWork:
        work = VolumeFill(self._settings, volume, self._request, self._stop, depth)
        self._fills.append(work)
        return work

    def _finish(self) -> None:
        """Raises FillDiffers, and OSError when the device does not take what it was given.

        All that was brought is what `verify_storage` samples: by then a database changes the filesystem's map.
        """
        if self._stop.is_set():
            return
        share = BLOCKS_COMPARED // max(1, len(self._filler.filled))
        for one in self._filler.filled:
            one.journal.flush()
            self.compared += one.compare(share, random.SystemRandom())
        keep_live_blocks(self._settings, self._request.run_id, self._live())
        for work in self._fills:
            work.is_finished = True

    def _live(self) -> Dict[str, LiveBlocks]:
        """Of an empty volume all that the snapshot holds. Of an older copy what was brought, and what had to be warm in
        its life before: the rest is of deleted files since then, and nobody has read it."""
        earlier = self._live_before() if self._changes else {}
        live = {}
        for one, filled in zip(self._planned, self._filler.filled):
            listed, before = one.listed or [], earlier.get(one.member.volume_id)
            if before is not None:
                listed = intersection(listed, merged([*before.blocks, *filled.brings]))
            live[one.member.volume_id] = LiveBlocks(listed, "", known=True)
        return live

    def _live_before(self) -> Dict[str, LiveBlocks]:
        """By volume id, as the run noted it whose manifest is on this host; empty where there is none."""
        try:
            return kept_live_blocks(self._settings, present_manifest(self._settings).run_id)
        except StorageNotAssembled:
            return {}

    def _end_state(self) -> str:
        """A volume of which not all was flushed and compared is none."""
        return "done" if all(work.is_finished for work in self._fills) else "dead"

    def _close(self) -> None:
        for one in self._filler.filled:
            one.close()
