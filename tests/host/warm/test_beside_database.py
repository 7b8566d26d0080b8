"""The storage proof and the engine on volumes that are mounted, with somebody at work on them as an applier is."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cold_store import COLD, SNAPSHOT, SOURCE, filling, restored
from host_bench import MIB, RUN_ID, Host
from peaker_host.machine.manifest import is_proven
from test_prewarm import await_reading, engine

from localcloud.blockstore import ColdBlockStore
from localcloud.dataplane import VolumeLimits

pytestmark = pytest.mark.real
VOLUME = "vol-0000000000000b51d"
USED_MIB, GONE_MIB = 120, 60


@pytest.fixture
def place(host: Host, store: ColdBlockStore, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where a cold volume belongs, which is assembled and not mounted. Its snapshot holds a deleted file besides."""
    with filling(store, host.root / "m") as point:
        (point / "t.ibd").write_bytes(os.urandom(MIB) * USED_MIB)
        (point / "gone.ibd").write_bytes(os.urandom(MIB) * GONE_MIB)
        subprocess.run(["sync", "-f", str(point)], check=True)
        (point / "gone.ibd").unlink()
    store.create_snapshots({SOURCE: SNAPSHOT})
    restored(host, store, VOLUME, limits=getattr(request, "param", COLD))
    place = host.root / "place0"
    place.mkdir()
    try:
        yield place
    finally:
        store.detach(VOLUME)


@contextlib.contextmanager
def at_work(host: Host, place: Path) -> Iterator[Path]:
    """The volume at its place, and pages of its table read, changed and made durable without a pause."""
    device = host.root / "by-id" / f"nvme-Amazon_Elastic_Block_Store_{VOLUME.replace('-', '')}"
    subprocess.run(["mount", "-o", "nouuid", str(device), str(place)], check=True)
    stop, pages = threading.Event(), USED_MIB * MIB // 16384
    thread = threading.Thread(target=apply, args=(place / "t.ibd", pages, stop))
    thread.start()
    try:
        yield place
    finally:
        stop.set()
        thread.join()
        subprocess.run(["umount", str(place)], check=True)


def apply(table: Path, pages: int, stop: threading.Event) -> None:
    dice, descriptor = random.Random(7), os.open(table, os.O_RDWR)
    try:
        while not stop.wait(0.005):
            at = dice.randrange(pages) * 16384
            os.pwrite(descriptor, os.pread(descriptor, 16384, at)[::-1], at)
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def warmed_in_part(host: Host) -> None:
    """An engine that was killed in the middle of its reading."""
    child = engine(host, "--background-rate-mib-per-s", "60")
    try:
        await_reading(host, child)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
    finally:
        child.kill()


def look(host: Host, *arguments: str) -> dict[str, Any]:
    answer = host.call("verify_storage", *arguments)
    assert answer["ok"], answer
    return answer


def proved(host: Host, load_seconds: int = 0) -> dict[str, Any]:
    """As the workflow does with few blocks: one look, and where noise hides the answer all is read before others."""
    arguments = ("--load-seconds", str(load_seconds))
    first = look(host, *arguments)
    assert first["verdict"] != "not_warm", first
    return first if first["verdict"] == "warm" else host.prove("--remedy", "all", *arguments)


def test_cold_blocks_are_found_beside_an_applier_and_warm_ones_are_called_warm(
    host: Host, place: Path
) -> None:
    """The engine that goes on behind the database reads what its journal lacks; nothing needs to be unmounted."""
    warmed_in_part(host)
    with at_work(host, place):
        cold = look(host, "--load-seconds", "0")
        assert (cold["verdict"] == "warm", cold["mounted"]) == (False, True), cold
        assert not is_proven(host.settings, RUN_ID)
        done = host.call("prewarm")
        assert (done["state"], done["restarts"]) == ("done", 1)
        warm = proved(host)
        assert (warm["verdict"], warm["mounted"]) == ("warm", True), warm
    assert is_proven(host.settings, RUN_ID)


@pytest.mark.parametrize("place", [VolumeLimits(throughput_mib_per_s=20)], indirect=True)
def test_an_engine_that_an_applier_waits_behind_holds_back_and_says_so(host: Host, place: Path) -> None:
    """Eight blocks under way take 200 ms of such a volume, and each page of the applier waits behind them."""
    warmed_in_part(host)
    with at_work(host, place):
        result = host.call("prewarm")
    assert result["state"] == "done"
    assert result["throttled"].startswith("volume0: held back for "), result
    [volume] = result["volumes"]
    assert volume["throttled"]["held_seconds"] >= 1
    assert volume["throttled"]["await_slowest_ms"] > 2 * volume["throttled"]["await_baseline_ms"]
