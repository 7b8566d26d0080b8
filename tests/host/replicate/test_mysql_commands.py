"""Donor, database, replication and drain against a scripted client."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from host_bench import (
    MIB,
    RUN_ID,
    RUNNING,
    Host,
    ScriptedProcesses,
    json_row,
    pool_settings,
    status,
    table,
    variables,
)
from peaker_host import cli
from peaker_host.database.client_statements import measure_service
from peaker_host.database.gtid_sets import count_missing, count_missing_mariadb, is_subset
from peaker_host.database.mysql_client import MysqlClient, RemoteLogin, admin_client, sql_text
from peaker_host.database.replica_status import read_status
from peaker_host.donor import prepare_donor
from peaker_host.machine.errors import (
    BinlogsGone,
    CatchUpTimeout,
    CommandFailed,
    DatabaseStartFailed,
    DatabaseUnreachable,
    DonorIsSource,
    DonorNotReplicating,
    ErrantTransactions,
    ReplicationNotConfigured,
    ReplicationStopped,
    ServerRestarted,
    TornSnapshot,
    UnsupportedChannels,
)
from peaker_host.machine.settings import Settings
from peaker_host.replicate.replication import (
    client_activity,
    is_good,
    join_statements,
    start_replication,
    wait_for_catch_up,
)
from peaker_host.replicate.source_login import Credentials, Encryption

A, B = "c292c1fa-e550-11f1-9eb5-c2cd5b392683", "3d664b29-e551-11f1-b745-6ef0865e2f1c"
HOST_PACKAGES = Path(__file__).resolve().parents[3] / "host"
PERSISTED = {
    "Version": 2,
    "mysql_static_variables": {
        name: {"Value": value}
        for name, value in {
            "server_id": "777",
            "report_host": "donor.example",
            "skip_slave_start": "OFF",
            "skip_replica_start": "OFF",
            "relay_log_recovery": "OFF",
        }.items()
    },
    "mysql_dynamic_variables": {"read_only": {"Value": "OFF"}, "super_read_only": {"Value": "OFF"}},
    "mysql_dynamic_parse_early_variables": {"max_connections": {"Value": "99"}},
}


def quiet(_text: str) -> None:
    pass


def answer_of_a_running_server() -> str:
    return table({"1": 1})


def nobody_answers() -> str:
    raise CommandFailed("ERROR 2002 (HY000): Can't connect to local MySQL server through socket")


class TestGtidSets:
    def test_missing_transactions_are_counted_over_sources_and_gaps(self) -> None:
        assert count_missing(f"{A}:1-10:15,\n{B}:1-3", f"{A}:1-4:15") == 9

    def test_a_tag_is_a_source_of_its_own(self) -> None:
        assert count_missing(f"{A}:1-5:blue:1-2", f"{A}:1-5:green:1-2") == 2

    def test_case_and_the_empty_set(self) -> None:
        assert is_subset(f"{A.upper()}:1-3", f"{A}:1-3")
        assert is_subset("", f"{A}:1")
        assert count_missing(f"{A}:1-3", "") == 3

    def test_mariadb_positions_compare_by_domain(self) -> None:
        assert count_missing_mariadb("0-1-21,1-7-5", "0-3-18") == 8
        assert count_missing_mariadb("0-1-21", "0-2-30") == 0


class TestClient:
    def test_null_escapes_and_column_names(self, programs: ScriptedProcesses) -> None:
        programs.on("SELECT", answer="a\tb\tc\nNULL\tx\\ty\\\\z\\n\t\n")
        rows = MysqlClient(programs, "mysql", "/f").rows("SELECT 1")
        assert rows == [{"a": None, "b": "x\ty\\z\n", "c": ""}]

    def test_an_error_of_the_client_is_an_unreachable_database(self, programs: ScriptedProcesses) -> None:
        programs.on("mysql", answer=CommandFailed("mysql ended with exit code 1: ERROR 2002"))
        with pytest.raises(DatabaseUnreachable, match="ERROR 2002"):
            MysqlClient(programs, "mysql", "/f").rows("SELECT 1")

    def test_no_rows_is_an_empty_list(self, programs: ScriptedProcesses) -> None:
        programs.on("SHOW", answer="")
        assert read_status(MysqlClient(programs, "mysql", "/f"), "mysql") is None

    def test_statements_and_passwords_never_stand_on_the_command_line(
        self, programs: ScriptedProcesses
    ) -> None:
        seen: dict[str, Any] = {}

        def look(text: str) -> str:
            path = text.split("--defaults-extra-file=")[1].split()[0]
            seen.update(content=Path(path).read_text(), mode=os.stat(path).st_mode & 0o777, path=path)
            return json_row(x=1)

        programs.on("SELECT", answer=look)
        with RemoteLogin(Settings(), programs, "10.0.0.1", 3306, "repl", 'se"c\\ret') as client:
            client.json({"x": "1"})
        assert 'password="se\\"c\\\\ret"' in seen["content"]
        assert seen["mode"] == 0o600
        assert not os.path.exists(seen["path"])
        assert all("ret" not in " ".join(argv) for argv, _ in programs.calls)

    def test_text_is_quoted(self) -> None:
        assert sql_text("a'b\\c") == "'a''b\\\\c'"


class TestPrepareDonor:
    def test_a_server_without_a_channel_is_a_source(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("SHOW REPLICA STATUS", answer="")
        with pytest.raises(DonorIsSource):
            prepare_donor.prepare_donor(host.settings, programs, ["/var/lib/mysql"], 100, 1, quiet)
        assert not programs.said("SET GLOBAL")

    def test_a_writable_replica_is_refused_as_a_source(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("SHOW REPLICA STATUS", answer=status()).on(
            "super_read_only", answer=json_row(read_only=0)
        )
        with pytest.raises(DonorIsSource, match="accepts writes"):
            prepare_donor.prepare_donor(host.settings, programs, ["/var/lib/mysql"], 100, 1, quiet)

    def test_a_stopped_replica_is_refused(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("SHOW REPLICA STATUS", answer=status(Replica_SQL_Running="No", Last_SQL_Error="dup"))
        programs.on("super_read_only", answer=json_row(read_only=1))
        with pytest.raises(DonorNotReplicating, match="dup"):
            prepare_donor.prepare_donor(host.settings, programs, ["/var/lib/mysql"], 100, 1, quiet)

    @pytest.mark.real
    def test_the_report_has_position_size_and_pages(self, host: Host, programs: ScriptedProcesses) -> None:
        volume = host.volume(300 * MIB, "xfs")
        with host.mounted(volume) as point:
            host.configure(datadir=str(point))

            def dump(_text: str) -> str:
                (point / "ib_buffer_pool").write_text("1,1\n1,2\n")
                return ""

            programs.on("SHOW REPLICA STATUS", answer=status(Seconds_Behind_Source="2"))
            programs.on(
                "gtid_executed",
                answer=json_row(gtid_set=f"{A}:1-9,\n{B}:1", server_uuid=B, server_id=2, buffer_pool_bytes=1),
            )
            programs.on("datadir", answer=json_row(datadir=str(point), redo="./", binlog=f"{point}/binlog"))
            programs.on("dump_pct", answer=pool_settings(point))
            programs.on("SHOW GLOBAL VARIABLES", answer=variables(datadir=f"{point}/"))
            programs.on("information_schema.FILES")
            programs.on("super_read_only", answer=json_row(read_only=1))
            programs.on("dump_status", answer=table({"n": "x", "Value": "completed"}))
            programs.on("SET GLOBAL")
            programs.on("dump_now", answer=dump)
            found = prepare_donor.prepare_donor(host.settings, programs, [str(point)], 100, 5, quiet)
        assert (found["gtid_set"], found["lag_seconds"], found["buffer_pool_pages"]) == (
            f"{A}:1-9,{B}:1",
            2,
            2,
        )
        assert 0 < found["data_bytes"] < 300 * MIB
        assert 0 < found["frozen_seconds"][str(point)] < 5


class TestStartReplication:
    def source(self, programs: ScriptedProcesses, executed: str, purged: str, mine: str) -> None:
        programs.on("SHOW REPLICA STATUS", answer=status())
        programs.on(
            "slave_master_info",
            answer=table({"User_name": "repl", "User_password": "secret", "Port": "3306"}),
        )
        programs.on("gtid", "@@GLOBAL.gtid_executed", answer=json_row(gtid=mine))
        programs.on("gtid_purged", answer=json_row(executed=executed, purged=purged))
        programs.on("STOP REPLICA").on("CHANGE REPLICATION SOURCE").on("START REPLICA")

    def test_it_joins_by_gtid_with_the_stored_user(self, host: Host, programs: ScriptedProcesses) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        stopped = status(Replica_IO_Running="No", Replica_SQL_Running="No")
        answers = [stopped, stopped.replace("No", "Connecting", 1), status(), status()]
        programs.on("SHOW REPLICA STATUS", answer=lambda _: answers.pop(0))
        found = start_replication(host.settings, programs, "10.77.1.10", quiet)
        (change,) = programs.said("CHANGE REPLICATION SOURCE")
        for part in ("'10.77.1.10'", "'repl'", "'secret'", "AUTO_POSITION = 1"):
            assert part in change
        assert (found["gtid_behind"], found["source_checked"], found["already_running"]) == (10, True, False)

    def test_a_channel_that_already_runs_is_left_alone(self, host: Host, programs: ScriptedProcesses) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        assert start_replication(host.settings, programs, "10.77.1.10", quiet)["already_running"]
        assert not programs.said("CHANGE REPLICATION SOURCE")

    def test_purged_binary_logs_are_found_before_the_channel_is_touched(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", f"{A}:1-25", f"{A}:1-20")
        with pytest.raises(BinlogsGone, match="purged 5 transactions"):
            start_replication(host.settings, programs, "10.77.1.10", quiet)
        assert not programs.said("STOP REPLICA")

    def test_transactions_that_the_source_lacks_are_refused(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20,{B}:1-2")
        with pytest.raises(ErrantTransactions, match="2 transactions"):
            start_replication(host.settings, programs, "10.77.1.10", quiet)

    def test_a_replica_that_applies_while_its_source_is_asked_holds_nothing_errant(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        """start_replication runs again under load: each look at either side finds both 5 transactions further."""
        self.source(programs, "", "", "")
        now = [10]

        def later() -> str:
            now[0] += 5
            return f"{A}:1-{now[0]}"

        programs.on("gtid", "@@GLOBAL.gtid_executed", answer=lambda _: json_row(gtid=later()))
        programs.on("gtid_purged", answer=lambda _: json_row(executed=later(), purged=f"{A}:1-{now[0] - 5}"))
        found = start_replication(host.settings, programs, "10.77.1.10", quiet)
        assert (found["already_running"], found["source_checked"]) == (True, True)

    def test_a_transaction_that_the_source_has_sent_and_not_counted_yet_is_no_errant_one(
        self, host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("peaker_host.replicate.replication._ERRANT_PAUSE_SECONDS", 0.0)
        self.source(programs, "", "", f"{A}:1-21")
        counted = [f"{A}:1-20", f"{A}:1-20", f"{A}:1-21"]
        programs.on("gtid_purged", answer=lambda _: json_row(executed=counted.pop(0), purged=""))
        assert start_replication(host.settings, programs, "10.77.1.10", quiet)["already_running"]

    def test_a_named_channel_is_the_one_that_is_made_again(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        stopped = status(Replica_IO_Running="No", Channel_Name="ea'st")
        answers = [stopped, stopped, *[status(Channel_Name="ea'st")] * 2]
        programs.on("SHOW REPLICA STATUS", answer=lambda _: answers.pop(0))
        start_replication(host.settings, programs, "10.77.1.10", quiet)
        for words in ("STOP REPLICA", "CHANGE REPLICATION SOURCE", "START REPLICA"):
            assert programs.said(words)[0].endswith(" FOR CHANNEL 'ea''st';\n")
        assert programs.said("Channel_name = 'ea''st'")

    def test_several_channels_are_refused_here_too(self, host: Host, programs: ScriptedProcesses) -> None:
        two = table({**RUNNING, "Channel_Name": "east"}, {**RUNNING, "Channel_Name": "west"})
        programs.on("SHOW REPLICA STATUS", answer=two)
        with pytest.raises(UnsupportedChannels, match="'east', 'west'"):
            start_replication(host.settings, programs, "10.77.1.10", quiet)

    def test_a_source_that_does_not_let_us_ask_is_joined_and_error_1236_still_named(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, "", "", f"{A}:1-20")
        programs.on("gtid_purged", answer=CommandFailed("Access denied"))
        programs.on(
            "SHOW REPLICA STATUS",
            answer=status(
                Replica_IO_Running="No", Last_IO_Errno="1236", Last_IO_Error="purged required binary logs"
            ),
        )
        with pytest.raises(BinlogsGone, match="purged required"):
            start_replication(host.settings, programs, "10.77.1.10", quiet)

    def test_a_duplicate_server_uuid_is_not_mistaken_for_missing_binary_logs(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        programs.on(
            "SHOW REPLICA STATUS",
            answer=status(
                Replica_IO_Running="No",
                Last_IO_Errno="1236",
                Last_IO_Error="A replica with the same server_uuid/server_id has connected",
            ),
        )
        with pytest.raises(ReplicationStopped, match="same server_uuid"):
            start_replication(host.settings, programs, "10.77.1.10", quiet)

    def test_without_any_user_it_says_where_one_is_looked_for(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("slave_master_info", answer="").on("SHOW REPLICA STATUS", answer=status())
        with pytest.raises(ReplicationNotConfigured, match=r"replication\.json"):
            start_replication(host.settings, programs, "10.77.1.10", quiet)

    def test_a_credentials_file_comes_before_what_is_stored(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        Path(host.settings.replication_credentials_file).write_text('{"user": "other", "password": "p"}')
        programs.on("SHOW REPLICA STATUS", answer=status(Source_Host="old"))
        start_replication(host.settings, programs, "10.77.1.10", quiet)
        assert "'other'" in programs.said("CHANGE REPLICATION SOURCE")[0]

    def logged_in_with(self, host: Host, programs: ScriptedProcesses, **stored: str) -> tuple[str, str]:
        """The client's option file for the source, and the statement that makes the channel."""
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        user = {"User_name": "repl", "User_password": "secret", "Port": "3306", "Host": "10.77.1.10"}
        programs.on("slave_master_info", answer=table({**user, **stored}))
        seen: list[str] = []

        def look(text: str) -> str:
            seen.append(Path(text.split("--defaults-extra-file=")[1].split()[0]).read_text())
            return json_row(executed=f"{A}:1-30", purged="")

        programs.on("gtid_purged", answer=look)
        answers = [status(Source_Host="old"), status(Source_Host="old"), status(), status()]
        programs.on("SHOW REPLICA STATUS", answer=lambda _: answers.pop(0))
        start_replication(host.settings, programs, "10.77.1.10", quiet)
        return seen[0], programs.said("CHANGE REPLICATION SOURCE")[0]

    def test_the_password_s_key_comes_from_the_source_only_where_the_donor_had_it_so(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        """Nothing vouches for that key: who sits in between reads the password with his own."""
        login, change = self.logged_in_with(host, programs, Enabled_ssl="0", Get_public_key="0")
        assert "get-server-public-key" not in login
        assert "GET_SOURCE_PUBLIC_KEY" not in change
        assert "ssl-mode=DISABLED" in login, (
            "nor is it given to a source that offers an unverified certificate"
        )

    def test_a_donor_that_had_it_so_keeps_it(self, host: Host, programs: ScriptedProcesses) -> None:
        login, change = self.logged_in_with(host, programs, Enabled_ssl="0", Get_public_key="1")
        assert "get-server-public-key" in login
        assert "GET_SOURCE_PUBLIC_KEY = 1" in change

    @pytest.mark.parametrize(
        ("stored", "mode"),
        [
            ({"Ssl_verify_server_cert": "0"}, "REQUIRED"),
            ({"Ssl_verify_server_cert": "0", "Ssl_ca": "/etc/ca.pem"}, "VERIFY_CA"),
            ({"Ssl_verify_server_cert": "1", "Ssl_ca": "/etc/ca.pem"}, "VERIFY_IDENTITY"),
        ],
    )
    def test_the_source_is_asked_over_a_connection_like_the_channel_s(
        self, host: Host, programs: ScriptedProcesses, stored: dict[str, str], mode: str
    ) -> None:
        login, change = self.logged_in_with(host, programs, Enabled_ssl="1", **stored)
        assert f"ssl-mode={mode}" in login.splitlines()
        assert ("ssl-ca=/etc/ca.pem" in login) is ("Ssl_ca" in stored)
        assert "SOURCE_SSL" not in change, "the channel keeps what is not named"

    def test_a_verified_certificate_needs_the_name_that_it_was_made_for(
        self, host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = {"db.internal": "10.77.1.10", "moved.internal": "10.77.9.9"}
        monkeypatch.setattr(
            "peaker_host.replicate.source_login.socket.getaddrinfo",
            lambda name, _: [(0, 0, 0, "", (found[name], 0))],
        )
        encryption = Encryption(encrypted=True, verified=True)
        hosts = {name: Credentials("r", "p", 3306, name, encryption).host_for("10.77.1.10") for name in found}
        assert hosts == {"db.internal": "db.internal", "moved.internal": "10.77.1.10"}
        assert Credentials("r", "p", 3306, "db.internal").host_for("10.77.1.10") == "10.77.1.10"

    def test_mariadb_gets_its_donor_s_encryption_and_domains_back(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        encryption = Encryption(encrypted=True, verified=True, files={"ssl-ca": "/etc/ca.pem"})
        donor_status = {"Replicate_Do_Domain_Ids": "0, 7"}
        [change] = [
            statement
            for statement in join_statements(
                "mariadb", "db", Credentials("r", "p", 3306, "db", encryption), "", donor_status
            )
            if statement.startswith("CHANGE")
        ]
        for part in (
            "MASTER_SSL = 1",
            "MASTER_SSL_VERIFY_SERVER_CERT = 1",
            "MASTER_SSL_CA = '/etc/ca.pem'",
            "DO_DOMAIN_IDS = (0, 7)",
        ):
            assert part in change

    @pytest.mark.parametrize(("begins", "gone"), [("0-1-18", False), ("0-1-19", True), (None, False)])
    def test_mariadb_s_source_must_still_have_the_logs(
        self, host: Host, programs: ScriptedProcesses, begins: str | None, gone: bool
    ) -> None:
        host.configure(engine="mariadb")
        Path(host.settings.replication_credentials_file).write_text('{"user": "r", "password": "p"}')
        renamed = status(Gtid_IO_Pos="0-1-18").replace("Source", "Master").replace("Replica", "Slave")
        programs.on("SHOW SLAVE STATUS", answer=renamed)
        programs.on("SHOW ALL SLAVES STATUS", answer=table({"Connection_name": ""}))
        programs.on("gtid_slave_pos", answer=json_row(gtid="0-1-18"))
        programs.on("gtid_binlog_pos", answer=json_row(executed="0-1-40"))
        logs = table({"Log_name": "binlog.000003", "File_size": "1"})
        programs.on("SHOW BINARY LOGS", answer=CommandFailed("ERROR 1227") if begins is None else logs)
        programs.on("BINLOG_GTID_POS('binlog.000003', 4)", answer=json_row(purged=begins))
        if gone:
            with pytest.raises(BinlogsGone, match="purged 1 transactions"):
                start_replication(host.settings, programs, "10.77.1.10", quiet)
        else:
            found = start_replication(host.settings, programs, "10.77.1.10", quiet)
            assert found["source_checked"] is (begins is not None), "unknown is not checked"

    def test_mariadb_makes_its_channel_anew_from_its_own_position(self) -> None:
        statements = join_statements("mariadb", "10.0.0.1", Credentials("repl", "p", 3306))
        assert statements[:2] == ["STOP SLAVE", "RESET SLAVE ALL"]
        assert "MASTER_USE_GTID = slave_pos" in statements[2]

    def test_a_mariadb_copy_of_a_source_starts_at_the_end_of_its_binary_log(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        host.configure(engine="mariadb")
        Path(host.settings.replication_credentials_file).write_text('{"user": "r", "password": "p"}')
        renamed = status().replace("Source", "Master").replace("Replica", "Slave")
        answers = ["", renamed, renamed]
        programs.on("SHOW SLAVE STATUS", answer=lambda _: answers.pop(0))
        programs.on("SHOW ALL SLAVES STATUS", answer="")
        programs.on("SHOW BINARY LOGS", answer=table({"Log_name": "binlog.000001", "File_size": "1"}))
        programs.on("BINLOG_GTID_POS('binlog.000001', 4)", answer=json_row(purged=""))
        programs.on("gtid_slave_pos", answer=json_row(gtid=""))
        programs.on("gtid_binlog_pos", answer=json_row(gtid="0-1-21", executed="0-1-22", purged=""))
        programs.on("STOP SLAVE").on("RESET SLAVE").on("CHANGE MASTER").on("START SLAVE")
        found = start_replication(host.settings, programs, "10.0.0.1", quiet)
        assert programs.said("SET GLOBAL gtid_slave_pos = '0-1-21'")
        assert (found["gtid_set"], found["gtid_behind"]) == ("0-1-21", 1)


class TestWaitForCatchUp:
    def run(self, host: Host, programs: ScriptedProcesses, **limits: Any) -> dict[str, Any]:
        return wait_for_catch_up(
            host.settings,
            programs,
            limits.get("gate", 5),
            limits.get("needed", 3),
            limits.get("timeout", 20),
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

    def test_a_stopped_thread_ends_the_wait_at_once(self, host: Host, programs: ScriptedProcesses) -> None:
        self.replica(programs, [0], [f"{A}:1-30"])
        programs.on("SHOW REPLICA STATUS", answer=status(Replica_SQL_Running="No", Last_SQL_Error="key 1062"))
        with pytest.raises(ReplicationStopped, match="key 1062"):
            self.run(host, programs)

    def test_a_source_that_purges_meanwhile_is_named(self, host: Host, programs: ScriptedProcesses) -> None:
        self.replica(programs, [0], [f"{A}:1-12"])
        programs.on(
            "SHOW REPLICA STATUS",
            answer=status(Replica_IO_Running="No", Last_IO_Errno="1236", Last_IO_Error="purged"),
        )
        with pytest.raises(BinlogsGone):
            self.run(host, programs)

    @pytest.mark.parametrize(
        ("sample", "good"),
        [
            ({"running": True, "lag_seconds": 5, "gtid_behind": 0}, True),
            ({"running": True, "lag_seconds": 6, "gtid_behind": 0}, False),
            ({"running": False, "lag_seconds": 0, "gtid_behind": 0}, False),
            ({"running": True, "lag_seconds": None, "gtid_behind": 0}, False),
            ({"running": True, "lag_seconds": 0, "gtid_behind": 1}, False),
        ],
    )
    def test_what_makes_a_sample_good(self, sample: dict[str, Any], good: bool) -> None:
        assert is_good(sample, 5) is good


class TestStartDatabase:
    @pytest.fixture
    def ready(
        self, host: Host, programs: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> ScriptedProcesses:
        volume = host.volume(300 * MIB, "xfs")
        place = host.root / "place0"
        host.configure(datadir=str(place))
        with host.mounted(volume) as point:
            (point / "auto.cnf").write_text("[auto]\nserver-uuid=donor\n")
        assembled = host.call(
            capsys, "assemble_storage", "--run-id", RUN_ID, "--volumes", host.request(volume)
        )
        assert assembled["ok"]
        real = type(programs).__mro__[1]()
        programs.on("mount -t", answer=lambda text: real.run(text.split()).stdout)
        runs: list[bool] = []
        programs.on("SELECT 1", answer=lambda _: answer_of_a_running_server() if runs else nobody_answers())
        programs.on("systemctl").on("systemctl stop mysql", answer=lambda _: runs.clear() or "")
        programs.on("systemctl start mysql", answer=lambda _: runs.append(True) or "")
        programs.on("SET GLOBAL super_read_only = ON").on("CREATE USER")
        programs.on("'on', @@GLOBAL.super_read_only", answer=json_row(on=1))
        programs.on("performance_schema.error_log", answer=json_row(torn=0))
        programs.on("load_now").on("load_status", answer=table({"n": "x", "Value": "not started"}))
        programs.on("server_version", answer=self.server_says(host))
        yield programs
        if os.path.ismount(place):
            real.run(["umount", str(place)])

    @staticmethod
    def server_says(host: Host, **other: Any) -> str:
        facts = {
            "server_uuid": A,
            "server_id": 7,
            "server_version": "9.7.4",
            "datadir": f"{host.settings.datadir}/",
            "read_only": 1,
            "waits_for_start": 1,
            "gtid_set": f"{B}:1-5",
        }
        return json_row(**{**facts, **other})

    def start(
        self, host: Host, programs: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> dict[str, Any]:
        limits = ("--server-id", "7", "--timeout-seconds", "5")
        command = ("start_database", "--run-id", RUN_ID, *limits)
        cli.main(["--settings", str(host.settings_path), *command], programs)
        result: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return result

    @pytest.mark.real
    def test_a_copy_gets_its_own_identity_once_and_starts_read_only(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first = self.start(host, ready, capsys)
        assert (first["ok"], first["server_uuid"], first["read_only"]) == (True, A, True)
        identity = Path(host.settings.datadir) / "auto.cnf"
        assert not identity.exists()
        options = (Path(host.settings.config_dir) / "zz-peaker.cnf").read_text().splitlines()
        for option in ("server_id = 7", "skip_replica_start = ON", "super_read_only = ON"):
            assert option in options
        order = [" ".join(argv[1:3]) for argv, _ in ready.calls if argv[0] == "systemctl"]
        assert order[:3] == ["stop mysql", "daemon-reload", "start mysql"]
        assert order[-1] == "restart peaker-health.service"
        assert ready.said("load_now"), "hot pages are loaded while replication starts"
        [account] = ready.said("CREATE USER")
        assert "SET SESSION sql_log_bin = 0" in account, (
            "the account must not differ from the source in GTIDs"
        )
        inputs = [given for _, given in ready.calls]
        made_at = next(index for index, given in enumerate(inputs) if "CREATE USER" in given)
        assert inputs[made_at + 1].endswith("SET GLOBAL super_read_only = ON;\n")
        assert Path(host.settings.health_defaults_file).stat().st_mode & 0o777 == 0o600
        identity.write_text("[auto]\nserver-uuid=own\n")
        second = self.start(host, ready, capsys)
        assert second["started_seconds"] == first["started_seconds"]
        assert identity.exists(), "an own identity is never taken away"

    @pytest.mark.real
    def test_what_the_donor_persisted_for_itself_does_not_come_with_the_copy(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """SET PERSIST server_id = 777, read_only = OFF on the donor: mysqld-auto.cnf wins over every option file."""
        with host.mounted(host.volumes[0]) as point:
            (point / "mysqld-auto.cnf").write_text(json.dumps(PERSISTED))
            (point / "mysqld-auto.cnf.backup").write_text(json.dumps(PERSISTED))
            os.chown(point / "mysqld-auto.cnf", 27306, 27306)
        assert self.start(host, ready, capsys)["ok"]
        for name in ("mysqld-auto.cnf", "mysqld-auto.cnf.backup"):
            kept = json.loads((Path(host.settings.datadir) / name).read_text())
            assert kept == {
                "Version": 2,
                "mysql_static_variables": {},
                "mysql_dynamic_variables": {},
                "mysql_dynamic_parse_early_variables": {"max_connections": {"Value": "99"}},
            }
        assert (Path(host.settings.datadir) / "mysqld-auto.cnf").stat().st_uid == 27306

    @pytest.mark.real
    @pytest.mark.parametrize(
        ("said", "names"),
        [
            ({"server_id": 777}, "server_id is 777, not 7"),
            ({"server_uuid": "donor"}, "server_uuid is the donor's"),
            ({"read_only": 0}, "accepts writes"),
            ({"waits_for_start": 0}, "replicates before it was checked"),
            ({"datadir": "/srv/mysql/"}, "host.json says"),
        ],
    )
    def test_a_server_that_does_not_run_as_it_was_told_is_stopped_and_says_what_won(
        self,
        host: Host,
        ready: ScriptedProcesses,
        capsys: pytest.CaptureFixture[str],
        said: dict[str, Any],
        names: str,
    ) -> None:
        ready.on("server_version", answer=self.server_says(host, **said))
        source = {"VARIABLE_NAME": "server_id", "VARIABLE_SOURCE": "COMMAND_LINE", "VARIABLE_PATH": ""}
        ready.on("variables_info", answer=table(source))
        for _ in range(2):
            result = self.start(host, ready, capsys)
            assert (result["ok"], result.get("error")) == (False, "IdentityNotTaken")
            assert names in result["message"]
            assert "server_id from COMMAND_LINE" in result["message"]
            last = [" ".join(argv) for argv, _ in ready.calls if argv[0] == "systemctl"][-1]
            assert last == "systemctl stop mysql"

    @pytest.mark.real
    def test_a_server_that_the_image_started_is_stopped_before_the_volumes_come_over_its_files(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.start(host, ready, capsys)["ok"]
        programs = [argv[0] for argv, _ in ready.calls]
        assert programs.index("systemctl") < programs.index("mount")
        drop_in = Path(host.settings.unit_dir) / "mysql.service.d" / "peaker-volumes.conf"
        assert f"ConditionPathIsMountPoint={host.settings.datadir}" in drop_in.read_text().splitlines()

    @pytest.mark.real
    def test_a_server_that_cannot_be_stopped_is_not_mounted_over(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ready.on("SELECT 1", answer=answer_of_a_running_server())
        result = self.start(host, ready, capsys)
        assert result["error"] == "DatabaseStillRunning"
        assert not os.path.ismount(host.settings.datadir)

    @pytest.mark.real
    def test_a_log_sequence_number_in_the_future_is_a_torn_snapshot(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ready.on("performance_schema.error_log", answer=json_row(torn=1))
        assert self.start(host, ready, capsys)["error"] == TornSnapshot.__name__

    @pytest.mark.real
    def test_the_same_in_the_log_file(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        log = Path(host.settings.error_log)
        log.write_text("old: log sequence number 1 is in the future!\n")

        def start(_text: str) -> str:
            log.write_text(log.read_text() + "Page log sequence number 2 is in the future!\n")
            return ""

        assert self.start(host, ready, capsys)["ok"], "an old line says nothing about this start"
        ready.on("systemctl start mysql", answer=start)
        assert self.start(host, ready, capsys)["error"] == "TornSnapshot"

    @pytest.mark.real
    def test_a_server_that_does_not_come_up_shows_its_log(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ready.on("SELECT 1", answer=CommandFailed("no"))
        ready.on(
            "systemctl start mysql", answer=lambda _: Path(host.settings.error_log).write_text("boom") and ""
        )
        result = self.start(host, ready, capsys)
        assert result["error"] == DatabaseStartFailed.__name__
        assert "boom" in result["message"]

    @pytest.mark.real
    def test_a_place_that_holds_another_filesystem_is_refused(
        self, host: Host, ready: ScriptedProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = host.volume(300 * MIB, "xfs")
        place = host.settings.datadir
        os.makedirs(place, exist_ok=True)
        type(ready).__mro__[1]().run(["mount", other.path, place])
        assert self.start(host, ready, capsys)["error"] == "DeviceInUse"


class TestDrain:
    def test_it_counts_what_the_server_says(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("PROCESSLIST", answer=json_row(connections=4, running_statements=1, transactions=2))
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("COUNT_STAR", answer=json_row(statements=812, errors=3, picoseconds=4.1e11))
        found = client_activity(host.settings, programs)
        assert found == {
            "connections": 4,
            "running_statements": 1,
            "transactions": 2,
            "client_statements": 812,
        }

    def test_without_statistics_the_statements_are_unknown(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("PROCESSLIST", answer=json_row(connections=0, running=0, transactions=0))
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=0))
        assert client_activity(host.settings, programs)["client_statements"] is None


class TestServiceMeasurement:
    def test_it_is_the_difference_of_two_looks(self, host: Host, programs: ScriptedProcesses) -> None:
        looks = [
            json_row(statements=1000, errors=3, picoseconds=4.0e11),
            json_row(statements=1500, errors=4, picoseconds=6.0e11),
        ]
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("COUNT_STAR", answer=lambda _: looks.pop(0))
        found = measure_service(admin_client(host.settings, programs), 30, lambda seconds: None)
        assert found == {
            "measurable": True,
            "queries": 500,
            "errors": 1,
            "mean_ms": 0.4,
            "window_seconds": 30,
        }

    def test_a_restart_within_the_window_is_no_answer(self, host: Host, programs: ScriptedProcesses) -> None:
        looks = [json_row(statements=n, errors=0, picoseconds=1e9) for n in (1000, 5)]
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=1))
        programs.on("COUNT_STAR", answer=lambda _: looks.pop(0))
        with pytest.raises(ServerRestarted):
            measure_service(admin_client(host.settings, programs), 1, lambda seconds: None)

    def test_a_server_without_statistics_says_so_at_once(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("@@GLOBAL.performance_schema", answer=json_row(on=0))
        found = measure_service(admin_client(host.settings, programs), 30)
        assert (found["measurable"], found["queries"], found["mean_ms"]) == (False, 0, None)
