"""A host whose `mysql` is a program that answers by rules, and notes what the process list showed.

The commands of the host package run on it with their own processes.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from peaker_host import cli

# A word on each side of what every encoding writes in its own way.
CANARY = "cAnArY7f3a'\\\" tAiLeNd91"
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


def channel(running: str, source: str = "10.77.1.10") -> str:
    return table(
        Source_Host=source, Source_User="repl", Source_Port="3306", Channel_Name="", Replica_IO_Running=running,
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


def joining(bench: Bench, change: tuple[int, str] = (0, ""), status: str = channel("No")) -> None:
    """A copy whose channel is stopped, or stands as `status` says."""
    stored = table(User_name="repl", User_password=CANARY, Port="3306", Channel_name="", Host="10.77.1.9")
    bench.rules = [
        ("server_uuid", 0, answer(id=77, uuid="a1")),
        ("@@GLOBAL.server_id", 0, answer(id=1)),
        ("SHOW REPLICAS", 0, ""),
        ("gtid_purged", 0, answer(executed="", purged="")),
        ("@@GLOBAL.gtid_executed", 0, answer(gtid="")),
        ("CHANGE REPLICATION SOURCE", *change),
        ("slave_master_info", 0, stored),
        ("SHOW REPLICA STATUS", 0, status),
    ]


def leftovers(folder: Path) -> list[str]:
    """Files that hold a part of the password, but for the data directory's own and the bench's."""
    own = {"rules.json", "seen"}
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in own)
    return [str(path) for path in found if PART in path.read_text(errors="replace")]
