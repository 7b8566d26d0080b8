"""What `peaker init` hears from a replica that has nothing of Peaker's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from host_bench import ScriptedProcesses, json_row, status, table, variables
from peaker_cli.init.host import program
from peaker_host.database.mysql_client import admin_client
from peaker_host.donor.describe_base import describe_base
from peaker_host.machine.errors import ToolMissing
from peaker_host.machine.settings import Machine, Processes, Settings

# Run Command takes 64 KB, of which the document itself has some.
LARGEST_SCRIPT_BYTES = 60_000


def test_the_program_comes_by_itself_and_says_what_it_could_not_read(tmp_path: Path) -> None:
    script = program(str(tmp_path / "nobody.cnf"))
    assert len(script.encode()) < LARGEST_SCRIPT_BYTES
    bare = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run(["/bin/sh", "-c", script], env=bare, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["command"], said["ok"]) == ("describe_base", True)
    assert "server" in said["unknown"]
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def test_a_server_says_its_engine_port_retention_and_reads(
    programs: ScriptedProcesses, tmp_path: Path
) -> None:
    server = json_row(version="10.11.6-MariaDB-log", port=3307, datadir=str(tmp_path))
    programs.on("@@GLOBAL.version", answer=server).on(
        "SHOW GLOBAL VARIABLES", answer=variables(datadir=f"{tmp_path}/")
    )
    programs.on("SHOW SLAVE STATUS", answer=status()).on(
        "slave_master_info", answer=table({"User_name": "repl"})
    )
    programs.on("performance_schema, 1, 0", answer=json_row(on=1))
    counts = iter((100, 1100))
    programs.on("COUNT_STAR", answer=lambda _: json_row(statements=next(counts), errors=0, picoseconds=0))
    waits: list[float] = []
    found = describe_base(Machine.of(Settings(), programs), waits.append)
    assert (found["engine"], found["port"], found["reads_per_second"]) == ("mariadb", 3307, 100.0)
    assert found["binlog_expire_seconds"] is None, "no login at the source is known here"
    assert waits == [10.0]


def test_a_mariadb_11_has_its_client_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old name is in a package of its own (mariadb-client-compat): found out after the prewarm."""
    client = tmp_path / "mariadb"
    client.write_text("#!/bin/sh\nexec /bin/cat\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = Machine.of(Settings(), Processes())
    assert admin_client(machine).rows("name") == []
    client.unlink()
    with pytest.raises(ToolMissing, match="mysql is not installed"):
        admin_client(machine).rows("name")
