"""From restored volumes to a server with an identity of its own."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from host_bench import MIB, A, B, Host, ScriptedProcesses, answering, json_row, table
from peaker_host.health.server import HealthServer, listen
from peaker_host.machine.errors import CommandFailed, DatabaseStartFailed, ResponderUnreachable, TornSnapshot

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


def answer_of_a_running_server() -> str:
    return table({"1": 1})


# The accounts came with the donor's data; Oracle's RPMs let no root in without a password.
ACCESS_DENIED = CommandFailed(
    "mysql ended with exit code 1: ERROR 1045 (28000): Access denied for user 'root'@'localhost'"
)
ACCOUNT_LOCKED = CommandFailed(
    "mysql ended with exit code 1: ERROR 3118 (HY000): Access denied for user 'root'@'localhost'. Account is locked."
)


def nobody_answers() -> str:
    raise CommandFailed("ERROR 2002 (HY000): Can't connect to local MySQL server through socket")


@contextmanager
def responder_without_a_sample() -> Iterator[int]:
    with answering(HealthServer(listen(["127.0.0.1"], 0), lambda: (503, {"why": "no sample yet"}))) as port:
        yield port


class TestStartDatabase:
    @pytest.fixture
    def responder_port(self) -> Iterator[int]:
        with responder_without_a_sample() as port:
            yield port

    @pytest.fixture
    def ready(
        self,
        host: Host,
        programs: ScriptedProcesses,
        monkeypatch: pytest.MonkeyPatch,
        responder_port: int,
    ) -> Iterator[ScriptedProcesses]:
        monkeypatch.setattr("peaker_host.replicate.launch._LOOK_SECONDS", 0.01)
        monkeypatch.setattr("peaker_host.replicate.launch._LEAST_SECONDS", 0.1)
        volume = host.volume(300 * MIB, "xfs")
        place = host.root / "place0"
        host.configure(datadir=str(place), health_port=responder_port)
        with host.mounted(volume) as point:
            (point / "auto.cnf").write_text("[auto]\nserver-uuid=donor\n")
        assembled = host.call("assemble_storage", "--volumes", host.request(volume))
        assert assembled["ok"]
        real = type(programs).__mro__[1]()
        programs.on("mount -t", answer=lambda text: real.run(text.split()).stdout)
        runs: list[bool] = []
        programs.on("SELECT 1", answer=lambda _: answer_of_a_running_server() if runs else nobody_answers())
        programs.on("systemctl").on("systemctl stop mysql", answer=lambda _: runs.clear() or "")
        programs.on("systemctl start mysql", answer=lambda _: runs.append(True) or "")
        programs.on("systemctl is-active", answer=lambda _: "active\n" if runs else "inactive\n")
        programs.on("SET GLOBAL super_read_only = ON").on("CREATE USER")
        programs.on("'on', @@GLOBAL.super_read_only", answer=json_row(on=1))
        programs.on("performance_schema.error_log", answer=json_row(torn=0))
        programs.on(
            "@@GLOBAL.innodb_buffer_pool_filename",
            answer=json_row(
                innodb_buffer_pool_filename="ib_buffer_pool",
                innodb_io_capacity=20_000,
                innodb_io_capacity_max=20_000,
            ),
        )
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
        self, host: Host, programs: ScriptedProcesses, timeout_seconds: int = 5, *more: str
    ) -> dict[str, Any]:
        limits = ("--server-id", "7", "--timeout-seconds", str(timeout_seconds), *more)
        return host.call("start_database", *limits, programs=programs)

    @pytest.mark.real
    def test_a_copy_gets_its_own_identity_once_and_starts_read_only(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        first = self.start(host, ready)
        assert (first["ok"], first["server_uuid"], first["read_only"]) == (True, A, True)
        agent = json.loads(Path(host.settings.agent_config).read_text())
        assert agent["Ssm"]["RunCommandLogsRetentionDurationHours"] == 8, (
            "a command a minute fills the root volume"
        )
        identity = Path(host.settings.datadir) / "auto.cnf"
        assert not identity.exists()
        options = (Path(host.settings.config_dir) / "zz-peaker.cnf").read_text().splitlines()
        for option in ("server_id = 7", "skip_replica_start = ON", "super_read_only = ON"):
            assert option in options
        assert "innodb_buffer_pool_dump_pct = 75" in options, (
            "its own list, which a parked replica comes back with, has no fewer pages than the donor's"
        )
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
        second = self.start(host, ready)
        assert second["started_seconds"] == first["started_seconds"]
        assert identity.exists(), "an own identity is never taken away"

    @pytest.mark.real
    def test_what_the_donor_persisted_for_itself_does_not_come_with_the_copy(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        """SET PERSIST server_id = 777, read_only = OFF on the donor: mysqld-auto.cnf wins over every option file."""
        with host.mounted(host.volumes[0]) as point:
            (point / "mysqld-auto.cnf").write_text(json.dumps(PERSISTED))
            (point / "mysqld-auto.cnf.backup").write_text(json.dumps(PERSISTED))
            os.chown(point / "mysqld-auto.cnf", 27306, 27306)
        assert self.start(host, ready)["ok"]
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
        said: dict[str, Any],
        names: str,
    ) -> None:
        ready.on("server_version", answer=self.server_says(host, **said))
        source = {"VARIABLE_NAME": "server_id", "VARIABLE_SOURCE": "COMMAND_LINE", "VARIABLE_PATH": ""}
        ready.on("variables_info", answer=table(source))
        for _ in range(2):
            result = self.start(host, ready)
            assert (result["ok"], result.get("error")) == (False, "IdentityNotTaken")
            assert names in result["message"]
            assert "server_id from COMMAND_LINE" in result["message"]
            last = [" ".join(argv) for argv, _ in ready.calls if argv[0] == "systemctl"][-1]
            assert last == "systemctl stop mysql"

    @pytest.mark.real
    def test_the_responder_listens_where_the_settings_say_also_on_a_replica_that_returns_after_they_changed(
        self, host: Host, ready: ScriptedProcesses, responder_port: int
    ) -> None:
        shown = "Id=mysql.service\nLoadState=loaded\nExecStart={ argv[]=/usr/sbin/mysqld ; pid=0 }\n"
        ready.on("systemctl show", answer=shown).on("--version", answer="Ver 8.4.3")
        ready.on(
            "--print-defaults",
            answer=lambda _: f"mysqld\n--datadir={host.settings.datadir} --peaker_reads_this=1",
        )
        unit = Path(host.settings.unit_dir) / "peaker-health.service"
        assert self.start(host, ready)["ok"]
        assert f"health --port {responder_port}" in unit.read_text()
        with responder_without_a_sample() as port:
            given = ("--engine", "mysql", "--health-port", str(port))
            assert self.start(host, ready, 5, *given)["ok"]
        assert f"health --port {port}" in unit.read_text()
        assert json.loads(host.settings_path.read_text())["health_port"] == port
        assert ready.said("systemctl", "restart", "peaker-health.service")

    @pytest.mark.real
    def test_a_server_that_the_image_started_is_stopped_before_the_volumes_come_over_its_files(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        assert self.start(host, ready)["ok"]
        programs = [argv[0] for argv, _ in ready.calls]
        assert programs.index("systemctl") < programs.index("mount")
        drop_in = Path(host.settings.unit_dir) / "mysql.service.d" / "peaker-volumes.conf"
        written = drop_in.read_text().splitlines()
        assert f"ConditionPathIsMountPoint={host.settings.datadir}" in written
        assert written[-3:] == ["[Service]", "TimeoutStartSec=infinity", "TimeoutStopSec=infinity"], (
            "the waits are those of start_database and stop_database: MariaDB's unit gives a shutdown 900 s"
        )

    @pytest.mark.real
    def test_where_the_server_may_start_is_told_to_systemd_after_a_command_that_was_killed(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        """The first had written it, so that the second took it for told: the server started under its old limits."""
        ready.on("daemon-reload", answer=CommandFailed("killed"))
        assert not self.start(host, ready)["ok"]
        ready.on("daemon-reload").calls.clear()
        assert self.start(host, ready)["ok"]
        verbs = [argv[1] for argv, _ in ready.calls if argv[0] == "systemctl"]
        assert verbs.index("daemon-reload") < verbs.index("start")

    @pytest.mark.real
    @pytest.mark.parametrize("answer", [answer_of_a_running_server(), ACCESS_DENIED, ACCOUNT_LOCKED])
    def test_a_server_that_cannot_be_stopped_is_not_mounted_over(
        self, host: Host, ready: ScriptedProcesses, answer: Any
    ) -> None:
        """Also one that refuses the login: another unit's, with passwords of its own."""
        ready.on("SELECT 1", answer=answer)
        result = self.start(host, ready)
        assert result["error"] == "DatabaseStillRunning"
        assert not os.path.ismount(host.settings.datadir)

    @pytest.mark.real
    def test_a_log_sequence_number_in_the_future_is_a_torn_snapshot(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        ready.on("performance_schema.error_log", answer=json_row(torn=1))
        assert self.start(host, ready)["error"] == TornSnapshot.__name__

    @pytest.mark.real
    def test_the_same_in_the_log_file(self, host: Host, ready: ScriptedProcesses) -> None:
        log = Path(host.settings.error_log)
        log.write_text("old: log sequence number 1 is in the future!\n")

        def start(_text: str) -> str:
            log.write_text(log.read_text() + "Page log sequence number 2 is in the future!\n")
            return ""

        assert self.start(host, ready)["ok"], "an old line says nothing about this start"
        ready.on("systemctl start mysql", answer=start)
        assert self.start(host, ready)["error"] == "TornSnapshot"

    @pytest.mark.real
    def test_the_same_in_the_journal_of_a_mariadb_that_writes_no_log_file(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        """As Debian and Ubuntu configure it; performance_schema has no error log there."""
        host.configure(engine="mariadb", error_log="/var/log/mysql/nowhere.log")
        line = "mariadbd[7]: [ERROR] InnoDB: Page [page id: space=0] log sequence number 9 is in the future!"
        ready.on("systemctl status", answer=line)
        assert self.start(host, ready)["error"] == "TornSnapshot"

    @pytest.mark.real
    def test_a_server_that_does_not_come_up_shows_its_log(self, host: Host, ready: ScriptedProcesses) -> None:
        ready.on("SELECT 1", answer=CommandFailed("no"))
        ready.on(
            "systemctl start mysql", answer=lambda _: Path(host.settings.error_log).write_text("boom") and ""
        )
        ready.on("systemctl is-active", answer="active\n")
        result = self.start(host, ready, timeout_seconds=1)
        assert result["error"] == DatabaseStartFailed.__name__
        assert "boom" in result["message"]

    @pytest.mark.real
    def test_a_server_that_refuses_the_administrator_is_not_waited_for_and_its_words_are_shown(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        """No admin.cnf in the image: 1,800 s later it was said that the server does not answer, and not why."""
        ready.on("SELECT 1", answer=lambda _: nobody_answers())
        ready.on("systemctl start mysql", answer=lambda _: ready.on("SELECT 1", answer=ACCESS_DENIED) and "")
        ready.on("systemctl is-active", answer="active\n")
        result = self.start(host, ready, timeout_seconds=100_000)
        assert result["error"] == DatabaseStartFailed.__name__
        assert "ERROR 1045 (28000): Access denied" in result["message"]

    @pytest.mark.real
    @pytest.mark.parametrize("ends_as", ["failed", "inactive"])
    def test_a_server_that_ends_while_it_starts_is_not_waited_for(
        self, host: Host, ready: ScriptedProcesses, ends_as: str
    ) -> None:
        """A line that this version does not know in its option file: mysqld ends in its first second. systemd tries it
        a few times more (Restart=on-failure), and then leaves it."""

        def start(_text: str) -> str:
            Path(host.settings.error_log).write_text("[ERROR] unknown variable 'query_cache_size=0'")
            return ""

        states = ["activating\n", "activating\n"]
        ready.on("SELECT 1", answer=lambda _: nobody_answers()).on("systemctl start mysql", answer=start)
        ready.on("systemctl is-active", answer=lambda _: states.pop() if states else f"{ends_as}\n")
        result = self.start(host, ready, timeout_seconds=1800)
        assert result["error"] == DatabaseStartFailed.__name__
        assert f"mysql does not answer, its unit is {ends_as}" in result["message"]
        assert "unknown variable" in result["message"]
        assert len(ready.said("systemctl is-active")) == 3, "activating is waited for"

    @pytest.mark.real
    def test_a_start_that_outlasts_the_time_is_ended_by_start_database_and_shows_its_log(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        """The unit has no limit of its own, so systemctl still waits."""
        ready.on("SELECT 1", answer=CommandFailed("no"))
        ready.on("systemctl start mysql", answer=CommandFailed("systemctl did not end within 1800 s"))
        ready.on("systemctl is-active", answer="failed\n")
        result = self.start(host, ready)
        assert (result["error"], "systemctl did not end" in result["message"]) == (
            "DatabaseStartFailed",
            False,
        )

    @pytest.mark.real
    def test_a_responder_that_does_not_answer_ends_the_step_and_not_the_wait_for_a_healthy_target(
        self,
        host: Host,
        ready: ScriptedProcesses,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Another service of the image has the port: systemctl is content, since the unit had begun to run."""
        monkeypatch.setattr("peaker_host.replicate.launch._RESPONDER_SECONDS", 0.0)
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        settings = json.loads(host.settings_path.read_text())
        host.settings_path.write_text(json.dumps({**settings, "health_port": port}))
        result = self.start(host, ready)
        assert result["error"] == ResponderUnreachable.__name__
        assert f"does not answer on port {port}" in result["message"]
        assert "journalctl -u peaker-health.service" in result["message"]

    @pytest.mark.real
    def test_a_place_that_holds_another_filesystem_is_refused(
        self, host: Host, ready: ScriptedProcesses
    ) -> None:
        other = host.volume(300 * MIB, "xfs")
        place = host.settings.datadir
        os.makedirs(place, exist_ok=True)
        type(ready).__mro__[1]().run(["mount", other.path, place])
        assert self.start(host, ready)["error"] == "DeviceInUse"
