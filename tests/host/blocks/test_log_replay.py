"""Snapshots of filesystems in use: what only their log knows must be warmed and proven as well.

What is live is found without the product: another copy of the snapshot is mounted, and each file is asked for its
extents.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from host_bench import MIB, RUN_ID, Host, Volume, assemble, journal_ranges, write_out
from peaker_host.blocks import log_replay
from peaker_host.blocks.ranges import blocks_of_bytes, difference, total
from peaker_host.machine.devices import describe_device, is_claimed
from peaker_host.machine.errors import LogNotReplayed
from peaker_host.machine.manifest import load_manifest

pytestmark = pytest.mark.real
Blocks = list[tuple[int, int]]
EXTENT = re.compile(r"^\s*\d+:\s+\d+\.\.\s*\d+:\s+(\d+)\.\.\s*(\d+):")


def snapshot_under_writes(host: Host, kind: str, written: int = 240 * MIB, *, hole: bool = True) -> Volume:
    """A copy of a mounted volume whose last writes are in its log only, as `snapshot` finds it.

    A donor that writes 15 MB/s writes 300 MB in the 20 s between the freeze and the snapshot.
    """
    donor = host.volume(1200 * MIB, kind)
    with host.mounted(donor) as point:
        (point / "t.ibd").write_bytes(os.urandom(40 * MIB))
        if hole:
            (point / "gone.ibd").write_bytes(os.urandom(20 * MIB))
        write_out(point)
        (point / "gone.ibd").unlink(missing_ok=True)
        for number in range(written // (8 * MIB)):
            with (point / f"binlog.{number:06}").open("wb") as file:
                file.write(os.urandom(8 * MIB))
                os.fsync(file.fileno())
        host.stop_writing(point)
        copy_with_holes(donor.image, host.root / "copy.img")
    return restored(host, host.root / "copy.img")


def copy_with_holes(image: Path, copy: Path) -> None:
    """What was never written is not read: most of a volume."""
    subprocess.run(["cp", "--sparse=auto", str(image), str(copy)], check=True)


def restored(host: Host, image: Path) -> Volume:
    """A volume with the image's content."""
    volume = host.volume(image.stat().st_size)
    copy_with_holes(image, volume.image)
    return volume


def truly_live(host: Host, volume: Volume, kind: str) -> Blocks:
    """The blocks with data of files, as the kernel names them after recovery, on a copy of the volume."""
    # Not by `mount -o loop`, which asks every loop device of the machine for its file: one of others may not answer.
    oracle = restored(host, volume.image)
    point = host.root / "oracle"
    point.mkdir(exist_ok=True)
    options = ("-o", "nouuid") if kind == "xfs" else ()
    subprocess.run(["mount", "-t", kind, *options, oracle.path, str(point)], check=True)
    try:
        files = sorted(str(path) for path in point.rglob("*") if path.is_file())
        said = subprocess.run(
            ["filefrag", "-b4096", "-v", *files], check=True, capture_output=True, text=True
        ).stdout
    finally:
        subprocess.run(["umount", str(point)], check=True)
    found = [EXTENT.match(line) for line in said.splitlines()]
    extents = [(int(one[1]) * 4096, (int(one[2]) - int(one[1]) + 1) * 4096) for one in found if one]
    return blocks_of_bytes(extents)


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_blocks_written_after_the_freeze_are_warmed(host: Host, kind: str) -> None:
    volume = snapshot_under_writes(host, kind)
    live = truly_live(host, volume, kind)
    assert total(live) > 480, "the writer's files are part of the snapshot"
    assemble(host, volume, filesystem=kind)
    result = host.call("prewarm")
    assert (result["state"], result["volumes"][0]["map_unreadable"]) == ("done", "")
    assert difference(live, journal_ranges(host, volume)) == []
    assert total(journal_ranges(host, volume)) < total(live) + 200, "what is free is left out"


