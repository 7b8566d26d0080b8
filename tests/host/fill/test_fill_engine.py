"""The fill engine on real block devices: whole volumes, in order, killed and gone on with, refused by name."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_bench import BLOCK, MIB, RUN_ID, Host, Volume
from peaker_host.blocks.live_blocks import kept_live_blocks
from peaker_host.blocks.ranges import each_block
from peaker_host.fill.engine import FillEngine
from peaker_host.fill.filled_volume import FilledVolume
from peaker_host.fill.plan import FillPlanner
from peaker_host.fill.request import parse_fill
from peaker_host.machine.processes import Processes

from tests.host.fill.direct_api_server import SNAPSHOT, DirectApiServer, served

pytestmark = pytest.mark.real
Capture = pytest.CaptureFixture[str]
HOST_PACKAGES = Path(__file__).resolve().parents[3] / "host"
SIZE = 1024 * MIB
OTHER_SNAPSHOT = "snap-0a1b2c3d4e5f60799"
PAGE = 16384
SPACE = 77
HOT, OTHER = b"a page that the list names", b"a page of another file"


def donor_blocks(host: Host, kind: str) -> dict[int, bytes]:
    """What a snapshot of a donor's volume holds: a tablespace, of which a page list names the middle, and more."""
    donor = host.volume(SIZE, kind)
    with host.mounted(donor) as point:
        for number in range(6):
            (point / f"other-{number}").write_bytes(OTHER.ljust(PAGE, b".") * (8 * MIB // PAGE))
        header = bytearray(PAGE)
        struct.pack_into(">I", header, 34, SPACE)
        pages = range(6 * MIB // PAGE, 10 * MIB // PAGE)
        cold, hot = os.urandom(PAGE), HOT.ljust(PAGE, b".")
        content = (hot if page in pages else cold for page in range(1, 16 * MIB // PAGE))
        (point / "hot.ibd").write_bytes(bytes(header) + b"".join(content))
        (point / "ib_buffer_pool").write_text("".join(f"{SPACE},{page}\n" for page in pages))
        (point / "deleted").write_bytes(os.urandom(8 * MIB))
        os.sync()
        (point / "deleted").unlink()
    return written_blocks(donor.image)


def written_blocks(image: Path) -> dict[int, bytes]:
    """What was ever written of a sparse file: its extents, in whole blocks."""
    found: dict[int, bytes] = {}
    descriptor, place = os.open(image, os.O_RDONLY), 0
    try:
        while place < SIZE:
            try:
                index = os.lseek(descriptor, place, os.SEEK_DATA) // BLOCK
            except OSError:
                break
            found[index] = os.pread(descriptor, BLOCK, index * BLOCK)
            place = (index + 1) * BLOCK
    finally:
        os.close(descriptor)
    return found


@pytest.fixture(params=["xfs", "ext4"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(host: Host, kind: str) -> Iterator[DirectApiServer]:
    with served(DirectApiServer({SNAPSHOT: donor_blocks(host, kind)})) as one:
        host.configure(metadata_url=one.url, ebs_endpoint_url=one.url)
        yield one


def arguments(host: Host, volume: Volume, kind: str, *more: str) -> list[str]:
    snapshots = json.dumps({"volume0": SNAPSHOT})
    volumes = host.request(volume, filesystem=kind)
    return ["fill_volumes", "--run-id", RUN_ID, "--volumes", volumes, "--snapshots", snapshots, *more]


def content(volume: Volume, blocks: dict[int, bytes]) -> bool:
    """Whether the volume holds these blocks and zeros elsewhere."""
    descriptor = os.open(volume.path, os.O_RDONLY)
    try:
        return all(
            os.pread(descriptor, BLOCK, index * BLOCK) == blocks.get(index, bytes(BLOCK))
            for index in range(SIZE // BLOCK)
        )
    finally:
        os.close(descriptor)


def test_a_filled_volume_is_the_snapshot_byte_for_byte_and_mounts(
    host: Host, capsys: Capture, server: DirectApiServer, kind: str
) -> None:
    empty = host.volume(SIZE)
    said = host.call(capsys, *arguments(host, empty, kind))
    blocks = server.snapshots[SNAPSHOT]
    assert (said["state"], said["blocks_done"], said["blocks_total"]) == ("done", len(blocks), len(blocks))
    assert content(empty, blocks)
    assert said["blocks_compared"] >= min(len(blocks), 256)
    assert 0 < said["hot_warm_seconds"] == said["used_warm_seconds"], (
        "a database starts on a whole volume alone"
    )
    tiers = {tier["name"]: tier["blocks"] for tier in said["volumes"][0]["tiers"]}
    assert tiers["hot"] >= 8, "4 MiB of the tablespace are named"
    assert tiers["rest"] >= 8, "what was deleted is in the snapshot too"
    request = host.request(empty, filesystem=kind)
    assert host.call(capsys, "assemble_storage", "--run-id", RUN_ID, "--volumes", request)["ok"]
    with host.mounted(empty) as point:
        assert (point / "hot.ibd").stat().st_size == 16 * MIB


def test_hot_blocks_come_first(host: Host, capsys: Capture, server: DirectApiServer, kind: str) -> None:
    """But for the few that the order itself is read from. Some of many readers may be held up on a busy machine: what
    comes before the last of the first three quarters of the hot blocks is counted."""
    said = host.call(capsys, *arguments(host, host.volume(SIZE), kind))
    assert {tier["name"]: tier["blocks"] for tier in said["volumes"][0]["tiers"]}["hot"] >= 8
    order = [server.snapshots[SNAPSHOT][index] for index in server.asked]
    hot = [place for place, data in enumerate(order) if HOT in data]
    last_hot = hot[len(hot) * 3 // 4 - 1]
    before = [data for data in order[:last_hot] if OTHER in data and HOT not in data]
    behind = [data for data in order[last_hot:] if OTHER in data]
    assert len(before) + len(behind) >= 80, "48 MiB of other files"
    assert len(before) <= len(behind) / 2


def test_an_engine_that_is_killed_goes_on_and_the_bytes_are_right(
    host: Host, capsys: Capture, server: DirectApiServer, kind: str
) -> None:
    empty = host.volume(SIZE)
    command = [sys.executable, "-m", "peaker_host", "--settings", str(host.settings_path)]
    for share in (0.2, 0.5):
        enough = share * len(server.snapshots[SNAPSHOT])
        server.holds = lambda _index, enough=enough: sum(server.asked.values()) > enough  # type: ignore[misc]
        process = subprocess.Popen(
            [*command, *arguments(host, empty, kind)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while sum(server.asked.values()) < enough and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    server.holds = lambda _index: False
    said = host.call(capsys, *arguments(host, empty, kind))
    assert said["state"] == "done"
    assert said["restarts"] == 2
    assert content(empty, server.snapshots[SNAPSHOT])


def test_an_engine_that_is_told_to_end_repeats_nothing(
    host: Host, capsys: Capture, server: DirectApiServer, kind: str
) -> None:
    empty = host.volume(SIZE)
    command = [sys.executable, "-m", "peaker_host", "--settings", str(host.settings_path)]
    # So slow that much is left, however late the signal comes.
    slowly = arguments(host, empty, kind, "--requests-per-second", "15")
    process = subprocess.Popen([*command, *slowly], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while sum(server.asked.values()) < 40 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out.splitlines()[-1])["state"] == "dead"
    before = set(server.asked)
    server.asked.clear()
    said = host.call(capsys, *arguments(host, empty, kind))
    again = sum(server.asked.values()) - said["blocks_compared"]
    assert again <= len(server.snapshots[SNAPSHOT]) - len(before)
    assert content(empty, server.snapshots[SNAPSHOT])


def test_a_refusal_ends_the_engine_by_name_and_the_report_says_so(
    host: Host, capsys: Capture, server: DirectApiServer, kind: str
) -> None:
    server.refusals.append((403, "AccessDeniedException", "DEPENDENCY_ACCESS_DENIED"))
    said = host.call(capsys, *arguments(host, host.volume(SIZE), kind))
    assert said["error"] == "DirectApiRefused"
    report = host.call(capsys, "report_prewarm", "--run-id", RUN_ID)
    assert (report["state"], report["error"]) == ("failed", "DirectApiRefused")


def test_a_run_starts_the_engine_asks_after_it_and_proves_what_it_brought(
    host: Host, capsys: Capture, server: DirectApiServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its documents do: a second start finds the engine's end, the proof samples all of the snapshot's blocks."""
    empty = host.volume(SIZE)
    monkeypatch.setenv("PYTHONPATH", str(HOST_PACKAGES))
    given = ["start_fill", *arguments(host, empty, kind)[1:]]
    started = host.call(capsys, *given)
    assert (started["ok"], started["already_running"]) == (True, False)
    deadline = time.monotonic() + 120
    while (report := host.call(capsys, "report_prewarm", "--run-id", RUN_ID))["state"] == "running":
        assert time.monotonic() < deadline, report
        time.sleep(0.1)
    assert report["state"] == "done"
    assert host.call(capsys, *given)["already_done"]
    blocks = server.snapshots[SNAPSHOT]
    assert content(empty, blocks)
    kept = kept_live_blocks(host.settings, RUN_ID)[empty.volume_id]
    assert {block for first, count in kept.blocks for block in range(first, first + count)} == set(blocks)
    assert (kept.known, kept.map_unreadable) == (True, "")
    request = host.request(empty, filesystem=kind)
    assert host.call(capsys, "assemble_storage", "--run-id", RUN_ID, "--volumes", request)["ok"]
    assert host.prove(capsys, "--load-seconds", "0")["verdict"] == "warm"


def test_nobody_may_go_on_before_all_was_flushed_and_compared(
    host: Host, server: DirectApiServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report's `used_warm_seconds` lets a run go on: it must not come with the last block."""
    published: list[dict[str, Any]] = []

    def compare(self: FilledVolume, samples: int, generator: object) -> int:
        published.append(engine._record.publish("running"))
        return 0

    monkeypatch.setattr(FilledVolume, "compare", compare)
    volumes, snapshots = host.request(host.volume(SIZE), filesystem=kind), json.dumps({"volume0": SNAPSHOT})
    request = parse_fill(RUN_ID, "hot", volumes, snapshots, 900.0)
    engine = FillEngine(host.settings, Processes(), request, lambda _: None)
    ended = engine.run()
    assert published[0]["blocks_done"] == ended["blocks_total"]
    assert published[0]["used_warm_seconds"] is None
    assert ended["used_warm_seconds"] is not None


def test_a_fill_that_is_told_to_end_before_it_has_compared_is_not_done(
    host: Host, server: DirectApiServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(self: FilledVolume, samples: int, generator: random.Random) -> int:
        engine.stop()
        return compared(self, samples, generator)

    compared = FilledVolume.compare
    monkeypatch.setattr(FilledVolume, "compare", compare)
    volumes, snapshots = host.request(host.volume(SIZE), filesystem=kind), json.dumps({"volume0": SNAPSHOT})
    engine = FillEngine(
        host.settings, Processes(), parse_fill(RUN_ID, "hot", volumes, snapshots, 900.0), lambda _: None
    )
    ended = engine.run()
    assert (ended["state"], ended["error"]) == ("dead", "Interrupted")
    assert ended["used_warm_seconds"] is None


# Where md 1.2 and LVM have what they know a member by: the first block, of md 1.0 the last one.
MEMBER_BLOCKS = {0: b"superblock", 7: b"stripe", 300: b"stripe", SIZE // BLOCK - 1: b"at the end"}


@pytest.fixture
def members(host: Host) -> Iterator[DirectApiServer]:
    """Snapshots of the two members of a set: no filesystem is on either of them."""
    blocks = {index: text.ljust(BLOCK, b".") for index, text in MEMBER_BLOCKS.items()}
    others = {index: text[::-1].ljust(BLOCK, b"-") for index, text in MEMBER_BLOCKS.items()}
    with served(DirectApiServer({SNAPSHOT: blocks, OTHER_SNAPSHOT: others})) as one:
        host.configure(metadata_url=one.url, ebs_endpoint_url=one.url)
        yield one


def set_request(host: Host, *empty: Volume) -> tuple[str, str]:
    """(volumes, snapshots) of a set at one mount point."""
    volumes = json.loads(host.request(*empty))
    for one in volumes:
        one["mount_point"] = "/var/lib/mysql"
    return json.dumps(volumes), json.dumps({"volume0": SNAPSHOT, "volume1": OTHER_SNAPSHOT})


def test_each_member_of_a_set_gets_its_own_snapshot_byte_for_byte(
    host: Host, capsys: Capture, members: DirectApiServer
) -> None:
    empty = [host.volume(SIZE), host.volume(SIZE)]
    volumes, snapshots = set_request(host, *empty)
    said = host.call(
        capsys, "fill_volumes", "--run-id", RUN_ID, "--volumes", volumes, "--snapshots", snapshots
    )
    assert (said["state"], said["blocks_done"]) == ("done", 2 * len(MEMBER_BLOCKS))
    for one, snapshot in zip(empty, (SNAPSHOT, OTHER_SNAPSHOT), strict=True):
        assert content(one, members.snapshots[snapshot])


def test_what_a_set_is_known_by_comes_after_everything_else(host: Host, members: DirectApiServer) -> None:
    volumes, snapshots = set_request(host, host.volume(SIZE), host.volume(SIZE))
    request = parse_fill(RUN_ID, "hot", volumes, snapshots, 900.0)
    planner = FillPlanner(host.settings, Processes(), request, threading.Event(), lambda _: None)
    planned = planner.plan()
    try:
        for one in planned:
            assert [(tier.name, list(each_block(tier.ranges))) for tier in one.tiers] == [
                ("hot", []), ("rest", [7, 300]), ("ends", [0, SIZE // BLOCK - 1]),
            ]  # fmt: skip
            assert (
                one.note
                == "filled in plain order: of a set (md, LVM), which is read only once it is assembled"
            )
            assert one.journal.done.count == 0
    finally:
        for filled in planner.filled:
            filled.close()
