"""The layouts that are tried, and how a person makes each with mdadm and LVM."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """A layout as the settings call it, its volumes in MiB, the filesystem, and the commands that make its device.

    {0}, {1}, ... stand for the volumes' devices. `device` is what the filesystem is made on; `grow` lets it grow while
    it is written to.
    """

    layout: str
    volumes: tuple[int, ...]
    filesystem: str
    commands: tuple[str, ...]
    device: str
    name: str = ""
    grow: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is mounted."""
        return f"/data/{self.name or self.layout}"

    @property
    def key(self) -> str:
        """By which the tests name it."""
        return self.name or self.layout


_MD = "mdadm --create /dev/md{n} --run --homehost=any --metadata={metadata} --level={level} --raid-devices={count}"


def _array(number: int, level: str, count: int, first: int = 0, more: str = "", metadata: str = "1.2") -> str:
    members = " ".join(f"{{{index}}}" for index in range(first, first + count))
    head = _MD.format(n=number, level=level.removeprefix("raid"), count=count, metadata=metadata)
    return f"{head} {more} {members}"


LVM = "--config 'devices {{ use_devicesfile=0 }}'"

ALL = (
    Tried("single", (192,), "ext4", (), "{0}", "log"),
    Tried("raid0", (176, 176), "xfs", (_array(10, "raid0", 2, more="--chunk=64"),), "/dev/md10"),
    Tried("raid1", (192, 192), "ext4", (_array(11, "raid1", 2, more="--bitmap=internal"),), "/dev/md11"),
    Tried(
        "raid5",
        (192, 192, 192),
        "xfs",
        (_array(15, "raid5", 3, more="--chunk=64 --assume-clean"),),
        "/dev/md15",
    ),
    Tried("raid10", (192, 192, 192, 192), "xfs", (_array(16, "raid10", 4),), "/dev/md16"),
    Tried(
        "lvm_linear",
        (128, 128, 64),
        "ext4",
        (
            f"pvcreate -y {LVM} {{0}} {{1}}",
            f"vgcreate {LVM} linear {{0}} {{1}}",
            f"lvcreate -y -n my-data -l 60 {LVM} linear",
        ),
        "/dev/mapper/linear-my--data",
        grow=(
            f"pvcreate -y {LVM} {{2}}",
            f"vgextend {LVM} linear {{2}}",
            f"lvextend -l 100%VG {LVM} linear/my-data",
            "resize2fs /dev/mapper/linear-my--data",
        ),
    ),
    Tried(
        "lvm_striped",
        (192, 192, 64, 64),
        "xfs",
        (
            f"pvcreate -y {LVM} {{0}} {{1}}",
            f"vgcreate {LVM} striped {{0}} {{1}}",
            f"lvcreate -y -n data -i 2 -I 64 -l 100%FREE {LVM} striped",
        ),
        "/dev/mapper/striped-data",
        grow=(
            f"pvcreate -y {LVM} {{2}} {{3}}",
            f"vgextend {LVM} striped {{2}} {{3}}",
            f"lvextend -i 2 -I 64 -l 100%VG {LVM} striped/data",
            "xfs_growfs /data/lvm_striped",
        ),
    ),
    Tried(
        "raid0_lvm",
        (128, 128, 128, 128),
        "xfs",
        (
            _array(20, "raid0", 2, more="--chunk=256"),
            _array(21, "raid0", 2, first=2),
            f"pvcreate -y {LVM} /dev/md20 /dev/md21",
            f"vgcreate {LVM} stacked /dev/md20 /dev/md21",
            f"lvcreate -y -n data -i 2 -I 128 -l 100%FREE {LVM} stacked",
        ),
        "/dev/mapper/stacked-data",
    ),
)

# `make test-storage ONLY=raid5,raid10` tries some of them.
_ONLY = [key for key in os.environ.get("ONLY", "").split(",") if key]
TRIED = tuple(tried for tried in ALL if not _ONLY or tried.key in _ONLY)
