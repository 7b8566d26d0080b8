"""A small write load on the source, so that replication has something to replicate."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping

from lab import seed

WRITES_PER_S = 20


class SourceWrites(threading.Thread):
    """sysbench updates on the source until stopped."""

    def __init__(self, source_address: str, process_mark: Mapping[str, str]) -> None:
        super().__init__(name="source-writes", daemon=True)
        self._address = source_address
        self._environment = {**os.environ, **process_mark}
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        dataset = seed.Dataset()
        command = [
            "sysbench", "oltp_update_non_index", "--db-driver=mysql", f"--mysql-host={self._address}",
            f"--mysql-user={seed.WRITER_USER}", f"--mysql-password={seed.WRITER_PASSWORD}",
            f"--mysql-db={dataset.database}", f"--tables={dataset.tables}",
            f"--table-size={dataset.table_size}", "--threads=1", f"--rate={WRITES_PER_S}", "--time=3600", "run",
        ]  # fmt: skip
        while not self._stopping.is_set():
            self._process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self._environment
            )
            self._process.wait()
            self._stopping.wait(1.0)

    def stop(self) -> None:
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
        self.join(10)
