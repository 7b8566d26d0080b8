"""Leaves a database that starts while the last urgent blocks are read the room to do so.

Those are read within a minute, so that it is not waited for what the volume gives (as room.py does): the engine keeps
a share of what it has got so far. What the server reads first is warm by then, and waits behind nothing.
"""

from __future__ import annotations

import threading
import time
from typing import Callable

from peaker_host.beside.room import LEAST_SHARE

_POLL_SECONDS = 0.1
# The first reads of a cold volume say little of its rate.
_MEASURED_SECONDS = 0.5


class RoomForStart:
    """`delivered`: bytes that the engine has got so far; `hold` is told once, from a thread: bytes a second."""

    def __init__(
        self,
        is_at_work: Callable[[], bool],
        delivered: Callable[[], int],
        hold: Callable[[float], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_at_work = is_at_work
        self._delivered = delivered
        self._hold = hold
        self._now = now

    def watch(self, ended: threading.Event) -> None:
        """Watches until a database works and the engine's share is known, or until `ended`."""
        began, before = self._now(), self._delivered()
        while not ended.wait(_POLL_SECONDS):
            seconds, got = self._now() - began, self._delivered() - before
            if seconds >= _MEASURED_SECONDS and got > 0 and self._is_at_work():
                self._hold(LEAST_SHARE * got / seconds)
                return
