"""Volumes that are cold as EBS volumes are: a filesystem is filled, snapshotted and restored on the host."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from host_bench import MIB, Host, Volume, assembled

from localcloud.blockstore import ColdBlockStore
from localcloud.dataplane import VolumeLimits

SOURCE, SNAPSHOT, SIZE_BYTES = "vol-0000000000000c50d", "snap-1", 1200 * MIB
COLD = VolumeLimits()


@contextlib.contextmanager
def filling(store: ColdBlockStore, point: Path, kind: str = "xfs") -> Iterator[Path]:
    """A new filesystem, mounted; detached when the block ends."""
    unlimited = VolumeLimits(iops=0, throughput_mib_per_s=0, base_latency_ms=0)
    store.create_volume(SOURCE, SIZE_BYTES, unlimited)
    device = store.attach(SOURCE).path
    subprocess.run([f"mkfs.{kind}", "-q", device], check=True)
    point.mkdir()
    subprocess.run(["mount", device, str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)
    store.detach(SOURCE)


def restored(
    host: Host, store: ColdBlockStore, volume_id: str, kind: str = "xfs", limits: VolumeLimits = COLD
) -> Volume:
    """A cold volume of the snapshot on this host, assembled, with the snapshot's block list."""
    store.create_volume(volume_id, SIZE_BYTES, limits, SNAPSHOT)
    volume = Volume(volume_id, store.attach(volume_id).path, host.root)
    host.link(volume_id, volume.path)
    assembled(host, volume, kind)
    host.give_block_list(volume_id, ",".join(map(str, store.snapshot_blocks(SNAPSHOT))))
    return volume
