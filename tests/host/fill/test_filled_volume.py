"""Blocks of a snapshot onto an empty volume: each once, whole, durable before it is noted, whatever goes wrong."""

from __future__ import annotations

import mmap
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from peaker_host.aws.direct_api import DirectApi
from peaker_host.aws.instance_role import InstanceRole
from peaker_host.fill import snapshot_source
from peaker_host.fill.filled_volume import FilledVolume
from peaker_host.fill.request_pace import RequestPace
from peaker_host.fill.snapshot_source import SnapshotSource
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import (
    BlockDamaged,
    BlockTokenRefused,
    DeviceNotEmpty,
    DirectApiBusy,
    DirectApiRefused,
    FillDiffers,
    SnapshotTooLarge,
)

from tests.host.fill.direct_api_server import BLOCK, SNAPSHOT, DirectApiServer, served

VOLUME = "vol-0f11100000000001"
OTHER = "snap-0f111000000000002"
CONTENT = {0: b"superblock", 3: b"three", 4: b"four", 900: b"far"}
GIB = 1024**3


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_source, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def server() -> Iterator[DirectApiServer]:
    with served(DirectApiServer({SNAPSHOT: CONTENT, OTHER: {0: b"another"}}, page_blocks=2)) as one:
        yield one


class Bench:
    """An empty volume (a sparse file: what is written of it shows), and fills of it as engines make them."""

    def __init__(self, root: Path, server: DirectApiServer) -> None:
        self.root, self.server = root, server
        self.image = root / "volume.img"
        with self.image.open("wb") as file:
            file.truncate(GIB)
        self.open: list[FilledVolume] = []

    def source(self, snapshot: str = SNAPSHOT, patience: float = 30.0) -> SnapshotSource:
        api = DirectApi(InstanceRole(self.server.url), self.server.url)
        return SnapshotSource(api, snapshot, RequestPace(10_000), threading.Event(), patience)

    def volume(self, source: SnapshotSource | None = None) -> FilledVolume:
        size = self.image.stat().st_size
        device = BlockDevice(str(self.image), 7, 0, size, "loop0")
        journal = self.root / "journals" / f"{VOLUME}.filled"
        return FilledVolume(device, VOLUME, source or self.source(), str(journal))

    def bring(self, volume: FilledVolume, *blocks: int) -> list[bytes]:
        found = []
        with mmap.mmap(-1, BLOCK) as buffer, memoryview(buffer) as view:
            for block in blocks:
                volume.bring(block, view)
                found.append(bytes(view).rstrip(b"\0"))
        return found

    def on_device(self, block: int) -> bytes:
        with self.image.open("rb") as file:
            return os.pread(file.fileno(), BLOCK, block * BLOCK).rstrip(b"\0")


@pytest.fixture
def bench(tmp_path: Path, server: DirectApiServer) -> Bench:
    return Bench(tmp_path, server)


def test_blocks_come_onto_the_volume_and_are_asked_for_once(bench: Bench) -> None:
    volume = bench.volume()
    assert bench.bring(volume, 3, 900, 3) == [b"three", b"far", b"three"]
    assert [bench.on_device(block) for block in (0, 3, 900)] == [b"", b"three", b"far"]
    assert bench.server.asked == {3: 1, 900: 1}
    volume.close()


def test_what_the_snapshot_does_not_hold_is_zeros_and_never_written(bench: Bench) -> None:
    volume = bench.volume()
    with mmap.mmap(-1, BLOCK) as buffer, memoryview(buffer) as view:
        view[:5] = b"other"
        volume.content(7, view)
        assert bytes(view) == bytes(BLOCK)
    assert bench.image.stat().st_blocks == 0
    assert not bench.server.asked
    volume.close()


@pytest.mark.parametrize("damage", ["short", "checksum", "length"])
def test_a_damaged_block_is_asked_for_again_and_never_written(bench: Bench, damage: str) -> None:
    bench.server.damages[3] = [damage, damage]
    volume = bench.volume()
    assert bench.bring(volume, 3) == [b"three"]
    assert bench.on_device(3) == b"three"
    assert (bench.server.asked[3], volume.source.again) == (3, 2)
    volume.close()


def test_a_block_that_stays_damaged_ends_the_fill_and_is_not_on_the_volume(bench: Bench) -> None:
    bench.server.damages[3] = ["checksum"] * 10_000
    volume = bench.volume(bench.source(patience=0.05))
    with pytest.raises(BlockDamaged, match="checksum"):
        bench.bring(volume, 3)
    assert bench.on_device(3) == b""
    assert 3 not in volume.journal.done
    volume.close()


def test_throttled_requests_are_sent_again_at_a_lower_rate(bench: Bench) -> None:
    source = bench.source()
    volume = bench.volume(source)
    bench.server.refusals.extend([(400, "RequestThrottledException", "RESOURCE_LEVEL_THROTTLE")] * 3)
    assert bench.bring(volume, 4) == [b"four"]
    assert source.again == 3
    assert source._pace.throttled == 3
    assert source._pace.per_second < 10_000
    volume.close()


