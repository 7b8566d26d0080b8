"""What sysbench reports, as figures."""

from __future__ import annotations

from datetime import UTC, datetime

from demo.load import Burst, parse_sysbench, totals

REPORT = """
SQL statistics:
    queries performed:
        read:                            812
        write:                           0
        total:                           812
    transactions:                        812    (203.00 per sec.)
    queries:                             812    (203.00 per sec.)
    ignored errors:                      3      (0.00 per sec.)
    reconnects:                          1      (0.00 per sec.)

General statistics:
    total time:                          4.0021s
    total number of events:              812

Latency (ms):
         99th percentile:                        9.22
"""


def burst(queries: int, failed: int) -> Burst:
    at = datetime(2026, 11, 24, tzinfo=UTC)
    return Burst(at, queries, failed, 4.0, None)


def test_a_report_gives_queries_errors_and_time() -> None:
    assert parse_sysbench(REPORT) == {
        "queries": 812.0,
        "ignored": 3.0,
        "reconnects": 1.0,
        "seconds": 4.0021,
    }


def test_a_run_that_died_reports_nothing_rather_than_zero() -> None:
    assert parse_sysbench("FATAL: unable to connect to MySQL server") == {}


def test_totals_add_up_over_runs() -> None:
    assert totals([burst(800, 0), burst(700, 2)]) == (1500, 2)
