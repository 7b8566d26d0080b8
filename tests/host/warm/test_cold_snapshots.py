"""Volumes from snapshots of filesystems under writes, cold as EBS volumes are: warmed, proven, and found cold."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from host_bench import BLOCK, MIB, RUN_ID, Host
from peaker_host.blocks.live_blocks import live_blocks_of
from peaker_host.blocks.log_replay import replay_log
from peaker_host.blocks.ranges import each_block
from peaker_host.machine.manifest import load_manifest

from localcloud.blockstore import ColdBlockStore
from localcloud.dataplane import VolumeLimits

pytestmark = pytest.mark.real
SOURCE, SIZE = "vol-0000000000000c50d", 1200 * MIB


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ColdBlockStore]:
    with ColdBlockStore(tmp_path / "store", pool_bytes=8 << 30) as store:
        yield store


def snapshot_under_writes(store: ColdBlockStore, point: Path, kind: str) -> None:
    """The snapshot's log holds what was written after the maps were."""
    unlimited = VolumeLimits(iops=0, throughput_mib_per_s=0, base_latency_ms=0)
    store.create_volume(SOURCE, SIZE, unlimited)
    device = store.attach(SOURCE).path
    subprocess.run([f"mkfs.{kind}", "-q", device], check=True)
    point.mkdir()
    subprocess.run(["mount", device, str(point)], check=True)
    try:
        (point / "t.ibd").write_bytes(os.urandom(80 * MIB))
        os.sync()
        for number in range(15):
            with (point / f"binlog.{number:06}").open("wb") as file:
                file.write(os.urandom(8 * MIB))
                os.fsync(file.fileno())
        store.create_snapshots({SOURCE: "snap-1"})
    finally:
        subprocess.run(["umount", str(point)], check=True)
    store.detach(SOURCE)


def restored(host: Host, store: ColdBlockStore, volume_id: str, kind: str) -> str:
    """A cold volume of the snapshot on this host, with the snapshot's block list; its device."""
    store.create_volume(volume_id, SIZE, VolumeLimits(), "snap-1")
    path = store.attach(volume_id).path
    host.link(volume_id, path)
    request = [
        {"name": "data", "volume_id": volume_id, "device": "/dev/sdf", "mount_point": str(host.root / "place"),
         "filesystem": kind}
    ]  # fmt: skip
    assembled = host.call("assemble_storage", "--volumes", json.dumps(request))
    assert assembled["ok"], assembled
    host.give_block_list(volume_id, ",".join(map(str, store.snapshot_blocks("snap-1"))))
    return path


def proof(host: Host, *arguments: str) -> dict[str, Any]:
    return host.call("verify_storage", "--load-seconds", "0", *arguments)


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_a_build_under_writes_leaves_no_live_block_cold(
    host: Host, store: ColdBlockStore, tmp_path: Path, kind: str
) -> None:
    snapshot_under_writes(store, tmp_path / "donor", kind)
    volume_id = "vol-0000000000000c51d"
    restored(host, store, volume_id, kind)
    try:
        assert host.call("prewarm")["state"] == "done"
        cold = store.stat(volume_id).blocks_cold
        assert cold <= 4, "nothing but what the replay itself freed is left cold"
        assert proof(host)["verdict"] != "not_warm"
    finally:
        store.detach(volume_id)


def test_a_volume_with_cold_live_blocks_is_not_called_warm_and_can_be_mended(
    host: Host, store: ColdBlockStore, tmp_path: Path
) -> None:
    snapshot_under_writes(store, tmp_path / "donor", "xfs")
    volume_id = "vol-0000000000000c52d"
    path = restored(host, store, volume_id, "xfs")
    try:
        (member,) = load_manifest(host.settings, RUN_ID).members
        used = replay_log(host.machine(), RUN_ID, member)
        live = list(each_block(live_blocks_of(host.settings, RUN_ID, used, None, [member])[volume_id].blocks))
        left = set(random.Random(2).sample(live, len(live) // 50 + 5))
        read_all(path, [block for block in live if block not in left])
        assert proof(host)["verdict"] != "warm"
        assert host.prove("--load-seconds", "0", "--remedy", "all")["verdict"] == "warm"
    finally:
        store.detach(volume_id)


def read_all(path: str, blocks: list[int]) -> None:
    with open(path, "rb") as device, ThreadPoolExecutor(32) as readers:
        os.posix_fadvise(device.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        list(readers.map(lambda block: os.pread(device.fileno(), BLOCK, block * BLOCK), blocks))