def test_throttling_without_end_ends_the_fill_by_name(bench: Bench) -> None:
    volume = bench.volume(bench.source(patience=0.05))
    bench.server.refusals.extend([(400, "ThrottlingException", "ACCOUNT_THROTTLED")] * 100_000)
    with pytest.raises(DirectApiBusy, match="ThrottlingException"):
        bench.bring(volume, 4)
    volume.close()


def test_expired_tokens_are_listed_again_once_for_all(bench: Bench) -> None:
    volume = bench.volume()
    pages = bench.server.lists
    assert pages == 2, "two blocks a page"
    bench.server.expire_tokens()
    assert bench.bring(volume, 0, 3, 4, 900) == list(CONTENT.values())
    assert bench.server.lists == 2 * pages
    volume.close()


def test_a_token_that_a_new_list_does_not_mend_ends_the_fill(bench: Bench) -> None:
    volume = bench.volume()
    bench.server.refusals.extend([(400, "ValidationException", "INVALID_BLOCK_TOKEN")] * 2)
    with pytest.raises(BlockTokenRefused):
        bench.bring(volume, 3)
    volume.close()


def test_a_list_of_other_blocks_is_another_snapshot(bench: Bench) -> None:
    volume = bench.volume()
    bench.server.snapshots[SNAPSHOT] = {0: b"new", 3: b"new"}
    bench.server.expire_tokens()
    with pytest.raises(BlockTokenRefused, match="another snapshot"):
        bench.bring(volume, 3)
    volume.close()


@pytest.mark.parametrize(
    ("code", "reason"),
    [("AccessDeniedException", ""), ("AccessDeniedException", "DEPENDENCY_ACCESS_DENIED")],
)
def test_a_refusal_is_final(bench: Bench, code: str, reason: str) -> None:
    volume = bench.volume()
    bench.server.refusals.append((403, code, reason))
    with pytest.raises(DirectApiRefused, match=code):
        bench.bring(volume, 3)
    assert bench.server.asked[3] == 1
    volume.close()


def test_a_volume_with_data_is_refused_before_anything_is_written(bench: Bench) -> None:
    with bench.image.open("r+b") as file:
        os.pwrite(file.fileno(), b"somebody's", GIB - 4096)
    before = bench.image.stat().st_mtime_ns
    with pytest.raises(DeviceNotEmpty, match="block 2047"):
        bench.volume()
    assert bench.image.stat().st_mtime_ns == before


def test_a_snapshot_of_a_larger_volume_is_refused(bench: Bench) -> None:
    bench.server.volume_gib = 2
    with pytest.raises(SnapshotTooLarge):
        bench.volume()


def test_a_killed_fill_goes_on_behind_its_last_flush(bench: Bench) -> None:
    """The kernel keeps what a killed engine wrote; the journal knows what was flushed. The rest is written again."""
    killed = bench.volume()
    bench.bring(killed, 0, 3)
    killed.journal.flush()
    bench.bring(killed, 4)
    bench.server.asked.clear()
    again = bench.volume()
    assert again.journal.done.ranges() == [(0, 1), (3, 1)]
    assert bench.bring(again, *CONTENT) == list(CONTENT.values())
    assert bench.server.asked == {4: 1, 900: 1}
    again.close()
    assert bench.volume().journal.done.count == len(CONTENT)


def test_a_fill_that_was_killed_before_its_first_flush_knows_its_own_data(bench: Bench) -> None:
    bench.bring(bench.volume(), 0)
    again = bench.volume()
    assert again.journal.done.count == 0
    assert bench.bring(again, 0) == [b"superblock"]
    again.close()


def test_a_block_is_not_noted_before_the_device_was_flushed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = bench.volume()
    bench.bring(volume, 3)

    def refuse(descriptor: int) -> None:
        raise OSError(5, "the device is gone")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="gone"):
            volume.journal.flush()
    volume.close()
    assert bench.volume().journal.done.count == 0


def test_the_journal_of_another_snapshot_is_not_believed(bench: Bench) -> None:
    first = bench.volume()
    bench.bring(first, 0, 3)
    first.close()
    with pytest.raises(DeviceNotEmpty):
        bench.volume(bench.source(OTHER))


def test_what_is_on_the_volume_is_held_against_the_snapshot(bench: Bench) -> None:
    volume = bench.volume()
    bench.bring(volume, *CONTENT)
    assert volume.compare(100, random.Random(1)) == len(CONTENT) + 25
    with bench.image.open("r+b") as file:
        os.pwrite(file.fileno(), b"F", 4 * BLOCK)
    with pytest.raises(FillDiffers, match="block 4"):
        volume.compare(100, random.Random(1))
    volume.close()
