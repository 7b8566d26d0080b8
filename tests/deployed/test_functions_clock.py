"""The functions' clock is the local cloud's, read from its file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from peaker.runtime.clock import ScaledClock

from localcloud.clock import CloudClock


def test_a_function_reads_the_same_time_from_the_file(tmp_path: Path) -> None:
    clock = CloudClock(tmp_path / "clock.json", scale=500)
    clock.set(now=datetime(2027, 1, 1, tzinfo=UTC))
    before = clock.now()
    seen = ScaledClock(tmp_path / "clock.json").now()
    assert before <= seen <= clock.now()
