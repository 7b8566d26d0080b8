"""What a donor says of its filesystems without a look at any device, on a /sys that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from peaker_host.layouts.discover import discover
from peaker_host.machine.errors import LayoutUnsupported
from peaker_host.machine.manifest import Stack
from peaker_host.machine.settings import Machine, Processes, Settings

PLACE = "/var/lib/mysql"


def stacks_with(folder: Path, disk: str, filesystem: str, place: str = PLACE) -> list[Stack]:
    """The stacks of a host that has this disk mounted."""
    (folder / "sys/block" / disk).mkdir(parents=True)
    (folder / "sys/dev/block").mkdir(parents=True)
    (folder / "sys/dev/block/202:80").symlink_to(f"../../block/{disk}")
    mountinfo = folder / "mountinfo"
    mountinfo.write_text(f"36 35 202:80 / {PLACE} rw,noatime shared:1 - {filesystem} /dev/{disk} rw\n")
    settings = Settings(by_id_dir=str(folder / "by-id"))
    return discover(Machine.of(settings, Processes()), [place], str(folder / "sys"), str(mountinfo))


def test_a_disk_of_xen_cannot_tell_its_volume_and_is_left_out(tmp_path: Path) -> None:
    assert stacks_with(tmp_path, "xvdf", "xfs") == []


def test_what_is_mounted_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(LayoutUnsupported, match="/var/lib/other is no mount point"):
        stacks_with(tmp_path, "nvme1n1", "xfs", "/var/lib/other")


@pytest.mark.parametrize(
    ("filesystem", "why"), [("jfs", "in use"), ("reiserfs", "removed"), ("f2fs", "not known")]
)
def test_another_filesystem_is_refused_with_the_reason(tmp_path: Path, filesystem: str, why: str) -> None:
    with pytest.raises(LayoutUnsupported, match=f"{PLACE} is {filesystem}: .*{why}"):
        stacks_with(tmp_path, "nvme1n1", filesystem)
