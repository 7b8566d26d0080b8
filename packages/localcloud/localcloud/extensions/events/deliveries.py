"""How many deliveries of events are at work, so that schedules do not fire faster than the machine delivers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class DeliveriesAtWork:
    """A count that threads share. A delivery that pauses before its next attempt is not at work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def begin(self) -> None:
        """A delivery is at work from now until `end`."""
        with self._lock:
            self.count += 1

    def end(self) -> None:
        """It was delivered, given up, or pauses."""
        with self._lock:
            self.count -= 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The pause of one delivery between two attempts."""
        self.end()
        try:
            yield
        finally:
            self.begin()
