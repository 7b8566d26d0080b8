"""What a prewarm reads, volume by volume, before the first block is read: devices, maps, journals, tiers."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Callable, Dict, Iterable, List, Optional, Tuple

from peaker_host.blocks import block_list, live_blocks, log_replay
from peaker_host.blocks.filesystem_maps import FileExtents, FilesystemMap, open_map
from peaker_host.blocks.mount_blocks import mount_blocks
from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, intersection, total
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import CommandFailed, InvalidArgument, ToolMissing, UnreadableFilesystem
from peaker_host.machine.manifest import Manifest, Member, open_member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.warm import reading_order
from peaker_host.warm.journal import Journal
from peaker_host.warm.reader_pool import RateLimiter, ReaderPool, requests_of
from peaker_host.warm.reading_order import DatabaseFiles, Tier

PageList = Callable[[], Iterable[bytes]]
"""Reads the donor's page list anew."""

NO_PAGE_LIST = "no volume holds a page list (ib_buffer_pool): nothing is known to be hot"
MIB = 1024 * 1024


@dataclass(frozen=True)
class PrewarmRequest:
    """What is to be warmed and how. A rate limit of 0 means none; it holds for each volume.

    The background rate, when there is one, replaces the rate limit of a volume whose urgent tiers (hot,
    recovery) are read: from then on a database may be at work on it. The remainder is read at its own rate, once the
    volume is mounted at its place.
    """

    run_id: str
    method: str
    rate_limit_mib_per_s: float = 0.0
    with_remainder: bool = False
    background_rate_mib_per_s: float = 0.0
    remainder_rate_mib_per_s: float = 0.0


@dataclass
class PlannedVolume:
    """One volume: its tiers, and the journal of what has been read.

    `untouched`: nothing had been read of it before this engine. `bytes_read` were read for the plan itself.
    """

    member: Member
    device: BlockDevice
    journal: Journal
    untouched: bool
    listed: Optional[List[Range]]
    tiers: List[Tier]
    note: str = ""
    bytes_read: int = 0
    used: Optional[List[Range]] = None
    filesystem: Optional[FilesystemMap] = None
    files: Optional[DatabaseFiles] = None


