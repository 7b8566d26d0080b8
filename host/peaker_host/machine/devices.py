"""Block devices, as the kernel lists them in /sys and /proc: volume, size, superblock, mounts, counters."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from peaker_host.machine.errors import DeviceInUse, NoFilesystem, WrongDevice

_BLKGETSIZE64 = 0x80081272
_SECTOR_BYTES = 512
_EXT_MAGIC_OFFSET = 1024 + 56
_EXT_64_BIT = 0x80


@dataclass(frozen=True)
class BlockDevice:
    """An existing block device: its node, device number, size and kernel name (as iostat calls it)."""

    path: str
    major: int
    minor: int
    size_bytes: int
    kernel_name: str

    @property
    def number(self) -> str:
        return f"{self.major}:{self.minor}"


@dataclass(frozen=True)
class Superblock:
    """A superblock names a device's filesystem and its uuid; sizes are 0 where it is no filesystem.

    `group_blocks`: blocks of an allocation group of XFS.
    """

    kind: str
    uuid: str
    block_bytes: int = 0
    blocks: int = 0
    group_blocks: int = 0

    @property
    def size_bytes(self) -> int:
        """The bytes that the filesystem takes of its device."""
        return self.block_bytes * self.blocks


@dataclass(frozen=True)
class Mount:
    """A mount: its place, the number of its device, the kind of its filesystem, and whether it takes no writes."""

    point: str
    device: str
    kind: str
    read_only: bool


EXT_BLOCK_BITS_AT_MOST = 6
"""64 KiB (EXT4_MAX_BLOCK_LOG_SIZE)."""


def by_id_path(by_id_dir: str, volume_id: str) -> str:
    """The udev link of an EBS volume: its NVMe serial is the volume id without the hyphen."""
    return os.path.join(by_id_dir, "nvme-Amazon_Elastic_Block_Store_" + volume_id.replace("-", ""))


def describe_device(path: str) -> BlockDevice:
    """Describes a device node. Raises WrongDevice when it is not a block device."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise WrongDevice(f"{path}: {error.strerror}") from error
    if not stat.S_ISBLK(status.st_mode):
        raise WrongDevice(f"{path} is not a block device")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = struct.unpack("Q", fcntl.ioctl(descriptor, _BLKGETSIZE64, b"\0" * 8))[0]
    finally:
        os.close(descriptor)
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    return BlockDevice(path, major, minor, size, kernel_name(major, minor))


def kernel_name(major: int, minor: int) -> str:
    """The kernel's name of a device number, which /proc/diskstats and iostat use."""
    link = f"/sys/dev/block/{major}:{minor}"
    if not os.path.exists(link):
        raise WrongDevice(f"{link} does not exist: no such block device in this kernel")
    return os.path.basename(os.path.realpath(link))


def serial_of(device: BlockDevice) -> Optional[str]:
    """The NVMe serial (the volume id without the hyphen); None where the device has none."""
    return first_line(f"/sys/block/{device.kernel_name}/device/serial") or None


def mount_points(device: BlockDevice) -> List[str]:
    return [mount.point for mount in read_mounts() if mount.device == device.number]


def read_mounts(path: str = "/proc/self/mountinfo") -> List[Mount]:
    """Reads all mounts; of several at one place the last one counts, because it covers the others (proc(5))."""
    found = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            columns, filesystem = before.split(), after.split()
            if len(columns) >= 6 and len(filesystem) >= 3:
                options = columns[5].split(",") + filesystem[2].split(",")
                found.append(Mount(_unescaped(columns[4]), columns[2], filesystem[0], "ro" in options))
    return found


def first_line(path: str) -> str:
    """Reads a file of /sys; empty where there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def listed(directory: str) -> List[str]:
    """Names in a directory of /sys, such as `slaves`; none where it is not there."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def holders(device: BlockDevice) -> List[str]:
    return listed(f"/sys/block/{device.kernel_name}/holders")


