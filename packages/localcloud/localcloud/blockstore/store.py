"""The block store of the real data plane."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcloud.blockstore.daemon import Daemon, build_daemon
from localcloud.blockstore.layout import Layout, check_machine, run
from localcloud.blockstore.loop import (
    attach_loop,
    backing_file,
    detach_loop,
    loops_of,
    loops_under,
    queue_as_ebs,
)
from localcloud.blockstore.mounts import unmount
from localcloud.blockstore.recovery import (
    give_state_lock,
    release_loops,
    release_pool,
    remove_leftovers,
    take_state_lock,
)
from localcloud.blockstore.shared_extents import changed_blocks
from localcloud.dataplane import BlockDevice, DataPlaneError, VolumeLimits, VolumeStat

BLOCK_BYTES = 512 * 1024
MIB = 1024 * 1024
DEFAULT_POOL_BYTES = 64 * 1024 * MIB
_MIN_FREE_BYTES = 2 * 1024 * MIB
_SECTOR_MULTIPLE = 4096


class ColdBlockStore:
    """BlockStore on loop devices over coldvol, with all state under one directory.

    Volumes live as long as the store; snapshots stay in the pool and are there for the next store on the
    same directory. Calls may come from several threads. An iops or throughput limit of 0 means unlimited.
    """

    def __init__(self, state_dir: Path, *, pool_bytes: int = DEFAULT_POOL_BYTES) -> None:
        """Start on state_dir, after removing what a killed store left there. pool_bytes is sparse, and is
        the size of a pool made now; an existing pool keeps its size. Raises DataPlaneError with a remedy."""
        check_machine()
        state_dir.mkdir(parents=True, exist_ok=True)
        self._layout = Layout(state_dir)
        self._attached: dict[str, BlockDevice] = {}
        self._attach_lock = threading.Lock()
        binary = build_daemon()
        self._lock_descriptor: int | None = take_state_lock(self._layout)
        self._daemon: Daemon | None = None
        try:
            remove_leftovers(self._layout)
            self._mount_pool(pool_bytes)
            self._layout.volumes.mkdir(exist_ok=True)
            self._daemon = Daemon(self._layout, binary)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ColdBlockStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_volume(
        self, volume_id: str, size_bytes: int, limits: VolumeLimits, snapshot_id: str | None = None
    ) -> None:
        """Make a volume, empty or cold. Raises DataPlaneError: unknown snapshot, size below the snapshot's,
        a size that is no multiple of 4 KiB, negative limits, or an existing id with another size."""
        _check_volume(volume_id, size_bytes, limits)
        words = [volume_id, str(size_bytes), *_limit_words(limits)]
        self._running().ask("create", *words, *([snapshot_id] if snapshot_id else []))

    def delete_volume(self, volume_id: str) -> None:
        self.detach(volume_id)
        self._running().ask("delete", volume_id)

    def create_snapshots(self, snapshot_id_by_volume_id: Mapping[str, str]) -> None:
        """Snapshot all the named volumes at one instant: no write is in one snapshot and, having been
        answered before another, missing from it. Nothing is made when one of them fails."""
        pairs = [f"{volume}={snapshot}" for volume, snapshot in snapshot_id_by_volume_id.items()]
        if pairs:
            self._running().ask("snapshot", *pairs)

    def delete_snapshot(self, snapshot_id: str) -> None:
        self._running().ask("delete-snapshot", snapshot_id)

    def snapshot_blocks(self, snapshot_id: str) -> Sequence[int]:
        _, *runs = self._running().ask("blocks", snapshot_id).split()
        blocks: list[int] = []
        for span in runs:
            first, last = span.split("-")
            blocks.extend(range(int(first), int(last) + 1))
        return blocks

    def changed_blocks(self, earlier_id: str, later_id: str) -> Sequence[int]:
        """The blocks written between two snapshots of one lineage, those with the same bytes again included."""
        folder = self._layout.pool / "snapshots"
        try:
            return sorted(
                changed_blocks(folder / f"{earlier_id}.img", folder / f"{later_id}.img", BLOCK_BYTES)
            )
        except OSError as error:
            raise DataPlaneError(f"cannot compare {earlier_id} and {later_id}: {error}") from error

    def snapshot_size_bytes(self, snapshot_id: str) -> int:
        """Size of the volume that the snapshot was taken of."""
        return int(self._running().ask("blocks", snapshot_id).split()[0])

    def snapshot_ids(self) -> list[str]:
        """All snapshots in the pool, those of earlier stores included."""
        return sorted(self._running().ask("list", "snapshots").split())

    def volume_ids(self) -> list[str]:
        """All volumes."""
        return sorted(self._running().ask("list", "volumes").split())

    def attach(self, volume_id: str) -> BlockDevice:
        """Make the volume a loop device. Raises DataPlaneError for an unknown volume."""
        with self._attach_lock:
            device = self._attached.get(volume_id)
            if device is None:
                self._running().ask("stat", volume_id)  # says so if it does not exist
                device = attach_loop(self._layout.volumes / volume_id)
                queue_as_ebs(device)
                self._attached[volume_id] = device
            return device

    def detach(self, volume_id: str) -> None:
        """Take the device away; where it is still mounted it goes with its last user."""
        with self._attach_lock:
            device = self._attached.pop(volume_id, None)
            if device and backing_file(device.path) == str(self._layout.volumes / volume_id):
                detach_loop(device.path)

    def stat(self, volume_id: str) -> VolumeStat:
        return VolumeStat(**json.loads(self._running().ask("stat", volume_id)))

    def close(self) -> None:
        """Detach all, unmount, stop the daemon, release the pool. Volumes end here; snapshots stay."""
        if self._lock_descriptor is None:
            return
        with self._attach_lock:
            self._attached.clear()
        if self._daemon is not None:
            release_loops(dict(loops_under(self._layout.volumes)))
            unmount(str(self._layout.volumes))
            self._daemon.stop()
            self._daemon = None
            self._return_space()
        else:
            remove_leftovers(self._layout)
        self._layout.socket.unlink(missing_ok=True)
        release_pool(self._layout)
        give_state_lock(self._lock_descriptor)
        self._lock_descriptor = None

    def _running(self) -> Daemon:
        if self._daemon is None:
            raise DataPlaneError("the block store is closed")
        return self._daemon

    def _return_space(self) -> None:
        """Give the disk back what the volumes took. Not as they are deleted: thousands of small discards
        at once held up every flush for seconds."""
        for image in (self._layout.pool / "volumes").glob("*.img"):
            image.unlink()
        run(["fstrim", "--minimum", "1M", str(self._layout.pool)])

    def _mount_pool(self, pool_bytes: int) -> None:
        image, pool = self._layout.pool_image, self._layout.pool
        free_bytes = shutil.disk_usage(self._layout.state_dir).free
        if free_bytes < _MIN_FREE_BYTES:
            raise DataPlaneError(
                f"{self._layout.state_dir} has {free_bytes // MIB} MiB free; volumes need 2048. "
                "Remedy: free some space"
            )
        if not image.exists():
            _format_pool(image, pool_bytes)
        pool.mkdir(exist_ok=True)
        # A namespace that outlived the last store may still hold the pool's device: a second one over the
        # same image would corrupt it, the same one again is the same filesystem.
        loops = loops_of(image)
        device = loops[0] if loops else attach_loop(image).path
        run(["mount", "-t", "xfs", "-o", "noatime", device, str(pool)])


def _format_pool(image: Path, pool_bytes: int) -> None:
    unfinished = image.with_suffix(".new")
    with unfinished.open("wb") as file:
        file.truncate(pool_bytes)
    try:
        run(["mkfs.xfs", "-q", "-f", "-K", "-m", "reflink=1", str(unfinished)])
    except DataPlaneError:
        unfinished.unlink()
        raise
    unfinished.rename(image)


def _check_volume(volume_id: str, size_bytes: int, limits: VolumeLimits) -> None:
    if size_bytes <= 0 or size_bytes % _SECTOR_MULTIPLE:
        raise DataPlaneError(f"volume {volume_id}: {size_bytes} bytes is not a positive multiple of 4096")
    rates = (limits.iops, limits.throughput_mib_per_s, limits.base_latency_ms, limits.fetch_latency_ms)
    if min(rates) < 0 or (limits.initialization_rate_mib_per_s or 0) < 0:
        raise DataPlaneError(f"volume {volume_id}: a limit is negative: {limits}")
    if not 1 <= limits.fetch_parallel <= 1024:
        raise DataPlaneError(f"volume {volume_id}: fetch_parallel {limits.fetch_parallel} is not in 1..1024")


def _limit_words(limits: VolumeLimits) -> list[str]:
    return [
        str(limits.iops),
        str(limits.throughput_mib_per_s * MIB),
        str(round(limits.base_latency_ms * 1e6)),
        str(round(limits.fetch_latency_ms * 1e6)),
        str(limits.fetch_parallel),
        str((limits.initialization_rate_mib_per_s or 0) * MIB),
    ]
