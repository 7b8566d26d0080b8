"""Waiting until the lag stays under its gate; what clients still do."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from host_bench import A, Host, ScriptedProcesses, json_row, quiet, status, table
from peaker_host.database.mysql_client import admin_client
from peaker_host.database.replica_status import status_from
from peaker_host.machine.errors import BinlogsGone, CatchUpTimeout, ReplicationStopped
from peaker_host.machine.settings import Machine, Settings
from peaker_host.replicate.replication import (
    CONNECTING_SECONDS,
    Standstill,
    client_activity,
    wait_for_catch_up,
)

LOST = {
    "Replica_IO_Running": "Connecting",
    "Seconds_Behind_Source": None,
    "Last_IO_Errno": "2003",
    "Last_IO_Error": "Error reconnecting to source 'repl@10.77.1.10:3306'. This was attempt 1/10, with a delay of 5 "
    "seconds between attempts. Message: Can't connect to MySQL server on '10.77.1.10:3306' (111)",
}


class TestWaitForCatchUp:
    def run(self, host: Host, programs: ScriptedProcesses, **limits: Any) -> dict[str, Any]:
        return wait_for_catch_up(
            host.machine(programs),
            limits.get("gate", 5),
            limits.get("needed", 3),
            limits.get("timeout", 240),
            quiet,
        )

    def replica(self, programs: ScriptedProcesses, lags: list[Any], mine: list[str]) -> None:
        def next_status(_: str) -> str:
            lag = lags.pop(0) if len(lags) > 1 else lags[0]
            return status(Seconds_Behind_Source=lag)

        programs.on(
            "slave_master_info", answer=table({"User_name": "r", "User_password": "p", "Port": "3306"})
        )
        programs.on(
            "@@GLOBAL.gtid_executed",
            answer=lambda _: json_row(gtid=mine.pop(0) if len(mine) > 1 else mine[0]),
        )
        programs.on("gtid_purged", answer=json_row(executed=f"{A}:1-30", purged=""))
        programs.on("SHOW REPLICA STATUS", answer=next_status)

    @pytest.fixture(autouse=True)
    def fast(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("peaker_host.replicate.replication._SAMPLE_SECONDS", 0.01)

    def test_it_needs_n_good_samples_in_a_row(self, host: Host, programs: ScriptedProcesses) -> None:
        self.replica(programs, [9, 9, 2, 7, 3, 1, 0], [f"{A}:1-12", f"{A}:1-30"])
        found = self.run(host, programs)
        assert [sample["lag_seconds"] for sample in found["samples"]] == [9, 2, 7, 3, 1, 0]
        assert found["gtid_behind_at_start"] == 18

    def test_no_lag_before_anything_was_received_does_not_count(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.replica(programs, [0], [f"{A}:1-12"] * 4 + [f"{A}:1-30"])
        found = self.run(host, programs)
        assert [sample["gtid_behind"] for sample in found["samples"]] == [18, 18, 18, 0, 0, 0]

    def test_an_unknown_lag_is_not_zero(self, host: Host, programs: ScriptedProcesses) -> None:
        self.replica(programs, [None], [f"{A}:1-30"])
        with pytest.raises(CatchUpTimeout) as failed:
            self.run(host, programs, timeout=0.3)
        assert failed.value.numbers["samples"][-1]["lag_seconds"] is None

    SERIAL = "Waiting for dependent transaction to commit"

    def test_serial_apply_is_told_apart_from_a_fault_and_ends_by_the_deadline(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.replica(programs, [0], [f"{A}:1-12"])
        lag = iter(range(37_020, 99_999))
        programs.on(
            "SHOW REPLICA STATUS",
            answer=lambda _: status(Seconds_Behind_Source=next(lag), Replica_SQL_Running_State=self.SERIAL),
        )
        with pytest.raises(
            CatchUpTimeout, match=r": apply is serial\. Both threads run, the lag went from 370"
        ):
            self.run(host, programs, timeout=0.3)

    @pytest.mark.parametrize(
        ("lags", "state"),
        [(range(900, 0, -1), SERIAL), (range(900, 1800), "Reading event from the relay log")],
    )
    def test_a_lag_that_falls_or_workers_that_are_busy_are_no_serial_apply(
        self, host: Host, programs: ScriptedProcesses, lags: range, state: str
    ) -> None:
        self.replica(programs, [0], [f"{A}:1-12"])
        lag = iter([*lags, *[lags[-1]] * 9999])
        programs.on(
            "SHOW REPLICA STATUS",
            answer=lambda _: status(Seconds_Behind_Source=next(lag), Replica_SQL_Running_State=state),
        )
        with pytest.raises(CatchUpTimeout) as failed:
            self.run(host, programs, timeout=0.3)
        assert "serial" not in str(failed.value)

    def test_a_source_that_restarts_meanwhile_is_waited_for(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        """Its receiver asks again every 5 s: that many looks show it as connecting."""
        self.replica(programs, [0], [f"{A}:1-30"])
        looks = [status(), status()] + [status(**LOST)] * 20
        programs.on("SHOW REPLICA STATUS", answer=lambda _: looks.pop(0) if looks else status())
        found = self.run(host, programs)
        assert [sample["running"] for sample in found["samples"]] == [True] + [False] * 20 + [True] * 3

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({**LOST, "Last_IO_Errno": "1045", "Last_IO_Error": "Access denied"}, "receiver connecting"),
            ({**LOST, "Replica_IO_Running": "No"}, "receiver stopped"),
            ({**LOST, "Replica_SQL_Running": "No"}, "applier stopped"),
        ],
    )
    def test_what_does_not_mend_itself_is_not_waited_for(
        self, host: Host, programs: ScriptedProcesses, changes: dict[str, Any], word: str
    ) -> None:
        self.replica(programs, [0], [f"{A}:1-30"])
        programs.on("SHOW REPLICA STATUS", answer=status(**changes))
        with pytest.raises(ReplicationStopped, match=word) as failed:
            self.run(host, programs)
        assert len(failed.value.numbers["samples"]) == 6

    def test_a_source_that_stays_away_is_given_up_after_minutes(self) -> None:
        client = admin_client(Machine.of(Settings(), ScriptedProcesses().on("SHOW", answer=status(**LOST))))
        lost, standstill = status_from(client.rows("SHOW REPLICA STATUS"), "mysql"), Standstill()
        begun = 40.0
        assert not any(standstill.is_final(lost, begun + seconds) for seconds in (0.0, 5.0, 599.0))
        assert CONNECTING_SECONDS == 600
        assert standstill.is_final(lost, begun + 600.0)

    def test_a_source_that_purges_meanwhile_is_named(self, host: Host, programs: ScriptedProcesses) -> None:
        self.replica(programs, [0], [f"{A}:1-12"])
        programs.on(
            "SHOW REPLICA STATUS",
            answer=status(Replica_IO_Running="No", Last_IO_Errno="1236", Last_IO_Error="purged"),
        )
        with pytest.raises(BinlogsGone):
            self.run(host, programs)


class Server:
    """A server's process list and statement statistics, asked with the very statements that are sent to it."""

    def __init__(self, *hosts: str) -> None:
        self._tables = sqlite3.connect(":memory:")
        for schema in ("information_schema", "performance_schema"):
            self._tables.execute(f"ATTACH ':memory:' AS {schema}")
        self._tables.execute("CREATE TABLE information_schema.PROCESSLIST (ID, USER, HOST, COMMAND)")
        self._tables.execute("CREATE TABLE information_schema.INNODB_TRX (trx_mysql_thread_id)")
        accounts = "performance_schema.events_statements_summary_by_account_by_event_name"
        names = "USER, HOST, EVENT_NAME, COUNT_STAR, SUM_ERRORS, SUM_TIMER_WAIT"
        self._tables.execute(f"CREATE TABLE {accounts} ({names})")
        for number, host in enumerate(hosts, 1):
            row = (number, "app", host, "Query")
            self._tables.execute("INSERT INTO information_schema.PROCESSLIST VALUES (?, ?, ?, ?)", row)
            self._tables.execute("INSERT INTO information_schema.INNODB_TRX VALUES (?)", (number,))
            counted = ("app", host.rsplit(":", 1)[0], "statement/sql/select", 100, 0, 0)
            self._tables.execute(f"INSERT INTO {accounts} VALUES (?, ?, ?, ?, ?, ?)", counted)

    def answer(self, text: str) -> str:
        statement = text[text.index("SELECT JSON_OBJECT") :]
        return table({"result": self._tables.execute(statement).fetchone()[0]})


class TestDrain:
    @pytest.mark.parametrize(
        ("hosts", "clients"),
        [
            (["127.0.0.1:41002", "127.0.0.53:9", "::1:41004", "::ffff:127.0.0.1:7"], 0),
            (["localhost", "localhost:41002", "localhost6:41002"], 0),
            (["10.77.1.30:41002", "::1234:41002", "fd00::1:41002", "app-1.orders.internal:41002"], 4),
        ],
    )
    def test_a_monitoring_agent_of_the_host_is_no_client(
        self, host: Host, programs: ScriptedProcesses, hosts: list[str], clients: int
    ) -> None:
        """PMM or mysqld_exporter looks every few seconds over TCP: with it no replica would ever be idle."""
        server = Server(*hosts)
        programs.on("PROCESSLIST", answer=server.answer).on("COUNT_STAR", answer=server.answer)
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        found = client_activity(host.machine(programs))
        counted = dict.fromkeys(("connections", "running_statements", "transactions"), clients)
        assert found == {**counted, "client_statements": 100 * clients}

    def test_without_statistics_the_statements_are_unknown(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("PROCESSLIST", answer=json_row(connections=0, running_statements=0, transactions=0))
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=0))
        assert client_activity(host.machine(programs))["client_statements"] is None
