"""A replica that its owner built becomes a donor: what is looked at, what is made, and what is left alone."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from host_bench import A, B, Host, ScriptedProcesses, answering, json_row, mounts_of, status, table, variables
from peaker_host.database import data_paths
from peaker_host.donor import base_replica
from peaker_host.donor.base_checks import Filesystem
from peaker_host.donor.base_replica import BaseRequest, prepare_base
from peaker_host.health.server import HealthServer, listen
from peaker_host.machine.errors import BaseNotPrepared, CommandFailed
from peaker_host.machine.settings import Completed, Machine

DATA = "/var/lib/mysql"
MOUNTS = {"/": "ext4", DATA: "xfs"}
GOOD_ANSWER = (200, {"state": "good", "why": "read only, replicating, in time"})
MARIADB_STATUS = {
    "Master_Host": "10.0.0.1", "Master_Port": "3306", "Slave_IO_Running": "Yes", "Slave_SQL_Running": "Yes",
    "Seconds_Behind_Master": "0", "Using_Gtid": "Slave_Pos", "Master_Server_Id": "1",
}  # fmt: skip


class Programs(ScriptedProcesses):
    """Whose rules may also give an exit code."""

    def run(self, argv: Any, **given: Any) -> Completed:
        done = super().run(argv, **given)
        return Completed(1, "", done.stdout) if done.stdout.startswith("exit 1") else done


class Base:
    """A host without anything of Peaker's, its server, and prepare_base on it."""

    def __init__(self, host: Host, programs: Programs, port: int) -> None:
        self.host, self.programs = host, programs
        self.path = host.root / "etc-host.json"
        self.settings = replace(
            host.settings, datadir=DATA, mysql_service="mysql", health_address="127.0.0.1"
        )
        self.request = BaseRequest("mysql", port, (Filesystem(DATA, "xfs"),), 172_800, {"lag_seconds": 5.0})

    def prepare(self, **changes: Any) -> dict[str, Any]:
        request = replace(self.request, **changes)
        return prepare_base(
            Machine.of(self.settings, self.programs), str(self.path), request, 0.0, lambda _text: None
        )

    def refused(self, **changes: Any) -> dict[str, dict[str, str]]:
        with pytest.raises(BaseNotPrepared) as error:
            self.prepare(**changes)
        return {step["name"]: step for step in error.value.numbers["steps"] if step["state"] == "refused"}

    def has_account(self) -> None:
        Path(self.settings.health_defaults_file).write_text("[client]\nuser=peaker_health\npassword=x\n")
        os.chmod(self.settings.health_defaults_file, 0o600)

    def files(self) -> set[str]:
        """What prepare_base may write."""
        names = ("admin.cnf", "health.cnf", "health.json", "etc-host.json", "units/peaker-health.service")
        return {name for name in names if (self.host.root / name).exists()}


def states(result: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["state"] for step in result["steps"]}


@pytest.fixture
def responder() -> Iterator[int]:
    """What systemd starts on a real host."""
    with answering(HealthServer(listen(["127.0.0.1"], 0), lambda: GOOD_ANSWER)) as port:
        yield port


@pytest.fixture
def base(host: Host, responder: int, monkeypatch: pytest.MonkeyPatch) -> Base:
    programs = Programs()
    monkeypatch.setattr(data_paths, "links_in", lambda _datadir: [])
    monkeypatch.setattr("peaker_host.donor.base_checks.read_mounts", lambda: mounts_of(MOUNTS))
    programs.on("systemctl").on("SELECT 1", answer=table({"1": 1})).on("innodb_buffer_pool_dump_pct")
    programs.on("CURRENT_USER", answer=json_row(who="root@localhost"))
    programs.on("IF(@@GLOBAL.performance_schema", answer=json_row(on=1))
    programs.on("GLOBAL.socket", answer=json_row(version="8.4.3", datadir=f"{DATA}/", socket="/run/mysqld/s"))
    programs.on(
        "SHOW REPLICA STATUS", answer=status(Auto_Position="1", Source_Server_Id="1", Channel_Name="")
    )
    programs.on("IF(@@GLOBAL.super_read_only", answer=json_row(read_only=1))
    programs.on("'on', @@GLOBAL.super_read_only", answer=json_row(on=1))
    programs.on("gtid_mode", answer=json_row(mode="ON")).on("server_id", answer=json_row(server_id=7))
    programs.on("SHOW GLOBAL VARIABLES", answer=variables(datadir=DATA, log_bin_basename=f"{DATA}/binlog"))
    programs.on("information_schema.FILES").on("HEARTBEAT_INTERVAL", answer=table({"seconds": "1.000"}))
    login = {"User_name": "repl", "User_password": "p", "Port": "3306", "Enabled_ssl": "0"}
    programs.on("'executed', @@GLOBAL.gtid_executed, 'uuid'", answer=json_row(executed=f"{A}:1-40", uuid=B))
    programs.on("gtid_purged", answer=json_row(executed=f"{A}:1-42", purged=""))
    programs.on("slave_master_info", answer=table(login))
    programs.on("binlog_expire_logs_seconds", answer=json_row(seconds=2_592_000))
    programs.on("keyring_component_status").on(
        "'redo'", answer=json_row(datadir="/var/lib/mysql", redo="", binlog="")
    )
    programs.on("information_schema.PLUGINS").on("CREATE USER").on("SET GLOBAL super_read_only = ON")
    programs.on("mysql.user")
    return Base(host, programs, responder)


