"""Joining the source: by which login, encryption and position, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from host_bench import RUNNING, A, B, Host, ScriptedProcesses, json_row, status, table
from peaker_host.machine.errors import (
    BinlogsGone,
    CommandFailed,
    ErrantTransactions,
    ReplicationNotConfigured,
    ReplicationStopped,
    UnsupportedChannels,
)
from peaker_host.replicate.identity import draw, kept_server_id
from peaker_host.replicate.replication import join_statements, start_replication
from peaker_host.replicate.source_login import Credentials, Encryption

STOPPED = status(Replica_IO_Running="No", Replica_SQL_Running="No")


def join(host: Host, programs: ScriptedProcesses, source: str = "10.77.1.10") -> dict[str, Any]:
    return start_replication(host.machine(programs), source, lambda _text: None)


def shows(programs: ScriptedProcesses, *statuses: str) -> None:
    """The channel's status, one after the other."""
    left = list(statuses)
    programs.on("SHOW REPLICA STATUS", answer=lambda _: left.pop(0))


class TestStartReplication:
    def source(self, programs: ScriptedProcesses, executed: str, purged: str, mine: str) -> None:
        programs.on("SHOW REPLICA STATUS", answer=status())
        programs.on(
            "slave_master_info",
            answer=table({"User_name": "repl", "User_password": "secret", "Port": "3306"}),
        )
        programs.on("gtid", "@@GLOBAL.gtid_executed", answer=json_row(gtid=mine))
        programs.on("gtid_purged", answer=json_row(executed=executed, purged=purged))
        programs.on("'id', @@GLOBAL.server_id", answer=json_row(id=1))
        programs.on("'uuid', @@GLOBAL.server_uuid", answer=json_row(id=77, uuid=B))
        programs.on("SHOW REPLICAS", answer="")
        programs.on("STOP REPLICA").on("CHANGE REPLICATION SOURCE").on("START REPLICA")

    def test_it_joins_by_gtid_with_the_stored_user(self, host: Host, programs: ScriptedProcesses) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        shows(programs, STOPPED, STOPPED.replace("No", "Connecting", 1), status(), status())
        found = join(host, programs)
        (change,) = programs.said("CHANGE REPLICATION SOURCE")
        for part in ("'10.77.1.10'", "'repl'", "'secret'", "AUTO_POSITION = 1"):
            assert part in change
        assert (found["gtid_behind"], found["source_checked"], found["already_running"]) == (10, True, False)

    @pytest.mark.parametrize(
        ("readers", "expected"),
        [
            ([], 77),
            ([{"Server_Id": 77, "Source_Id": 1, "Replica_UUID": B}], 77),
            ([{"Server_Id": 77, "Source_Id": 1, "Replica_UUID": ""}], draw(77, {77})),
            ([{"Server_Id": 78, "Replica_UUID": B}, {"Server_Id": 77, "Replica_UUID": A}], draw(77, {77})),
        ],
        ids=["nobody", "itself", "a-cdc-tool", "another-replica"],
    )  # fmt: skip
    def test_a_server_id_that_another_reader_of_the_source_has_is_drawn_anew(
        self, host: Host, programs: ScriptedProcesses, readers: list[dict[str, object]], expected: int
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        Path(host.settings.config_dir).mkdir()
        programs.on("SHOW REPLICAS", answer=table(*readers)).on("SET GLOBAL server_id")
        shows(programs, STOPPED, STOPPED, status(), status())
        assert join(host, programs)["server_id"] == expected
        assert kept_server_id(host.settings, 77) == expected
        assert len(programs.said(f"SET GLOBAL server_id = {expected}")) == (expected != 77)
        if expected != 77:
            written = (Path(host.settings.config_dir) / "zz-peaker.cnf").read_text()
            assert f"server_id = {expected}\n" in written
            assert kept_server_id(host.settings, 5) == 5, "the one of another build"

    def test_what_is_drawn_is_free_itself(self) -> None:
        first = draw(77, {77})
        assert draw(77, {77, first}) not in {77, first, 0}

    def test_a_source_that_does_not_show_its_readers_is_joined(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        programs.on("SHOW REPLICAS", answer=CommandFailed("Access denied; you need REPLICATION SLAVE"))
        shows(programs, STOPPED, STOPPED, status(), status())
        found = join(host, programs)
        assert (found["server_id"], found["already_running"]) == (None, False)

    def test_its_receiver_does_not_give_a_restarting_source_up(
        self,
    ) -> None:
        """MySQL's default of 10 tries would be over within a minute, at one every 5 s; then it stops for good."""
        *_, change, _ = join_statements("mysql", "10.77.1.10", Credentials("repl", "secret", 3306))
        retry = {word: int(count) for word, count in re.findall(r"SOURCE_(\w*RETRY\w*) = (\d+)", change)}
        assert retry["CONNECT_RETRY"] * retry["RETRY_COUNT"] > 24 * 3600

    def test_purged_binary_logs_are_found_before_the_channel_is_touched(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", f"{A}:1-25", f"{A}:1-20")
        with pytest.raises(BinlogsGone, match="purged 5 transactions"):
            join(host, programs)
        assert not programs.said("STOP REPLICA")

    def test_transactions_that_the_source_lacks_are_refused(
        self, host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("peaker_host.replicate.errant._PAUSE_SECONDS", 0.0)
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20,{B}:1-2")
        with pytest.raises(ErrantTransactions, match=f"2 transactions that the source does not: {B}:1-2"):
            join(host, programs)

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
        found = join(host, programs)
        assert (found["already_running"], found["source_checked"]) == (True, True)
        assert not programs.said("CHANGE REPLICATION SOURCE"), "a channel that runs is left alone"

    def test_a_transaction_that_the_source_has_sent_and_not_counted_yet_is_no_errant_one(
        self, host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("peaker_host.replicate.errant._PAUSE_SECONDS", 0.0)
        self.source(programs, "", "", f"{A}:1-21")
        counted = [f"{A}:1-20", f"{A}:1-20", f"{A}:1-21"]
        programs.on("gtid_purged", answer=lambda _: json_row(executed=counted.pop(0), purged=""))
        assert join(host, programs)["already_running"]

    def test_a_named_channel_is_the_one_that_is_made_again(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        stopped = status(Replica_IO_Running="No", Channel_Name="ea'st")
        shows(programs, stopped, stopped, *[status(Channel_Name="ea'st")] * 2)
        join(host, programs)
        for words in ("STOP REPLICA", "CHANGE REPLICATION SOURCE", "START REPLICA"):
            assert programs.said(words)[0].endswith(" FOR CHANNEL 'ea''st';\n")
        assert programs.said("Channel_name = 'ea''st'")

    def test_several_channels_are_refused_here_too(self, host: Host, programs: ScriptedProcesses) -> None:
        two = table({**RUNNING, "Channel_Name": "east"}, {**RUNNING, "Channel_Name": "west"})
        programs.on("SHOW REPLICA STATUS", answer=two)
        with pytest.raises(UnsupportedChannels, match="'east', 'west'"):
            join(host, programs)

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
            join(host, programs)

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
            join(host, programs)

    def test_without_any_user_it_says_where_one_is_looked_for(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("slave_master_info", answer="").on("SHOW REPLICA STATUS", answer=status())
        with pytest.raises(ReplicationNotConfigured, match=r"replication\.json"):
            join(host, programs)

    def test_a_credentials_file_comes_before_what_is_stored(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.source(programs, f"{A}:1-30", "", f"{A}:1-20")
        Path(host.settings.replication_credentials_file).write_text('{"user": "other", "password": "p"}')
        programs.on("SHOW REPLICA STATUS", answer=status(Source_Host="old"))
        join(host, programs)
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
        shows(programs, *[status(Source_Host="old")] * 2, status(), status())
        join(host, programs)
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
                join(host, programs)
        else:
            found = join(host, programs)
            assert found["source_checked"] is (begins is not None), "unknown is not checked"

    @pytest.mark.parametrize(
        ("encryption", "lines"),
        [
            (Encryption(), ["skip-ssl"]),
            (Encryption(encrypted=True), ["ssl", "skip-ssl-verify-server-cert"]),
            (Encryption(encrypted=True, verified=True), ["ssl", "ssl-verify-server-cert"]),
        ],
    )
    def test_mariadb_11_4_is_told_also_what_is_off(self, encryption: Encryption, lines: list[str]) -> None:
        """MDEV-31857: its client and its channel encrypt and verify by default, so that a 10.11 without TLS was not
        asked for its position (SSL is required, but the server does not support it), nor followed."""
        assert encryption.client_lines("mariadb") == lines
        *_, change, _ = join_statements("mariadb", "db", Credentials("r", "p", 3306, "db", encryption))
        assert f"MASTER_SSL = {int(encryption.encrypted)}," in f"{change},"
        assert f"MASTER_SSL_VERIFY_SERVER_CERT = {int(encryption.verified)}," in f"{change},"

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
        programs.on(
            "SHOW SLAVE HOSTS", answer=table({"Server_id": 77, "Host": "", "Port": 3306, "Master_id": 1})
        )
        programs.on("@@GLOBAL.server_id", answer=json_row(id=5))
        programs.on("'uuid', CONCAT('server-'", answer=json_row(id=6, uuid="server-6"))
        programs.on("gtid_binlog_pos", answer=json_row(gtid="0-1-21", executed="0-1-22", purged=""))
        programs.on("STOP SLAVE").on("RESET SLAVE").on("CHANGE MASTER").on("START SLAVE")
        found = join(host, programs, "10.0.0.1")
        assert programs.said("SET GLOBAL gtid_slave_pos = '0-1-21'")
        assert (found["gtid_set"], found["gtid_behind"]) == ("0-1-21", 1)
