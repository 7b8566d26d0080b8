"""What mounting reads of a volume, by filesystems as mkfs makes them."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from host_bench import BLOCK, MIB
from peaker_host.blocks.log_replay import MountBlocks, mount_blocks
from peaker_host.blocks.ranges import intersection, total

GROUPS = 4
SIZE_BYTES = 4096 * MIB


def made(path: Path, *options: str) -> MountBlocks:
    with path.open("wb") as file:
        file.truncate(SIZE_BYTES)
    subprocess.run(["mkfs.xfs", "-q", *options, str(path)], check=True)
    return mount_blocks("xfs", str(path), SIZE_BYTES)


def test_a_small_log_is_read_whole_with_the_groups_heads(tmp_path: Path) -> None:
    made(tmp_path / "xfs", "-l", "size=64m")
    with (tmp_path / "xfs").open("r+b") as file:
        # sb_logblocks, as an older mkfs made it: 16 MiB.
        file.seek(96)
        file.write(struct.pack(">I", 4096))
    found = mount_blocks("xfs", str(tmp_path / "xfs"), SIZE_BYTES)
    assert GROUPS + 32 <= total(found.whole) <= GROUPS + 33
    assert not found.touched


def test_of_a_larger_log_a_page_of_each_block_is_read(tmp_path: Path) -> None:
    found = made(tmp_path / "xfs", "-l", "size=64m")
    assert total(found.whole) == GROUPS
    assert 128 <= total(found.touched) <= 129
    assert intersection(found.touched, [(log_place(tmp_path / "xfs") // BLOCK, 1)])


def log_place(path: Path) -> int:
    """Where the log begins, in bytes, as the debugger says."""

    def said(*commands: str) -> str:
        argv = ["xfs_db", "-r", *(word for command in commands for word in ("-c", command)), str(path)]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    log_start = said("sb 0", "print logstart").rpartition("=")[2].strip()
    return int(said(f"convert fsblock {log_start} byte").split("(")[1].rstrip(")"))


@pytest.mark.parametrize("megabytes", [256, 1024])
def test_a_log_whose_pages_take_longer_than_its_search_is_left_to_the_mount(
    tmp_path: Path, megabytes: int
) -> None:
    found = made(tmp_path / "xfs", "-l", f"size={megabytes}m", "-d", "agcount=2")
    assert (total(found.whole), found.touched) == (2, [])