class TestWhatIsMade:
    def test_a_bare_host_gets_login_account_policy_and_responder(self, base: Base) -> None:
        result = base.prepare(account_here=True)
        made = {name for name, state in states(result).items() if state == "done"}
        assert made == {
            *("administrator", "agent retention", "health account", "health policy", "health responder"),
            "host settings",
        }
        assert result["changed"] is True
        root = base.host.root
        assert (root / "admin.cnf").read_text() == "[client]\nuser=root\n[client]\nsocket=/run/mysqld/s\n"
        assert {(root / name).stat().st_mode & 0o777 for name in ("admin.cnf", "health.cnf")} == {0o600}
        assert json.loads(base.path.read_text()) == {"health_port": base.request.health_port}
        assert json.loads((root / "health.json").read_text()) == {"lag_seconds": 5.0}
        assert (
            f"health --port {base.request.health_port}" in (root / "units/peaker-health.service").read_text()
        )

    def test_the_second_time_changes_nothing(self, base: Base) -> None:
        base.prepare(account_here=True)
        before = {name: (base.host.root / name).stat().st_mtime_ns for name in base.files()}
        base.programs.calls.clear()
        result = base.prepare(account_here=True)
        assert set(states(result).values()) == {"already there"}
        assert result["changed"] is False
        assert {name: (base.host.root / name).stat().st_mtime_ns for name in base.files()} == before
        assert not base.programs.said("CREATE USER")
        assert not base.programs.said("systemctl", "start")

    def test_the_server_is_neither_restarted_nor_logged_to(self, base: Base) -> None:
        base.prepare(account_here=True)
        verbs = {argv[1] for argv, _ in base.programs.calls if argv[0] == "systemctl" and "mysql" in argv}
        assert verbs == {"is-active", "is-enabled"}
        (made,) = base.programs.said("CREATE USER")
        assert "sql_log_bin = 0" in made.split("CREATE USER")[0]

    def test_an_account_that_came_from_the_source_is_used(self, base: Base) -> None:
        base.has_account()
        assert states(base.prepare())["health account"] == "already there"
        assert not base.programs.said("CREATE USER")

    def test_the_owner_s_login_is_included_and_its_password_never_copied(self, base: Base) -> None:
        own = base.host.root / "dba.cnf"
        own.write_text("[client]\nuser=dba\npassword=secret\n")
        own.chmod(0o600)
        base.prepare(admin_defaults_file=str(own), account_here=True)
        written = (base.host.root / "admin.cnf").read_text()
        assert written.startswith(f"!include {own}\n")
        assert "secret" not in written
        assert not [argv for argv, _ in base.programs.calls if "secret" in " ".join(argv)]

    def test_what_others_wrote_into_host_json_stays(self, base: Base) -> None:
        base.path.write_text(json.dumps({"health_address": "127.0.0.1", "engine": "mariadb"}))
        base.prepare(account_here=True)
        written = json.loads(base.path.read_text())
        assert (written["health_address"], written["engine"]) == ("127.0.0.1", "mysql")

    def test_the_unit_that_runs_the_server_is_found(self, base: Base) -> None:
        base.programs.on("systemctl is-active mysql", answer="exit 1").on("systemctl is-active mysqld")
        base.prepare(account_here=True)
        assert json.loads(base.path.read_text())["mysql_service"] == "mysqld"

    def test_mariadb_has_its_own_words(self, base: Base) -> None:
        rows = table(MARIADB_STATUS)
        base.programs.on("SHOW SLAVE STATUS", answer=rows).on("SHOW ALL SLAVES", answer=rows)
        base.programs.on("CAST(@@GLOBAL.read_only AS CHAR)", answer=json_row(read_only=1))
        base.programs.on("SLAVE_HEARTBEAT_PERIOD", answer=table({"seconds": "1.000"}))
        said = json_row(version="10.11.6-MariaDB", datadir=DATA, socket="/run/mysqld/s")
        base.programs.on("GLOBAL.socket", answer=said)
        assert states(base.prepare(engine="mariadb", account_here=True))["gtid"] == "already there"
        assert json.loads(base.path.read_text())["engine"] == "mariadb"


