"""Readers of a bench or a test leave nothing behind, whoever ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_rig.resources import eventually

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the local cloud's hosts need it"
)

HOLDS_READERS = """
import signal, sys
from pathlib import Path
from lab.endpoint import Endpoint
from lab.readers import pooled_readers
endpoint = Endpoint("127.0.0.1", 1, "app", "secret", "orders", 1, 1)
with pooled_readers(endpoint, Path(sys.argv[1]), 1.0) as process:
    print(process, flush=True)
    signal.pause()
"""


def runs(process: int) -> bool:
    """Neither gone nor waiting for somebody to notice its end."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_they_end_with_the_process_that_was_killed(tmp_path: Path) -> None:
    sysbench = tmp_path / "sysbench"
    sysbench.write_text("#!/bin/sh\nexec sleep 0.05\n", encoding="utf-8")
    sysbench.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_READERS, str(tmp_path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    readers = int(holder.stdout.readline())
    assert runs(readers)
    holder.kill()
    holder.wait()
    eventually(lambda: not runs(readers))
