"""Planned volumes and filesystems hold their plan and the latency of each while it is cold."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence

from peaker_host.blocks.database_files import DatabaseFiles
from peaker_host.blocks.filesystem_maps import FilesystemMap
from peaker_host.blocks.live_blocks import LiveBlocks
from peaker_host.blocks.ranges import Range, difference, intersection, merged
from peaker_host.blocks.stack_places import block_orders
from peaker_host.blocks.timed_reads import ColdProbe, probe
from peaker_host.layouts.mounts import OpenFilesystem
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.manifest import Member
from peaker_host.warm.journal import Journal
from peaker_host.warm.reading_order import Tier


@dataclass
class PlannedVolume:
    """One volume: its tiers, and the journal of what has been read.

    `top` is the device that is mounted: the volume's own, or that of its set. `present`: the blocks that its snapshot
    holds. `probe`: how slow it was while it was cold, by this engine or an earlier one; None where nobody could know.
    `bytes_read` were read for the plan itself, and of each block of `touched` a page.
    """

    member: Member
    device: BlockDevice
    top: BlockDevice
    journal: Journal
    present: List[Range]
    probe: Optional[ColdProbe]
    tiers: List[Tier] = field(default_factory=list)
    note: str = ""
    bytes_read: int = 0
    touched: Sequence[Range] = ()

    @property
    def knows_hot(self) -> bool:
        return any(tier.name == "hot" and tier.ranges for tier in self.tiers)


@dataclass
class PlannedFilesystem:
    """One filesystem: its volumes, and what was found out about it. Blocks of `used` are of the mounted device."""

    mount: OpenFilesystem
    volumes: List[PlannedVolume]
    used: Sequence[Range] = ()
    live: Dict[str, LiveBlocks] = field(default_factory=dict)
    map: Optional[FilesystemMap] = None
    files: Optional[DatabaseFiles] = None

    def note(self, text: str) -> None:
        for volume in self.volumes:
            volume.note = text


def probe_used(filesystem: PlannedFilesystem, untouched: Sequence[PlannedVolume]) -> None:
    """Probes those volumes of which nothing was read before this engine; blocks that the plan needed are warm."""
    used = on_volumes(filesystem.mount, filesystem.used)
    for volume in untouched:
        if volume.probe is None:
            blocks = intersection(used[volume.member.volume_id], volume.present)
            cold = difference(blocks, merged([*volume.journal.done.ranges(), *volume.touched]))
            volume.probe = probe(volume.device.path, volume.device.size_bytes, cold, random.SystemRandom())


def on_volumes(mount: OpenFilesystem, blocks: Sequence[Range]) -> Dict[str, List[Range]]:
    if mount.stack is None:
        return {mount.top.volume_id: list(blocks)}
    return block_orders(mount.stack, blocks)
