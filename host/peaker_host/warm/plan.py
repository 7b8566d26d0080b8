"""The plan names a prewarm's reads, volume by volume, before the first of them: devices, maps, journals, tiers."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from peaker_host.blocks import block_list, log_replay, timed_reads
from peaker_host.blocks.database_files import (
    DatabaseFiles,
    find_database,
    hot_blocks,
    pages_in,
    read_in_pieces,
    read_tablespaces,
    recovery_blocks,
)
from peaker_host.blocks.filesystem_maps import FileExtents, open_map
from peaker_host.blocks.live_blocks import keep_live_blocks, kept_live_blocks, live_blocks_of
from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, intersection, merged, total
from peaker_host.blocks.stack_places import block_orders, head_blocks, parity_blocks
from peaker_host.layouts.mounts import OpenFilesystem, open_mounts
from peaker_host.machine.devices import BlockDevice, describe_device, mount_points
from peaker_host.machine.errors import CommandFailed, ToolMissing, UnreadableFilesystem
from peaker_host.machine.manifest import Manifest, Member, Stack
from peaker_host.machine.settings import Machine
from peaker_host.warm.first_touch import READERS, FirstTouch
from peaker_host.warm.journal import Journal
from peaker_host.warm.planned import PlannedFilesystem, PlannedVolume, on_volumes, probe_used
from peaker_host.warm.reader_pool import RateLimiter, ReaderPool, requests_of
from peaker_host.warm.reading_order import URGENT_TIERS, NamedBlocks, PrewarmRequest, tiers_of

ByVolume = Dict[str, List[Range]]
PageList = Callable[[], Iterable[bytes]]
"""Reads the donor's page list anew."""

NO_PAGE_LIST = "no volume holds a page list (ib_buffer_pool): nothing is known to be hot"


