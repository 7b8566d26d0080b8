"""Warms an empty volume by writing: where the first write of a block is what is slow (instance store, new volumes).

Only a volume of zeros is written to, and only with zeros: each block is read, compared and then written, so that
not a byte is lost even where something was overlooked. The device is held exclusively meanwhile. It needs the
host's own consent, `warm_empty_by_writing` in host.json.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, List

from peaker_host.blocks.ranges import BLOCK_BYTES, blocks_of_bytes
from peaker_host.machine.devices import (
    BlockDevice,
    by_id_path,
    describe_device,
    refuse_if_not_volume,
    refuse_if_used,
)
from peaker_host.machine.errors import DeviceNotEmpty, ReadErrors, WritingNotAllowed
from peaker_host.machine.settings import Settings
from peaker_host.warm.journal import Journal
from peaker_host.warm.reader_pool import (
    LARGEST_READ_BLOCKS,
    FailedRange,
    RateLimiter,
    ReaderPool,
    requests_of,
)

MIB = 1024 * 1024
_ZEROS = bytes(LARGEST_READ_BLOCKS * BLOCK_BYTES)


class ZeroWritingPool(ReaderPool):
    """Reads each request, refuses what is not zeros, and writes the zeros back."""

    open_flags = os.O_RDWR | os.O_EXCL

    def _read_fully(self, view: memoryview, offset: int, length: int) -> None:
        super()._read_fully(view, offset, length)
        if view[:length] != _ZEROS[:length]:
            raise DeviceNotEmpty(
                f"bytes {offset} to {offset + length - 1} are not all zeros: nothing is written"
            )
        done = 0
        while done < length:
            done += os.pwritev(self._descriptor, [view[done:length]], offset + done)


def warm_by_writing(
    settings: Settings, volume_id: str, rate_limit_mib_per_s: float, say: Callable[[str], None]
) -> Dict[str, Any]:
    """Write zeros over a volume of zeros; resumes where an earlier call ended.

    Raises WritingNotAllowed, WrongDevice, DeviceInUse, DeviceNotEmpty (nothing but zeros was written before it), or
    ReadErrors.
    """
    if not settings.warm_empty_by_writing:
        raise WritingNotAllowed(
            "set warm_empty_by_writing to true in host.json to let empty volumes be written"
        )
    device = describe_device(by_id_path(settings.by_id_dir, volume_id))
    refuse_if_not_volume(device, volume_id, settings.by_id_dir)
    refuse_if_used(device, "")
    _refuse_signature(device)
    blocks = (device.size_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES
    journal = Journal(
        os.path.join(settings.state_dir, "journals", f"{volume_id}.written"), volume_id, "empty", blocks
    )
    try:
        before = journal.done.count
        failed = _write_all(device, journal, rate_limit_mib_per_s)
        written = journal.done.count - before
    finally:
        journal.close()
    if failed:
        raise ReadErrors(f"could not be written: blocks {', '.join(str(one.first_block) for one in failed)}")
    say(f"{volume_id}: {written} blocks of zeros written, {before} were written before")
    return {"blocks_written": written, "blocks_total": blocks, "blocks_written_before": before}


def _write_all(device: BlockDevice, journal: Journal, rate_limit_mib_per_s: float) -> List[FailedRange]:
    limiter = RateLimiter(rate_limit_mib_per_s * MIB)
    stop = threading.Event()
    pool = ZeroWritingPool(device.path, device.size_bytes, 1, limiter, journal.append, stop)
    everything = blocks_of_bytes([(0, device.size_bytes)])
    pool.run(requests_of([everything], journal.done.__contains__, pool.blocks_per_read))
    return pool.progress.failed


def _refuse_signature(device: BlockDevice) -> None:
    """Refuses a device with the signature of a filesystem, array, LVM or partition table at either end,
    before the first write.
    """
    descriptor = os.open(device.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for offset in (0, max(0, device.size_bytes - MIB)):
            if os.pread(descriptor, MIB, offset).strip(b"\0"):
                raise DeviceNotEmpty(f"{device.path} has data near byte {offset}")
    finally:
        os.close(descriptor)