def is_claimed(device: BlockDevice) -> bool:
    """True when the kernel has given the device to a mount (in any namespace), an array or a swap."""
    try:
        os.close(os.open(device.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError:
        return True
    return False


def refuse_if_used(device: BlockDevice, own_mount_point: str) -> None:
    """Raise DeviceInUse unless the device is free or mounted at its own place and nowhere else."""
    points = mount_points(device)
    elsewhere = [point for point in points if point != own_mount_point]
    if elsewhere:
        raise DeviceInUse(f"{device.path} is mounted at {', '.join(elsewhere)}, not at {own_mount_point}")
    if not points and is_claimed(device):
        raise DeviceInUse(
            f"{device.path} ({device.kernel_name}) is claimed by a mount elsewhere, an array or swap"
        )


def refuse_if_not_volume(device: BlockDevice, volume_id: str, by_id_dir: str) -> None:
    """Raise WrongDevice unless both the by-id link and the serial, where there is one, name this volume."""
    link = by_id_path(by_id_dir, volume_id)
    try:
        linked = os.stat(link)
    except OSError as error:
        raise WrongDevice(
            f"{link}: {error.strerror}; {device.path} cannot be told to be {volume_id}"
        ) from error
    if linked.st_rdev != os.makedev(device.major, device.minor):
        raise WrongDevice(f"{device.path} is not {volume_id}: {link} is another device")
    serial = serial_of(device)
    if serial is not None and serial.startswith("vol") and serial != volume_id.replace("-", ""):
        raise WrongDevice(f"{device.path} carries the serial {serial}, not that of {volume_id}")


def read_superblock(path: str) -> Superblock:
    """Recognise XFS, ext4, LVM and md members by their first 8 KiB. Raises NoFilesystem when it is none of them."""
    head = head_of(path)
    if head[:4] == b"XFSB":
        block_bytes, blocks = struct.unpack_from(">IQ", head, 4)
        group_blocks = struct.unpack_from(">I", head, 84)[0]
        return Superblock("xfs", _uuid(head[32:48]), block_bytes, blocks, group_blocks)
    if head[_EXT_MAGIC_OFFSET : _EXT_MAGIC_OFFSET + 2] == b"\x53\xef":
        return Superblock("ext4", _uuid(head[1024 + 104 : 1024 + 120]), *_ext_geometry(head[1024:]))
    for sector in range(4):
        if head[sector * 512 : sector * 512 + 8] == b"LABELONE":
            return Superblock("lvm_member", _lvm_uuid(head[sector * 512 :]))
    if head[4096:4100] == b"\xfc\x4e\x2b\xa9":
        return Superblock("md_member", _uuid(head[4096 + 16 : 4096 + 32]))
    raise NoFilesystem(f"{path} carries no superblock of XFS, ext4, LVM or md")


def _lvm_uuid(label: bytes) -> str:
    """Formats a uuid as LVM prints it: groups of 6, 4, 4, 4, 4, 4 and 6 (struct label_header, struct pv_header)."""
    start = struct.unpack_from("<I", label, 20)[0]
    text = label[start : start + 32].decode("ascii", "replace")
    cuts = (0, 6, 10, 14, 18, 22, 26, 32)
    return "-".join(text[low:high] for low, high in zip(cuts, cuts[1:]))


def label_of(path: str) -> str:
    try:
        return read_superblock(path).uuid
    except NoFilesystem:
        return ""


def head_of(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, 8192, 0).ljust(8192, b"\0")
    finally:
        os.close(descriptor)


def _ext_geometry(head: bytes) -> Tuple[int, int]:
    low, log_block = struct.unpack_from("<I", head, 4)[0], struct.unpack_from("<I", head, 24)[0]
    has_64_bit = struct.unpack_from("<I", head, 96)[0] & _EXT_64_BIT
    high = struct.unpack_from("<I", head, 0x150)[0] if has_64_bit else 0
    if log_block > EXT_BLOCK_BITS_AT_MOST:
        raise NoFilesystem(f"the superblock of ext4 is damaged: blocks of 2^{10 + log_block} bytes")
    return 1024 << log_block, (high << 32) | low


def disk_counters(name: str) -> Dict[str, int]:
    """One device's line of /proc/diskstats, named (kernel document iostats.rst; times in ms, sectors of 512 B)."""
    with open("/proc/diskstats", encoding="ascii", errors="replace") as file:
        columns = next((columns for columns in map(str.split, file) if columns[2] == name), None)
    if columns is None:
        raise WrongDevice(f"{name} is not in /proc/diskstats")
    numbers = [int(column) for column in columns[3:14]]
    return {
        "reads": numbers[0],
        "read_bytes": numbers[2] * _SECTOR_BYTES,
        "read_ms": numbers[3],
        "writes": numbers[4],
        "write_bytes": numbers[6] * _SECTOR_BYTES,
        "write_ms": numbers[7],
        "busy_ms": numbers[9],
        "weighted_ms": numbers[10],
    }


def _uuid(raw: bytes) -> str:
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _unescaped(text: str) -> str:
    """The kernel writes spaces and the like as three octal digits."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text
