"""Planned volumes and filesystems hold their plan and the latency of each while it is cold."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from peaker_host.blocks.database_files import DatabaseFiles
from peaker_host.blocks.filesystem_maps import FilesystemMap
from peaker_host.blocks.ranges import Range, difference, intersection, merged
from peaker_host.blocks.stack_places import block_orders
from peaker_host.blocks.timed_reads import ColdProbe, kept, probe
from peaker_host.layouts.mounts import OpenFilesystem
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.manifest import Member
from peaker_host.machine.settings import Settings
from peaker_host.warm.journal import Journal
from peaker_host.warm.reading_order import REMAINDER, Tier


@dataclass
class PlannedVolume:
    """One volume: its tiers, and the journal of what has been read.

    `untouched`: nothing had been read of it before this engine. `bytes_read` were read for the plan itself, and of
    each block of `touched` a page. `top` is the device that is mounted: the volume's own, or that of its set. `probe`:
    how slow it was while it was cold, by this engine or an earlier one; None where nobody could know.
    """

    member: Member
    device: BlockDevice
    journal: Journal
    untouched: bool
    listed: Optional[List[Range]]
    tiers: List[Tier]
    top: BlockDevice
    note: str = ""
    bytes_read: int = 0
    touched: Sequence[Range] = ()
    probe: Optional[ColdProbe] = None

    @property
    def knows_hot(self) -> bool:
        """Tells whether any block is known to be hot, which takes a page list."""
        return any(tier.name == "hot" and tier.ranges for tier in self.tiers)


@dataclass
class PlannedFilesystem:
    """One filesystem: its volumes, and what was found out about it. Blocks of `used` are of the mounted device."""

    mount: OpenFilesystem
    volumes: List[PlannedVolume]
    used: Optional[List[Range]] = None
    used_unreadable: bool = False
    map: Optional[FilesystemMap] = None
    files: Optional[DatabaseFiles] = None

    def note(self, text: str) -> None:
        """Adds a note to the progress of each of its volumes."""
        for volume in self.volumes:
            volume.note = text


class Prober:
    """Probes the volumes of a run of which nothing was read yet; of others it knows what an earlier engine found."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        self._before = kept(settings, run_id)

    def probe_used(self, filesystem: PlannedFilesystem) -> None:
        """Probes the used blocks of a filesystem's volumes; the reading order need not wait for it."""
        used = on_volumes(filesystem.mount, filesystem.used or ())
        for volume in filesystem.volumes:
            blocks = used[volume.member.volume_id]
            self._probe(volume, blocks if volume.listed is None else intersection(blocks, volume.listed))

    def probe_all(self, volumes: Sequence[PlannedVolume]) -> None:
        """Probes the volumes without a map, all at the same time."""
        with ThreadPoolExecutor(max(1, len(volumes))) as each:
            # The remainder stays cold for now.
            asked = [
                each.submit(
                    self._probe,
                    volume,
                    [part for tier in volume.tiers if tier.name != REMAINDER for part in tier.ranges],
                )
                for volume in volumes
            ]
            for done in asked:
                done.result()

    def _probe(self, volume: PlannedVolume, blocks: Sequence[Range]) -> None:
        """Probes a volume before the first read of its data; blocks that the plan needed are warm."""
        volume.probe = volume.probe or self._before.get(volume.member.volume_id)
        if volume.probe is not None or not volume.untouched:
            return
        cold = difference(merged(blocks), merged([*volume.journal.done.ranges(), *volume.touched]))
        volume.probe = probe(volume.device.path, volume.device.size_bytes, cold, random.SystemRandom())


def on_volumes(mount: OpenFilesystem, blocks: Sequence[Range]) -> Dict[str, List[Range]]:
    """Blocks of the mounted device, by volume id."""
    if mount.stack is None:
        return {mount.top.volume_id: list(blocks)}
    return block_orders(mount.stack, blocks)
