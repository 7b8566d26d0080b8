"""The time now. In the local cloud the clock may run faster: its anchors are read from PEAKER_CLOCK_FILE."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ScaledClock:
    """The local cloud's clock: cloud = anchor_cloud + (real - anchor_real) * scale, in epoch seconds.

    The file is read on every call, because the scale may change while a warm function lives.
    """

    def __init__(self, anchor_file: Path) -> None:
        self._anchor_file = anchor_file

    def now(self) -> datetime:
        anchor = json.loads(self._anchor_file.read_text(encoding="utf-8"))
        elapsed_seconds = (time.time() - anchor["anchor_real"]) * anchor["scale"]
        return datetime.fromtimestamp(anchor["anchor_cloud"] + elapsed_seconds, UTC)


def clock_from_environment() -> SystemClock | ScaledClock:
    """The scaled clock when PEAKER_CLOCK_FILE names one, else the machine's."""
    anchor_file = os.environ.get("PEAKER_CLOCK_FILE")
    return ScaledClock(Path(anchor_file)) if anchor_file else SystemClock()
