"""Leaves a database the room that was decided, as long as a volume is read."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

from peaker_host.beside.looks import VolumeLooks
from peaker_host.beside.room import WINDOW_SECONDS, Room, decide
from peaker_host.beside.watcher import watched
from peaker_host.blocks.ranges import Range

_MIB = 1024 * 1024


class LeavingRoom:
    """Looks, decides and has it held, once a window. `hold` is told of what has changed, from a thread of its own."""

    def __init__(self, looks: VolumeLooks, hold: Callable[[Room], None]) -> None:
        self._looks = looks
        self._hold = hold
        self._room = Room()
        self._alone_ms: Optional[float] = None

    def look_alone(self, warm: Sequence[Range]) -> None:
        """While the engine reads nothing, and no database is at work; `warm` are blocks that were read."""
        self._alone_ms = self._looks.alone_ms(warm)

    @contextlib.contextmanager
    def left(self) -> Iterator[None]:
        """While the volume is read."""
        with watched(self._watch):
            yield

    def window(self, stop: threading.Event) -> None:
        """One look and what follows from it."""
        before, look = self._room, self._looks.look(stop)
        if stop.is_set():
            return
        if self._alone_ms is not None and look.await_ms is not None:
            # No read is faster beside the engine than without it: what was timed then was the host's noise.
            self._alone_ms = min(self._alone_ms, look.await_ms)
        self._room = decide(before, look, self._alone_ms)
        if (self._room.share, self._room.readers) != (before.share, before.readers):
            self._hold(self._room)

    def progress(self) -> Optional[Dict[str, Any]]:
        """Returns the engine's report of held-back reads; None where it was never held back. Times in seconds
        and ms, rates in MiB/s.
        """
        room = self._room
        if not room.held_windows:
            return None
        limit = room.bytes_per_s
        return {
            "limit_mib_per_s": None if limit is None else round(limit / _MIB, 1),
            "full_mib_per_s": round(room.full_bytes_per_s / _MIB, 1),
            "held_seconds": round(room.held_windows * WINDOW_SECONDS),
            "await_alone_ms": None if self._alone_ms is None else round(self._alone_ms, 2),
            "await_slowest_ms": round(room.slowest_ms, 2),
            "reason": room.reason,
        }

    def told(self) -> str:
        """One clause for people; empty where the engine was never held back."""
        seen = self.progress()
        return "" if seen is None else f"held back for {seen['held_seconds']} s ({seen['reason']})"

    def _watch(self, ended: threading.Event) -> None:
        while not ended.is_set():
            self.window(ended)
