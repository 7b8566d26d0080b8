"""The demonstration's trace: read, refused with line and column, scaled and moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo.trace import Trace, TraceError, read_trace, weeks_until

TUESDAY = datetime(2014, 10, 21, tzinfo=UTC)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def test_values_become_queries_per_second(tmp_path: Path) -> None:
    path = write(tmp_path, "timestamp,value\n2014-10-21 00:00:00,100\n2014-10-21 00:30:00,200\n")
    assert read_trace(path, 0.02).queries_per_s == (2.0, 4.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,load\n1,2\n", "line 1: the columns timestamp,value are needed"),
        ("timestamp,value\nyesterday,1\n", "line 2, column timestamp: 'yesterday' is no ISO time"),
        ("timestamp,value\n2014-10-21,many\n", "line 2, column value: 'many' is not a number"),
        ("timestamp,value\n2014-10-21,nan\n", "line 2, column value: nan must be a finite number"),
        ("timestamp,value\n2014-10-21,-1\n", "line 2, column value: -1 must be a finite number"),
        (
            "timestamp,value\n2014-10-22,1\n2014-10-21,1\n",
            "line 3, column timestamp: 2014-10-21 is not after",
        ),
        ("timestamp,value\n2014-10-21,1\n", "1 points; a trace needs at least two"),
        ("\x00\x01garbage", "the columns timestamp,value are needed"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_its_line_and_column(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(TraceError, match=said.replace(".", r"\.").replace("(", r"\(")):
        read_trace(write(tmp_path, text), 1.0)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.csv: no such trace file"):
        read_trace(tmp_path / "none.csv", 1.0)


def test_demand_holds_until_the_next_point() -> None:
    trace = Trace((TUESDAY, TUESDAY + timedelta(minutes=30)), (1.0, 2.0))
    assert trace.at(TUESDAY + timedelta(minutes=29)) == 1.0
    assert trace.at(TUESDAY + timedelta(hours=5)) == 2.0


def test_history_ends_before_the_day_starts() -> None:
    trace = Trace(tuple(TUESDAY + timedelta(hours=hour) for hour in range(5)), (0.0, 1.0, 2.0, 3.0, 4.0))
    points = trace.before(TUESDAY + timedelta(hours=3), days=1)
    assert [value for _, value in points] == [0.0, 1.0, 2.0]


def test_the_trace_moves_by_whole_weeks_to_the_week_ahead() -> None:
    today = datetime(2026, 11, 21, 9, tzinfo=UTC)
    moved = TUESDAY + weeks_until(TUESDAY, today)
    assert moved.strftime("%A") == "Tuesday"
    assert timedelta(0) < moved - today <= timedelta(days=7)


def test_the_trace_of_the_demonstration_is_in_the_repository() -> None:
    path = Path(__file__).resolve().parents[3] / "data" / "traces" / "nyc_taxi.csv"
    trace = read_trace(path, 0.02)
    assert trace.times[1] - trace.times[0] == timedelta(minutes=30)
    assert trace.at(TUESDAY + timedelta(hours=19)) > 2 * trace.at(TUESDAY + timedelta(hours=4))


def test_an_event_raises_the_demand_from_its_start_until_its_end() -> None:
    half = timedelta(minutes=30)
    trace = Trace(tuple(TUESDAY + number * half for number in range(4)), (10.0, 20.0, 30.0, 40.0))
    raised = trace.raised(TUESDAY + half, TUESDAY + 3 * half, 2.5)
    assert raised.queries_per_s == (10.0, 50.0, 75.0, 40.0)
