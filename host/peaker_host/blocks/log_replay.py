"""Replays a filesystem's log and reads the kernel's list of free extents, before any map of it is used.

A snapshot of a filesystem in use holds its latest changes in its log only: a debugger that reads the device shows the
maps of some seconds ago. Mounting replays the log, as the database's own start would do later. It happens in a mount
namespace of its own, which nobody else sees and which ends with the process.

The kernel's list of free extents is FS_IOC_GETFSMAP (ioctl_getfsmap(2), Linux 4.12; XFS and ext4).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import struct
import sys
from typing import Any, Dict, List, Optional, Tuple

from peaker_host.blocks.ranges import Range, complement
from peaker_host.machine.devices import describe_device, mount_points, read_mounts
from peaker_host.machine.errors import CommandFailed, LogNotReplayed, ToolMissing
from peaker_host.machine.files import open_lock_file
from peaker_host.machine.manifest import Member
from peaker_host.machine.processes import Processes, package_place
from peaker_host.machine.settings import Settings

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


def replay_log(
    settings: Settings, processes: Processes, run_id: str, member: Member
) -> Optional[List[Range]]:
    """Replays a volume's log by mounting it; returns the used byte ranges, None where the kernel has no map.

    A volume that is mounted at its place is only asked: its log was replayed. Raises LogNotReplayed when the
    filesystem cannot be mounted, ToolMissing without `mount`.
    """
    device = describe_device(member.path)
    if member.mount_point in mount_points(device):
        with contextlib.suppress(OSError):
            return complement(free_ranges(member.mount_point), device.size_bytes)
        return None
    place = settings.run_path(run_id, f"replay-{member.volume_id}")
    os.makedirs(place, mode=0o700, exist_ok=True)
    argv = [sys.executable or "python3", "-c", _PROGRAM, package_place()]
    argv += [os.path.realpath(member.path), place, member.filesystem, settings.state_path(_LOCK)]
    try:
        said = processes.run(argv, timeout_seconds=_TIMEOUT_SECONDS).stdout
        answer: Dict[str, Any] = json.loads(said.splitlines()[-1])
    except (CommandFailed, ValueError, IndexError) as error:
        raise LogNotReplayed(f"{member.name}: the log of {member.path} was not replayed: {error}") from error
    if answer["error"] == "ToolMissing":
        raise ToolMissing(answer["message"])
    if answer["error"]:
        raise LogNotReplayed(f"{member.name}: {member.path} cannot be mounted: {answer['message']}")
    if answer["free"] is None:
        return None
    return complement([(start, length) for start, length in answer["free"]], device.size_bytes)


def await_replays(settings: Settings) -> None:
    """Waits until no replay of a killed engine is under way on this host."""
    with open_lock_file(settings.state_path(_LOCK)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def free_ranges(mount_point: str) -> List[Range]:
    """Free byte ranges of a mounted filesystem, by the kernel. Raises OSError where it cannot say."""
    free: List[Range] = []
    low: Tuple[int, ...] = (0, 0, 0, 0, 0, 0, 0, 0, 0)
    high = (2**32 - 1, 2**32 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1, 0, 0, 0, 0)
    descriptor = os.open(mount_point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
    fcntl.ioctl(descriptor, _GETFSMAP, buffer)
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
    answer: Dict[str, Any] = {"error": "", "message": "", "free": None}
    try:
        with open_lock_file(lock_path) as lock:
            # Several volumes at once; a command that waits for all of them takes it alone.
            fcntl.flock(lock, fcntl.LOCK_SH)
            _enter_own_namespace(place)
            _run(["mount", "-t", kind, "-o", MOUNT_OPTIONS[kind], device, place])
            try:
                with contextlib.suppress(OSError):
                    answer["free"] = free_ranges(place)
            finally:
                _run(["umount", place])
    except ToolMissing as error:
        answer.update(error="ToolMissing", message=str(error))
    except (OSError, CommandFailed) as error:
        answer.update(error="LogNotReplayed", message=str(error))
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
