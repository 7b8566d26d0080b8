"""Volumes and snapshots in memory, cold after a restore."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from localcloud.dataplane import BlockDevice, DataPlaneError, VolumeLimits, VolumeStat

BLOCK_BYTES = 512 * 1024


@dataclass
class SimulatedVolume:
    """One volume: what it holds, and which of its blocks still have to come from the snapshot store."""

    size_bytes: int
    limits: VolumeLimits
    snapshot_id: str | None = None
    blocks: dict[int, bytes] = field(default_factory=dict)
    cold: set[int] = field(default_factory=set)
    blocks_in_snapshot: int = 0
    reads: int = 0
    cold_fetches: int = 0
    device: BlockDevice | None = None


class SimulatedBlockStore:
    """BlockStore in memory, in blocks of 512 KiB."""

    def __init__(self) -> None:
        self._volumes: dict[str, SimulatedVolume] = {}
        self._snapshots: dict[str, dict[int, bytes]] = {}
        self._minor = 0
        self._lock = threading.RLock()

    @property
    def volumes(self) -> Mapping[str, SimulatedVolume]:
        """The volumes that exist, by id."""
        return self._volumes

    @property
    def snapshots(self) -> Mapping[str, Mapping[int, bytes]]:
        """The blocks of the snapshots that exist, by id."""
        return self._snapshots

    def create_volume(
        self, volume_id: str, size_bytes: int, limits: VolumeLimits, snapshot_id: str | None = None
    ) -> None:
        with self._lock:
            if volume_id in self._volumes:
                return
            if snapshot_id is None:
                self._volumes[volume_id] = SimulatedVolume(size_bytes, limits)
                return
            if snapshot_id not in self._snapshots:
                raise DataPlaneError(f"Cannot make {volume_id}: there is no snapshot {snapshot_id}.")
            blocks = dict(self._snapshots[snapshot_id])
            self._volumes[volume_id] = SimulatedVolume(
                size_bytes, limits, snapshot_id, blocks, cold=set(blocks), blocks_in_snapshot=len(blocks)
            )

    def delete_volume(self, volume_id: str) -> None:
        with self._lock:
            self._volumes.pop(volume_id, None)

    def create_snapshots(self, snapshot_id_by_volume_id: Mapping[str, str]) -> None:
        with self._lock:
            sources = {
                snapshot_id: self._volume(volume_id)
                for volume_id, snapshot_id in snapshot_id_by_volume_id.items()
            }
            for snapshot_id, volume in sources.items():
                self._snapshots.setdefault(snapshot_id, dict(volume.blocks))

    def delete_snapshot(self, snapshot_id: str) -> None:
        with self._lock:
            self._snapshots.pop(snapshot_id, None)

    def snapshot_blocks(self, snapshot_id: str) -> Sequence[int]:
        return sorted(self._snapshot(snapshot_id))

    def changed_blocks(self, earlier_id: str, later_id: str) -> Sequence[int]:
        before, after = self._snapshot(earlier_id), self._snapshot(later_id)
        return sorted(
            index for index in before.keys() | after.keys() if before.get(index) != after.get(index)
        )

    def attach(self, volume_id: str) -> BlockDevice:
        with self._lock:
            volume = self._volume(volume_id)
            if volume.device is None:
                self._minor += 1
                volume.device = BlockDevice(f"/dev/simulated{self._minor}", 240, self._minor)
            return volume.device

    def detach(self, volume_id: str) -> None:
        with self._lock:
            if volume_id in self._volumes:
                self._volumes[volume_id].device = None

    def stat(self, volume_id: str) -> VolumeStat:
        with self._lock:
            volume = self._volume(volume_id)
            return VolumeStat(
                blocks_in_snapshot=volume.blocks_in_snapshot,
                blocks_cold=len(volume.cold),
                read_bytes=volume.reads * BLOCK_BYTES,
                cold_fetches=volume.cold_fetches,
            )

    def close(self) -> None:
        with self._lock:
            self._volumes.clear()
            self._snapshots.clear()

    # -- what a test does in place of a host's file system -------------------------------------------------

    def write(self, volume_id: str, blocks: Mapping[int, bytes]) -> None:
        """Write blocks (index to content, padded with zeros to 512 KiB); a written block is warm."""
        with self._lock:
            volume = self._volume(volume_id)
            for index, content in blocks.items():
                if not 0 <= index * BLOCK_BYTES < volume.size_bytes:
                    raise DataPlaneError(f"Block {index} lies outside {volume_id}.")
                volume.blocks[index] = content[:BLOCK_BYTES].ljust(BLOCK_BYTES, b"\0")
                volume.cold.discard(index)

    def read(self, volume_id: str, block_index: int) -> bytes:
        """Read one block; the first read of a cold block fetches it."""
        with self._lock:
            volume = self._volume(volume_id)
            volume.reads += 1
            if block_index in volume.cold:
                volume.cold.discard(block_index)
                volume.cold_fetches += 1
            return volume.blocks.get(block_index, bytes(BLOCK_BYTES))

    def warm(self, volume_id: str, blocks: Iterable[int] | None = None) -> None:
        """Read these blocks, or all that are cold."""
        for index in sorted(self._volume(volume_id).cold) if blocks is None else blocks:
            self.read(volume_id, index)

    def _volume(self, volume_id: str) -> SimulatedVolume:
        if volume_id not in self._volumes:
            raise DataPlaneError(f"There is no volume {volume_id}.")
        return self._volumes[volume_id]

    def _snapshot(self, snapshot_id: str) -> dict[int, bytes]:
        if snapshot_id not in self._snapshots:
            raise DataPlaneError(f"There is no snapshot {snapshot_id}.")
        return self._snapshots[snapshot_id]