class TestRefusals:
    def test_without_an_account_the_statements_for_the_source_are_told_and_nothing_is_made(
        self, base: Base
    ) -> None:
        steps = base.refused()
        assert set(steps) == {"health account"}
        told = steps["health account"]["remedy"]
        assert "CREATE USER 'peaker_health'@'localhost' IDENTIFIED BY '<password>'" in told
        assert "GRANT REPLICATION CLIENT ON *.* TO 'peaker_health'@'localhost'" in told
        assert "--create-account-here" in told
        assert base.files() == set()
        assert not base.programs.said("CREATE USER")

    @pytest.mark.parametrize(
        ("words", "answer", "step", "why"),
        [
            (("GLOBAL.socket",), json_row(version="8.0.36", datadir=DATA, socket=""), "version", "too old"),
            (("GLOBAL.socket",), json_row(version="11.4.2-MariaDB", datadir=DATA, socket=""), "version", "engine"),
            (("SHOW REPLICA STATUS",), "", "replication", "source"),
            (("IF(@@GLOBAL.super_read_only",), json_row(read_only=0), "replication", "accepts writes"),
            (("SHOW REPLICA STATUS",), status(Replica_SQL_Running="No"), "replication", "does not run"),
            (("gtid_mode",), json_row(mode="OFF_PERMISSIVE"), "gtid", "OFF_PERMISSIVE"),
            (("SHOW REPLICA STATUS",), status(Auto_Position="0"), "gtid", "file and position"),
            (("server_id",), json_row(server_id=0), "server_id", "is 0"),
            (("server_id",), json_row(server_id=1), "server_id", "also its source's"),
            (("SHOW GLOBAL VARIABLES",), variables(datadir="/srv/mysql"), "volumes", "DataOutsideVolumes"),
        ],
    )  # fmt: skip
    def test_a_server_that_could_be_no_donor(
        self, base: Base, words: tuple[str, ...], answer: str, step: str, why: str
    ) -> None:
        base.programs.on(*words, answer=answer)
        steps = base.refused(account_here=True)
        assert why in steps[step]["detail"]
        assert base.files() == set()

    @pytest.mark.parametrize(
        ("mounts", "why"),
        [
            ({"/": "ext4"}, "nothing is mounted"),
            ({"/": "ext4", DATA: "ext4"}, "is ext4, the settings say xfs"),
        ],
    )
    def test_volumes_that_are_not_those_of_the_settings(
        self, base: Base, monkeypatch: pytest.MonkeyPatch, mounts: dict[str, str], why: str
    ) -> None:
        monkeypatch.setattr("peaker_host.donor.base_checks.read_mounts", lambda: mounts_of(mounts))
        assert why in base.refused(account_here=True)["volumes"]["detail"]

    def test_a_transaction_that_somebody_wrote_on_the_replica(
        self, base: Base, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A person with SUPER made a user on the replica: every copy of it would be refused after its build."""
        monkeypatch.setattr("peaker_host.replicate.errant._PAUSE_SECONDS", 0.0)
        said = json_row(executed=f"{A}:1-40,{B}:1", uuid=B)
        base.programs.on("'executed', @@GLOBAL.gtid_executed, 'uuid'", answer=said)
        step = base.refused(account_here=True)["errant transactions"]
        assert f"1 transactions that the source does not: {B}:1;" in step["detail"]
        assert "SET gtid_next" in step["remedy"]
        assert base.files() == set()

    def test_a_root_that_needs_a_password_names_the_option(self, base: Base) -> None:
        base.programs.on("CURRENT_USER", answer=CommandFailed("ERROR 1045 (28000): Access denied for 'root'"))
        steps = base.refused()
        assert set(steps) == {"administrator"}
        assert "1045" in steps["administrator"]["detail"]
        assert "--admin-defaults-file" in steps["administrator"]["remedy"]

    def test_a_login_that_others_could_read(self, base: Base) -> None:
        own = base.host.root / "dba.cnf"
        own.write_text("[client]\nuser=dba\npassword=secret\n")
        own.chmod(0o644)
        steps = base.refused(admin_defaults_file=str(own))
        assert steps["administrator"]["remedy"] == f"chown root {own}; chmod 600 {own}"

    def test_an_administrator_that_may_not_dump_the_page_list(self, base: Base) -> None:
        base.programs.on("SET GLOBAL innodb_buffer_pool_dump_pct", answer=CommandFailed("ERROR 1227"))
        assert "SYSTEM_VARIABLES_ADMIN" in base.refused()["administrator"]["remedy"]

    def test_a_responder_that_does_not_answer_is_refused_with_its_reason(self, base: Base) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            steps = base.refused(account_here=True, health_port=closed.getsockname()[1])
        assert "no answer" in steps["health answer"]["detail"]

    def test_a_responder_that_answers_bad_says_why(self, base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(base_replica, "read_health", lambda *_: (503, {"why": "lag 99 s is over 5 s"}))
        assert "503: lag 99 s is over 5 s" in base.refused(account_here=True)["health answer"]["detail"]


class TestWarnings:
    """It works today, and will hurt one day."""

    @pytest.mark.parametrize(
        ("words", "answer", "step", "remedy"),
        [
            (
                ("binlog_expire",),
                json_row(seconds=3600),
                "binary logs",
                "binlog_expire_logs_seconds = 172800",
            ),
            (("binlog_expire",), CommandFailed("ERROR 2003"), "binary logs", "at least 172800"),
            (
                ("HEARTBEAT_INTERVAL",),
                table({"seconds": "30.000"}),
                "heartbeat",
                "SOURCE_HEARTBEAT_PERIOD = 1",
            ),
            (
                ("gtid_purged",),
                CommandFailed("ERROR 1045 (28000): Access denied"),
                "errant transactions",
                "GTID_SUBTRACT",
            ),
            (("systemctl is-enabled mysql",), "exit 1", "unit", "systemctl enable mysql"),
            (
                ("information_schema.PLUGINS",),
                table({"plugin": "audit_log", "loaded_from": "audit_log.so"}),
                "plugins",
                "image of the peak replicas",
            ),
            (
                ("information_schema.PLUGINS",),
                table({"plugin": "keyring_file", "loaded_from": "keyring_file.so"}),
                "plugins",
                "keys of keyring_file",
            ),
            (
                ("IF(@@GLOBAL.performance_schema",),
                json_row(on=0),
                "client statements",
                "performance_schema = ON",
            ),
        ],
    )
    def test_it_is_told_and_holds_nothing_up(
        self, base: Base, words: tuple[str, ...], answer: Any, step: str, remedy: str
    ) -> None:
        base.programs.on(*words, answer=answer)
        found = {one["name"]: one for one in base.prepare(account_here=True)["steps"]}
        assert found[step]["state"] == "warning"
        assert remedy in found[step]["remedy"]


class TestACheckThatMakesNothing:
    def check(self, base: Base, **changes: Any) -> dict[str, Any]:
        return base.prepare(check_only=True, **changes)

    def test_a_bare_host_hears_what_is_not_made_and_gets_nothing(self, base: Base) -> None:
        steps = base.refused(check_only=True)
        assert set(steps) == {"administrator", "host settings", "health account", "health responder"}
        for name in ("administrator", "host settings", "health responder"):
            assert "peaker prepare-base" in steps[name]["remedy"]
        assert base.files() == set()
        assert not os.path.exists(base.settings.state_dir)
        assert not base.programs.said("systemctl", "start")
        assert not base.programs.said("CREATE USER")

    def test_a_prepared_host_is_good_and_tells_what_servers_are_compared_by(self, base: Base) -> None:
        base.prepare(account_here=True)
        result = self.check(base)
        assert set(states(result).values()) == {"already there"}
        assert result["changed"] is False
        assert (result["server_id"], result["source_host"]) == (7, "10.77.1.10")

    def test_settings_that_changed_since_are_told(self, base: Base) -> None:
        base.prepare(account_here=True)
        found = states(self.check(base, health={"lag_seconds": 9.0}))
        assert found["health policy"] == "warning"
        (base.host.root / "units/peaker-health.service").write_text("of another release")
        assert set(base.refused(check_only=True)) == {"health responder"}

    def test_a_login_that_may_not_see_the_channel_loses_no_other_step(self, base: Base) -> None:
        base.prepare(account_here=True)
        base.programs.on("SHOW REPLICA STATUS", answer=CommandFailed("ERROR 1227 (42000): Access denied"))
        assert "replication" in base.refused(check_only=True)
