"""What a prewarm reads, volume by volume, before the first block is read: devices, maps, journals, tiers."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Callable, Dict, Iterable, List, Optional, Tuple

from peaker_host.blocks import block_list, live_blocks, log_replay
from peaker_host.blocks.database_files import (
    DatabaseFiles,
    find_database,
    read_in_pieces,
    read_tablespaces,
    recovery_blocks,
)
from peaker_host.blocks.filesystem_maps import FileExtents, FilesystemMap, open_map
from peaker_host.blocks.mount_blocks import mount_blocks
from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, intersection, total
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import CommandFailed, InvalidArgument, ToolMissing, UnreadableFilesystem
from peaker_host.machine.manifest import Manifest, Member, open_member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.warm.journal import Journal
from peaker_host.warm.progress import MIB
from peaker_host.warm.reader_pool import RateLimiter, ReaderPool, requests_of
from peaker_host.warm.reading_orders import READING_ORDERS, URGENT_TIERS, Tier, Volume, tiers_of
from peaker_host.warm.request import PrewarmRequest

PageList = Callable[[], Iterable[bytes]]
"""Reads the donor's page list anew."""

NO_PAGE_LIST = "no volume holds a page list (ib_buffer_pool): nothing is known to be hot"


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

    @property
    def knows_hot(self) -> bool:
        """Without a page list nothing is known to be hot."""
        return any(tier.name == "hot" and tier.ranges for tier in self.tiers)


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
        self._needs = READING_ORDERS[request.method]
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
        if self._needs.needs_map:
            with ThreadPoolExecutor(len(volumes)) as each:
                for done in [each.submit(self._recover, volume) for volume in volumes]:
                    done.result()
        self._order_all(volumes)
        for volume in volumes:
            shown = ", ".join(f"{tier.name} {total(tier.ranges)}" for tier in volume.tiers)
            self._say(f"{volume.member.name}: {shown}")
        return volumes

    def _volume(self, member: Member, device: BlockDevice, listed: Optional[List[Range]]) -> PlannedVolume:
        if self._needs.needs_block_list and listed is None:
            raise InvalidArgument(
                f"method {self._request.method}: the block list has nothing about {member.volume_id}"
            )
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
            volume.files = find_database(volume.filesystem)
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
        if not self._needs.needs_page_list:
            return None
        found = [(one.device.path, one.files.page_list) for one in volumes if one.files is not None]
        page_list = _first_page_list(found)
        if page_list is not None:
            return page_list
        self.hot_unknown = NO_PAGE_LIST
        self._say(NO_PAGE_LIST)
        return None

    def _order(self, volume: PlannedVolume, page_list: Optional[PageList]) -> List[Tier]:
        known = Volume(volume.device.size_bytes, volume.listed, volume.used or ())
        if volume.filesystem is not None and volume.files is not None:
            known = with_files(known, volume.device.path, volume.files, self._settings.engine, page_list)
            if volume.filesystem.unreadable:
                volume.note = (
                    f"files: {volume.filesystem.unreadable} answers are missing: the debugger is older than the "
                    "filesystem"
                )
        return tiers_of(self._request.method, known, self._request.with_remainder)

    def _in_plain_order(self, volume: PlannedVolume, error: Exception) -> None:
        volume.note = f"files: {error}"
        self._say(f"{volume.member.name}: read in plain order, because its files cannot be found: {error}")


def with_files(
    volume: Volume, path: str, files: DatabaseFiles, engine: str, page_list: Optional[PageList]
) -> Volume:
    """The volume with what its order may learn from the server's files on the device at `path`."""
    return replace(
        volume,
        recovery=recovery_blocks(files.entries, files.extents),
        tablespaces=partial(read_tablespaces, path, files.extents, engine),
        page_list=page_list,
    )


def urgent_blocks(settings: Settings, processes: Processes, manifest: Manifest) -> Dict[str, List[Range]]:
    """By volume id, what a database needs before it may serve: hot and recovery blocks of all volumes."""
    maps = {
        member.volume_id: open_map(member.filesystem, member.path, processes) for member in manifest.members
    }
    files = {volume_id: find_database(one) for volume_id, one in maps.items()}
    page_list = _first_page_list(
        [(member.path, files[member.volume_id].page_list) for member in manifest.members]
    )
    found = {}
    for member in manifest.members:
        known = with_files(
            Volume(member.size_bytes), member.path, files[member.volume_id], settings.engine, page_list
        )
        tiers = READING_ORDERS["hot"].tiers(known)
        found[member.volume_id] = [one for name, ranges in tiers if name in URGENT_TIERS for one in ranges]
    return found


def _first_page_list(places: List[Tuple[str, FileExtents]]) -> Optional[PageList]:
    """Of the first (device, extents) with a list."""
    for path, extents in places:
        if extents:
            return partial(read_in_pieces, path, extents)
    return None
