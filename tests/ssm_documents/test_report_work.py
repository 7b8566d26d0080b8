"""The document by which a host says whether a command of the package runs on it, against real processes."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssm_documents.schema import load_document

DOCUMENT = Path(__file__).resolve().parents[2] / "ssm_documents" / "report_work.yaml"
# Of this test alone: the document looks at the whole machine, on which others may run commands of the package.
COMMAND = "verify_" + "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(12))


def at_work(command: str) -> bool:
    [shell] = load_document(DOCUMENT)["mainSteps"][0]["inputs"]["runCommand"]
    environment = {"PATH": "/usr/bin:/bin", "SSM_Command": command}
    done = subprocess.run(
        ["/bin/sh", "-c", shell], env=environment, capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["version"], said["ok"]) == (1, True)
    return bool(said["at_work"])


def ends(running: subprocess.Popen[str]) -> None:
    if running.poll() is None:
        running.communicate("\n")


@pytest.fixture
def package(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command of the package that runs until its input ends, called as the documents call it."""
    path = tmp_path / "peaker_host.pyz"
    path.write_text("print('begun', flush=True)\ninput()\n")
    argv = [sys.executable, str(path), COMMAND, "--run-id", "scale-out-orders-1"]
    running = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"
    yield running
    ends(running)


def test_it_sees_the_command_that_runs_and_no_other(package: subprocess.Popen[str]) -> None:
    assert at_work(COMMAND)
    assert not at_work(COMMAND[:-1])
    assert not at_work(COMMAND[::-1])


def test_it_does_not_see_itself_or_one_that_has_ended(package: subprocess.Popen[str]) -> None:
    ends(package)
    assert not at_work(COMMAND)
    assert not at_work("report_work")
