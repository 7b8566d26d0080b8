"""A password that is like no other text goes in; what a command shows, says and leaves is looked through for it.

The commands run with their own processes: a program in the place of `mysql` notes what the process list showed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from peaker_host import cli
from peaker_host.database.mysql_client import admin_client
from peaker_host.health import account
from peaker_host.machine.errors import DatabaseUnreachable
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import load_settings
from peaker_host.replicate import replication

CANARY = "cAnArY'7f3a\\\"91 end"
PART = "cAnArY"
REFUSED = (
    "ERROR 1064 (42000) at line 1: You have an error in your SQL syntax; check the manual that corresponds to your "
    "MySQL server version for the right syntax to use near 'SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION' "
    "at line 1"
)
# Answers by words of the statement, the first that fits; notes command line, environment and the login file's mode.
CLIENT = """#!{python}
import json, os, sys
said = sys.stdin.read()
rules = json.load(open({rules!r}))
files = [one.split("=", 1)[1] for one in sys.argv if one.startswith("--defaults-extra-file=")]
shown = {{"cmdline": "/proc/self/cmdline", "environ": "/proc/self/environ"}}
shown["parent"] = "/proc/%d/cmdline" % os.getppid()
notes = {{name: open(path).read() for name, path in shown.items()}}
notes.update(said=said, modes=[oct(os.stat(one).st_mode & 0o777) for one in files])
with open({seen!r}, "a") as file:
    file.write(json.dumps(notes) + "\\n")
for word, status, answer in rules:
    if word in said:
        (sys.stderr if status else sys.stdout).write(answer)
        sys.exit(status)
"""


def table(**row: str) -> str:
    cells = [value.replace("\\", "\\\\") for value in row.values()]
    return "\t".join(row) + "\n" + "\t".join(cells) + "\n"


def answer(**values: object) -> str:
    return table(result=json.dumps(values))


def channel(running: str) -> str:
    return table(
        Source_Host="10.77.1.10", Source_User="repl", Source_Port="3306", Channel_Name="", Replica_IO_Running=running,
        Replica_SQL_Running=running, Seconds_Behind_Source="0", Last_IO_Errno="0", Last_IO_Error="", Last_SQL_Errno="0",
        Last_SQL_Error="",
    )  # fmt: skip


@dataclass
class Bench:
    """A host whose `mysql` answers by rules."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    rules: list[tuple[str, int, str]] = field(default_factory=list)

    def settings(self) -> str:
        """Path of a host.json whose `mysql` answers by the rules."""
        client, rules, seen = (self.folder / name for name in ("mysql", "rules.json", "seen"))
        rules.write_text(json.dumps(self.rules))
        client.write_text(CLIENT.format(python=sys.executable, rules=str(rules), seen=str(seen)))
        client.chmod(0o755)
        own = {
            "mysql_client": "mysql", "datadir": "data", "state_dir": "state",
            "admin_defaults_file": "admin.cnf", "health_defaults_file": "health.cnf",
            "replication_credentials_file": "replication.json",
        }  # fmt: skip
        path = self.folder / "host.json"
        path.write_text(json.dumps({name: str(self.folder / place) for name, place in own.items()}))
        return str(path)

    def run(self, *arguments: str) -> tuple[int, str]:
        """(exit code, everything that the command said)."""
        code = cli.main(["--settings", self.settings(), *arguments])
        told = self.capsys.readouterr()
        return code, told.out + told.err

    @property
    def shown(self) -> list[dict[str, object]]:
        """Of each call of `mysql`."""
        return [json.loads(line) for line in (self.folder / "seen").read_text().splitlines()]

    def statements(self) -> str:
        return "\n".join(str(one["said"]) for one in self.shown)

    def process_list(self) -> str:
        return "\n".join(f"{one['cmdline']}{one['environ']}{one['parent']}" for one in self.shown)


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    private = tmp_path / "tmp"
    private.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(private))
    monkeypatch.setattr(replication, "_JOIN_SECONDS", 0.1)
    return Bench(tmp_path, capsys)


