"""How many requests a second are sent: fewer after each throttling, slowly more again. Pure but for `wait`."""

from __future__ import annotations

import threading
import time
from typing import Callable

# GetSnapshotBlock: 1,000 a second and snapshot (EBS user guide, quotas). A tenth is left to others.
REQUESTS_PER_SECOND = 900.0
_LEAST_PER_SECOND = 10.0
_AFTER_THROTTLING = 0.7
_GAIN_SHARE_PER_SECOND = 0.02
# Throttlings of one moment are one: all readers are refused at once.
_ONE_MOMENT_SECONDS = 0.5
_BURST_SECONDS = 0.1


class RequestPace:
    """Additive increase, multiplicative decrease. Times in seconds; safe to use from several threads."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._ceiling = self._rate = per_second
        self._now = now
        self._lock = threading.Lock()
        self._next = self._changed = now()
        self._throttled_at = -_ONE_MOMENT_SECONDS
        self.throttled = 0

    @property
    def per_second(self) -> float:
        """The rate of now."""
        return self._rate

    def turn(self) -> float:
        """Seconds until this request may be sent."""
        with self._lock:
            now = self._now()
            gained = (now - self._changed) * _GAIN_SHARE_PER_SECOND * self._ceiling
            self._rate, self._changed = min(self._ceiling, self._rate + gained), now
            self._next = max(self._next, now - _BURST_SECONDS) + 1 / self._rate
            return max(0.0, self._next - now)

    def refused(self) -> None:
        """A request was throttled."""
        with self._lock:
            now = self._now()
            self.throttled += 1
            if now - self._throttled_at >= _ONE_MOMENT_SECONDS:
                self._throttled_at = now
                self._rate = max(_LEAST_PER_SECOND, self._rate * _AFTER_THROTTLING)

    def wait(self, stopped: threading.Event) -> None:
        """Until it is this request's turn, or the engine is stopped."""
        seconds = self.turn()
        if seconds > 0:
            stopped.wait(seconds)
