"""Replays a filesystem's log and reads which of its bytes are used, by the kernel's list of free extents.

A snapshot of a filesystem in use holds its latest changes in its log only: a debugger that reads the device shows the
maps of some seconds ago. Mounting replays the log, as the database's own start would do later. It happens in a mount
namespace of its own, which nobody else sees and which ends with the process.

`mount_blocks` are what a mount reads one after the other: the log, and the head of each group. Read beforehand and many
at once they cost a cold volume's replay what its throughput allows instead of a fetch each. A larger log of XFS is
searched for its end here and there: of that a page of each block is read. What is missing the mount reads itself.
Offsets are those of xfs_dsb (xfs_format.h) and ext4_super_block (ext4.h).

The kernel's list of free extents is FS_IOC_GETFSMAP (ioctl_getfsmap(2), Linux 4.12; XFS and ext4).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, complement, intersection
from peaker_host.machine.devices import (
    EXT_BLOCK_BITS_AT_MOST,
    describe_device,
    head_of,
    mount_points,
    read_mounts,
)
from peaker_host.machine.errors import CommandFailed, HostError, LogNotReplayed
from peaker_host.machine.files import open_lock_file
from peaker_host.machine.manifest import Member
from peaker_host.machine.settings import Machine, Processes, Settings, package_place

MOUNT_OPTIONS = {"xfs": "nouuid,noatime", "ext4": "noatime,noinit_itable"}
_LOCK = "replay.lock"
_TIMEOUT_SECONDS = 900.0
_CLONE_NEWNS = 0x00020000
_MNT_DETACH = 2
# Where programs and libraries may lie, and what the kernel shows.
_NEEDED = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/dev", "/proc", "/sys", sys.prefix)
_GETFSMAP = 0xC0C0583B
_RECORDS = 4096
_RECORD = struct.Struct("=IIQQQQ3Q")
_SPECIAL_OWNER = 0x10
_LAST = 0x20
# FMR_OWN_FREE (linux/fsmap.h).
_FREE_OWNER = 1
_PROGRAM = "import sys;sys.path.insert(0,sys.argv[1]);from peaker_host.blocks.log_replay import main;main(sys.argv[2:])"


def replay_log(machine: Machine, run_id: str, member: Member) -> List[Range]:
    """Replays a volume's log by mounting it; returns the used byte ranges.

    A volume that is mounted at its place is only asked: its log was replayed. Raises LogNotReplayed.
    """
    device = describe_device(member.path)
    if member.mount_point in mount_points(device):
        return complement(free_ranges(member.mount_point), device.size_bytes)
    place = machine.run_path(run_id, f"replay-{member.volume_id}")
    os.makedirs(place, mode=0o700, exist_ok=True)
    argv = [sys.executable or "python3", "-c", _PROGRAM, package_place()]
    argv += [os.path.realpath(member.path), place, member.filesystem, machine.state_path(_LOCK)]
    try:
        said = machine.processes.run(argv, timeout_seconds=_TIMEOUT_SECONDS).stdout
        answer: Dict[str, Any] = json.loads(said.splitlines()[-1])
    except (CommandFailed, ValueError, IndexError) as error:
        raise LogNotReplayed(f"{member.name}: the log of {member.path} was not replayed: {error}") from error
    if answer["error"]:
        raise LogNotReplayed(
            f"{member.name}: {member.path} cannot be mounted and its free extents listed: {answer['error']}"
        )
    return complement([(start, length) for start, length in answer["free"]], device.size_bytes)


def await_replays(settings: Settings) -> None:
    """Waits until no replay of a killed engine is under way on this host."""
    with open_lock_file(settings.state_path(_LOCK)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def free_ranges(mount_point: str) -> List[Range]:
    """Free byte ranges of a mounted filesystem, by the kernel. Raises LogNotReplayed where it cannot say."""
    free: List[Range] = []
    low: Tuple[int, ...] = (0, 0, 0, 0, 0, 0, 0, 0, 0)
    high = (2**32 - 1, 2**32 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1, 0, 0, 0, 0)
    try:
        descriptor = os.open(mount_point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LogNotReplayed(f"{mount_point} cannot be opened: {error}") from error
    try:
        own_device = _encoded(os.fstat(descriptor).st_dev)
        while True:
            records = _query(descriptor, low, high)
            # A log or realtime device of XFS has records of its own.
            free += [
                (one[2], one[5])
                for one in records
                if one[0] == own_device and one[1] & _SPECIAL_OWNER and one[3] == _FREE_OWNER
            ]
            if not records or records[-1][1] & _LAST:
                return free
            low = records[-1]
    finally:
        os.close(descriptor)


def _query(descriptor: int, low: Tuple[int, ...], high: Tuple[int, ...]) -> List[Tuple[int, ...]]:
    """The next records behind `low`: (device, flags, physical, owner, offset, length, reserved)."""
    head = struct.pack("=IIII6Q", 0, 0, _RECORDS, 0, *[0] * 6)
    buffer = bytearray(head + _RECORD.pack(*low) + _RECORD.pack(*high) + bytes(_RECORDS * _RECORD.size))
    try:
        fcntl.ioctl(descriptor, _GETFSMAP, buffer)
    except OSError as error:
        raise LogNotReplayed(f"the kernel does not list free extents, as Linux 4.12 does: {error}") from error
    start = len(head) + 2 * _RECORD.size
    entries = struct.unpack_from("=I", buffer, 12)[0]
    return [_RECORD.unpack_from(buffer, start + number * _RECORD.size) for number in range(entries)]


def _encoded(device: int) -> int:
    """A device number as the kernel writes it into 32 bits (new_encode_dev)."""
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)


def main(argv: List[str]) -> None:
    """Replays in the process of the namespace: DEVICE PLACE KIND LOCK. Prints one JSON line."""
    device, place, kind, lock_path = argv
    answer: Dict[str, Any] = {"error": ""}
    try:
        with open_lock_file(lock_path) as lock:
            # Several volumes at once; a command that waits for all of them takes it alone.
            fcntl.flock(lock, fcntl.LOCK_SH)
            _enter_own_namespace(place)
            _run(["mount", "-t", kind, "-o", MOUNT_OPTIONS[kind], device, place])
            try:
                answer["free"] = free_ranges(place)
            finally:
                _run(["umount", place])
    except (OSError, HostError) as error:
        answer["error"] = str(error)
    print(json.dumps(answer, separators=(",", ":")))


def _enter_own_namespace(place: str) -> None:
    """Enters a mount namespace, so that no mount shows outside and no copy holds on to foreign mounts."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNS) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no mount namespace: {os.strerror(number)}")
    _run(["mount", "--make-rslave", "/"])
    for mount in reversed(read_mounts()):
        on_block_device = not mount.device.startswith("0:")
        if on_block_device and not any(_is_below(path, mount.point) for path in (place, *_NEEDED)):
            library.umount2(mount.point.encode(), _MNT_DETACH)


