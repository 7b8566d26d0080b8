"""A page of each hot block first, where that brings the block: on cold volumes, and where it would bring nothing."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cold_store import SIZE_BYTES, SNAPSHOT, SOURCE, restored
from host_bench import BLOCK, RUN_ID, Host
from peaker_host.blocks import timed_reads
from peaker_host.blocks.database_files import find_database
from peaker_host.blocks.filesystem_maps import open_map
from peaker_host.blocks.timed_reads import PAGE_BYTES, ColdProbe, read_latencies_ms
from peaker_host.machine.settings import Processes
from peaker_host.warm.first_touch import FirstTouch
from test_prewarm import HOT_TENTH, assembled, tier_of, with_database
from test_prewarm import engine as started

from localcloud.blockstore import ColdBlockStore
from localcloud.dataplane import VolumeLimits

VOLUME = "vol-0000000000000f71d"


@dataclass(frozen=True)
class Cold:
    """A cold volume of a database with a list of its hot pages, assembled, and where those lie on it."""

    store: ColdBlockStore
    device: str
    hot_offsets: list[int]

    def fetched(self) -> int:
        """Blocks that had to be fetched so far."""
        return self.store.stat(VOLUME).cold_fetches


@pytest.fixture
def cold(host: Host, store: ColdBlockStore) -> Iterator[Cold]:
    image = with_database(host, HOT_TENTH).image
    store.create_volume(SOURCE, SIZE_BYTES, VolumeLimits(iops=0, throughput_mib_per_s=0))
    copy = ["dd", f"if={image}", f"of={store.attach(SOURCE).path}", "bs=512k", "conv=sparse,notrunc,fsync"]
    subprocess.run(copy, check=True, capture_output=True)
    store.detach(SOURCE)
    store.create_snapshots({SOURCE: SNAPSHOT})
    device = restored(host, store, VOLUME).path
    try:
        yield Cold(store, device, hot_offsets(image))
    finally:
        store.detach(VOLUME)


def hot_offsets(image: Path) -> list[int]:
    """Where the hot pages lie on the device."""
    places = find_database(open_map("xfs", str(image), Processes())).extents["t.ibd"]
    wanted = [int(line.split(",")[1]) * PAGE_BYTES for line in HOT_TENTH.split()]
    return [
        on_device + offset - in_file
        for offset in wanted
        for in_file, on_device, length in places
        if in_file <= offset < in_file + length
    ]


@pytest.fixture
def brings_blocks(host: Host, cold: Cold) -> None:
    """An engine before this one measured that a page's read brings its block: noise of the machine may hide that."""
    timed_reads.keep(host.settings, RUN_ID, {VOLUME: ColdProbe([], 40.0, first_ms=30.0, within_ms=1.0)})


def urgent_blocks(volume: dict[str, Any]) -> int:
    return sum(int(tier_of(volume, name)["blocks"]) for name in ("recovery", "hot"))


def told_hot(host: Host, *arguments: str) -> dict[str, Any]:
    """What the engine has published when it says that the hot set is warm; it is killed then."""
    path = Path(host.settings.run_path(RUN_ID, "prewarm.json"))
    deadline = time.monotonic() + 240
    child = started(host, *arguments)
    try:
        while True:
            at_work = child.poll() is None
            progress: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
            if progress.get("hot_warm_seconds") is not None:
                return progress
            assert at_work, "the engine ended by itself"
            assert time.monotonic() < deadline, progress
            time.sleep(0.05)
    finally:
        child.kill()
        child.communicate()


@pytest.mark.real
@pytest.mark.usefixtures("brings_blocks")
def test_a_database_finds_the_hot_set_warm_before_it_was_read_whole(host: Host, cold: Cold) -> None:
    # Reading the hot blocks whole takes two minutes at this rate, however late anybody looks.
    (volume,) = told_hot(host, "--background-rate-mib-per-s", "0.05")["volumes"]
    assert tier_of(volume, "hot")["done"] < tier_of(volume, "hot")["blocks"]
    assert volume["touched"] == urgent_blocks(volume)

    fetched = cold.fetched()
    assert len(cold.hot_offsets) == 400
    read_latencies_ms(cold.device, cold.hot_offsets)
    assert cold.fetched() == fetched


@pytest.mark.real
def test_on_a_volume_that_is_not_cold_nothing_is_touched(host: Host) -> None:
    assembled(host, with_database(host, HOT_TENTH))
    result = host.call("prewarm")
    assert result["volumes"][0]["touched"] == 0


def touch(path: Path, blocks: int, stop: threading.Event | None = None) -> FirstTouch:
    found = FirstTouch(
        str(path), blocks * BLOCK, [[(0, 2)], [(4, blocks - 4)]], {5}.__contains__, stop or threading.Event()
    )
    found.run()
    return found


def test_blocks_that_are_done_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes(40 * BLOCK))
    found = touch(tmp_path / "image", 40)
    assert (found.touched, found.left, found.has_failed) == (2 + 36 - 1, 0, False)


def test_a_page_that_cannot_be_read_is_left_to_the_whole_reads(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes(38 * BLOCK))
    found = touch(tmp_path / "image", 40)
    assert (found.left, found.has_failed) == (2, True)


def test_told_to_stop_it_ends(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes(40 * BLOCK))
    stop = threading.Event()
    stop.set()
    assert touch(tmp_path / "image", 40, stop).left == 37
