"""Client statements a second since the last look: all of that time, or unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host_bench import Host, ScriptedProcesses, json_row, table
from peaker_host.database.client_statements import Look, measure_reads, reads_since
from peaker_host.database.mysql_client import admin_client
from peaker_host.machine.settings import Machine

FIRST = Look("boot", 1000.0, 100.0, 50_000)


def test_the_rate_is_over_the_whole_time_since_the_last_look() -> None:
    kept, rate = reads_since(FIRST, replace(FIRST, at_seconds=1060.0, statements=56_000))
    assert rate == 100.0
    assert (kept.at_seconds, kept.reads_per_second) == (1060.0, 100.0)


def test_a_look_right_after_another_tells_the_same_and_moves_nothing() -> None:
    last = replace(FIRST, reads_per_second=100.0)
    assert reads_since(last, replace(FIRST, at_seconds=1004.0, statements=50_001)) == (last, 100.0)


@pytest.mark.parametrize(
    ("last", "now"),
    [
        pytest.param(None, FIRST, id="first look"),
        pytest.param(FIRST, Look("boot", 1060.0, 1030.0, 900), id="server started anew"),
        pytest.param(FIRST, Look("boot", 1060.0, 1002.0, 60_000), id="started anew, and more reads since"),
        pytest.param(FIRST, Look("boot", 1060.0, 100.0, 49_999), id="counters reset"),
        pytest.param(FIRST, Look("other boot", 1060.0, 100.0, 60_000), id="machine started anew"),
        pytest.param(FIRST, Look("boot", 990.0, 100.0, 60_000), id="clock before the last look"),
    ],
)
def test_what_cannot_be_known_is_unknown_and_begins_anew(last: Look | None, now: Look) -> None:
    assert reads_since(last, now) == (now, None)


def test_the_counters_outlive_the_command(
    host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([1000.0, 1060.0])
    counts = iter([json_row(statements=n, errors=0, picoseconds=0) for n in (1000, 7000)])
    uptimes = iter(["900", "960"])
    monkeypatch.setattr("time.clock_gettime", lambda _: next(clock))
    programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
    programs.on("COUNT_STAR", answer=lambda _: next(counts))
    programs.on("'Uptime'", answer=lambda _: table({"Variable_name": "Uptime", "Value": next(uptimes)}))
    client = admin_client(Machine.of(host.settings, programs))
    first, second = (measure_reads(host.settings, client) for _ in range(2))
    assert first["reads_per_second"] is None
    assert "it is the first, or the server or the machine started anew" in first["reads_unknown"]
    assert second == {"reads_per_second": 100.0, "reads_unknown": ""}


def test_a_server_that_keeps_no_counters_is_unknown_and_says_why(
    host: Host, programs: ScriptedProcesses
) -> None:
    programs.on("@@GLOBAL.performance_schema", answer=json_row(on=0))
    programs.on("'Uptime'", answer=table({"Variable_name": "Uptime", "Value": "900"}))
    assert measure_reads(host.settings, admin_client(Machine.of(host.settings, programs))) == {
        "reads_per_second": None,
        "reads_unknown": "performance_schema is OFF, so that Peaker cannot count the clients' reads",
    }