def _is_below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/") or point.startswith(path + "/")


def _run(argv: List[str]) -> None:
    Processes().run(argv, timeout_seconds=_TIMEOUT_SECONDS)


_EXTENT_MAGIC = 0xF30A
_GROUPS_AT_MOST = 65536
# s_log_groups_per_flex is below 32.
_FLEX_BITS_AT_MOST = 31
# Of a larger log a mount reads a small part; the hot blocks should not wait for the rest.
_LOG_BYTES_AT_MOST = 16 * 1024 * 1024
# 256 fetches, a quarter of a second where 32 of 30 ms are under way: the search of a larger one takes no longer.
_TOUCHED_LOG_BYTES_AT_MOST = 128 * 1024 * 1024

_ByteRange = Tuple[int, int]


@dataclass(frozen=True)
class MountBlocks:
    """Block ranges: `whole` are read, of each block of `touched` a page."""

    whole: Sequence[Range] = ()
    touched: Sequence[Range] = ()


def mount_blocks(kind: str, path: str, size_bytes: int) -> MountBlocks:
    """Returns the blocks that a mount of an XFS or ext4 volume reads; nothing for another kind."""
    head = head_of(path)
    whole: List[_ByteRange] = []
    touched: List[_ByteRange] = []
    if kind == "xfs" and head[:4] == b"XFSB":
        whole, touched = _of_xfs(head)
    elif kind == "ext4" and head[1024 + 56 : 1024 + 58] == b"\x53\xef":
        whole = _of_ext4(head[1024:])
    device = blocks_of_bytes([(0, size_bytes)])
    return MountBlocks(
        intersection(blocks_of_bytes(whole), device), intersection(blocks_of_bytes(touched), device)
    )


def _of_xfs(head: bytes) -> Tuple[List[_ByteRange], List[_ByteRange]]:
    block_bytes = struct.unpack_from(">I", head, 4)[0]
    log_start = struct.unpack_from(">Q", head, 48)[0]
    group_blocks, groups = struct.unpack_from(">II", head, 84)
    log_blocks = struct.unpack_from(">I", head, 96)[0]
    group_bits = head[124]
    found = [
        (group * group_blocks * block_bytes, BLOCK_BYTES) for group in range(min(groups, _GROUPS_AT_MOST))
    ]
    log_bytes = log_blocks * block_bytes
    if not log_start or log_bytes > _TOUCHED_LOG_BYTES_AT_MOST:
        return found, []
    group, within = log_start >> group_bits, log_start & ((1 << group_bits) - 1)
    log = ((group * group_blocks + within) * block_bytes, log_bytes)
    return ([*found, log], []) if log_bytes <= _LOG_BYTES_AT_MOST else (found, [log])


def _of_ext4(head: bytes) -> List[_ByteRange]:
    block_bits = struct.unpack_from("<I", head, 24)[0]
    if block_bits > EXT_BLOCK_BITS_AT_MOST or head[0x174] > _FLEX_BITS_AT_MOST:
        return []
    block_bytes = 1024 << block_bits
    groups_bytes = struct.unpack_from("<I", head, 32)[0] * block_bytes << head[0x174]
    blocks = struct.unpack_from("<I", head, 4)[0]
    groups = min(blocks * block_bytes // max(groups_bytes, 1) + 1, _GROUPS_AT_MOST)
    # Descriptors lie at the start, bitmaps at the start of each flexible group.
    found = [(group * groups_bytes, BLOCK_BYTES) for group in range(groups)]
    # The superblock keeps a copy of the journal inode's i_block.
    magic, entries, _, depth = struct.unpack_from("<HHHH", head, 0x10C)
    if magic == _EXTENT_MAGIC and depth == 0:
        for number in range(min(entries, 4)):
            length, high, low = struct.unpack_from("<HHI", head, 0x10C + 12 + number * 12 + 4)
            if length * block_bytes <= _LOG_BYTES_AT_MOST:
                found.append((((high << 32) | low) * block_bytes, length * block_bytes))
    return found
