"""What clients make the server do, by its own statistics."""

from __future__ import annotations

import pytest
from host_bench import Host, ScriptedProcesses, json_row, table
from peaker_host.database.client_statements import measure_service
from peaker_host.database.mysql_client import admin_client
from peaker_host.machine.errors import ServerRestarted
from peaker_host.machine.settings import Machine


class TestServiceMeasurement:
    def test_it_is_the_difference_of_two_looks(self, host: Host, programs: ScriptedProcesses) -> None:
        looks = [
            json_row(statements=1000, errors=3, picoseconds=4.0e11),
            json_row(statements=1500, errors=4, picoseconds=6.0e11),
        ]
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("COUNT_STAR", answer=lambda _: looks.pop(0))
        found = measure_service(admin_client(Machine.of(host.settings, programs)), 30, lambda seconds: None)
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
        assert measure_service(admin_client(Machine.of(host.settings, programs)), 1, lambda seconds: None)[
            "measurable"
        ]

    def test_a_restart_within_the_window_is_no_answer(self, host: Host, programs: ScriptedProcesses) -> None:
        looks = [json_row(statements=n, errors=0, picoseconds=1e9) for n in (1000, 5)]
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("COUNT_STAR", answer=lambda _: looks.pop(0))
        with pytest.raises(ServerRestarted):
            measure_service(admin_client(Machine.of(host.settings, programs)), 1, lambda seconds: None)

    def test_a_server_without_statistics_says_so_at_once(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=0))
        found = measure_service(admin_client(Machine.of(host.settings, programs)), 30)
        assert (found["measurable"], found["queries"], found["mean_ms"]) == (False, 0, None)
