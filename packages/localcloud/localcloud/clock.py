"""The cloud clock: one time for workflows, schedules, alarms, metrics and functions, that may run fast.

`cloud_now = anchor_cloud + (real_now - anchor_real) * scale`, in epoch seconds. The three numbers live in
a small JSON file, written atomically, so that other processes (Lambda workers) read the same clock from the
path in PEAKER_CLOCK_FILE.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

MAX_SCALE = 100_000.0


@dataclass(frozen=True)
class ClockAnchor:
    """A point where both clocks are known, in epoch seconds, and cloud seconds per real second since."""

    anchor_real: float
    anchor_cloud: float
    scale: float

    def cloud_at(self, real_epoch: float) -> float:
        return self.anchor_cloud + (real_epoch - self.anchor_real) * self.scale


class CloudClock:
    """A clock that runs `scale` times as fast as the real one and can be set; every waiter follows changes."""

    def __init__(
        self, path: Path | None = None, scale: float = 1.0, real_now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._real_now = real_now
        self._changed = threading.Condition()
        now = real_now()
        self._anchor = ClockAnchor(now, now, _checked_scale(scale))
        self._write()

    @property
    def scale(self) -> float:
        """Cloud seconds per real second."""
        return self._anchor.scale

    def epoch(self) -> float:
        """Cloud time in epoch seconds."""
        return self._anchor.cloud_at(self._real_now())

    def now(self) -> datetime:
        """Cloud time, aware, UTC."""
        return datetime.fromtimestamp(self.epoch(), tz=UTC)

    def real_seconds(self, cloud_seconds: float) -> float:
        """How long `cloud_seconds` last on the wall clock at the present scale."""
        return cloud_seconds / self._anchor.scale

    def set(self, *, scale: float | None = None, now: datetime | None = None) -> None:
        """Change the speed, the time, or both; cloud time stays continuous unless `now` is given.

        Raises ValueError for a scale that is not in (0, 100000] and for a time without a zone.
        """
        if now is not None and now.tzinfo is None:
            raise ValueError("now: needs a time zone, e.g. 2026-11-21T08:00:00Z")
        with self._changed:
            real = self._real_now()
            cloud = self._anchor.cloud_at(real) if now is None else now.timestamp()
            new_scale = self._anchor.scale if scale is None else _checked_scale(scale)
            self._anchor = ClockAnchor(real, cloud, new_scale)
            self._write()
            self._changed.notify_all()

    def wait_until(self, cloud_epoch: float, stop: Callable[[], bool] = lambda: False) -> bool:
        """Block until the cloud clock shows `cloud_epoch`; False when `stop()` came true first.

        `stop` is looked at every 0.25 real seconds, and at once after `wake()`.
        """
        with self._changed:
            while not stop():
                remaining = self.real_seconds(cloud_epoch - self.epoch())
                if remaining <= 0:
                    return True
                self._changed.wait(min(remaining, 0.25))
        return False

    def sleep(self, cloud_seconds: float, stop: Callable[[], bool] = lambda: False) -> bool:
        """Block for a cloud duration; False when `stop()` came true first."""
        return self.wait_until(self.epoch() + cloud_seconds, stop)

    def wake(self) -> None:
        """Make every waiter look at its `stop` now."""
        with self._changed:
            self._changed.notify_all()

    def as_dict(self) -> dict[str, object]:
        """The anchor, and the time now as ISO 8601."""
        return {**asdict(self._anchor), "now": self.now().isoformat()}

    def _write(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".clock-")
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(self._anchor), file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, self.path)


def _checked_scale(scale: float) -> float:
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not math.isfinite(scale):
        raise ValueError(f"scale: must be a number, not {scale!r}")
    if not 0 < scale <= MAX_SCALE:
        raise ValueError(f"scale: must be above 0 and at most {MAX_SCALE:g}, not {scale!r}")
    return float(scale)