def joining(bench: Bench, change: tuple[int, str] = (0, "")) -> None:
    """A copy whose channel is stopped."""
    stored = table(User_name="repl", User_password=CANARY, Port="3306", Channel_name="", Host="10.77.1.9")
    bench.rules = [
        ("gtid_purged", 0, answer(executed="", purged="")),
        ("@@GLOBAL.gtid_executed", 0, answer(gtid="")),
        ("CHANGE REPLICATION SOURCE", *change),
        ("slave_master_info", 0, stored),
        ("SHOW REPLICA STATUS", 0, channel("No")),
    ]


def leftovers(folder: Path) -> list[str]:
    """Files that hold a part of the password, but for the data directory's own and the bench's."""
    own = {"rules.json", "seen"}
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in own)
    return [str(path) for path in found if PART in path.read_text(errors="replace")]


class TestReplicationPassword:
    """It comes with the copy, in MySQL's own table, and goes to the server alone."""

    def test_joining_shows_it_nowhere(self, bench: Bench) -> None:
        joining(bench)
        _, told = bench.run(
            "start_replication", "--run-id", "scale-out-orders-1", "--source-host", "10.77.1.10"
        )
        assert "SOURCE_PASSWORD = 'cAnArY" in bench.statements(), told
        assert PART not in told
        assert PART not in bench.process_list()
        assert leftovers(bench.folder) == []
        assert {mode for one in bench.shown for mode in one["modes"]} == {"0o600"}  # type: ignore[attr-defined]

    def test_a_server_that_quotes_the_statement_does_not_tell_it(self, bench: Bench) -> None:
        """MySQL's error 1064 repeats what it did not understand, which a command's output would carry to AWS."""
        joining(bench, (1, REFUSED.format(password=CANARY)))
        code, told = bench.run(
            "start_replication", "--run-id", "scale-out-orders-1", "--source-host", "10.77.1.10"
        )
        assert code == 1
        assert "ERROR 1064" in told
        assert PART not in told

    def test_a_source_that_does_not_let_it_in_is_told_without_it(self, bench: Bench) -> None:
        joining(bench)
        denied = "ERROR 1045 (28000): Access denied for user 'repl'@'10.77.1.20' (using password: YES)"
        bench.rules.insert(0, ("gtid_purged", 1, denied))
        _, told = bench.run(
            "start_replication", "--run-id", "scale-out-orders-1", "--source-host", "10.77.1.10"
        )
        assert "1045" in told
        assert PART not in told

    def test_a_file_of_credentials_is_read_and_not_told(self, bench: Bench) -> None:
        joining(bench)
        file = bench.folder / "replication.json"
        file.write_text(json.dumps({"user": "repl", "password": 7, "note": CANARY}))
        code, told = bench.run(
            "start_replication", "--run-id", "scale-out-orders-1", "--source-host", "10.77.1.10"
        )
        assert (code, PART in told) == (1, False)


class TestHealthPassword:
    """It is made on the host, and kept in a file that only root reads."""

    @pytest.fixture(autouse=True)
    def drawn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(account.secrets, "token_urlsafe", lambda _: f"{PART}-7f3a91")

    def make(self, bench: Bench) -> None:
        settings = load_settings(bench.settings())
        account.ensure_health_account(settings, Processes(), admin_client(settings, Processes()))

    def test_it_is_in_the_server_and_in_its_file_alone(self, bench: Bench) -> None:
        bench.rules = [("super_read_only", 0, answer(on="0")), ("IDENTIFIED BY", 0, "")]
        self.make(bench)
        assert f"IDENTIFIED BY '{PART}" in bench.statements()
        assert PART not in bench.process_list()
        file = bench.folder / "health.cnf"
        assert leftovers(bench.folder) == [str(file)]
        assert file.stat().st_mode & 0o777 == 0o600

    def test_a_server_that_refuses_the_account_does_not_tell_it(self, bench: Bench) -> None:
        refused = f"ERROR 1064 (42000) at line 3: You have an error near '{PART}-7f3a91'' at line 3"
        bench.rules = [("super_read_only", 0, answer(on="0")), ("IDENTIFIED BY", 1, refused)]
        with pytest.raises(DatabaseUnreachable, match="ERROR 1064") as caught:
            self.make(bench)
        assert PART not in str(caught.value)
        assert caught.value.__cause__ is None
        assert leftovers(bench.folder) == []
