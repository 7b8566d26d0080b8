"""Timed reads measure single reads around every cache."""

from __future__ import annotations

import mmap
import os
import time
from typing import List, Optional, Sequence

PAGE_BYTES = 16384
"""A page of InnoDB, by default."""
_ZEROS = bytes(PAGE_BYTES)


def read_latencies_ms(
    path: str, offsets: Sequence[int], contents: Optional[List[bool]] = None
) -> List[float]:
    """Time of one direct read of 16 KiB at each offset, one after the other; `contents`: which held data."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    buffer = mmap.mmap(-1, PAGE_BYTES)
    view = memoryview(buffer)
    latencies = []
    try:
        for offset in offsets:
            started = time.perf_counter_ns()
            os.preadv(descriptor, [view], offset)
            latencies.append((time.perf_counter_ns() - started) / 1e6)
            if contents is not None:
                contents.append(view != _ZEROS)
    finally:
        view.release()
        buffer.close()
        os.close(descriptor)
    return latencies
