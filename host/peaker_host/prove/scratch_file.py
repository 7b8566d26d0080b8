"""A file to write to for a search with writes, and the device that it lies on."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Iterator

from peaker_host.machine.devices import BlockDevice, describe_device, kernel_name
from peaker_host.machine.errors import InvalidArgument, WrongDevice

_MIB = 1024 * 1024
_FREE_SPACE_FACTOR = 2


@contextlib.contextmanager
def scratch_file(directory: str, size_bytes: int) -> Iterator[str]:
    """A new file filled with data, so that no write is a first write; removed in the end, whatever happens."""
    room = os.statvfs(directory)
    if room.f_bavail * room.f_frsize < size_bytes * _FREE_SPACE_FACTOR:
        raise InvalidArgument(
            f"{directory} has {room.f_bavail * room.f_frsize // _MIB} MiB free; "
            f"a scratch file of {size_bytes // _MIB} MiB needs twice its size"
        )
    path = os.path.join(directory, f".peaker-knee-{os.getpid()}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror} (direct I/O is needed)") from error
    try:
        _fill(descriptor, size_bytes)
        os.fsync(descriptor)
        os.close(descriptor)
        yield path
    finally:
        os.unlink(path)


def readable_device(path: str) -> BlockDevice:
    try:
        return describe_device(path)
    except PermissionError as error:
        raise WrongDevice(f"{path} may not be read by this user: run as root") from error


def device_under(directory: str) -> BlockDevice:
    try:
        number = os.stat(directory).st_dev
    except OSError as error:
        raise InvalidArgument(f"{directory}: {error.strerror}") from error
    if not os.path.isdir(directory):
        raise InvalidArgument(f"{directory} is not a directory: the scratch file is made in one")
    if os.major(number) == 0:
        raise InvalidArgument(
            f"{directory} lies on no block device (tmpfs, overlay, btrfs or a network filesystem)"
        )
    name = kernel_name(os.major(number), os.minor(number))
    return readable_device(os.path.join("/dev", name.replace("!", "/")))


def _fill(descriptor: int, size_bytes: int) -> None:
    buffer = mmap.mmap(-1, _MIB)
    buffer.write(os.urandom(_MIB))
    try:
        for offset in range(0, size_bytes, _MIB):
            os.pwrite(descriptor, buffer, offset)
    finally:
        buffer.close()