class Planner:
    """Makes the plan of one request."""

    def __init__(
        self, machine: Machine, request: PrewarmRequest, stop: threading.Event, say: Callable[[str], None]
    ) -> None:
        self._machine = machine
        self._request = request
        self._stop = stop
        self._say = say
        self._probes = timed_reads.kept(machine, request.run_id)
        self.hot_unknown = ""

    def plan(self, manifest: Manifest) -> List[PlannedVolume]:
        """All volumes, in the manifest's order. Raises what the checks of a device raise, before any read."""
        log_replay.await_replays(self._machine)
        mounts = open_mounts(self._machine, manifest)
        lists = block_list.of_run(self._machine, self._request.run_id)
        filesystems = [self._filesystem(mount, lists) for mount in mounts]
        if not self._go_on_behind_database(filesystems):
            self._find_out(filesystems)
        planned = {volume.member.volume_id: volume for one in filesystems for volume in one.volumes}
        volumes = [planned[member.volume_id] for member in manifest.members]
        for volume in volumes:
            shown = ", ".join(f"{tier.name} {total(tier.ranges)}" for tier in volume.tiers)
            self._say(f"{volume.member.name}: {shown}")
        return volumes

    def _find_out(self, filesystems: List[PlannedFilesystem]) -> None:
        """Finds the reading order of each volume and the blocks that the proof samples."""
        count = len(filesystems)
        with ThreadPoolExecutor(count) as each, ThreadPoolExecutor(count) as beside:
            probes: List[Future[None]] = []

            def recover(one: PlannedFilesystem) -> None:
                untouched = [volume for volume in one.volumes if not volume.journal.done.count]
                self._replay(one)
                # Beside the search for files: nothing reads the volume fast yet.
                probes.append(beside.submit(probe_used, one, untouched))
                self._find_files(one)

            list(each.map(recover, filesystems))
            page_list = self._page_list(filesystems)
            for filesystem in filesystems:
                self._order(filesystem, page_list)
            for probed in probes:
                probed.result()
        self._keep_live_blocks(filesystems)

    def _go_on_behind_database(self, filesystems: List[PlannedFilesystem]) -> bool:
        """Plans the blocks that were live before the database began, for an engine that died behind it, if known.

        The hot and recovery blocks were read before the database began, and its maps cannot be read under it.
        """
        at_work = [one.mount.top.mount_point in mount_points(one.mount.device) for one in filesystems]
        kept = kept_live_blocks(self._machine, self._request.run_id) if any(at_work) else {}
        volumes = [volume for one in filesystems for volume in one.volumes]
        if not all(volume.member.volume_id in kept for volume in volumes):
            return False
        for volume in volumes:
            live = kept[volume.member.volume_id]
            urgent: NamedBlocks = [(name, []) for name in URGENT_TIERS]
            volume.tiers = tiers_of(urgent, live.blocks, volume.present, self._request.with_remainder)
        return True

    def _keep_live_blocks(self, filesystems: List[PlannedFilesystem]) -> None:
        """Keeps the live blocks before the first read: once a database has begun, nobody can list them again."""
        found = {}
        for filesystem in filesystems:
            for volume in filesystem.volumes:
                urgent = [part for tier in volume.tiers if tier.name in URGENT_TIERS for part in tier.ranges]
                name = volume.member.volume_id
                found[name] = replace(filesystem.live[name], urgent=merged(urgent))
        keep_live_blocks(self._machine, self._request.run_id, found)

    def _filesystem(self, mount: OpenFilesystem, lists: Dict[str, List[Range]]) -> PlannedFilesystem:
        volumes = []
        for member in mount.members:
            device = mount.device if mount.stack is None else describe_device(member.path)
            volumes.append(self._volume(member, device, mount.device, lists))
        return PlannedFilesystem(mount, volumes)

    def _volume(
        self, member: Member, device: BlockDevice, top: BlockDevice, lists: Dict[str, List[Range]]
    ) -> PlannedVolume:
        path = os.path.join(self._machine.state_dir, "journals", member.volume_id + ".journal")
        journal = Journal(path, member.volume_id, member.uuid, -(-device.size_bytes // BLOCK_BYTES))
        present = block_list.present_blocks(lists, member.volume_id, member.name, device.size_bytes)
        return PlannedVolume(member, device, top, journal, present, self._probes.get(member.volume_id))

    def _replay(self, filesystem: PlannedFilesystem) -> None:
        """Replay the log and learn what is used; what the mount needs is read beforehand."""
        mount, run_id = filesystem.mount, self._request.run_id
        self._read_first(filesystem)
        used = log_replay.replay_log(self._machine, run_id, mount.top)
        filesystem.used = blocks_of_bytes(used)
        filesystem.live = live_blocks_of(self._machine, run_id, used, mount.stack, mount.members)

    def _find_files(self, filesystem: PlannedFilesystem) -> None:
        """Finds the server's files by the filesystem's debugger; without them everything is read in plain order."""
        mount = filesystem.mount
        try:
            filesystem.map = open_map(mount.top.filesystem, mount.device.path, self._machine.processes)
            filesystem.files = find_database(filesystem.map)
        except (UnreadableFilesystem, CommandFailed, ToolMissing) as error:
            filesystem.note(f"files: {error}")
            self._say(f"{mount.top.name}: read in plain order, because its files cannot be found: {error}")

    def _read_first(self, filesystem: PlannedFilesystem) -> None:
        mount = filesystem.mount
        wanted = log_replay.mount_blocks(mount.top.filesystem, mount.device.path, mount.device.size_bytes)
        whole, touched = on_volumes(mount, wanted.whole), on_volumes(mount, wanted.touched)
        with ThreadPoolExecutor(len(filesystem.volumes)) as each:
            list(each.map(lambda volume: self._read(volume, whole, touched), filesystem.volumes))

    def _read(self, volume: PlannedVolume, whole: ByVolume, touched: ByVolume) -> None:
        device, journal, name = volume.device, volume.journal, volume.member.volume_id
        wanted = intersection(whole[name], volume.present)
        volume.touched = intersection(touched[name], volume.present)
        is_done = journal.done.__contains__
        FirstTouch(device.path, device.size_bytes, [volume.touched], is_done, self._stop).run()
        pool = ReaderPool(
            device.path, device.size_bytes, 1, RateLimiter(None), journal.append, self._stop, READERS
        )
        pool.run(requests_of([wanted], is_done, pool.blocks_per_read))
        volume.bytes_read = pool.progress.bytes_read

    def _page_list(self, filesystems: List[PlannedFilesystem]) -> Optional[PageList]:
        """The donor's list lies on one filesystem; its pages may lie on any."""
        found = [(one.mount.device.path, one.files.page_list) for one in filesystems if one.files is not None]
        page_list = first_page_list(found)
        if page_list is None:
            self.hot_unknown = NO_PAGE_LIST
            self._say(NO_PAGE_LIST)
        return page_list

    def _order(self, filesystem: PlannedFilesystem, page_list: Optional[PageList]) -> None:
        mount, with_remainder = filesystem.mount, self._request.with_remainder
        urgent: NamedBlocks = [(name, []) for name in URGENT_TIERS]
        if filesystem.map is not None and filesystem.files is not None:
            urgent = urgent_tiers(mount.device.path, filesystem.files, self._machine.engine, page_list)
            if filesystem.map.unreadable:
                filesystem.note(
                    f"files: {filesystem.map.unreadable} answers are missing: the debugger is older than the "
                    "filesystem"
                )
        if mount.stack is None:
            [volume] = filesystem.volumes
            volume.tiers = tiers_of(urgent, filesystem.used, volume.present, with_remainder)
            return
        first, used = set_orders(mount.stack, urgent, filesystem.used)
        for volume in filesystem.volumes:
            name = volume.member.volume_id
            own = [(tier, of[name]) for tier, of in first]
            volume.tiers = tiers_of(own, used[name], volume.present, with_remainder)


def set_orders(
    stack: Stack, urgent: NamedBlocks, used: Sequence[Range]
) -> Tuple[List[Tuple[str, ByVolume]], ByVolume]:
    """Maps an order of the filesystem on a set to orders of its volumes: its urgent tiers, and all that it uses.

    With the parity and with what assembling reads: no first write into a stripe or resync waits for a cold block.
    """
    whole, parity, heads = block_orders(stack, used), parity_blocks(stack, used), head_blocks(stack)
    return [(name, block_orders(stack, ranges)) for name, ranges in urgent], {
        key: merged([*ranges, *parity[key], *heads[key]]) for key, ranges in whole.items()
    }


def urgent_tiers(path: str, files: DatabaseFiles, engine: str, page_list: Optional[PageList]) -> NamedBlocks:
    """Returns the urgent tiers by the server's files on the device at `path`; no block is hot without a page list."""
    tablespaces = [] if page_list is None else read_tablespaces(path, files.extents, engine)
    pages = pages_in(page_list()) if page_list is not None and tablespaces else ()
    return [
        ("recovery", recovery_blocks(files.entries, files.extents)),
        ("hot", hot_blocks(pages, tablespaces)),
    ]


def urgent_blocks(machine: Machine, mounts: Sequence[OpenFilesystem]) -> Dict[str, List[Range]]:
    """Returns the hot and recovery blocks, which a database needs before it may serve, by volume id."""
    maps = [open_map(mount.top.filesystem, mount.device.path, machine.processes) for mount in mounts]
    files = [find_database(one) for one in maps]
    page_list = first_page_list([(mount.device.path, one.page_list) for mount, one in zip(mounts, files)])
    found: ByVolume = {}
    for mount, one in zip(mounts, files):
        tiers = urgent_tiers(mount.device.path, one, machine.engine, page_list)
        found.update(on_volumes(mount, [part for _, ranges in tiers for part in ranges]))
    return found


def first_page_list(places: List[Tuple[str, FileExtents]]) -> Optional[PageList]:
    for path, extents in places:
        if extents:
            return partial(read_in_pieces, path, extents)
    return None
