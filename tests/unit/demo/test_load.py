"""What sysbench reports, as figures."""

from __future__ import annotations

from datetime import UTC, datetime

from demo.load import Burst, parse_sysbench, totals

REPORT = """
SQL statistics:
    queries performed:
        total:                           812
    transactions:                        812    (203.00 per sec.)
    queries:                             812    (203.00 per sec.)
    ignored errors:                      3      (0.00 per sec.)
    reconnects:                          1      (0.00 per sec.)
"""


def burst(queries: int, failed: int) -> Burst:
    return Burst(datetime(2026, 11, 24, tzinfo=UTC), queries, failed, None)


def test_a_report_gives_queries_and_errors() -> None:
    assert parse_sysbench(REPORT) == {"queries": 812, "ignored": 3, "reconnects": 1}


def test_a_run_that_died_reports_nothing_rather_than_zero() -> None:
    assert parse_sysbench("FATAL: unable to connect to MySQL server") == {}


def test_totals_add_up_over_runs() -> None:
    assert totals([burst(800, 0), burst(700, 2)]) == (1500, 2)
