"""Readers through the endpoint for as long as something is shown or measured."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.endpoint import Endpoint
from lab.local_cloud import stop_with_parent
from localcloud.hosts.state_lock import process_mark

_THREADS, _RUN_SECONDS = 2, 3.0


@contextmanager
def pooled_readers(endpoint: Endpoint, state_dir: Path, transactions_per_s: float) -> Iterator[int]:
    """Readers who connect anew every few seconds, as pools do; the id of their process.

    They end with this process, however that ends, and `clean` of the state directory knows them.
    """
    run = shlex.join(endpoint.sysbench("oltp_read_only", _THREADS, _RUN_SECONDS, transactions_per_s))
    readers = subprocess.Popen(
        ["bash", "-c", f"while true; do {run}; done"],
        env={**os.environ, **process_mark(state_dir)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=stop_with_parent,
    )
    try:
        yield readers.pid
    finally:
        os.killpg(readers.pid, signal.SIGTERM)
        readers.wait(30)
