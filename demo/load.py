"""A real read load through the read endpoint: sysbench, at the rate that the trace asks for.

sysbench keeps its connections open for a whole run, so the load is a chain of short runs: that bounds the
lifetime of a connection, as a pool in front of a real application does, and lets the rate follow the trace.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from demo.trace import Trace
from lab.endpoint import Endpoint


@dataclass(frozen=True)
class Burst:
    """One sysbench run: what was answered. `real_seconds` are of sysbench's own clock."""

    finished_at: datetime
    queries: int
    failed: int
    real_seconds: float
    error: str | None


_FIELDS = {
    "queries": r"queries:\s+(\d+)",
    "ignored": r"ignored errors:\s+(\d+)",
    "reconnects": r"reconnects:\s+(\d+)",
    "seconds": r"total time:\s+([\d.]+)s",
}


def parse_sysbench(output: str) -> dict[str, float]:
    """The figures of a sysbench 1.0 report; a figure that the report does not hold is absent."""
    found = {name: re.search(pattern, output) for name, pattern in _FIELDS.items()}
    return {name: float(match.group(1)) for name, match in found.items() if match}


class ReadLoad(threading.Thread):
    """Reads through the endpoint, run after run, until stopped."""

    def __init__(
        self,
        endpoint: Endpoint,
        trace: Trace,
        now: Callable[[], datetime],
        process_mark: Mapping[str, str],
        burst_seconds: float = 4.0,
        threads: int = 8,
        test: str = "oltp_point_select",
    ) -> None:
        super().__init__(name="read-load", daemon=True)
        self._endpoint, self._trace, self._now = endpoint, trace, now
        self._environment = {**os.environ, **process_mark}
        self._burst_seconds, self._threads, self._test = burst_seconds, threads, test
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self.bursts: list[Burst] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            self.bursts.append(self._burst())

    def stop(self) -> None:
        """Let the run in progress end, then stop."""
        self._stopping.set()
        self.join(self._burst_seconds + 15)

    def _burst(self) -> Burst:
        asked = self._trace.at(self._now())
        command = self._endpoint.sysbench(self._test, self._threads, self._burst_seconds, asked)
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._environment
        )
        output, _ = self._process.communicate()
        figures = parse_sysbench(output)
        fatal = [line for line in output.splitlines() if line.startswith("FATAL")]
        failed = int(figures.get("ignored", 0) + figures.get("reconnects", 0))
        if self._process.returncode != 0:
            failed += max(1, len(fatal))
        seconds = figures.get("seconds", self._burst_seconds)
        return Burst(
            self._now(), int(figures.get("queries", 0)), failed, seconds, fatal[0] if fatal else None
        )


def totals(bursts: Sequence[Burst]) -> tuple[int, int]:
    """Queries answered and queries failed."""
    return sum(b.queries for b in bursts), sum(b.failed for b in bursts)
