"""Older copies brought up to date by changed blocks, on real devices: the new snapshot byte for byte, or untouched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from host_bench import BLOCK, MIB, RUN_ID, Host, Volume
from peaker_host.aws.direct_api import parse_changed
from peaker_host.blocks.live_blocks import LiveBlocks, keep_live_blocks, kept_live_blocks
from peaker_host.fill.request import parse_fill
from peaker_host.machine.errors import DirectApiRefused, InvalidArgument
from peaker_host.machine.manifest import Manifest, Member, write_manifest

from tests.host.fill.direct_api_server import DirectApiServer, served

Capture = pytest.CaptureFixture[str]
SIZE = 256 * MIB
BLOCKS = SIZE // BLOCK
BUILT_FROM, NEWEST = "snap-0f1110000000000a0", "snap-0f1110000000000a1"
AT_BUILD, PARKED = "snap-0f1110000000000b0", "snap-0f1110000000000b1"
PAIRS = [[BUILT_FROM, NEWEST], [AT_BUILD, PARKED]]


def block(text: str) -> bytes:
    return text.encode().ljust(BLOCK, b".")


DONOR_BEFORE = {index: block(f"first {index}") for index in range(300)}
OWN = {
    **DONOR_BEFORE,
    **{
        index: block(f"own {index}") for index in (3, 4, 5, 120, 290)
    },  # the last two the donor changed as well
    **{index: block(f"own {index}") for index in (400, 401)},  # the donor never wrote there
}
DONOR_AFTER = {
    **{index: text for index, text in DONOR_BEFORE.items() if index not in (7, 8)},  # trimmed
    **{index: block(f"second {index}") for index in (*range(100, 140), 290, 350, BLOCKS - 1)},
}
CHANGED = {3, 4, 5, 7, 8, *range(100, 140), 290, 350, 400, 401, BLOCKS - 1}


@pytest.fixture
def server(host: Host) -> Iterator[DirectApiServer]:
    snapshots = {BUILT_FROM: DONOR_BEFORE, NEWEST: DONOR_AFTER, AT_BUILD: DONOR_BEFORE, PARKED: OWN}
    volumes = {BUILT_FROM: "donor", NEWEST: "donor", AT_BUILD: "own", PARKED: "own"}
    with served(DirectApiServer(snapshots, volumes, volume_gib=1, page_blocks=10)) as one:
        host.configure(metadata_url=one.url, ebs_endpoint_url=one.url)
        yield one


@pytest.fixture
def parked(host: Host) -> Volume:
    """The volume as the replica left it."""
    volume = host.volume(1024 * MIB)
    write(volume, OWN)
    return volume


def write(volume: Volume, blocks: dict[int, bytes]) -> None:
    descriptor = os.open(volume.path, os.O_WRONLY)
    try:
        for index, content in blocks.items():
            os.pwrite(descriptor, content, index * BLOCK)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def holds(volume: Volume, blocks: dict[int, bytes]) -> bool:
    descriptor = os.open(volume.path, os.O_RDONLY)
    try:
        return all(
            os.pread(descriptor, BLOCK, index * BLOCK) == blocks.get(index, bytes(BLOCK))
            for index in range(2 * BLOCKS)
        )
    finally:
        os.close(descriptor)


def content_of(path: str) -> dict[int, bytes]:
    """All blocks of a device, by their number."""
    with open(path, "rb") as device:
        return dict(enumerate(iter(lambda: device.read(BLOCK), b"")))


def arguments(host: Host, volume: Volume, *more: str, pairs: Any = PAIRS) -> list[str]:
    snapshots, changed = json.dumps({"volume0": NEWEST}), json.dumps({"volume0": pairs})
    volumes = host.request(volume, filesystem="xfs")
    given = ["--volumes", volumes, "--snapshots", snapshots, "--changed", changed]
    return ["fill_volumes", "--run-id", RUN_ID, *given, *more]


@pytest.mark.real
def test_what_differs_is_written_and_what_the_snapshot_has_not_is_zeros(
    host: Host, capsys: Capture, server: DirectApiServer, parked: Volume
) -> None:
    said = host.call(capsys, *arguments(host, parked))
    assert (said["state"], said["blocks_done"], said["blocks_total"]) == ("done", len(CHANGED), len(CHANGED))
    assert holds(parked, DONOR_AFTER)
    kept = kept_live_blocks(host.settings, RUN_ID)[parked.volume_id]
    live = {block for first, count in kept.blocks for block in range(first, first + count)}
    assert live == set(DONOR_AFTER), (
        "the proof draws from all that the volume holds, not only from what was written"
    )
    assert said["blocks_compared"] >= len(CHANGED)


@pytest.mark.real
def test_an_engine_that_is_killed_half_way_goes_on_and_the_bytes_are_right(
    host: Host, capsys: Capture, server: DirectApiServer, parked: Volume
) -> None:
    command = [
        sys.executable,
        "-m",
        "peaker_host",
        "--settings",
        str(host.settings_path),
        *arguments(host, parked),
    ]
    server.holds = lambda index: index in {120, 130}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while (
        not host.call(capsys, "report_prewarm", "--run-id", RUN_ID).get("written") and process.poll() is None
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.holds = lambda _index: False
    assert not holds(parked, DONOR_AFTER)
    told = host.call(capsys, "report_prewarm", "--run-id", RUN_ID)
    assert (told["state"], told["written"]) == ("dead", True)
    # An engine that cannot even begin again changes nothing about that.
    with_other_pairs = arguments(host, parked, pairs=[[BUILT_FROM, NEWEST], [BUILT_FROM, PARKED]])
    assert host.call(capsys, *with_other_pairs)["error"] == "DirectApiRefused"
    assert host.call(capsys, "report_prewarm", "--run-id", RUN_ID)["written"] is True
    said = host.call(capsys, *arguments(host, parked))
    assert (said["state"], said["restarts"]) == ("done", 2)
    assert holds(parked, DONOR_AFTER)


@pytest.mark.real
def test_a_filesystem_is_refused_while_mounted_and_taken_once_it_was_unmounted_and_its_host_started_again(
    host: Host, capsys: Capture, server: DirectApiServer
) -> None:
    volume = host.volume(1024 * MIB, "xfs")
    with host.mounted(volume) as point:
        (point / "ibdata1").write_bytes(os.urandom(3 * MIB))
        assert host.call(capsys, *arguments(host, volume))["error"] == "DeviceInUse"
    subprocess.run(["losetup", "-d", volume.path], check=True)
    again = [*("losetup", "--direct-io=on", "-f", "--show"), str(volume.image)]
    path = subprocess.run(again, check=True, capture_output=True, text=True).stdout.strip()
    try:
        host.link(volume.volume_id, path)
        as_it_is = {index: content for index, content in content_of(path).items() if content.strip(b"\0")}
        server.snapshots.update({BUILT_FROM: as_it_is, AT_BUILD: as_it_is, PARKED: as_it_is})
        server.snapshots[NEWEST] = {**as_it_is, **{index: block(f"new {index}") for index in CHANGED}}
        said = host.call(capsys, *arguments(host, volume))
        assert (said["state"], said["blocks_done"]) == ("done", len(CHANGED))
        assert holds(replace(volume, path=path), server.snapshots[NEWEST])
    finally:
        subprocess.run(["losetup", "-d", path], check=True)


@pytest.mark.real
def test_what_must_be_warm_is_what_was_brought_and_what_had_to_be_before(
    host: Host, capsys: Capture, server: DirectApiServer, parked: Volume
) -> None:
    """Blocks of deleted files lie in the snapshots, and nobody has read them since the volume was made."""
    builder = "scale-out-orders-20261101T0140-11aa"
    member = Member("volume0", parked.volume_id, "/dev/sdf", "/srv/nothing", "xfs")
    write_manifest(host.settings, Manifest(builder, [member]))
    before = LiveBlocks([(0, 7), (150, 10)], "", known=True)
    keep_live_blocks(host.settings, builder, {parked.volume_id: before})
    host.call(capsys, *arguments(host, parked))
    kept = kept_live_blocks(host.settings, RUN_ID)[parked.volume_id]
    live = {block for first, count in kept.blocks for block in range(first, first + count)}
    assert live == (CHANGED | {*range(7), *range(150, 160)}) & set(DONOR_AFTER)


@pytest.mark.real
@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([[BUILT_FROM, NEWEST], [BUILT_FROM, PARKED]], "DirectApiRefused"),
        ([[BUILT_FROM, NEWEST], [NEWEST, NEWEST]], "VolumeUnrelated"),
    ],
    ids=["snapshots of two volumes", "what it wrote itself is not said"],
)
def test_lists_that_cannot_be_had_or_do_not_say_all_leave_the_volume_as_it_was(
    host: Host, capsys: Capture, server: DirectApiServer, parked: Volume, pairs: Any, error: str
) -> None:
    other = {index: block(f"own {index}") for index in range(20, 90)}
    write(parked, other)
    said = host.call(capsys, *arguments(host, parked, pairs=pairs))
    assert said["error"] == error
    if error == "DirectApiRefused":
        assert "UNRELATED_SNAPSHOTS" in said["message"]
    assert holds(parked, {**OWN, **other})
    told = host.call(capsys, "report_prewarm", "--run-id", RUN_ID)
    assert (told["error"], told["written"]) == (error, False)


@pytest.mark.real
def test_where_the_lineage_is_compared_two_lists_from_one_snapshot_do(
    host: Host, capsys: Capture, server: DirectApiServer, parked: Volume
) -> None:
    """The snapshot that the copy was made from, against the donor's newest and against the copy's own."""
    server.volumes[PARKED] = server.volumes[BUILT_FROM]
    said = host.call(capsys, *arguments(host, parked, pairs=[[BUILT_FROM, NEWEST], [BUILT_FROM, PARKED]]))
    assert (said["state"], said["blocks_done"]) == ("done", len(CHANGED))
    assert holds(parked, DONOR_AFTER)


@pytest.mark.real
def test_lists_of_another_time_are_not_gone_on_with(
    host: Host, capsys: Capture, server: DirectApiServer, parked: Volume
) -> None:
    """The journal is of its lists: with others the volume is looked at again."""
    host.call(capsys, *arguments(host, parked))
    write(parked, {index: block(f"later {index}") for index in range(10, 90)})
    said = host.call(capsys, *arguments(host, parked, pairs=[[BUILT_FROM, NEWEST], [PARKED, PARKED]]))
    assert said["error"] == "VolumeUnrelated"


DATA = {
    "name": "data",
    "volume_id": "vol-0a1b2c3d4e5f60718",
    "device": "/dev/sdf",
    "mount_point": "/var/lib/mysql",
    "filesystem": "xfs",
}


def parse(changed: Any, *volumes: dict[str, str]) -> Any:
    given = volumes or (DATA,)
    snapshots = {one["name"]: NEWEST for one in given}
    return parse_fill("run", "hot", json.dumps(given), json.dumps(snapshots), 900.0, json.dumps(changed))


def test_each_volume_has_its_pairs() -> None:
    assert parse({"data": PAIRS}).changed == {"data": ((BUILT_FROM, NEWEST), (AT_BUILD, PARKED))}


SECOND = {**DATA, "name": "more", "volume_id": "vol-0a1b2c3d4e5f60719"}


@pytest.mark.parametrize(
    ("changed", "volumes", "named"),
    [
        ({}, (), "data"),
        ({"data": PAIRS, "other": PAIRS}, (), "other"),
        ({"data": []}, (), "0 pairs"),
        ({"data": [PAIRS[0]] * 5}, (), "5 pairs"),
        ({"data": [[AT_BUILD, PARKED]]}, (), "ends with"),
        ({"data": [[BUILT_FROM, "snap-1/../x"]]}, (), "snapshot id"),
        ({"data": [[BUILT_FROM]]}, (), "changed"),
        ([], (), "changed"),
        ({"data": PAIRS, "more": PAIRS}, (DATA, SECOND), "a set"),
    ],
)
def test_wrong_pairs_are_refused_by_their_field(changed: Any, volumes: Any, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        parse(changed, *volumes)


@pytest.mark.parametrize(
    "changes",
    [
        {"BlockSize": 4096},
        {"VolumeSize": 0},
        {"NextToken": 4},
        {"ChangedBlocks": [{"BlockIndex": -1}]},
        {"ChangedBlocks": 3},
    ],
)
def test_a_list_of_changed_blocks_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    page = {"ChangedBlocks": [{"BlockIndex": 4}], "BlockSize": BLOCK, "VolumeSize": 1}
    assert parse_changed(json.dumps(page).encode()).blocks == [4]
    with pytest.raises(DirectApiRefused):
        parse_changed(json.dumps({**page, **changes}).encode())
