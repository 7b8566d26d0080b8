"""The used bytes and the files' extents of real filesystems, checked against what lies on the device."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from host_bench import MIB, Host, Volume
from peaker_host.blocks.database_files import find_database
from peaker_host.blocks.filesystem_maps import open_map
from peaker_host.blocks.ranges import Range, difference, total
from peaker_host.machine.errors import UnreadableFilesystem
from peaker_host.machine.settings import Completed, Processes

pytestmark = pytest.mark.real

FILESYSTEMS = {
    "xfs": ("xfs", ("-d", "agcount=5")),
    "xfs with 1 KiB blocks": ("xfs", ("-b", "size=1024", "-m", "reflink=0,rmapbt=0")),
    "ext4": ("ext4", ()),
    "ext4 with 1 KiB blocks": ("ext4", ("-b", "1024")),
    "ext4 without 64bit": ("ext4", ("-O", "^64bit,^metadata_csum")),
}


def fragment(point: Path, seed: int) -> None:
    """Files of many extents, in directories, with deletions in between."""
    generator = random.Random(seed)
    (point / "orders").mkdir()
    names = [point / f"t{n}.ibd" for n in range(12)] + [point / "orders" / f"o {n}.ibd" for n in range(12)]
    handles = [name.open("wb") for name in names]
    for _ in range(18):
        for handle in handles:
            handle.write(generator.randbytes(generator.randrange(1, 9) * 16384))
            handle.flush()
            os.fdatasync(handle.fileno())
    for handle in handles:
        handle.close()
    for name in names[::3]:
        name.unlink()
    with (point / "sparse.ibd").open("wb") as sparse:
        sparse.write(b"x" * 16384)
        sparse.seek(8 * MIB)
        sparse.write(b"y" * 16384)


@pytest.mark.parametrize("name", FILESYSTEMS)
def test_every_byte_of_every_file_is_in_the_used_ranges_and_at_its_extent(host: Host, name: str) -> None:
    kind, arguments = FILESYSTEMS[name]
    volume = host.volume(400 * MIB, kind, *arguments)
    with host.mounted(volume) as point:
        fragment(point, 7)
        content = {p.relative_to(point).as_posix(): p.read_bytes() for p in point.rglob("*") if p.is_file()}
        facts = os.statvfs(point)
        counted = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    used = host.used_ranges(volume, kind)
    covered(kind, volume, content, used)
    assert total(used) < counted + 60 * MIB, "most of the free space must be left out"
    assert total(used) < 0.6 * 400 * MIB


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_all_that_the_filesystem_does_not_use_may_be_overwritten(host: Host, kind: str) -> None:
    """The strongest proof: destroy every byte that the map calls free; the checker must find nothing wrong."""
    volume = host.volume(320 * MIB, kind)
    with host.mounted(volume) as point:
        fragment(point, 11)
        before = {p.relative_to(point): p.read_bytes() for p in point.rglob("*") if p.is_file()}
    used = host.used_ranges(volume, kind)
    with open(volume.path, "r+b") as image:
        for start, length in difference([(0, 320 * MIB)], used):
            image.seek(start)
            image.write(b"\xa5" * length)
    check = ["xfs_repair", "-n", volume.path] if kind == "xfs" else ["e2fsck", "-fn", volume.path]
    assert subprocess.run(check, check=False, capture_output=True).returncode == 0
    with host.mounted(volume) as point:
        assert {p.relative_to(point): p.read_bytes() for p in point.rglob("*") if p.is_file()} == before


class Counted(Processes):
    """Programs that run, and how many did."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, *arguments: Any, **options: Any) -> Completed:
        self.runs += 1
        return super().run(*arguments, **options)


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_many_schemas_are_looked_through_at_once(host: Host, kind: str) -> None:
    volume = host.volume(320 * MIB, kind)
    with host.mounted(volume) as point:
        (point / "ib_buffer_pool").write_text("9,1\n")
        for number in range(30):
            (point / f"shop_{number}").mkdir()
            (point / f"shop_{number}" / "t.ibd").write_bytes(bytes(16384))
        (point / "empty").mkdir()
    programs = Counted()
    found = find_database(open_map(kind, volume.path, programs))
    assert {entry.path for entry in found.entries} == {
        "ib_buffer_pool", *(f"shop_{number}/t.ibd" for number in range(30))
    }  # fmt: skip
    assert programs.runs == 3, "the root, all directories, all files"


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_a_directory_that_is_not_there_is_empty_and_takes_nobody_else_s_files(host: Host, kind: str) -> None:
    volume = host.volume(320 * MIB, kind)
    with host.mounted(volume) as point:
        for name in ("a", "b"):
            (point / name).mkdir()
            (point / name / f"{name}.ibd").write_bytes(bytes(16384))
    listings = open_map(kind, volume.path, Processes()).listings(["a", "gone", "b"])
    found = [[entry.path for entry in one.files] for one in listings]
    assert found == [["a/a.ibd"], [], ["b/b.ibd"]]


def test_a_filesystem_of_another_kind_is_unreadable(host: Host) -> None:
    volume = host.volume(300 * MIB, "xfs")
    with pytest.raises(UnreadableFilesystem, match="no ext4 superblock"):
        open_map("ext4", volume.path, Processes())


def covered(kind: str, volume: Volume, content: dict[str, bytes], used: list[Range]) -> None:
    filesystem = open_map(kind, volume.path, Processes())
    (root,) = filesystem.listings([""])
    found = filesystem.file_extents(filesystem.files(root))
    assert set(found) >= set(content)
    for path, data in content.items():
        assert difference([(start, length) for _, start, length in found[path]], used) == []
        whole = bytearray(len(data))
        with open(volume.path, "rb") as image:
            for offset, start, length in found[path]:
                image.seek(start)
                kept = min(length, len(data) - offset)
                whole[offset : offset + kept] = image.read(kept)
        assert bytes(whole) == data
