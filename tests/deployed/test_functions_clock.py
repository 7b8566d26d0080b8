"""The functions' clock is the local cloud's, read from its file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from peaker.runtime.clock import ScaledClock

from localcloud.clock import CloudClock


def test_a_function_reads_the_same_time_from_the_file(tmp_path: Path) -> None:
    clock = CloudClock(tmp_path / "clock.json", scale=500)
    clock.set(now=datetime(2027, 1, 1, tzinfo=UTC))
    seen = ScaledClock(tmp_path / "clock.json").now()
    assert abs(clock.now() - seen) < timedelta(seconds=100)  # 0.2 s of real time