def test_a_proof_keeps_to_what_the_snapshot_holds(host: Host) -> None:
    """Blocks that the filesystem has reserved and nobody wrote are fast; they must not thin the cold ones out."""
    volume = host.volume(600 * MIB, "xfs")
    with host.mounted(volume) as point:
        (point / "t.ibd").write_bytes(os.urandom(30 * MIB))
        subprocess.run(["fallocate", "-l", "300M", str(point / "reserved.ibd")], check=True)
    assemble(host, volume, filesystem="xfs")
    host.give_block_list(volume.volume_id, "0-99")
    proof = host.call("verify_storage", "--load-seconds", "0")
    assert proof["volumes"][0]["blocks_used"] <= 100


def test_many_free_extents_come_in_several_answers(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = host.volume(400 * MIB, "ext4")
    with host.mounted(volume) as point:
        for number in range(400):
            (point / f"f{number}").write_bytes(b"x" * 16384)
        os.sync()
        for number in range(0, 400, 2):
            (point / f"f{number}").unlink()
        os.sync()
        whole = log_replay.free_ranges(str(point))
        monkeypatch.setattr(log_replay, "_RECORDS", 7)
        assert log_replay.free_ranges(str(point)) == whole
        facts = os.statvfs(point)
        assert abs(total(whole) - facts.f_bfree * facts.f_frsize) <= MIB
    assert len(whole) > 100


def test_a_filesystem_that_cannot_be_mounted_fails_before_hours_are_spent(host: Host) -> None:
    volume = host.volume(300 * MIB, "ext4")
    assemble(host, volume, filesystem="ext4")
    with open(volume.path, "r+b") as device:
        device.seek(1024 + 0x60)  # incompatible features that no kernel knows
        device.write(b"\xff\xff\x00\x70")
    result = host.call("prewarm")
    assert (result["error"], "cannot be mounted" in result["message"]) == (LogNotReplayed.__name__, True)


def test_what_is_unmounted_during_a_replay_is_free_at_once(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A namespace begins with a copy of every mount; the copy would keep another volume's device claimed."""
    volume, other = host.volume(300 * MIB, "xfs"), host.volume(300 * MIB, "ext4")
    assemble(host, volume, filesystem="xfs")
    (member,) = load_manifest(host.settings, RUN_ID).members
    # The `umount` of the replay waits until the other volume has been looked at.
    for name in ("inside", "go on"):
        os.mkfifo(tmp_path / name)
    slow = tmp_path / "bin" / "umount"
    slow.parent.mkdir()
    real = shutil.which("umount")
    slow.write_text(
        f'#!/bin/sh\necho >"{tmp_path}/inside"\nread line <"{tmp_path}/go on"\nexec {real} "$@"\n'
    )
    slow.chmod(0o755)
    with host.mounted(other):
        monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
        replay = threading.Thread(target=log_replay.replay_log, args=(host.machine(), RUN_ID, member))
        replay.start()
        (tmp_path / "inside").read_text()
        monkeypatch.undo()
    try:
        assert not is_claimed(describe_device(other.path))
    finally:
        (tmp_path / "go on").write_text("\n")
        replay.join(240)


def test_a_replay_that_outlived_its_engine_is_waited_for(host: Host) -> None:
    """Else the next engine would find the device claimed and give the run up."""
    import fcntl

    os.makedirs(host.settings.state_dir, exist_ok=True)
    ended = threading.Event()

    def wait() -> None:
        log_replay.await_replays(host.settings)
        ended.set()

    with open(host.settings.state_path("replay.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not ended.wait(0.2)
    waiting.join(240)
    assert ended.is_set()


def test_a_volume_s_replay_does_not_wait_for_that_of_another(host: Host) -> None:
    import fcntl

    volume = snapshot_under_writes(host, "xfs", 16 * MIB)
    assemble(host, volume, filesystem="xfs")
    [member] = load_manifest(host.settings, RUN_ID).members
    replayed: list[object] = []

    def replay() -> None:
        replayed.append(log_replay.replay_log(host.machine(), RUN_ID, member))

    with open(host.settings.state_path("replay.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        replaying = threading.Thread(target=replay)
        replaying.start()
        replaying.join(240)
        assert replayed
