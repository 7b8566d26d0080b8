"""The local cloud as a person without root uses it: serve, deploy, make a cluster, ask for a plan."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployed_product import eventually, peaker_environment, synthesize

pytestmark = pytest.mark.timeout(1800)


class Person:
    """Runs commands as a user without rights, in a directory of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = peaker_environment(
            HOME=str(home),
            TMPDIR=str(home),
            PYTHONDONTWRITEBYTECODE="1",
            PYTHONFAULTHANDLER="1",
            LOCALCLOUD_PLUGINS="lab.plugin",
        )

    def command(self, *arguments: str) -> list[str]:
        """As an ordinary user: root leaves its rights behind in a user namespace, where it is number 1000."""
        leave = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
        return [*(leave if os.geteuid() == 0 else []), sys.executable, "-m", *arguments]

    def ends(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            timeout=600,
            env=self.environment,
            cwd=self.home,
        )

    def run(self, *arguments: str) -> str:
        done = self.ends(*arguments)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout


@pytest.fixture
def person(tmp_path: Path) -> Person:
    synthesize(tmp_path / "cdk.out")
    return Person(tmp_path)


@pytest.fixture
def endpoint(person: Person) -> Iterator[str]:
    serve = person.command(
        "localcloud", "serve", "--dataplane", "simulated", "--port", "0", "--clock-scale", "120"
    )
    process = subprocess.Popen(
        serve, env=person.environment, cwd=person.home, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("local cloud ready "), said
        yield said.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler tells what each thread is at
            raise
    assert process.returncode == 0


def test_every_command_works_by_hand_without_root(person: Person, endpoint: str) -> None:
    where = ("--endpoint", endpoint)
    person.run("localcloud", "deploy", "cdk.out", *where)
    made = person.run("localcloud", "cluster", "orders", *where)
    assert person.run("localcloud", "cluster", "orders", *where).splitlines()[-1] == made.splitlines()[-1]

    # A schedule of the deployment may hold the lease for a moment, which a plan refuses.
    asked = ("peaker_cli.app", "plan", "orders", "--env", "local", "--region", "us-east-1", *where)
    eventually(lambda: "would be built" in person.ends(*asked).stdout)
