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

from lab.endpoint import Endpoint

BURST_SECONDS, THREADS = 4.0, 8


@dataclass(frozen=True)
class Burst:
    """One sysbench run: what was answered, what was not."""

    finished_at: datetime
    queries: int
    failed: int
    error: str | None


_FIELDS = {
    "queries": r"queries:\s+(\d+)",
    "ignored": r"ignored errors:\s+(\d+)",
    "reconnects": r"reconnects:\s+(\d+)",
}


def parse_sysbench(output: str) -> dict[str, int]:
    """The figures of a sysbench 1.0 report; a figure that the report does not hold is absent."""
    found = {name: re.search(pattern, output) for name, pattern in _FIELDS.items()}
    return {name: int(match.group(1)) for name, match in found.items() if match}


class ReadLoad(threading.Thread):
    """Reads through the endpoint, run after run, until stopped."""

    def __init__(
        self,
        endpoint: Endpoint,
        demand_at: Callable[[datetime], float],
        now: Callable[[], datetime],
        process_mark: Mapping[str, str],
    ) -> None:
        super().__init__(name="read-load", daemon=True)
        self._endpoint, self._demand_at, self._now = endpoint, demand_at, now
        self._environment = {**os.environ, **process_mark}
        self._stopping = threading.Event()
        self.bursts: list[Burst] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            self.bursts.append(self._burst())

    def stop(self) -> None:
        """Let the run in progress end, then stop."""
        self._stopping.set()
        self.join(BURST_SECONDS + 15)

    def _burst(self) -> Burst:
        command = self._endpoint.sysbench(
            "oltp_point_select", THREADS, BURST_SECONDS, self._demand_at(self._now())
        )
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._environment
        )
        figures = parse_sysbench(done.stdout)
        fatal = [line for line in done.stdout.splitlines() if line.startswith("FATAL")]
        failed = figures.get("ignored", 0) + figures.get("reconnects", 0)
        if done.returncode != 0:
            failed += max(1, len(fatal))
        return Burst(self._now(), figures.get("queries", 0), failed, fatal[0] if fatal else None)


def totals(bursts: Sequence[Burst]) -> tuple[int, int]:
    """Queries answered and queries failed."""
    return sum(b.queries for b in bursts), sum(b.failed for b in bursts)
