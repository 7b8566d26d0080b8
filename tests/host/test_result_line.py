"""A command's result arrives whole, however much it has to say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host
from peaker_host import cli
from peaker_host.cli import MAX_CHARACTERS, result_line
from peaker_host.machine.errors import ErrantTransactions
from peaker_host.replicate import replication

# What GetCommandInvocation gives of a command's output at most.
ARRIVES = 24_000


def test_the_longest_values_are_shortened_first_and_named() -> None:
    result = {
        "version": 1,
        "ok": True,
        "lag_seconds": 2,
        "gtid_set": "3d664b29-e551-11f1-b745-6ef0865e2f1c:1-5," * 800,
        "samples": [{"at_seconds": number} for number in range(2000)],
        "few": [1, 2, 3],
    }
    line = result_line(result)
    found = json.loads(line)
    assert len(line) <= MAX_CHARACTERS
    assert found["shortened"] == ["gtid_set", "samples"]
    assert found["gtid_set"].endswith(f"... ({len(str(result['gtid_set']))} characters)")
    assert (found["samples"][0], found["samples"][-1]) == ({"at_seconds": 0}, {"at_seconds": 1999})
    assert (found["lag_seconds"], found["few"]) == (2, [1, 2, 3])


@pytest.mark.parametrize("value", [{"a": "x" * 50_000}, ["x" * 50_000], [["x" * 30_000]] * 3, "x" * 50_000])
def test_it_always_comes_to_an_end(value: Any) -> None:
    line = result_line({"ok": False, "error": "X", "message": "why", "numbers": value})
    assert len(line) <= MAX_CHARACTERS
    assert json.loads(line)["message"] == "why"


def test_a_failure_with_a_gtid_set_of_many_sources_is_still_a_named_failure(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems Manager cut the line: the function saw 'not JSON' in place of ErrantTransactions."""

    def refuse(*_: Any) -> None:
        raise ErrantTransactions("3 transactions", {"gtid_executed": "a:1," * 9000, "source": "b:1," * 9000})

    monkeypatch.setattr(replication, "start_replication", refuse)
    assert cli.main(host.argv("start_replication", "--source-host", "10.0.0.1")) == 1
    found = json.loads(host.printed()[-1][:ARRIVES])
    assert (found["error"], found["message"]) == ("ErrantTransactions", "3 transactions")


@pytest.mark.real
@pytest.mark.parametrize("command", ["stop_database", "drain_replica"])
def test_a_full_disk_is_named_whichever_file_finds_it(host: Host, command: str) -> None:
    """XFS, the root of Amazon Linux, keeps no reserve for root: the first lock found the disk full, UnexpectedError."""
    state = Path(host.settings.state_dir)
    state.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "full", state], check=True)
    try:
        result = host.call(command)
    finally:
        subprocess.run(["umount", state], check=True)
    assert result["error"] == "StateDirectoryFull"
    assert host.settings.state_dir in result["message"]
