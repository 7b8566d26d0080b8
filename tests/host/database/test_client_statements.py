"""What clients make the server do, by its own statistics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host_bench import Host, ScriptedProcesses, json_row, table
from peaker_host.database.client_statements import Look, measure_reads, measure_service, reads_since
from peaker_host.machine.errors import ServerRestarted


class TestServiceMeasurement:
    def test_it_is_the_difference_of_two_looks(self, host: Host, programs: ScriptedProcesses) -> None:
        looks = [
            json_row(statements=1000, errors=3, picoseconds=4.0e11),
            json_row(statements=1500, errors=4, picoseconds=6.0e11),
        ]
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("COUNT_STAR", answer=lambda _: looks.pop(0))
        found = measure_service(host.client(programs), 30, lambda seconds: None)
        assert found == {
            "measurable": True,
            "queries": 500,
            "errors": 1,
            "mean_ms": 0.4,
            "window_seconds": 30,
        }

    def test_a_mariadb_whose_switches_are_no_json_is_measured_as_well(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        host.configure(engine="mariadb")
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("'on', @@GLOBAL.performance_schema", answer=table({"result": '{"on": ON}'}))
        programs.on("COUNT_STAR", answer=json_row(statements=1, errors=0, picoseconds=0))
        assert measure_service(host.client(programs), 1, lambda seconds: None)["measurable"]

    def test_a_restart_within_the_window_is_no_answer(self, host: Host, programs: ScriptedProcesses) -> None:
        looks = [json_row(statements=n, errors=0, picoseconds=1e9) for n in (1000, 5)]
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("COUNT_STAR", answer=lambda _: looks.pop(0))
        with pytest.raises(ServerRestarted):
            measure_service(host.client(programs), 1, lambda seconds: None)

    def test_a_server_without_statistics_says_so_at_once(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=0))
        found = measure_service(host.client(programs), 30)
        assert (found["measurable"], found["queries"], found["mean_ms"]) == (False, 0, None)


FIRST = Look("boot", 1000.0, 100.0, 50_000)


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
    client = host.client(programs)
    first, second = (measure_reads(host.settings, client) for _ in range(2))
    assert first["reads_per_second"] is None
    assert "it is the first, or the server or the machine started anew" in first["reads_unknown"]
    assert second == {"reads_per_second": 100.0, "reads_unknown": ""}


def test_a_server_that_keeps_no_counters_is_unknown_and_says_why(
    host: Host, programs: ScriptedProcesses
) -> None:
    programs.on("@@GLOBAL.performance_schema", answer=json_row(on=0))
    programs.on("'Uptime'", answer=table({"Variable_name": "Uptime", "Value": "900"}))
    assert measure_reads(host.settings, host.client(programs)) == {
        "reads_per_second": None,
        "reads_unknown": "performance_schema is OFF, so that Peaker cannot count the clients' reads",
    }
