"""The first runs of the READMEs, as they stand, from a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_rig.real_machine import with_this_package
from localcloud.server import LocalCloud
from localcloud.simulated_dataplane import simulated_dataplane

PACKAGE = Path(__file__).resolve().parents[2] / "localcloud"


def program_of(page: Path) -> str:
    found = re.search(r"^```python\n(.*?import .*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    assert found
    return found[1]


def typed(program: str, folder: Path) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=folder, env=with_this_package(), capture_output=True, text=True, timeout=120, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_the_packages_own(tmp_path: Path) -> None:
    program = program_of(PACKAGE.parent / "README.md")
    with LocalCloud(simulated_dataplane(), tmp_path, clock_scale=3600) as cloud:
        program = program.replace("http://127.0.0.1:4566", cloud.endpoint_url)
        refused, done = typed(program, tmp_path).splitlines()
    assert refused == "FAILED You are not authorized to perform this operation"
    assert re.fullmatch(r'SUCCEEDED "snap-\w+"', done)


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")
def test_that_of_the_cold_volumes(tmp_path: Path) -> None:
    told = typed(program_of(PACKAGE / "blockstore" / "README.md"), tmp_path)
    found = re.fullmatch(r"cold (\S+) s, warm (\S+) s, (\d+) blocks fetched\n", told)
    assert found
    cold, warm, fetched = found.groups()
    assert float(cold) > 2 * float(warm)
    assert fetched == "32"
