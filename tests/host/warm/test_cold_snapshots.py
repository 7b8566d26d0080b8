"""Volumes from snapshots of filesystems under writes, cold as EBS volumes are: warmed, proven, and found cold."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cold_store import SNAPSHOT, SOURCE, filling, restored
from host_bench import BLOCK, MIB, RUN_ID, Host
from peaker_host.blocks.live_blocks import live_blocks_of
from peaker_host.blocks.log_replay import replay_log
from peaker_host.blocks.ranges import each_block
from peaker_host.machine.manifest import load_manifest

from localcloud.blockstore import ColdBlockStore

pytestmark = pytest.mark.real


def snapshot_under_writes(store: ColdBlockStore, point: Path, kind: str) -> None:
    """The snapshot's log holds what was written after the maps were."""
    with filling(store, point, kind):
        (point / "t.ibd").write_bytes(os.urandom(80 * MIB))
        os.sync()
        for number in range(15):
            with (point / f"binlog.{number:06}").open("wb") as file:
                file.write(os.urandom(8 * MIB))
                os.fsync(file.fileno())
        store.create_snapshots({SOURCE: SNAPSHOT})


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
    path = restored(host, store, volume_id).path
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