class Planner:
    """Makes the plan of one request."""

    def __init__(
        self,
        settings: Settings,
        processes: Processes,
        request: PrewarmRequest,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._processes = processes
        self._request = request
        self._stop = stop
        self._say = say
        self.hot_unknown = ""

    def plan(self, manifest: Manifest) -> List[PlannedVolume]:
        """All volumes, in the manifest's order. Raises what the checks of a device raise, before any read."""
        log_replay.await_replays(self._settings)
        devices = [open_member(self._settings, member) for member in manifest.members]
        lists = block_list.of_run(self._settings, self._request.run_id)
        volumes = [
            self._volume(member, device, block_list.of_volume(lists, member.volume_id, member.name))
            for member, device in zip(manifest.members, devices)
        ]
        if self._request.method in ("hot", "used"):
            with ThreadPoolExecutor(len(volumes)) as each:
                for done in [each.submit(self._recover, volume) for volume in volumes]:
                    done.result()
        self._order_all(volumes)
        for volume in volumes:
            shown = ", ".join(f"{tier.name} {total(tier.ranges)}" for tier in volume.tiers)
            self._say(f"{volume.member.name}: {shown}")
        return volumes

    def _volume(self, member: Member, device: BlockDevice, listed: Optional[List[Range]]) -> PlannedVolume:
        if self._request.method == "blocks" and listed is None:
            raise InvalidArgument(f"method blocks: the block list has nothing about {member.volume_id}")
        blocks = -(-device.size_bytes // BLOCK_BYTES)
        path = os.path.join(self._settings.state_dir, "journals", member.volume_id + ".journal")
        journal = Journal(path, member.volume_id, member.uuid, blocks)
        return PlannedVolume(member, device, journal, journal.done.count == 0, listed, [])

    def _recover(self, volume: PlannedVolume) -> None:
        """Replay the log and learn what is used; what the mount needs is read beforehand."""
        self._read_first(volume)
        used, unreadable = live_blocks.used_bytes(
            self._settings, self._processes, self._request.run_id, volume.member
        )
        volume.used, volume.note = blocks_of_bytes(used), unreadable
        if unreadable:
            self._say(f"{volume.member.name}: everything in the snapshot is read, because: {unreadable}")
            return
        try:
            volume.filesystem = open_map(volume.member.filesystem, volume.device.path, self._processes)
            volume.files = reading_order.find_database(volume.filesystem)
        except (UnreadableFilesystem, CommandFailed, ToolMissing) as error:
            self._in_plain_order(volume, error)

    def _read_first(self, volume: PlannedVolume) -> None:
        device, journal = volume.device, volume.journal
        wanted = mount_blocks(volume.member.filesystem, device.path, device.size_bytes)
        if volume.listed is not None:
            wanted = intersection(wanted, volume.listed)
        limiter = RateLimiter(self._request.rate_limit_mib_per_s * MIB)
        pool = ReaderPool(device.path, device.size_bytes, 1, limiter, journal.append, self._stop, 32)
        pool.run(requests_of([wanted], journal.done.__contains__, pool.blocks_per_read))
        volume.bytes_read = pool.progress.bytes_read

    def _order_all(self, volumes: List[PlannedVolume]) -> None:
        page_list = self._page_list(volumes)
        for volume in volumes:
            volume.tiers = self._order(volume, page_list)

    def _page_list(self, volumes: List[PlannedVolume]) -> Optional[PageList]:
        """The donor's list lies on one volume; its pages may lie on any."""
        if self._request.method != "hot":
            return None
        found = [(one.device.path, one.files.page_list) for one in volumes if one.files is not None]
        page_list = _first_page_list(found)
        if page_list is not None:
            return page_list
        self.hot_unknown = NO_PAGE_LIST
        self._say(NO_PAGE_LIST)
        return None

    def _order(self, volume: PlannedVolume, page_list: Optional[PageList]) -> List[Tier]:
        size = volume.device.size_bytes
        if self._request.method == "full":
            return reading_order.order_full(size)
        if self._request.method == "blocks":
            return reading_order.order_blocks(volume.listed or [], size)
        hot, recovery = self._database_tiers(volume, page_list)
        return reading_order.order_used(
            volume.used or [], volume.listed, hot, recovery, self._request.with_remainder, size
        )

    def _database_tiers(
        self, volume: PlannedVolume, page_list: Optional[PageList]
    ) -> Tuple[List[Range], List[Range]]:
        """(hot, recovery); both empty, and said, where the files of a filesystem cannot be found."""
        if volume.filesystem is None or volume.files is None:
            return [], []
        try:
            tiers = reading_order.database_tiers(
                volume.device.path,
                volume.filesystem,
                self._settings.engine,
                self._request.method == "hot",
                volume.files,
                page_list,
            )
        except (UnreadableFilesystem, CommandFailed, ToolMissing) as error:
            self._in_plain_order(volume, error)
            return [], []
        if volume.filesystem.unreadable:
            volume.note = (
                f"files: {volume.filesystem.unreadable} answers are missing: the debugger is older than the "
                "filesystem"
            )
        return tiers

    def _in_plain_order(self, volume: PlannedVolume, error: Exception) -> None:
        volume.note = f"files: {error}"
        self._say(f"{volume.member.name}: read in plain order, because its files cannot be found: {error}")


def urgent_blocks(settings: Settings, processes: Processes, manifest: Manifest) -> Dict[str, List[Range]]:
    """By volume id, what a database needs before it may serve: hot and recovery blocks of all volumes."""
    maps = {
        member.volume_id: open_map(member.filesystem, member.path, processes) for member in manifest.members
    }
    files = {volume_id: reading_order.find_database(one) for volume_id, one in maps.items()}
    page_list = _first_page_list(
        [(member.path, files[member.volume_id].page_list) for member in manifest.members]
    )
    found = {}
    for member in manifest.members:
        hot, recovery = reading_order.database_tiers(
            member.path,
            maps[member.volume_id],
            settings.engine,
            True,
            files[member.volume_id],
            page_list,
        )
        found[member.volume_id] = [*hot, *recovery]
    return found


def _first_page_list(places: List[Tuple[str, FileExtents]]) -> Optional[PageList]:
    """Of the first (device, extents) with a list."""
    for path, extents in places:
        if extents:
            return partial(reading_order.read_in_pieces, path, extents)
    return None
