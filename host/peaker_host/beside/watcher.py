"""Watches something, in a thread of its own, for as long as a volume is read."""

from __future__ import annotations

import contextlib
import threading
from typing import Callable, Iterator


@contextlib.contextmanager
def watched(watch: Callable[[threading.Event], None]) -> Iterator[None]:
    """`watch` returns soon after its event is set, which happens at the end of the block."""
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
