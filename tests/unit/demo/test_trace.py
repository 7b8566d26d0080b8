"""The demonstration's recorded load: read, scaled, moved, and asked for its history and its crossings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo.day import QUERIES_PER_S_PER_RENTAL, TRACE, TRACE_DAY
from demo.trace import Trace, TraceError, read_trace, weeks_until

TUESDAY = datetime(2011, 10, 18, tzinfo=UTC)
HOUR = timedelta(hours=1)


def a_trace(*queries_per_s: float) -> Trace:
    return Trace(tuple(TUESDAY + HOUR * number for number in range(len(queries_per_s))), queries_per_s)


def test_an_hours_count_is_the_demand_in_its_middle(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("timestamp,value\n2011-10-18 00:00:00,100\n2011-10-18 01:00:00,200\n")
    trace = read_trace(path, 0.5)
    assert trace.times[0] == TUESDAY + HOUR / 2
    assert trace.queries_per_s == (50.0, 100.0)


def test_demand_goes_straight_from_one_point_to_the_next() -> None:
    assert a_trace(10.0, 20.0).at(TUESDAY + HOUR / 4) == 12.5


@pytest.mark.parametrize("hours", [-1, 1])
def test_nothing_is_said_outside_of_the_trace(hours: int) -> None:
    with pytest.raises(TraceError):
        a_trace(10.0, 20.0).at(TUESDAY + HOUR * hours)


def test_the_history_has_the_mean_of_each_period_and_ends_at_the_moment() -> None:
    trace = a_trace(*(float(10 * number) for number in range(30)))
    points = trace.before(TUESDAY + 28 * HOUR, days=1, every=HOUR)
    assert points[0] == (TUESDAY + 4 * HOUR, 45.0)
    assert points[-1] == (TUESDAY + 27 * HOUR, 275.0)
    assert len(points) == 24


def test_the_demand_passes_a_limit_upwards_and_downwards() -> None:
    found = a_trace(0.0, 60.0, 60.0, 0.0).passes(30.0, TUESDAY, TUESDAY + 3 * HOUR)
    assert found == [TUESDAY + timedelta(minutes=31), TUESDAY + timedelta(minutes=150)]


def test_the_trace_moves_by_whole_weeks_to_the_week_ahead() -> None:
    today = datetime(2026, 11, 21, 9, tzinfo=UTC)
    moved = TUESDAY + weeks_until(TUESDAY, today)
    assert moved.strftime("%A") == "Tuesday"
    assert timedelta(0) < moved - today <= timedelta(days=7)


def test_the_trace_of_the_demonstration_has_a_peak_and_the_days_before() -> None:
    trace = read_trace(Path(__file__).resolve().parents[3] / TRACE, QUERIES_PER_S_PER_RENTAL)
    assert trace.times[0] < TRACE_DAY - timedelta(days=63)
    assert trace.at(TRACE_DAY + 17.5 * HOUR) > 1.8 * 500 > 2 * trace.at(TRACE_DAY + 15 * HOUR)
