"""A snapshot as a file that programs can read before it is on the volume: what they read is brought there first.

Filesystem debuggers find the hot blocks by reading a few per cent of a volume, here and there. The file is a FUSE mount
of its own (linux/fuse.h, protocol 7.23; any kernel since 2014), read-only; what is read of it goes through
`FilledVolume.content`, so that nothing is fetched twice.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import struct
import threading
from types import TracebackType
from typing import Callable, Dict, List, Optional, Tuple, Type

from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.machine.errors import HostError, ToolMissing

Content = Callable[[int, memoryview], None]
"""Puts a block's content into an aligned buffer."""

_DEVICE = "/dev/fuse"
_READERS = 16
_REQUEST_BYTES = 128 * 1024
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MNT_DETACH = 1, 2, 4, 2
_IN = struct.Struct("=IIQQIIII")
_OUT = struct.Struct("=IiQ")
_READ = struct.Struct("=QQI")
_ATTRIBUTES = struct.Struct("=6Q10I")
_ROOT = 1
_GETATTR, _OPEN, _READ_CODE, _STATFS, _RELEASE, _FLUSH, _INIT, _ACCESS = 3, 14, 15, 17, 18, 25, 26, 34
_FORGET, _BATCH_FORGET, _INTERRUPT = 2, 42, 36
_UNANSWERED = (_FORGET, _BATCH_FORGET, _INTERRUPT)
_MAJOR, _MINOR = 7, 23
_READ_AHEAD_BYTES = 128 * 1024
_FOR_EVER_SECONDS = 3600
_LETS_GO_SECONDS = 10.0


class SnapshotFile:
    """A context manager; `path` can be read while it is open. What cannot be fetched is an input/output error there;
    `failure` keeps why."""

    def __init__(self, path: str, size_bytes: int, content: Content) -> None:
        self.path = path
        self.failure: Optional[HostError] = None
        self._size = size_bytes
        self._content = content
        self._threads: List[threading.Thread] = []
        self._descriptor = -1

    def __enter__(self) -> "SnapshotFile":
        """Raises ToolMissing where this kernel has no FUSE or does not let it be mounted."""
        detach(self.path)
        open(self.path, "ab").close()
        try:
            self._descriptor = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
            options = f"fd={self._descriptor},rootmode={stat.S_IFREG:o},user_id=0,group_id=0"
            _mount("peaker-fill", self.path, options)
        except OSError as error:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            raise ToolMissing(
                f"this kernel shows no file of ours (FUSE): {error.strerror or error}"
            ) from error
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(_READERS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        detach(self.path)
        for thread in self._threads:
            thread.join(_LETS_GO_SECONDS)
        os.close(self._descriptor)

    def _serve(self) -> None:
        """Answer until the file is taken away (ENODEV)."""
        with mmap.mmap(-1, BLOCK_BYTES) as buffer, memoryview(buffer) as view:
            while True:
                try:
                    request = os.read(self._descriptor, _REQUEST_BYTES + 4096)
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                        continue  # taken back before it was read
                    return
                code, unique, body = parse_request(request)
                if code in _UNANSWERED:
                    continue
                failed, answer = self._answer(code, body, view)
                self._reply(unique, failed, answer)

    def _reply(self, unique: int, failed: int, answer: bytes) -> None:
        head = _OUT.pack(_OUT.size + len(answer), -failed, unique)
        try:
            os.writev(self._descriptor, [head, answer])
        except OSError as error:
            # Whoever asked was interrupted, or the file is being taken away.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise

    def _answer(self, code: int, body: bytes, view: memoryview) -> Tuple[int, bytes]:
        """(errno or 0, content)"""
        if code == _READ_CODE:
            _, offset, size = _READ.unpack_from(body)
            try:
                return 0, self._bytes(offset, size, view)
            except HostError as error:
                # Without its frames, which hold the reader's buffer.
                self.failure = type(error)(str(error))
            except OSError as error:
                self.failure = HostError(f"{self.path}: {error}")
            return errno.EIO, b""
        known = self._fixed_answers()
        return (0, known[code]) if code in known else (errno.ENOSYS, b"")

    def _fixed_answers(self) -> Dict[int, bytes]:
        sectors = -(-self._size // 512)
        mode = stat.S_IFREG | 0o400
        attributes = _ATTRIBUTES.pack(_ROOT, self._size, sectors, *[0] * 6, mode, 1, 0, 0, 0, 4096, 0)
        sizes = struct.pack(
            "=IIIIHHIIHHI", _MAJOR, _MINOR, _READ_AHEAD_BYTES, 0, _READERS, _READERS, 4096, 1, 0, 0, 0
        )
        return {
            _INIT: sizes.ljust(64, b"\0"),
            _GETATTR: struct.pack("=QII", _FOR_EVER_SECONDS, 0, 0) + attributes,
            _OPEN: struct.pack("=QII", 1, 0, 0),
            _STATFS: struct.pack("=5Q4I", 0, 0, 0, 1, 0, 4096, 255, 4096, 0).ljust(80, b"\0"),
            _RELEASE: b"",
            _FLUSH: b"",
            _ACCESS: b"",
        }

    def _bytes(self, offset: int, size: int, view: memoryview) -> bytes:
        end, parts = min(offset + size, self._size), []
        while offset < end:
            index, within = divmod(offset, BLOCK_BYTES)
            length = min(end - offset, BLOCK_BYTES - within)
            self._content(index, view)
            parts.append(bytes(view[within : within + length]))
            offset += length
        return b"".join(parts)


def parse_request(request: bytes) -> Tuple[int, int, bytes]:
    """(operation, unique, body) of what the kernel sends."""
    _, code, unique, *_ = _IN.unpack_from(request)
    return code, unique, request[_IN.size :]


def detach(path: str) -> None:
    """Take a mount away, also that of an engine that was killed; nothing where there is none."""
    library = ctypes.CDLL(None, use_errno=True)
    while library.umount2(os.fsencode(path), _MNT_DETACH) == 0:
        pass


def _mount(source: str, target: str, options: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    done = library.mount(
        source.encode(), os.fsencode(target), b"fuse", ctypes.c_ulong(flags), options.encode()
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
