"""In which order a fill brings a snapshot's blocks: those that a database needs first, then all others.

The order is read from the snapshot itself, through a file that brings what is read of it. It may be some seconds old
(what is in the filesystem's log only is not seen): that changes the order, never what is brought, which is every block
that the snapshot holds. Nothing is mounted before the last one is there: an empty volume gives zeros for it.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Callable, List, Optional, Tuple

from peaker_host.aws.direct_api import DirectApi
from peaker_host.aws.instance_role import InstanceRole
from peaker_host.blocks.database_files import DatabaseFiles, find_database
from peaker_host.blocks.filesystem_maps import open_map
from peaker_host.blocks.ranges import (
    BLOCK_BYTES,
    Range,
    blocks_of_bytes,
    difference,
    intersection,
    total,
)
from peaker_host.fill.changed_volume import ChangedVolume
from peaker_host.fill.filled_volume import FilledVolume
from peaker_host.fill.request import FillRequest
from peaker_host.fill.request_pace import RequestPace
from peaker_host.fill.snapshot_file import SnapshotFile
from peaker_host.fill.snapshot_source import SnapshotSource
from peaker_host.machine.devices import (
    BlockDevice,
    by_id_path,
    describe_device,
    refuse_if_not_volume,
    refuse_if_used,
)
from peaker_host.machine.errors import CommandFailed, ToolMissing, UnreadableFilesystem
from peaker_host.machine.manifest import Member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.warm.plan import NO_PAGE_LIST, PageList, first_page_list, with_files
from peaker_host.warm.planned import PlannedVolume
from peaker_host.warm.reading_orders import READING_ORDERS, REMAINDER, Tier, Volume, tiers_of

REST = "rest"
"""What the snapshot holds beside the filesystem's files: it is brought too, before anything is mounted."""
ENDS = "ends"
"""The first and the last block of a set's member, where md and LVM write what they know it by (md(4): metadata 1.1 and
1.2 within the first 4 KiB and 8 KiB, 1.0 within the last 12 KiB; lvm: the first four sectors)."""


@dataclass
class PlannedFill(PlannedVolume):
    """`filled` is the way of a block onto the volume."""

    filled: Optional[FilledVolume] = None


@dataclass(frozen=True)
class _Seen:
    """What the debuggers say of a snapshot's filesystem; `files` is None where they cannot say."""

    used: List[Range]
    files: Optional[DatabaseFiles]
    why_plain: str = ""


class FillPlanner:
    """Opens the volumes of one request and orders their blocks. `bytes_read` were brought for the plan itself."""

    def __init__(
        self,
        settings: Settings,
        processes: Processes,
        request: FillRequest,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._processes = processes
        self._request = request
        self._stop = stop
        self._say = say
        self.hot_unknown = ""
        self.filled: List[FilledVolume] = []

    def plan(self) -> List[PlannedFill]:
        """All volumes, in the request's order. Raises what opening and listing raise, before anything is written."""
        role = InstanceRole(self._settings.metadata_url)
        api = DirectApi(role, self._settings.ebs_endpoint_url)
        devices = [self._device(member) for member in self._request.members]
        pairs = zip(self._request.members, devices)
        planned = [self._volume(api, member, device) for member, device in pairs]
        self._order_all(planned)
        for volume in planned:
            volume.bytes_read = volume.journal.done.count * BLOCK_BYTES if volume.untouched else 0
            shown = ", ".join(f"{tier.name} {total(tier.ranges)}" for tier in volume.tiers)
            self._say(f"{volume.member.name}: {shown}")
        return planned

    def _device(self, member: Member) -> BlockDevice:
        device = describe_device(by_id_path(self._settings.by_id_dir, member.volume_id))
        refuse_if_not_volume(device, member.volume_id, self._settings.by_id_dir)
        refuse_if_used(device, "")
        return device

    def _volume(self, api: DirectApi, member: Member, device: BlockDevice) -> PlannedFill:
        snapshot = self._request.snapshots[member.name]
        source = SnapshotSource(api, snapshot, RequestPace(self._request.requests_per_second), self._stop)
        path = os.path.join(self._settings.state_dir, "journals", member.volume_id + ".filled")
        pairs = self._request.changed.get(member.name)
        if pairs is None:
            filled = FilledVolume(device, member.volume_id, source, path)
        else:
            filled = ChangedVolume(device, member.volume_id, source, path, pairs)
        self.filled.append(filled)
        untouched = filled.journal.done.count == 0
        listed = source.tokens.ranges()
        return PlannedFill(member, device, filled.journal, untouched, listed, [], device, filled=filled)

    def _order_all(self, planned: List[PlannedFill]) -> None:
        with ExitStack() as views:
            files = [self._view(volume) for volume in planned]
            seen = [self._look(views, *pair) for pair in zip(planned, files)]
            page_list = self._page_list([(file.path, one.files) for file, one in zip(files, seen)])
            for volume, file, one in zip(planned, files, seen):
                self._order(volume, file.path, one, page_list)
                if file.failure is not None:
                    raise file.failure

    def _view(self, volume: PlannedFill) -> SnapshotFile:
        assert volume.filled is not None
        path = self._settings.run_path(self._request.run_id, f"snapshot-{volume.member.volume_id}")
        return SnapshotFile(path, volume.device.size_bytes, volume.filled.content)

    def _look(self, views: ExitStack, volume: PlannedFill, file: SnapshotFile) -> _Seen:
        if volume.member.mount_point in self._request.set_mount_points:
            return _Seen([], None, "of a set (md, LVM), which is read only once it is assembled")
        if self._request.changed:
            return _Seen(
                [], None, "only what has changed is brought, and nothing is mounted before all of it is there"
            )
        try:
            views.enter_context(file)
            found = open_map(volume.member.filesystem, file.path, self._processes)
            return _Seen(blocks_of_bytes(found.used_ranges()), find_database(found))
        except (UnreadableFilesystem, CommandFailed, ToolMissing) as error:
            return _Seen([], None, f"{type(error).__name__}: {error}")

    def _page_list(self, found: List[Tuple[str, Optional[DatabaseFiles]]]) -> Optional[PageList]:
        page_list = first_page_list([(path, files.page_list) for path, files in found if files is not None])
        if page_list is None:
            self.hot_unknown = NO_PAGE_LIST
        return page_list

    def _order(self, volume: PlannedFill, path: str, seen: _Seen, page_list: Optional[PageList]) -> None:
        assert volume.filled is not None
        known = Volume(volume.device.size_bytes, volume.filled.brings, seen.used)
        if seen.files is None:
            volume.note = f"filled in plain order: {seen.why_plain}"
            volume.tiers = [Tier("hot", []), *self._plain(volume.member, known)]
            return
        if not READING_ORDERS[self._request.method].needs_page_list:
            page_list = None
        known = with_files(known, path, seen.files, self._settings.engine, page_list)
        tiers = tiers_of(self._request.method, known, with_remainder=True)
        volume.tiers = [replace(tier, name=REST) if tier.name == REMAINDER else tier for tier in tiers]

    def _plain(self, member: Member, known: Volume) -> List[Tier]:
        """Of a set's member the ends come last: until then nothing on this machine takes it for one, also where an
        engine was killed and its hold on the device with it."""
        if member.mount_point not in self._request.set_mount_points:
            return [Tier(REST, known.present)]
        last = -(-known.size_bytes // BLOCK_BYTES) - 1
        ends = intersection(known.present, [(0, 1), (last, 1)] if last > 0 else [(0, 1)])
        return [Tier(REST, difference(known.present, ends)), Tier(ENDS, ends)]
